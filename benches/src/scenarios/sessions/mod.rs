//! The session scenarios: hostel as a codecast daemon, beside the least that could do the same work.
//!
//! The real codecast daemon is not run. Its figures were taken on another machine of this size and are quoted beside
//! ours, never divided by.

mod create;
mod events;
mod guard;
mod health;
mod latency;
mod memory;
mod stalled;
mod turns;

use super::Scenario;

/// Every scenario by its name, in order.
pub(crate) const ALL: [(&str, Scenario); 8] = [
    ("events", events::run),
    ("latency", latency::run),
    ("health", health::run),
    ("create", create::run),
    ("stalled", stalled::run),
    ("memory", memory::run),
    ("turns", turns::run),
    ("guard", guard::run),
];
