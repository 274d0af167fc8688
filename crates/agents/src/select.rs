//! From a setup to the module that knows its CLI.
//!
//! Invariant: a saved state is restored by the driver that saved it, as both are chosen from the same setup.

use crate::driver::Driver;
use crate::launch::{Kind, Launch, Setup};
use crate::{acp, claude, codex, echo, gemini, opencode};

/// How the process of this setup is started.
#[must_use]
pub fn launch(setup: &Setup) -> Launch {
    match setup.kind {
        Kind::Claude => claude::launch(setup),
        Kind::Codex => codex::launch(setup),
        Kind::Gemini => gemini::launch(setup),
        Kind::Opencode => opencode::launch(setup),
        Kind::Acp => acp::launch(setup),
        Kind::Echo => echo::launch(setup),
    }
}

/// The conversation with a process of this setup that has just been started.
#[must_use]
pub fn driver(setup: &Setup) -> Box<dyn Driver> {
    match setup.kind {
        Kind::Claude => claude::driver(setup),
        Kind::Codex => codex::driver(setup),
        Kind::Gemini => gemini::driver(setup),
        Kind::Opencode => opencode::driver(setup),
        Kind::Acp => acp::driver(setup),
        Kind::Echo => echo::driver(setup),
    }
}

/// The conversation as it was when [`Driver::save`] was called.
///
/// # Errors
/// The text is none that a driver of this setup has saved; why is said.
pub fn restore(setup: &Setup, saved: &str) -> Result<Box<dyn Driver>, String> {
    match setup.kind {
        Kind::Claude => claude::restore(setup, saved),
        Kind::Codex => codex::restore(setup, saved),
        Kind::Gemini => gemini::restore(setup, saved),
        Kind::Opencode => opencode::restore(setup, saved),
        Kind::Acp => acp::restore(setup, saved),
        Kind::Echo => echo::restore(setup, saved),
    }
}
