//! The data files against hostel and against the real claustrum: answers compared byte for byte.
//!
//! What may differ stands in `claustrum/differences.toml` with its reason. Where no claustrum can be
//! had, the comparison is skipped with a loud line; the machinery itself is always tested by
//! comparing hostel with hostel.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;

use hostel_tests::differences::{self, Difference};
use hostel_tests::house::{Options, Program};
use hostel_tests::script::{self, Script};
use hostel_tests::script_run::{self, Observation};
use hostel_tests::{binary, oracle};

/// Every answer a program gives to one data file, in directories of fixed names.
fn observe(script: &Script, program: Program, work: &Path) -> Vec<Observation> {
    if work.exists() {
        fs::remove_dir_all(work).expect("the directory of the run before goes");
    }
    fs::create_dir(work).expect("a directory");
    let options = Options { program, ..Options::default() };
    script_run::play(script, &options, work, false).observations
}

/// What two programs answered differently, as texts, beside the case.
fn compare(ours: &[Observation], theirs: &[Observation]) -> Vec<(String, String)> {
    assert_eq!(ours.len(), theirs.len(), "the two runs did not take the same steps");
    ours.iter()
        .zip(theirs)
        .filter(|(our, their)| our.answer != their.answer)
        .map(|(our, their)| {
            let text = format!(
                "{} (line {})\n  sent:      {}\n  hostel:    {}\n  claustrum: {}",
                our.case, our.line, our.request, our.answer, their.answer
            );
            (our.case.clone(), text)
        })
        .collect()
}

fn list() -> Vec<Difference> {
    differences::load(&binary::repository().join("tests/claustrum/differences.toml"))
}

/// Compares all data files with one version of claustrum.
fn compare_with(version: &str) {
    let oracle = match oracle::find(version) {
        Ok(path) => path,
        Err(reason) => {
            eprintln!("\n==== SKIPPED: NOT COMPARED with claustrum {version}: {reason} ====\n");
            return;
        }
    };
    let folder = script::folder(&binary::repository());
    let list = list();
    let mut unexplained = Vec::new();
    let mut used = BTreeSet::new();
    let mut answers = 0;
    let work = tempfile::Builder::new().prefix("hostel-compare-").tempdir().expect("a temporary directory");
    for name in script::names(&folder) {
        let script = Script::load(&folder, &name);
        let place = work.path().join("work");
        let ours = observe(&script, Program::Hostel, &place);
        let theirs = observe(&script, Program::Oracle(oracle.clone()), &place);
        answers += ours.len();
        for (case, text) in compare(&ours, &theirs) {
            match differences::covering(&list, &case, version) {
                Some(entry) => {
                    used.insert(entry.case.clone());
                }
                None => unexplained.push(text),
            }
        }
    }
    for entry in list.iter().filter(|entry| entry.oracles.contains(version) && !used.contains(&entry.case)) {
        eprintln!("==== claustrum {version} no longer differs in {:?}: take it off the list ====", entry.case);
    }
    eprintln!("==== compared {answers} answers with claustrum {version}, {} intended differences ====", used.len());
    assert!(
        unexplained.is_empty(),
        "{} answers differ from claustrum {version} without being listed:\n\n{}\n",
        unexplained.len(),
        unexplained.join("\n\n")
    );
}

#[test]
fn hostel_answers_as_claustrum_1_4_0() {
    compare_with("1.4.0");
}

#[test]
fn hostel_answers_as_claustrum_1_8_0() {
    compare_with("1.8.0");
}

#[test]
fn hostel_answers_as_hostel() {
    let folder = script::folder(&binary::repository());
    let names = script::names(&folder);
    // Two workers: the machine of the tests has two cores.
    let next = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let work = tempfile::Builder::new().prefix("hostel-compare-").tempdir().expect("a temporary directory");
                while let Some(name) = names.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst)) {
                    let script = Script::load(&folder, name);
                    let place = work.path().join("work");
                    let first = observe(&script, Program::Hostel, &place);
                    let second = observe(&script, Program::Hostel, &place);
                    assert!(first.len() >= script.cases.len().min(1), "{name} was not played");
                    let different = compare(&first, &second);
                    let texts: Vec<&str> = different.iter().map(|(_, text)| text.as_str()).collect();
                    assert!(texts.is_empty(), "hostel differs from itself:\n\n{}\n", texts.join("\n\n"));
                }
            });
        }
    });
}

#[test]
fn every_entry_of_the_list_names_a_case_that_exists_and_a_reason() {
    let folder = script::folder(&binary::repository());
    let mut cases = BTreeSet::new();
    for name in script::names(&folder) {
        for case in Script::load(&folder, &name).cases {
            cases.insert(format!("{name}/{}", case.title));
        }
    }
    for entry in list() {
        let known = match entry.case.strip_suffix('*') {
            Some(start) => cases.iter().any(|case| case.starts_with(start)),
            None => cases.contains(&entry.case),
        };
        assert!(known, "no such case: {:?}", entry.case);
        assert!(entry.reason.len() > 20, "{:?} gives no reason", entry.case);
        assert!(!entry.oracles.is_empty(), "{:?} names no version", entry.case);
        for version in &entry.oracles {
            assert!(oracle::VERSIONS.contains(&version.as_str()), "{:?}: unknown version {version}", entry.case);
        }
    }
}

#[test]
fn a_difference_is_seen() {
    let observation = |answer: &str| Observation {
        case: "file/case".to_owned(),
        line: 3,
        request: "request".to_owned(),
        answer: answer.to_owned(),
    };
    let ours = [observation("same"), observation("ours")];
    let theirs = [observation("same"), observation("theirs")];
    let found = compare(&ours, &theirs);
    assert_eq!(found.len(), 1);
    assert!(found[0].1.contains("ours") && found[0].1.contains("theirs"));
}
