//! What the black-box tests of hostel share: a house to start and to hurt, a client that reads
//! every byte, and the interpreter of the data files that say what the bytes must be.
//!
//! Everything here talks to the real program over its real socket and its real command line. A
//! deadline stands behind every wait, and a house that goes out of scope takes every process it
//! started with it.
//!
//! It never links any of hostel's own crates: what the tests know, they know from the contract.

#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "test support: a broken assumption must end the test at once, with the reason printed"
)]

pub mod agents;
pub mod binary;
pub mod chatter;
pub mod claudemesh;
pub mod client;
pub mod codecast;
pub mod contract;
pub mod differences;
pub mod frames;
pub mod house;
pub mod http;
pub mod mcp;
pub mod oracle;
pub mod ports;
pub mod process;
pub mod procfs;
pub mod random;
pub mod sandbox;
pub mod schema;
pub mod snapshot;
pub mod sudo_proxy;
pub mod syncpoints;
pub mod wait;
pub mod zeroclaw;

/// Says that a test, or the rest of it, cannot run here. The runner lists these lines at the end.
pub fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
}
