//! Operating a house: backup, doctor, services, documented commands.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod backup;
mod doctor;
mod guard;
mod operations;
mod snapshots;
mod systemd;
