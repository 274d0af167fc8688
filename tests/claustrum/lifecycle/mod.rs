//! The claustrum command line: modes, flags, exit codes, messages, and the life of the daemon.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod bridge;
mod flags;
mod install;
mod metrics;
mod restart;
mod serve;
mod shell_path;
mod shutdown;
mod token;

use std::process::Output;

use hostel_tests::house::{self, House};

/// What a run of `claustrum ARGUMENTS` printed and how it ended.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs `claustrum ARGUMENTS` to its end.
fn claustrum(house: &House, arguments: &[&str]) -> Ran {
    house::run(house.command(arguments)).into()
}
