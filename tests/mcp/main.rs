//! The MCP door on both transports.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod channel;
mod conformance;
mod contract;
mod http;
mod install;
mod mesh;
mod tools;
