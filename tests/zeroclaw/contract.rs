//! The zeroclaw contract, from data files: the frames of `tests/zeroclaw/data` over the real socket.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use hostel_tests::binary;
use hostel_tests::zeroclaw::{Daemon, Options, script};

/// An agent that first writes a variable of its environment into its directory, and one more of another name.
fn settings() -> String {
    let program = binary::hostel();
    let program = program.display();
    format!(
        "[agents.second]\nkind = \"echo\"\n\n\
         [agents.env]\nkind = \"acp\"\ncommand = [\"/bin/sh\", \"-c\", \"echo \\\"$COLOUR\\\" > colour; exec '{program}' echo-agent\"]\n\n\
         [doors.zeroclaw]\nsession_limit = 1000\n"
    )
}

/// Plays one data file and fails with everything that differed.
fn check(name: &str) {
    let path = binary::repository().join(format!("tests/zeroclaw/data/{name}.txt"));
    let daemon = Daemon::start_with(Options { settings: settings(), ..Options::default() });
    let (expectations, failures) = script::play(&path, &daemon);
    assert!(expectations > 0, "{name} expects nothing");
    let count = failures.len();
    assert!(failures.is_empty(), "{count} cases of {name} failed:\n\n{}\n", failures.join("\n\n"));
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
            let folder = binary::repository().join("tests/zeroclaw/data");
            assert_eq!(run, hostel_tests::script::names(&folder));
        }
    };
}

data_files!(approve, attach, attachments, cancel, envelope, initialize, listing, prompt, session_new);
