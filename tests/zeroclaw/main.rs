//! The zeroclaw door: contract, turns, approvals, restarts, WebSocket.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod approvals;
mod contract;
mod lifecycle;
mod native;
mod restart;
mod strict;
mod turns;
mod wss;
