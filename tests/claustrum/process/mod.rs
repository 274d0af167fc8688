//! Hosted processes over the claustrum door, where a data file cannot say it: many connections,
//! time, order, size.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod attach;
mod frames;
mod input;
mod killing;
mod limits;
