//! The program. Everything it does is in the library beside it, so that tests can reach the parts.

use std::process::ExitCode;

fn main() -> ExitCode {
    hostel::run(std::env::args_os().collect())
}
