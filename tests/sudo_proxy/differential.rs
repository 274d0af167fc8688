//! The data files of the sudo-proxy door against the real sudo-proxy, on a pseudo-terminal.
//!
//! What may differ is in `sudo_proxy/differences.toml` with the reason. Where no sudo-proxy can be had, the comparison
//! is skipped.

use hostel_tests::contract::differential;
use hostel_tests::contract::sudo_proxy::{LANGUAGE, SudoProxy};
use hostel_tests::sudo_proxy::oracle::{self, VERSION};
use hostel_tests::sudo_proxy::{Options, Program};

#[test]
fn the_real_sudo_proxy_differs_where_it_is_written_down() {
    let Some(program) = oracle::program("sudo-proxy") else { return };
    differential::compare(&LANGUAGE, VERSION, |_| {
        SudoProxy::new(Options { program: Program::Oracle(program.clone()), ..Options::default() })
    });
}

#[test]
fn every_entry_of_the_list_names_a_case_that_exists_and_a_reason() {
    differential::check_list(&LANGUAGE, &[VERSION]);
}
