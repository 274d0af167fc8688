//! Faults of consent: the daemon, the keeper, the disk and the clients, each failing while somebody is asked or a
//! command that was approved runs.
//!
//! What must hold is always the same: what waits is still there after a restart and can be answered once; what was
//! approved runs once, or whoever asked is told that it did not; nothing runs that nobody agreed to; nobody comes back
//! for a request that is not theirs.

mod agents;
pub(crate) mod askers;
mod between;
mod disk;
pub(crate) mod inbox;
mod keeper;
mod leaving;
mod waiting;
