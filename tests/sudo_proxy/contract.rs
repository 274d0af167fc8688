//! The sudo-proxy contract, from data files: the lines and keys of `tests/sudo_proxy/data` against ours.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

use hostel_tests::binary;
use hostel_tests::sudo_proxy::{Options, script};

/// Plays one data file and fails with everything that differed.
fn check(name: &str) {
    let path = binary::repository().join(format!("tests/sudo_proxy/data/{name}.txt"));
    let played = script::play(&path, &Options::default());
    assert!(played.expectations > 0, "{name} expects nothing");
    let failures: Vec<&str> = played.failures.values().map(String::as_str).collect();
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
            let folder = binary::repository().join("tests/sudo_proxy/data");
            assert_eq!(run, hostel_tests::script::names(&folder));
        }
    };
}

data_files!(approval, content, control, decoding, environment, execution, framing, grant, order, output, time,);
