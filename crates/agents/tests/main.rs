//! The integration tests of this crate, as one program.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod acp;
mod any_input;
mod claude;
mod codex;
mod command_lines;
mod echo;
mod gemini;
mod opencode;
mod support;
