//! Plays the data files to the program a door imitates.
//!
//! The files say what hostel does, and `contract.rs` of the door proves it. Where the real program does otherwise, the
//! case must be in the door's `differences.toml`, with the reason.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::door::Door;
use super::language::Language;
use super::run::{self, Mode};
use super::script::Script;
use crate::binary;
use crate::differences::{self, Difference};

/// Several files are played at once: the real programs wait most of the time.
const WORKERS: usize = 4;

/// The list of a door.
pub fn list(language: &Language) -> Vec<Difference> {
    differences::load(&binary::repository().join("tests").join(language.door).join("differences.toml"))
}

#[derive(Default)]
struct Found {
    unexplained: Vec<String>,
    used: BTreeSet<String>,
    cases: usize,
}

/// Plays every data file to the program that `start` starts, and fails if a case differs that is not on the list.
///
/// # Panics
/// If a case differs that is not on the list.
pub fn compare<D: Door>(language: &Language, version: &str, start: impl Fn(&Script) -> D + Sync) {
    let (names, list) = (super::names(language), list(language));
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Found::default()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let script = Script::load(language, name);
                    let outcome = run::play(&script, "", &mut start(&script), &Mode::default());
                    let mut found = found.lock().expect("nobody panics with it");
                    found.cases += outcome.played;
                    for failure in outcome.failures {
                        let case = format!("{name}/{}", failure.title);
                        match differences::covering(&list, &case, version) {
                            Some(entry) => drop(found.used.insert(entry.case.clone())),
                            None => found.unexplained.push(failure.report),
                        }
                    }
                }
            });
        }
    });
    let Found { unexplained, used, cases } = found.into_inner().expect("nobody panicked with it");
    let door = language.door;
    for entry in list.iter().filter(|entry| entry.oracles.contains(version) && !used.contains(&entry.case)) {
        eprintln!("==== {door} {version} no longer differs in {:?}: take it off the list ====", entry.case);
    }
    eprintln!("==== {cases} cases played to {door} {version}, {} listed differences ====", used.len());
    let count = unexplained.len();
    assert!(unexplained.is_empty(), "{count} cases differ without being listed:\n\n{}\n", unexplained.join("\n\n"));
}

/// Checks that every entry of the list names a case that exists, a reason and known versions.
///
/// # Panics
/// If one does not.
pub fn check_list(language: &Language, versions: &[&str]) {
    let cases: BTreeSet<String> = super::names(language)
        .iter()
        .flat_map(|name| {
            let cases = Script::load(language, name).cases;
            cases.into_iter().map(move |case| format!("{name}/{}", case.title))
        })
        .collect();
    for entry in list(language) {
        let known = match entry.case.strip_suffix('*') {
            Some(start) => cases.iter().any(|case| case.starts_with(start)),
            None => cases.contains(&entry.case),
        };
        assert!(known, "no such case: {:?}", entry.case);
        assert!(entry.reason.len() > 20, "{:?} gives no reason", entry.case);
        assert!(!entry.oracles.is_empty(), "{:?} names no version", entry.case);
        for version in &entry.oracles {
            assert!(versions.contains(&version.as_str()), "{:?}: unknown version {version}", entry.case);
        }
    }
}
