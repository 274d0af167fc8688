//! What a session is called in a mesh: the second half of `host/name`.
//!
//! Invariant: no two sessions of a house have the same, closed ones included: what was sent to one never reaches another.
//! It is made of the session's name, or of the beginning of its id, in letters that every mesh takes for a name.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

/// The longest beginning that is kept; a number may follow.
const LONGEST: usize = 48;

/// Characters of an id that stand for a session without a name.
const SHORT: usize = 8;

/// Gives a session its address: its own if that is as good as another, else one that is free.
pub(crate) fn address_of(
    transaction: &Transaction<'_>,
    session: i64,
    id: &str,
    name: Option<&str>,
) -> rusqlite::Result<String> {
    let base = base(id, name);
    let mut number = 1_u64;
    let address = loop {
        let wanted = if number == 1 { base.clone() } else { format!("{base}-{number}") };
        if !is_taken(transaction, &wanted, session)? {
            break wanted;
        }
        number += 1;
    };
    transaction.prepare_cached("UPDATE sessions SET address = ? WHERE no = ?")?.execute(params![address, session])?;
    Ok(address)
}

fn is_taken(connection: &Connection, address: &str, by_another_than: i64) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM sessions WHERE address = ? AND no <> ?")?;
    Ok(statement.query_row(params![address, by_another_than], |_| Ok(())).optional()?.is_some())
}

/// Whether there are sessions of an older program, which have no address.
pub(crate) fn has_missing(connection: &Connection) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare("SELECT 1 FROM sessions WHERE address IS NULL LIMIT 1")?;
    Ok(statement.query_row([], |_| Ok(())).optional()?.is_some())
}

/// Gives addresses to sessions of an older program, in the order in which they were made.
pub(crate) fn missing_addresses(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let found: Vec<(i64, String, Option<String>)> = transaction
        .prepare_cached("SELECT no, id, name FROM sessions WHERE address IS NULL ORDER BY no")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (no, id, name) in found {
        address_of(transaction, no, &id, name.as_deref())?;
    }
    Ok(())
}

/// What an address begins with.
fn base(id: &str, name: Option<&str>) -> String {
    let short: String = id.chars().take(SHORT).collect();
    let named = name.map(slug).filter(|slug| !slug.is_empty());
    let unnamed = || Some(slug(&short)).filter(|slug| !slug.is_empty());
    named.or_else(unnamed).unwrap_or_else(|| "session".to_owned())
}

/// Lower case letters, digits and `_`; everything else is a hyphen between them.
fn slug(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if out.len() >= LONGEST {
            break;
        }
        if letter.is_ascii_alphanumeric() || letter == '_' {
            out.push(letter.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(out.trim_end_matches('-').len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_of_names_or_ids() {
        let uuid = "3fa2c9d1-0000-4000-8000-000000000000";
        assert_eq!(base(uuid, Some("Fix CI!")), "fix-ci");
        assert_eq!(base(uuid, None), "3fa2c9d1");
        assert_eq!(base(uuid, Some("\u{65e5}\u{672c} /")), "3fa2c9d1");
        assert_eq!(base("\u{e9}\u{e9}", Some("")), "session");
        assert_eq!(base("x", Some(&"a/".repeat(100))).len(), 47);
    }
}
