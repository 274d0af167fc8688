//! A program that is nothing but a keeper, so that the house's tests have one to start.

use std::process::ExitCode;

fn main() -> ExitCode {
    hostel_keeper::process_main(std::env::args_os().skip(2))
}
