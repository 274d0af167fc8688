//! `hostel sessions mode ID [MODE]`: what a session's agent may do without asking.

use std::process::ExitCode;

use hostel_agents::Mode;
use hostel_doors::native::client::Client;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;

use crate::cli;
use crate::cli::PassphraseFrom;
use crate::commands::Context;
use crate::commands::approvals::unset;
use crate::conversation::start::too_old;
use crate::error::CommandError;
use crate::inbox::passphrase;
use crate::inbox::passphrase::Passphrase;
use crate::text;

/// `session/configure`.
#[derive(Serialize)]
struct Configure<'a> {
    session_id: &'a str,
    mode: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    passphrase: Option<Passphrase>,
}

/// The answer to `approver/status`.
#[derive(Deserialize)]
struct Approver {
    set: bool,
    #[serde(default)]
    strict: bool,
}

pub(super) async fn run(
    context: &Context<'_>,
    id: &str,
    mode: Option<cli::Mode>,
    from: PassphraseFrom,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (_, mut client, row) = context.houses.find_session(id).await?;
    let mut now = row.mode.clone();
    if let Some(mode) = mode {
        if !row.live() {
            return Err(CommandError::failure(format!("the session `{}` is closed", text::printable(row.handle())))
                .hint("a prompt opens it again: `hostel send ID PROMPT`"));
        }
        let raises = Mode::named(&row.mode) < Mode::named(mode.name());
        let passphrase = if raises { passphrase(&mut client, from).await? } else { None };
        let params = Configure { session_id: &row.session_id, mode: mode.name(), passphrase };
        let answer: Value = client.call("session/configure", &params).await.map_err(too_old)?;
        answer.get("mode").and_then(Value::as_str).unwrap_or(mode.name()).clone_into(&mut now);
    }
    if ui.json() {
        ui.data(&json!({"session_id": row.session_id, "name": row.name, "mode": now, "before": row.mode}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let when = if now == row.mode { "" } else { ", from the next turn on" };
    ui.line(&format!("{}: mode {now}, {}{when}", text::printable(row.handle()), meaning(&now)))?;
    Ok(ExitCode::SUCCESS)
}

/// The approver's passphrase, where the house takes it for raising a mode.
async fn passphrase(client: &mut Client, from: PassphraseFrom) -> Result<Option<Passphrase>, CommandError> {
    let approver: Approver = client.call("approver/status", &json!({})).await?;
    match (approver.strict, approver.set) {
        (false, _) => Ok(None),
        (true, false) => Err(unset()),
        (true, true) => passphrase::obtain(from.passphrase_fd, "Passphrase of the approver: ").map(Some),
    }
}

/// What a mode means, for people.
fn meaning(mode: &str) -> &'static str {
    match Mode::named(mode) {
        Some(Mode::Plan) => "nothing that writes",
        Some(Mode::Ask) => "asks before anything that writes",
        Some(Mode::Code) => "edits in the project, asks for the rest",
        Some(Mode::Auto) => "everything, without asking",
        None => "unknown to this program",
    }
}
