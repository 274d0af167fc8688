//! The integration tests of this crate, as one program.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod common;
mod hostile;
mod limits;
mod retention;
mod round_trip;
mod together;
mod torn;
mod verify;
