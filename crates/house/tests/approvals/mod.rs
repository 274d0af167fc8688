//! Consent over a real database: the inbox, its clocks, rules and grants, who may decide, the audit, and restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

mod approver;
mod audit;
mod clocks;
mod grants;
mod house;
mod inbox;
mod restart;
mod speed;
mod succession;
mod who;
