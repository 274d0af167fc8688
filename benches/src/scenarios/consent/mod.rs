//! The consent scenarios: hostel as a sudo-proxy beside the real one, both on a terminal with the session grant given.

mod commands;
mod memory;
mod output;

use super::Scenario;

/// Every scenario by its name, in order.
pub(crate) const ALL: [(&str, Scenario); 3] =
    [("commands", commands::run), ("output", output::run), ("memory", memory::run)];
