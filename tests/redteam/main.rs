//! The red team: attacks on consent by what a house hosts, as `ATTACKS.md` lists them.
//!
//! The attacker is an agent of a session of an ordinary user's, once without a guard and once with one. An attack is judged
//! by its effect: what ran, what changed, what is on record. Beside it stands the control: the same way works for whoever
//! may go it, so that no test passes because something else was broken.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod commands;
mod deciding;
mod exact;
mod files;
mod hooks;
mod input;
mod limits;
mod others;
#[path = "../house/guard/place.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod place;
mod programs;
mod restarts;
mod rights;
mod root;
mod rules;
mod scene;
mod table;
#[path = "../sudo_proxy/user.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod user;
