//! What mesh daemons and brokers say to each other: frames, canonical JSON, fingerprints, keys and signatures, sealed
//! bodies, invites, backups.
//!
//! Pure: no I/O, no task, no database. Both sides use it, so neither can misread the other.

#![forbid(unsafe_code)]

pub mod authorship;
pub mod backup;
pub mod body;
pub mod canonical;
pub mod encoding;
pub mod fingerprint;
pub mod frames;
pub mod hello;
pub mod ids;
pub mod invite;
pub mod keys;
pub mod random;
pub mod safety;
pub mod sealed;
mod time;
pub mod topic;

pub use time::{BelievedTime, BelievingClock, Clock, iso, parse_iso};
