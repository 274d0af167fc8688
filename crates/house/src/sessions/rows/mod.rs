//! The statements about sessions, turns and agent processes.
//!
//! Invariant: each function is one step of a transaction; none decides anything.

mod processes;
mod sessions;
mod turns;

pub(crate) use processes::*;
pub(crate) use sessions::*;
pub(crate) use turns::*;
