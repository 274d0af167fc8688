//! `hostel mcp`, its installation into agents, and the personality `sudo-proxy-mcp`.
//!
//! Invariant: standard output belongs to the protocol; whatever else there is to say goes to standard error. The server
//! ends with its client, and what the client asked for and was not told is withdrawn then.
//!
//! The tools themselves are in `hostel_doors::mcp`; here is what they need of the program around them.

pub(crate) mod cli;

mod desk;
mod house;
mod install;
mod mesh;
mod personality;
mod serve;
mod sockets;
mod terminal;

use std::process::ExitCode;

use cli::Mcp;
use cli::McpAction;

use crate::commands::Context;
use crate::error::CommandError;
pub(crate) use house::inside;
pub(crate) use install::enter;
pub(crate) use personality::sudo_proxy_mcp_main;
pub(crate) use sockets::up as start_house;

/// The verb.
pub(crate) fn run(context: &Context<'_>, arguments: &Mcp) -> Result<ExitCode, CommandError> {
    match &arguments.action {
        None => serve::house(context, arguments),
        Some(McpAction::Install(install)) => install::run(context, install, install::Step::Install),
        Some(McpAction::Uninstall(install)) => install::run(context, install, install::Step::Uninstall),
    }
}
