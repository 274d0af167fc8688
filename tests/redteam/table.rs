//! Every row of `ATTACKS.md` names tests that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hostel_tests::binary;

/// The functions of all Rust files below a directory.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let names = text.lines().filter_map(|line| line.trim_start().split_once("fn ")?.1.split_once('('));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

/// The tests that a cell names: `PROGRAM::FUNCTION` in backticks.
fn named(cell: &str) -> Vec<(String, String)> {
    let words = cell.split('`').skip(1).step_by(2);
    words.filter_map(|word| word.split_once("::").map(|(place, name)| (place.to_owned(), name.to_owned()))).collect()
}

#[test]
fn every_row_names_tests_that_exist() {
    let repository = binary::repository();
    let text = fs::read_to_string(repository.join("tests/redteam/ATTACKS.md")).expect("the table");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .filter(|row: &Vec<&str>| row[0] != "Attack")
        .collect();
    assert!(rows.len() > 40, "only {} rows", rows.len());
    for row in rows {
        let [attack, _, _, tests] = row[..] else { panic!("a row has four cells: {row:?}") };
        let tests = named(tests);
        assert!(!tests.is_empty(), "no test is named: {attack}");
        for (place, name) in tests {
            let mut found = BTreeSet::new();
            for root in ["tests", "crates"] {
                functions(&repository.join(root).join(&place), &mut found);
            }
            assert!(found.contains(&name), "there is no test {place}::{name}: {attack}");
        }
    }
}
