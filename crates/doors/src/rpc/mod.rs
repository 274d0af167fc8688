//! What our two JSON-RPC doors share: lines in, lines out, refusals.
//!
//! Invariant: nothing here knows a method. Whole lines go out, one after the other, whoever sends them and whoever is
//! stopped in the middle.

pub(crate) mod failure;
pub(crate) mod hangup;
pub mod line;
pub(crate) mod writer;

pub(crate) use failure::Failure;
pub(crate) use failure::Outcome;
pub(crate) use writer::Writer;
