//! Mesh daemons and brokers through the claudemesh door and the command line.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod backup;
mod capabilities;
mod contract;
mod external;
mod files_confined;
mod files_gate;
mod five;
mod fleet;
mod forged;
mod hooks;
mod hooks_confined;
mod hooks_gate;
mod hooks_history;
mod hooks_sockets;
mod identity;
mod invites;
mod keys;
mod launch;
mod limits;
mod metrics;
mod network;
mod owner;
mod pages;
mod pressure;
mod prompts;
mod recover;
mod refusals;
mod reload;
mod remint;
mod rotation;
mod sdk_schema;
mod service;
mod session_mail;
mod skew;
mod state;
mod stream;
mod tasks;
