//! The `/v1` surface of a mesh daemon, from data files: requests and answers over both transports.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::claudemesh::{Transport, play, script};
use hostel_tests::{binary, script as names};

/// Plays one data file over one transport and fails with everything that differed.
fn check(name: &str, transport: Transport) {
    let script = script::load(&binary::repository().join("tests/claudemesh/data"), name);
    let failures = play::play(&script, transport);
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
            mod $name {
                use super::*;

                #[test]
                fn socket() {
                    check(stringify!($name), Transport::Socket);
                }

                #[test]
                fn tcp() {
                    check(stringify!($name), Transport::Tcp);
                }
            }
        )*

        #[test]
        fn no_data_file_is_left_unrun() {
            let mut run = vec![$(stringify!($name)),*];
            run.sort_unstable();
            assert_eq!(names::names(&binary::repository().join("tests/claudemesh/data")), run);
        }
    };
}

data_files! {
    admin,
    bodies,
    control,
    files,
    guards,
    idempotency,
    inbox,
    metrics,
    offline,
    origins,
    outbox,
    peers,
    public_health,
    search,
    send,
    sessions,
    settings,
    siblings,
    topics,
}
