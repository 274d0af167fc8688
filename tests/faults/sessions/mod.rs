//! Faults of agent sessions: the daemon, the keeper, the disk, the agents and the clients, each failing in its way.
//!
//! Everything goes through `hostel up`, its doors and the played CLIs. What must hold is always the same: a session's
//! events are complete, in order and numbered once; a prompt that was taken is put to its agent exactly once; one
//! session's trouble is no other's.

mod asked;
mod cast;
mod clis;
mod crowd;
pub(crate) mod disk;
pub(crate) mod events;
pub(crate) mod feeding;
mod floods;
mod keeper;
pub(crate) mod native;
pub(crate) mod resident;
mod stops;
pub(crate) mod storm;
mod watching;
