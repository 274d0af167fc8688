//! Who is at the other end, tried with real processes that do not want to be recognised.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod helper;
mod recycled;
mod server;
mod speed;
mod tcp;
mod unix;
