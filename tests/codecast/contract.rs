//! The codecast contract, from data files: requests and answers over real HTTP.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::codecast::{Daemon, play, script};
use hostel_tests::{binary, script as names};

/// Plays one data file and fails with everything that differed.
fn check(name: &str) {
    let script = script::load(&binary::repository().join("tests/codecast/data"), name);
    let daemon = Daemon::start();
    let failures = play::play(&script, &daemon);
    assert!(
        failures.is_empty(),
        "{} of {} cases of {name} failed:\n\n{}\n",
        failures.len(),
        script.cases.len(),
        failures.join("\n\n")
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
            assert_eq!(names::names(&binary::repository().join("tests/codecast/data")), run);
        }
    };
}

data_files! {
    clis,
    create,
    errors,
    guard,
    health,
    http,
    ids,
    interrupt,
    modes,
    queue,
    reconnect,
    resume,
    send,
    skills,
}
