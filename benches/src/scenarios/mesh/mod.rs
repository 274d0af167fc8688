//! The mesh scenarios: a mesh daemon beside the least that could do the same work.

mod accept;
mod backlog;
mod door;
mod latency;
mod memory;
mod search;

use super::Scenario;

/// Callers at once.
const CALLERS: usize = 32;

/// Every scenario by its name, in order.
pub(crate) const ALL: [(&str, Scenario); 6] = [
    ("accept", accept::run),
    ("door", door::run),
    ("latency", latency::run),
    ("backlog", backlog::run),
    ("search", search::run),
    ("memory", memory::run),
];
