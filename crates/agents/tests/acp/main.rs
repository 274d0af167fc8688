//! Agents that speak ACP: recorded conversations, and what a driver says and understands.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod behaviour;
mod opening;
mod replay;
#[path = "../support/mod.rs"]
mod support;
mod transcripts;
