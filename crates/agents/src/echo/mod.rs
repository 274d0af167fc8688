//! The agent that is built in, so that everything can be tried with nothing installed.
//!
//! To the house it is an ACP agent like any other, whose command is the house's own program; [`program`] is what that
//! command runs.

pub mod program;

use crate::acp;
use crate::driver::Driver;
use crate::launch::{Launch, Setup};

pub(crate) fn launch(setup: &Setup) -> Launch {
    acp::launch(setup)
}

pub(crate) fn driver(setup: &Setup) -> Box<dyn Driver> {
    acp::driver(setup)
}

pub(crate) fn restore(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    acp::restore(setup, saved)
}
