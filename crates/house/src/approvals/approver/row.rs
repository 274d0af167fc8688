//! The digest that is in force, as the house itself has stored it.
//!
//! The row is written before the file is replaced, and keeps the digest of before until the file is in its place. So a
//! daemon that was killed in between can tell a change that was not finished from a file that somebody else has replaced.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::super::audit::approver::Proof;
use crate::seals::{Ledger, RowKey, Seal, Table};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::approvals) struct ApproverRow {
    /// The digest; none if there is no passphrase.
    pub(in crate::approvals) digest: Option<String>,
    /// The one before it, while the file may still hold that one. The same as `digest` once the file is in its place.
    pub(in crate::approvals) previous: Option<String>,
    /// The digest is in doubt, because the key that proved it is lost: the passphrase has to fit to this as well.
    pub(in crate::approvals) doubt: Option<Proof>,
}

impl ApproverRow {
    /// A digest that the file holds already, or that there is none and no file.
    pub(in crate::approvals) fn finished(digest: Option<String>) -> Self {
        ApproverRow { previous: digest.clone(), digest, doubt: None }
    }

    /// Likewise, in doubt.
    pub(in crate::approvals) fn doubted(digest: Option<String>, doubt: Option<Proof>) -> Self {
        ApproverRow { doubt, ..ApproverRow::finished(digest) }
    }
}

/// The place of the row in the ledger.
pub(in crate::approvals) fn key() -> RowKey {
    RowKey::only(Table::Approver)
}

/// The row as it stands on disk; none if there is none.
pub(in crate::approvals) fn load(connection: &Connection) -> rusqlite::Result<Option<ApproverRow>> {
    let mut statement = connection.prepare_cached("SELECT digest, previous, doubt FROM approver")?;
    let found = statement.query_row([], |row| {
        // A text that cannot be read is a digest that fits no passphrase.
        let text = |index| row.get::<_, Option<String>>(index).unwrap_or_else(|_| Some(String::new()));
        Ok(ApproverRow { digest: text(0), previous: text(1), doubt: text(2).as_deref().and_then(Proof::from_text) })
    });
    found.optional()
}

/// The seal of a digest, and of whether it is in doubt. The one before is not covered: all it can lead to is that the file is
/// written again.
pub(in crate::approvals) fn seal_of(ledger: &Ledger, digest: Option<&str>, doubt: Option<&Proof>) -> Seal {
    let doubt = doubt.map(Proof::text);
    ledger.seal(Table::Approver, |encoder| {
        encoder.maybe(digest.map(str::as_bytes)).maybe(doubt.as_ref().map(String::as_bytes));
    })
}

/// Writes the row.
pub(in crate::approvals) fn save(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    row: &ApproverRow,
) -> rusqlite::Result<()> {
    let seal = seal_of(ledger, row.digest.as_deref(), row.doubt.as_ref());
    transaction
        .prepare_cached("INSERT OR REPLACE INTO approver (one, digest, previous, doubt, seal) VALUES (1, ?, ?, ?, ?)")?
        .execute(params![row.digest, row.previous, row.doubt.as_ref().map(Proof::text), seal.bytes()])?;
    ledger.set(key(), Some(seal));
    Ok(())
}
