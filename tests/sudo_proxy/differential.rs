//! The data files of the sudo-proxy door against the real sudo-proxy, on a pseudo-terminal.
//!
//! The files say what ours does. Where the real program does otherwise, `sudo_proxy/differences.toml` says why; nothing
//! else may differ. Where no sudo-proxy can be had, this is skipped with a loud line.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hostel_tests::differences::{self, Difference};
use hostel_tests::sudo_proxy::oracle::{self, VERSION};
use hostel_tests::sudo_proxy::{Options, Program, script};
use hostel_tests::{binary, script as files};

fn list() -> Vec<Difference> {
    differences::load(&binary::repository().join("tests/sudo_proxy/differences.toml"))
}

#[test]
fn the_real_sudo_proxy_differs_where_it_is_written_down() {
    let Some(program) = oracle::program("sudo-proxy") else { return };
    let folder = binary::repository().join("tests/sudo_proxy/data");
    let (names, list) = (files::names(&folder), list());
    let next = AtomicUsize::new(0);
    let found = Mutex::new((Vec::new(), BTreeSet::new(), 0));
    // It polls and sleeps most of the time: several at once do not get in each other's way.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let options = Options { program: Program::Oracle(program.clone()), ..Options::default() };
                    let played = script::play(&folder.join(format!("{name}.txt")), &options);
                    let mut found = found.lock().expect("nobody panics with it");
                    found.2 += played.cases.len();
                    for (title, text) in played.failures {
                        let case = format!("{name}/{title}");
                        match differences::covering(&list, &case, VERSION) {
                            Some(entry) => drop(found.1.insert(entry.case.clone())),
                            None => found.0.push(text),
                        }
                    }
                }
            });
        }
    });
    let (unexplained, used, cases) = found.into_inner().expect("nobody panicked with it");
    for entry in list.iter().filter(|entry| !used.contains(&entry.case)) {
        eprintln!("==== sudo-proxy {VERSION} does not differ in {:?}: take it off the list ====", entry.case);
    }
    eprintln!("==== {cases} cases played to sudo-proxy {VERSION}, {} intended differences ====", used.len());
    let count = unexplained.len();
    assert!(unexplained.is_empty(), "{count} cases differ without being listed:\n\n{}\n", unexplained.join("\n\n"));
}

#[test]
fn every_entry_of_the_list_names_a_case_that_exists_and_a_reason() {
    let folder = binary::repository().join("tests/sudo_proxy/data");
    let cases: BTreeSet<String> = files::names(&folder)
        .into_iter()
        .flat_map(|name| {
            let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).expect("a data file");
            let titles: Vec<String> = text
                .lines()
                .filter_map(|line| line.strip_prefix("@ "))
                .map(|title| format!("{name}/{title}"))
                .collect();
            titles
        })
        .collect();
    for entry in list() {
        assert!(cases.contains(&entry.case), "no such case: {:?}", entry.case);
        assert!(entry.reason.len() > 20, "{:?} gives no reason", entry.case);
        assert_eq!(entry.oracles, BTreeSet::from([VERSION.to_owned()]), "{:?} names another version", entry.case);
    }
}
