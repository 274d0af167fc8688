//! The field types that requests have, read the way Go fills a struct.
//!
//! A `null` leaves a field as it was, an integer field takes integer literals only, a list read a
//! second time overwrites the first one and a map read a second time is merged into it.
//!
//! Unknown keys are stepped over; which keys are known is the caller's business.

use super::scan::{Malformed, Scanner};
use std::borrow::Cow;

/// Reads a whole document that must be an object or `null`. `member` gets each key together with
/// the scanner standing before its value, and says whether it took that value.
pub fn members<'a>(
    document: &'a [u8],
    mut member: impl FnMut(&str, &mut Scanner<'a>) -> Result<bool, Malformed>,
) -> Result<(), Malformed> {
    let mut scanner = Scanner::new(document);
    if !scanner.null()? {
        scanner.object(|scanner, key| {
            if !member(&key.decode(), scanner)? {
                scanner.skip()?;
            }
            Ok(())
        })?;
    }
    scanner.end()
}

/// Which of `names` a key stands for: the exact one, else the one that differs only by case.
pub fn field_of(key: &str, names: &[&str]) -> Option<usize> {
    names.iter().position(|name| *name == key).or_else(|| names.iter().position(|name| same_but_for_case(key, name)))
}

/// Compares by simple case folding. `name` is ASCII; besides its own letters only the long s and
/// the Kelvin sign fold to ASCII.
fn same_but_for_case(key: &str, name: &str) -> bool {
    let folded = key.chars().map(|character| match character {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    });
    folded.eq(name.chars().map(|character| character.to_ascii_lowercase()))
}

/// A string field.
pub fn string<'a>(scanner: &mut Scanner<'a>, field: &mut Cow<'a, str>) -> Result<(), Malformed> {
    if !scanner.null()? {
        *field = scanner.text()?.decode();
    }
    Ok(())
}

/// A boolean field.
pub fn boolean(scanner: &mut Scanner<'_>, field: &mut bool) -> Result<(), Malformed> {
    if !scanner.null()? {
        *field = scanner.boolean()?;
    }
    Ok(())
}

/// A boolean field that knows whether it was given.
pub fn optional_boolean(scanner: &mut Scanner<'_>, field: &mut Option<bool>) -> Result<(), Malformed> {
    *field = if scanner.null()? { None } else { Some(scanner.boolean()?) };
    Ok(())
}

/// A signed integer field.
pub fn signed(scanner: &mut Scanner<'_>, field: &mut i64) -> Result<(), Malformed> {
    if !scanner.null()? {
        *field = integer(scanner)?;
    }
    Ok(())
}

/// A signed integer field that knows whether it was given.
pub fn optional_signed(scanner: &mut Scanner<'_>, field: &mut Option<i64>) -> Result<(), Malformed> {
    *field = if scanner.null()? { None } else { Some(integer(scanner)?) };
    Ok(())
}

/// An unsigned integer field; a minus sign is refused, before a zero too.
pub fn unsigned(scanner: &mut Scanner<'_>, field: &mut u64) -> Result<(), Malformed> {
    if !scanner.null()? {
        *field = integer(scanner)?;
    }
    Ok(())
}

/// An unsigned integer field that knows whether it was given.
pub fn optional_unsigned(scanner: &mut Scanner<'_>, field: &mut Option<u64>) -> Result<(), Malformed> {
    *field = if scanner.null()? { None } else { Some(integer(scanner)?) };
    Ok(())
}

fn integer<T: std::str::FromStr>(scanner: &mut Scanner<'_>) -> Result<T, Malformed> {
    let literal = std::str::from_utf8(scanner.number()?).map_err(|_| Malformed)?;
    literal.parse().map_err(|_| Malformed)
}

/// A list of strings.
pub fn strings(scanner: &mut Scanner<'_>, field: &mut Vec<String>) -> Result<(), Malformed> {
    if scanner.null()? {
        field.clear();
        return Ok(());
    }
    let mut count = 0;
    scanner.array(|scanner| {
        if count == field.len() {
            field.push(String::new());
        }
        if !scanner.null()? {
            field[count] = scanner.text()?.decode().into_owned();
        }
        count += 1;
        Ok(())
    })?;
    field.truncate(count);
    Ok(())
}

/// A map of strings, kept in the order in which its keys first appeared.
pub fn string_map(scanner: &mut Scanner<'_>, field: &mut Vec<(String, String)>) -> Result<(), Malformed> {
    if scanner.null()? {
        field.clear();
        return Ok(());
    }
    let mut places: std::collections::HashMap<String, usize> =
        field.iter().enumerate().map(|(place, (key, _))| (key.clone(), place)).collect();
    scanner.object(|scanner, key| {
        let mut value = Cow::Borrowed("");
        string(scanner, &mut value)?;
        let key = key.decode().into_owned();
        match places.get(&key) {
            Some(&place) => field[place].1 = value.into_owned(),
            None => {
                places.insert(key.clone(), field.len());
                field.push((key, value.into_owned()));
            }
        }
        Ok(())
    })
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
