//! The sudo-proxy personalities: `sudo-proxy`, which asks and runs, and `sudo-request`, which wants something run.
//!
//! Invariant: `sudo-proxy` never goes into the background and never prints anything a requester wrote but through a
//! filter; exit codes and messages are the contract's.
//!
//! The protocol itself is in `hostel_doors::sudo_proxy`; these are the programs around it.

mod digest;
pub(crate) mod hosts;
pub(crate) mod options;
pub(crate) mod registry;
pub(crate) mod remote;
pub(crate) mod request;
mod serve;
pub(crate) mod sudo;
mod terminal;
mod voice;

use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::process::ExitCode;

use crate::config::Settings;
use crate::paths;
use crate::paths::HouseDir;
use options::Options;
use options::Task;
pub(crate) use serve::DIE;
pub(crate) use serve::agent_socket;
pub(crate) use serve::die;
pub(crate) use serve::has_display;

/// The name it is called by.
pub(crate) const NAME: &str = "sudo-proxy";

/// The contract's own socket in the user's runtime directory.
pub(crate) const SOCKET_NAME: &str = "sudo-proxy.sock";

/// The whole program.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    match options::parse(words) {
        Ok(Task::Version) => say(&format!("{NAME} {}\n", reported_version())),
        Ok(Task::Help) => {
            complain(options::HELP.trim_end());
            ExitCode::SUCCESS
        }
        Ok(Task::Serve(options)) => match start(&options) {
            Ok(code) => code,
            Err(message) => {
                complain(&format!("error: {message}"));
                ExitCode::FAILURE
            }
        },
        Err(word) => {
            complain(&format!("unknown option: {word}"));
            ExitCode::FAILURE
        }
    }
}

/// Here, or on another machine.
fn start(options: &Options) -> Result<ExitCode, String> {
    if let Some(host) = &options.host {
        hosts::check(host).map_err(|error| error.to_string())?;
        let login = options.login.as_deref().filter(|login| !login.is_empty());
        if let Some(login) = login {
            hosts::check(login).map_err(|error| format!("invalid --login: {error}"))?;
        }
        // Somebody who names a user of this machine wants to be that one, which takes ssh.
        let is_here = login.is_none() && !host.contains('@') && hosts::is_this_machine(host, &hosts::own_name());
        if !is_here {
            let target = hosts::target(host, login);
            if options.ask_first && !remote::is_agreed(&target) {
                return Err(format!("nobody agreed to connect to {target}"));
            }
            return Ok(remote::run(&target, options.verbose, options.forward_agent));
        }
    }
    if options.forward_agent {
        return Err("--forward-agent requires --host (no SSH session in local mode)".to_owned());
    }
    serve::run(options)
}

fn say(text: &str) -> ExitCode {
    // Somebody who closes our stdout does not want to know.
    io::stdout().lock().write_all(text.as_bytes()).unwrap_or_default();
    ExitCode::SUCCESS
}

/// A line on standard error.
fn complain(message: &str) {
    io::stderr().lock().write_all(format!("{message}\n").as_bytes()).unwrap_or_default();
}

/// The version these programs report.
pub(crate) fn reported_version() -> String {
    let settings = paths::home(None).and_then(|home| Settings::load(&HouseDir::at(home).config_file(), &[]));
    settings.unwrap_or_default().sudo_proxy.reported_version
}
