//! The approvals inbox, and attempts to bypass it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod commands;
mod face;
mod insiders;
mod limits;
mod notify;
mod reading;
mod self_approval;
mod support;
mod tampering;
