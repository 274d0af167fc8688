//! The claustrum contract, from data files: the lines of `tests/claustrum/data` over the real socket.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use hostel_tests::house::Options;
use hostel_tests::script::{self, Script};
use hostel_tests::{binary, script_run};

/// Plays one data file and fails with everything that differed.
fn check(name: &str) {
    let script = Script::load(&script::folder(&binary::repository()), name);
    let work = tempfile::Builder::new().prefix("hostel-data-").tempdir().expect("a temporary directory");
    let outcome = script_run::play(&script, &Options::default(), work.path(), true);
    for skipped in &outcome.skipped {
        eprintln!("SKIPPED: {skipped}");
    }
    assert!(outcome.expectations > 0, "{name} expects nothing");
    assert!(
        outcome.failures.is_empty(),
        "{} of {} expectations of {name} failed:\n\n{}\n",
        outcome.failures.len(),
        outcome.expectations,
        outcome.failures.join("\n\n")
    );
}

macro_rules! data_files {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn no_data_file_is_left_unrun() {
            let mut run = vec![$(stringify!($name)),*];
            run.sort_unstable();
            assert_eq!(script::names(&script::folder(&binary::repository())), run);
        }
    };
}

data_files! {
    authentication,
    errors,
    files_extract_tar,
    files_list,
    files_read,
    files_stat,
    files_validate,
    git_info,
    git_list_branches,
    git_status,
    git_worktree_create,
    git_worktree_remove,
    ids,
    kill,
    kill_and_wait,
    params,
    precedence,
    reattach,
    server,
    spawn,
    stdin,
    transport,
}
