//! The data files of the claustrum door against the real claustrum.
//!
//! What may differ is in `claustrum/differences.toml` with the reason. Where no claustrum can be had, the comparison is
//! skipped.

#![allow(clippy::print_stderr, reason = "tests")]

use hostel_tests::contract::claustrum::{Claustrum, LANGUAGE};
use hostel_tests::contract::differential;
use hostel_tests::house::Program;
use hostel_tests::oracle;

fn compare_with(version: &str) {
    match oracle::find(version) {
        Ok(path) => differential::compare(&LANGUAGE, version, |_| Claustrum::start(Program::Oracle(path.clone()))),
        Err(reason) => eprintln!("\n==== SKIPPED: NOT COMPARED with claustrum {version}: {reason} ====\n"),
    }
}

#[test]
fn claustrum_1_4_0_differs_where_it_is_written_down() {
    compare_with("1.4.0");
}

#[test]
fn claustrum_1_8_0_differs_where_it_is_written_down() {
    compare_with("1.8.0");
}

#[test]
fn every_entry_of_the_list_names_a_case_that_exists_and_a_reason() {
    differential::check_list(&LANGUAGE, &oracle::VERSIONS);
}
