//! Agent CLIs behind the doors: played ones, and with `scripts/test --agents` the real ones.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod fakes;
mod real;
mod scripted;
mod tier;
