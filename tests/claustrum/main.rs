//! The claustrum door: contract, processes, life cycle.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod contract;
mod differential;
mod git_hostile;
mod lifecycle;
mod process;
