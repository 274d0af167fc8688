//! The program `hostel`: command line, daemon assembly and personalities.
//!
//! Invariant: nothing here ends the process behind the caller's back; every path returns an exit code to `main`.
//!
//! It holds no domain knowledge: processes live in `hostel-house`, wire formats in `hostel-doors`.

#![forbid(unsafe_code)]

mod backup;
mod broker;
mod claudemesh;
mod claustrum;
mod cli;
mod codecast;
mod commands;
mod config;
mod conversation;
mod daemon;
mod dispatch;
mod error;
mod houses;
mod http_client;
mod inbox;
mod mcp;
mod mesh;
mod notify;
mod paths;
mod postman;
mod service;
mod session;
mod sudo_proxy;
mod text;
mod ui;
mod zeroclaw;

#[doc(hidden)]
pub mod fuzzing;

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program with the whole argument vector, the program's own name first.
#[must_use]
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    dispatch::run(arguments)
}
