//! The contract data files: one language, one interpreter, one report for all doors.
//!
//! `tests/CONTRACTS.md` describes the language. [`script`] reads a file and refuses what it does not understand,
//! [`run`] plays its cases and `steps` carries out their steps, [`door::Door`] is what a door has to provide. Values are
//! compared byte for byte, or as JSON where a file says `= json`.

pub mod claudemesh;
pub mod claustrum;
pub mod codecast;
pub mod differential;
pub mod door;
#[cfg(test)]
mod fake;
mod json;
pub mod language;
pub mod pattern;
pub mod report;
mod rpc;
pub mod run;
pub mod script;
mod steps;
pub mod sudo_proxy;
mod update;
pub mod zeroclaw;

use std::fs;
use std::path::PathBuf;

use crate::binary;
use door::Door;
use language::Language;
use script::Script;

/// The folder of a door's data files.
pub fn folder(language: &Language) -> PathBuf {
    binary::repository().join("tests").join(language.door).join("data")
}

/// The names of a door's data files, sorted.
///
/// # Panics
/// If the folder cannot be read.
pub fn names(language: &Language) -> Vec<String> {
    let folder = folder(language);
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .map(|path| path.file_stem().expect("a file has a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Plays one data file and fails with a report of every case that was not as the file says.
///
/// `start` gets the file, for its settings, and starts the daemon.
///
/// # Panics
/// If the file is invalid, or a case fails.
pub fn check<D: Door>(language: &Language, name: &str, variant: &str, start: impl FnOnce(&Script) -> D) {
    let script = Script::load(language, name);
    let mode = run::Mode::from_environment();
    if !script.cases.iter().any(|case| mode.includes(case)) {
        eprintln!("skipped: no case of {name} contains {:?}", mode.filter.unwrap_or_default());
        return;
    }
    let mut door = start(&script);
    let outcome = run::play(&script, variant, &mut door, &mode);
    for reason in &outcome.skipped {
        eprintln!("skipped in part: {reason}");
    }
    if mode.update {
        update::apply(&script, &outcome.replacements);
    }
    let reports: Vec<&str> = outcome.failures.iter().map(|failure| failure.report.as_str()).collect();
    // The daemon ends before the panic: its builder would print the log once more.
    drop(door);
    assert!(
        reports.is_empty(),
        "{} of {} cases of {} failed:\n\n{}\n",
        reports.len(),
        outcome.played,
        script.path.display(),
        reports.join("\n\n")
    );
}

/// Makes one test of each data file, and one more that fails if a data file has no test.
///
/// `contract_tests!(LANGUAGE, start; a, b)` makes the tests `a` and `b`. With `LANGUAGE, start, [socket, tcp]; a, b`
/// each file is a module with a test of each variant. `start` is called with the file and the name of the variant.
#[macro_export]
macro_rules! contract_tests {
    ($language:expr, $start:expr; $($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                $crate::contract::check(&$language, stringify!($name), "", |script| $start(script, ""));
            }
        )*
        $crate::contract_tests!(@complete $language; $($name),*);
    };
    ($language:expr, $start:expr, $variants:tt; $($name:ident),* $(,)?) => {
        $(
            mod $name {
                use super::*;
                $crate::contract_tests!(@variants $language, $start, $name, $variants);
            }
        )*
        $crate::contract_tests!(@complete $language; $($name),*);
    };
    (@variants $language:expr, $start:expr, $name:ident, [$($variant:ident),*]) => {
        $(
            #[test]
            fn $variant() {
                let variant = stringify!($variant);
                $crate::contract::check(&$language, stringify!($name), variant, |script| $start(script, variant));
            }
        )*
    };
    (@complete $language:expr; $($name:ident),*) => {
        #[test]
        fn every_data_file_has_a_test() {
            let mut tested = vec![$(stringify!($name)),*];
            tested.sort_unstable();
            assert_eq!(tested, $crate::contract::names(&$language));
        }
    };
}
