//! `hostel mcp install` and `uninstall`: the server in an agent's own configuration.
//!
//! Invariant: everything else in the file stays byte for byte as it was; a file that cannot be understood is left alone.
//! The file is replaced whole, and not at all if somebody changed it meanwhile. Doing it twice changes nothing.

mod file;
mod json;
mod json_scan;
mod places;
mod toml;

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;
use serde_json::json;

use super::cli::Client;
use super::cli::Install;
use super::cli::Scope;
use crate::commands::Context;
use crate::error::CommandError;
use crate::text;
use file::ConfigFile;
use places::Place;

/// The longest name of a server.
const NAME: usize = 64;

/// How long a tool call may take, milliseconds: a person may answer a day later.
const PATIENCE_MS: u64 = 24 * 60 * 60 * 1000;

/// In or out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    Install,
    Uninstall,
}

/// What is started as the server.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Launch {
    command: String,
    arguments: Vec<String>,
}

/// The verb.
pub(super) fn run(context: &Context<'_>, asked: &Install, step: Step) -> Result<ExitCode, CommandError> {
    check_name(&asked.name)?;
    let place = places::find(asked.client, asked.scope)?;
    let launch = launch(&context.home, asked.channel)?;
    let file = ConfigFile::read(&place.file)?;
    let edited = edit(&file, &place, asked, step, &launch)?;
    let changed = edited != file.text();
    if changed && !asked.dry_run {
        file.replace(&edited)?;
    }
    report(context, asked, step, &place, &launch, changed)
}

/// Enters the server into an agent's configuration for everything its user does; the file, and whether it changed.
pub(crate) fn enter(home: &Path, client: Client) -> Result<(PathBuf, bool), CommandError> {
    let asked = Install { client, scope: Scope::User, name: "hostel".to_owned(), channel: false, dry_run: false };
    let place = places::find(asked.client, asked.scope)?;
    let launch = launch(home, asked.channel)?;
    let file = ConfigFile::read(&place.file)?;
    let edited = edit(&file, &place, &asked, Step::Install, &launch)?;
    let changed = edited != file.text();
    if changed {
        file.replace(&edited)?;
    }
    Ok((place.file, changed))
}

/// Letters, digits, `-` and `_`: what every client takes for a name.
fn check_name(name: &str) -> Result<(), CommandError> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if name.is_empty() || name.len() > NAME || !name.chars().all(plain) {
        let name = text::printable(name);
        return Err(CommandError::usage(format!("`{name}` cannot be the name of a server"))
            .hint(format!("use letters, digits, `-` and `_`, at most {NAME}")));
    }
    Ok(())
}

/// How this program is started, wherever the agent runs.
fn launch(home: &Path, channel: bool) -> Result<Launch, CommandError> {
    let own = places::own_program()?;
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            CommandError::failure(format!("`{}` is not UTF-8 and cannot stand in a configuration", path.display()))
        })
    };
    let mut arguments = Vec::new();
    if !places::is_default_home(home) {
        arguments.extend(["--home".to_owned(), text(home)?]);
    }
    arguments.push("mcp".to_owned());
    arguments.extend(channel.then(|| "--channel".to_owned()));
    Ok(Launch { command: text(&own)?, arguments })
}

fn edit(
    file: &ConfigFile,
    place: &Place,
    asked: &Install,
    step: Step,
    launch: &Launch,
) -> Result<String, CommandError> {
    let problem = |problem: String| {
        CommandError::failure(format!("cannot change `{}`: {problem}", place.file.display()))
            .hint("correct the file, or enter the server by hand (docs/mcp.md says how)")
    };
    let text = file.text();
    if asked.client == Client::Codex {
        let changed = match step {
            Step::Install => toml::set(text, &asked.name, launch, PATIENCE_MS / 1000),
            Step::Uninstall => toml::remove(text, &asked.name),
        };
        return changed.map_err(problem);
    }
    let mut path: Vec<&str> = place.path.iter().map(String::as_str).collect();
    path.push(&asked.name);
    let changed = match step {
        Step::Install => json::set(text, &path, &entry(asked.client, launch)),
        Step::Uninstall => json::remove(text, &path),
    };
    changed.map_err(problem)
}

/// The entry as each client writes it itself.
fn entry(client: Client, launch: &Launch) -> Value {
    let Launch { command, arguments } = launch;
    match client {
        Client::Claude => json!({"type": "stdio", "command": command, "args": arguments, "env": {}}),
        Client::Gemini => json!({"command": command, "args": arguments, "timeout": PATIENCE_MS}),
        Client::Opencode => {
            let words: Vec<&String> = std::iter::once(command).chain(arguments).collect();
            json!({"type": "local", "command": words, "enabled": true})
        }
        Client::Codex => json!({"command": command, "args": arguments, "tool_timeout_sec": PATIENCE_MS / 1000}),
    }
}

fn report(
    context: &Context<'_>,
    asked: &Install,
    step: Step,
    place: &Place,
    launch: &Launch,
    changed: bool,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (client, file) = (asked.client.name(), text::printable(&place.file.display().to_string()).into_owned());
    if ui.json() {
        let mut told = json!({
            "client": client, "scope": asked.scope.name(), "name": asked.name, "file": place.file.display().to_string(),
            "changed": changed, "dry_run": asked.dry_run,
        });
        if step == Step::Install {
            told["entry"] = entry(asked.client, launch);
        }
        ui.data(&told)?;
        return Ok(ExitCode::SUCCESS);
    }
    let said = match (step, changed, asked.dry_run) {
        (Step::Install, true, false) => format!("{} is in {file} now", asked.name),
        (Step::Install, true, true) => format!("would write {} into {file}:", asked.name),
        (Step::Install, false, _) => format!("{} is in {file} already", asked.name),
        (Step::Uninstall, true, false) => format!("{} is out of {file} now", asked.name),
        (Step::Uninstall, true, true) => format!("would take {} out of {file}", asked.name),
        (Step::Uninstall, false, _) => format!("{} is not in {file}", asked.name),
    };
    ui.line(&said)?;
    if step == Step::Install && asked.dry_run && changed {
        let shown = match asked.client {
            Client::Codex => toml::set("", &asked.name, launch, PATIENCE_MS / 1000).unwrap_or_default(),
            client => serde_json::to_string_pretty(&entry(client, launch)).unwrap_or_default(),
        };
        ui.line(text::prose(&shown).trim_end())?;
    }
    if step == Step::Install && changed && !asked.dry_run {
        ui.note(&format!("hostel: see it with `{client} mcp list`"));
        if asked.client == Client::Claude && asked.scope == Scope::Project {
            ui.note("hostel: claude asks once in this directory whether it may use it");
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_every_client_takes() {
        for good in ["hostel", "my-house_2"] {
            assert!(check_name(good).is_ok());
        }
        for bad in ["", "a b", "a.b", "é", &"x".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn entries_as_the_clients_write_them() {
        let launch = Launch { command: "/bin/hostel".into(), arguments: vec!["mcp".into()] };
        assert_eq!(
            entry(Client::Claude, &launch),
            json!({"type": "stdio", "command": "/bin/hostel", "args": ["mcp"], "env": {}})
        );
        assert_eq!(
            entry(Client::Opencode, &launch),
            json!({"type": "local", "command": ["/bin/hostel", "mcp"], "enabled": true})
        );
        assert_eq!(entry(Client::Gemini, &launch)["args"], json!(["mcp"]));
    }
}
