//! Every row of `ATTACKS.md` names tests that exist, and every test of this folder is named there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hostel_tests::binary;

/// The tests in all Rust files below a directory.
fn tests(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let mut is_test = false;
            for line in text.lines().map(str::trim_start) {
                is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
                let name = line.split_once("fn ").and_then(|(_, rest)| rest.split_once('('));
                if let Some((name, _)) = name.filter(|_| is_test && !line.starts_with("//")) {
                    found.insert(name.to_owned());
                    is_test = false;
                }
            }
        }
    }
}

/// The tests that a cell names: `PLACE::FUNCTION` in backticks.
fn named(cell: &str) -> Vec<(&str, &str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|word| word.split_once("::")).collect()
}

#[test]
fn every_row_names_tests_that_exist() {
    let repository = binary::repository();
    let text = fs::read_to_string(repository.join("tests/redteam/ATTACKS.md")).expect("the table");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").collect())
        .filter(|row: &Vec<&str>| row[0] != "Attack")
        .collect();
    assert!(rows.len() > 40, "only {} rows", rows.len());
    let mut own = BTreeSet::new();
    tests(&repository.join("tests/redteam"), &mut own);
    own.remove("every_row_names_tests_that_exist");
    for row in rows {
        let [attack, _, _, cell] = row[..] else { panic!("a row has four cells: {row:?}") };
        let named = named(cell);
        assert!(!named.is_empty(), "no test is named: {attack}");
        for (place, name) in named {
            let mut found = BTreeSet::new();
            for root in ["tests", "crates"] {
                tests(&repository.join(root).join(place), &mut found);
            }
            assert!(found.contains(name), "there is no test {place}::{name}: {attack}");
            if place == "redteam" {
                own.remove(name);
            }
        }
    }
    assert!(own.is_empty(), "no row names {own:?}");
}
