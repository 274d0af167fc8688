//! The sudo-proxy door and its programs: contract, limits, restarts, terminal, remote hosts.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod clients;
mod contract;
mod differential;
mod exact;
mod house;
mod limits;
mod password;
mod remote;
mod request_client;
mod restart;
mod terminal_life;
mod terminal_pages;
mod terminal_prompt;
mod user;
