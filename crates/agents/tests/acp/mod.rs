//! Agents that speak ACP: recorded conversations, and what a driver says and understands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)] // test code

mod opening;
mod questions;
mod replay;
mod strange;
mod talk;
mod transcripts;
mod turns;
