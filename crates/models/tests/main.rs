//! The models of this package, as one program.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod approvals;
mod delivery;
mod insider;
