//! The written list of intended differences from the real claustrum.
//!
//! Every entry names a case of a data file, the versions it holds for, and the reason. A difference
//! that is not written down fails the comparison; an entry that no longer differs is reported.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// One entry.
#[derive(Debug, Clone)]
pub struct Difference {
    /// `file/case`, or `file/*` for all cases of a file.
    pub case: String,
    /// The versions of claustrum that differ.
    pub oracles: BTreeSet<String>,
    /// Why ours is as it is.
    pub reason: String,
}

/// Reads the list.
///
/// # Panics
/// If it is missing or an entry is incomplete.
pub fn load(path: &Path) -> Vec<Difference> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entries = table.get("difference").and_then(toml::Value::as_array).expect("[[difference]] entries");
    entries
        .iter()
        .map(|entry| {
            let text = |key: &str| {
                let value = entry.get(key).and_then(toml::Value::as_str);
                value.unwrap_or_else(|| panic!("an entry has no text {key:?}: {entry}")).to_owned()
            };
            let oracles = entry.get("oracles").and_then(toml::Value::as_array).expect("an entry names its oracles");
            let oracles = oracles.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect();
            Difference { case: text("case"), oracles, reason: text("reason") }
        })
        .collect()
}

/// The entry that covers this case for this version, if any.
pub fn covering<'a>(list: &'a [Difference], case: &str, oracle: &str) -> Option<&'a Difference> {
    list.iter().find(|entry| {
        let named = match entry.case.strip_suffix('*') {
            Some(start) => case.starts_with(start),
            None => entry.case == case,
        };
        named && entry.oracles.contains(oracle)
    })
}
