//! The agent CLIs: how each is started, what its lines mean, and what is written to it.
//!
//! Invariant: everything here is a pure function of what was printed and what was sent. No clock, no file, no
//! process, no randomness: a conversation that is read again from its journal comes to the same events with the same
//! numbers.
//!
//! It decides nothing about sessions: when to start, ask, interrupt or give up is the house's business.

#![forbid(unsafe_code)]

mod acp;
mod claude;
mod codex;
mod command;
pub mod driver;
pub mod echo;
mod ending;
pub mod event;
mod gemini;
mod jsonrpc;
pub mod launch;
mod oneshot;
mod opencode;
pub mod raw;
mod select;
mod text;

pub use driver::{Decision, Driver, Encoded, Exit, Heard, Input, Shown, TurnOver};
pub use event::{Event, Outcome, PlanEntry, Usage};
pub use launch::{Hosting, Kind, Launch, Mode, Setup};
pub use raw::Raw;
pub use select::{driver, launch, restore};
