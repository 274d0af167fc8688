//! `hostel run "PROMPT"`: a new session of an agent, its first turn followed.

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::json;

use crate::cli::Run;
use crate::commands::Context;
use crate::commands::send;
use crate::conversation::short;
use crate::conversation::start::Contact;
use crate::conversation::wire::SessionRow;
use crate::error::CommandError;
use crate::text;

pub(super) async fn run(context: &Context<'_>, arguments: &Run, word: &OsString) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let reconnect = context.settings()?.limits.reconnect;
    let prompt = send::prompt(word)?;
    let cwd = directory(arguments)?;
    if arguments.name.as_deref() == Some("") {
        return Err(CommandError::usage("a session cannot have an empty name"));
    }
    let house = context.houses.one()?;
    let mut contact = Contact { house: &house, client: house.connect().await?, reconnect };
    let agent = contact.agent(arguments.agent.as_deref()).await?;
    let chosen = if arguments.agent.is_some() { "" } else { " (no agent was named)" };
    let made = contact
        .make(json!({
            "agent_alias": agent,
            "cwd": cwd,
            "mode": arguments.mode.map(crate::cli::Mode::name),
            "model": arguments.model,
            "name": arguments.name,
            "mesh": arguments.mesh.map(crate::cli::MeshPolicy::name),
            "hosting": "warm",
        }))
        .await?;
    // An older house does not say.
    let mode = made.mode.unwrap_or_else(|| "unknown".to_owned());
    let row = SessionRow { session_id: made.session_id, name: arguments.name.clone(), ..SessionRow::default() };
    let sent = match contact.send(&row, &prompt, true).await {
        Ok(sent) => sent,
        Err(error) => {
            contact.forget(&row.session_id).await;
            return Err(error);
        }
    };
    if arguments.detach {
        if ui.json() {
            ui.data(&json!({
                "session_id": row.session_id, "name": row.name, "agent": agent, "mode": mode, "turn": sent.turn,
                "position": sent.position,
            }))?;
        } else {
            let handle = row.handle();
            ui.line(&text::printable(&row.session_id))?;
            let (agent, handle) = (text::printable(&agent), text::printable(handle));
            ui.note(&format!(
                "hostel: {agent}{chosen} works on it in mode {mode}; `hostel watch {handle}`, `hostel sessions interrupt {handle}`"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !ui.json() {
        let id = short(&row.session_id);
        let (agent, mode) = (text::printable(&agent), text::printable(&mode));
        ui.note(&format!("hostel: session {id} with {agent}{chosen} in mode {mode}"));
    }
    let client = contact.client;
    send::follow(context, house, client, &row, sent, reconnect).await
}

/// Where the agent works: the directory that was named, else ours.
fn directory(arguments: &Run) -> Result<String, CommandError> {
    let here = std::env::current_dir()
        .map_err(|error| CommandError::failure(format!("the working directory is gone: {error}")))?;
    let cwd = match &arguments.cwd {
        Some(cwd) => here.join(cwd),
        None => here,
    };
    // `..` and links are settled here, where they mean something.
    let cwd = std::fs::canonicalize(&cwd).map_err(|error| {
        CommandError::failure(format!("the directory `{}` cannot be used: {error}", cwd.display()))
            .hint("create it, or name another with `--cwd DIR`")
    })?;
    if !cwd.is_dir() {
        return Err(CommandError::failure(format!("`{}` is not a directory", cwd.display()))
            .hint("name a directory with `--cwd DIR`"));
    }
    cwd.into_os_string().into_string().map_err(|cwd| {
        CommandError::failure(format!("the directory `{}` has a name that is not UTF-8", cwd.to_string_lossy()))
            .hint("start the agent elsewhere with `--cwd DIR`")
    })
}
