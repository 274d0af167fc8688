//! Setting a host up: the mesh's tools in the configuration of its agents, and on demand the daemon as a service.
//!
//! Invariant: a service is never installed without having been asked for, on the command line or by a person at a
//! terminal. What is there already is left as it is.

use std::io::BufRead as _;
use std::io::IsTerminal as _;
use std::io::Read as _;
use std::io::Write as _;
use std::process::ExitCode;

use hostel_mesh::home::surroundings::Surroundings;
use serde_json::json;

use crate::config::agents;
use crate::mcp;
use crate::mcp::cli::Client;
use crate::mesh::Desk;
use crate::mesh::cli::Daemon;
use crate::mesh::cli::DaemonAction;
use crate::mesh::cli::Install;
use crate::mesh::cli::InstallService;
use crate::mesh::daemon;
use crate::mesh::failure::Failure;
use crate::mesh::wait;
use crate::service::Scope;
use crate::service::cli;
use crate::service::manager::Manager;

/// The longest answer to a question.
const ANSWER: u64 = 256;

/// What is done about a service when nobody said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Question {
    /// Ask, and take silence for this.
    Ask(bool),
    /// Do not; why.
    Leave(&'static str),
}

pub(crate) fn run(desk: &Desk<'_>, arguments: &Install) -> Result<ExitCode, Failure> {
    let entered = match arguments.no_mcp {
        true => Vec::new(),
        false => enter(desk)?,
    };
    let wanted = match (arguments.service, arguments.no_service) {
        (true, _) => true,
        (_, true) => false,
        _ => ask(desk)?,
    };
    let joined = !desk.host.meshes()?.is_empty();
    if wanted && !joined {
        say(desk, "no mesh is joined yet; when one is: `claudemesh daemon install-service`")?;
    }
    if !wanted || !joined {
        if desk.ui.json() {
            desk.ui.data(&json!({"ok": true, "agents": entered, "service": false}))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let install = cli::Install { allow_ci_persistent: arguments.allow_ci_persistent, ..cli::Install::default() };
    let action = DaemonAction::InstallService(InstallService { install, all: desk.mesh.is_none() });
    daemon::run(desk, Daemon { action })
}

/// Enters the tools into the configuration of every agent that is here.
fn enter(desk: &Desk<'_>) -> Result<Vec<&'static str>, Failure> {
    let path = std::env::var_os("PATH");
    let mut entered = Vec::new();
    for client in [Client::Claude, Client::Codex, Client::Gemini, Client::Opencode] {
        if agents::find(client.name(), path.as_deref()).is_none() {
            continue;
        }
        match mcp::enter(&desk.home, client) {
            Ok((file, changed)) => {
                let done = if changed { "entered into" } else { "is in" };
                say(desk, &format!("{}: the mesh's tools {done} {}", client.name(), file.display()))?;
                entered.push(client.name());
            }
            // Whatever is wrong with one agent's file, the others get theirs.
            Err(error) => desk.ui.note(&format!("{}: {error}", client.name())),
        }
    }
    if entered.is_empty() {
        say(
            desk,
            "no agent (claude, codex, gemini, opencode) was found; `hostel mcp install NAME` enters the tools later",
        )?;
    }
    Ok(entered)
}

fn ask(desk: &Desk<'_>) -> Result<bool, Failure> {
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && !desk.ui.json();
    let absence = wait(async { Ok(Manager::of(Scope::User).absence().await) })?;
    let surroundings = Surroundings::here();
    let question = question(terminal, absence.is_none(), surroundings.container.is_some(), surroundings.ci.is_some());
    let usual = match question {
        Question::Leave(why) => {
            say(desk, &format!("no service is installed: {why}"))?;
            return Ok(false);
        }
        Question::Ask(usual) => usual,
    };
    let choice = if usual { "[Y/n]" } else { "[y/N]" };
    let mut error = std::io::stderr().lock();
    write!(error, "Install as a background service that always runs? {choice} ")?;
    error.flush()?;
    let mut line = String::new();
    std::io::stdin().lock().take(ANSWER).read_line(&mut line)?;
    Ok(match line.trim().to_ascii_lowercase().as_str() {
        "" => usual && line.ends_with('\n'),
        "y" | "yes" => true,
        _ => false,
    })
}

fn question(terminal: bool, systemd: bool, container: bool, ci: bool) -> Question {
    match (terminal, systemd) {
        _ if ci => Question::Leave("this looks like a build job; `--service --allow-ci-persistent` does it"),
        (_, false) => Question::Leave("no systemd runs here; `claudemesh daemon up` starts the daemon"),
        (false, true) => Question::Leave("there is nobody to ask; `--service` does it"),
        (true, true) => Question::Ask(!container),
    }
}

fn say(desk: &Desk<'_>, text: &str) -> Result<(), Failure> {
    if !desk.ui.json() {
        desk.ui.line(text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_depends_on_where_one_is() {
        assert_eq!(question(true, true, false, false), Question::Ask(true));
        assert_eq!(question(true, true, true, false), Question::Ask(false));
        assert!(matches!(question(false, true, false, false), Question::Leave(_)));
        assert!(matches!(question(true, false, false, false), Question::Leave(_)));
        assert!(matches!(question(true, true, false, true), Question::Leave(_)));
    }
}
