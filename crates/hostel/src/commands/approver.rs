//! `hostel approver`: the passphrase that answers to requests take.
//!
//! Invariant: the passphrase goes to the house over its own socket and nowhere else; only the house keeps a digest.

use std::process::ExitCode;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::code;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;

use super::Context;
use super::approvals;
use crate::cli::Approver;
use crate::cli::ApproverAction;
use crate::error::CommandError;
use crate::inbox::passphrase;
use crate::inbox::passphrase::Passphrase;
use crate::ui::Paint;

#[derive(Deserialize)]
struct Status {
    set: bool,
    #[serde(default)]
    strict: bool,
}

#[derive(Serialize)]
struct Set<'a> {
    passphrase: &'a Passphrase,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'a Passphrase>,
}

#[derive(Serialize)]
struct Clear<'a> {
    passphrase: &'a Passphrase,
}

pub(super) async fn run(context: &Context<'_>, arguments: &Approver) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    // All houses below one directory have the same approver: any of them will do.
    let mut live = context.houses.live().await?;
    let (_, client) = live.first_mut().ok_or_else(|| CommandError::failure("no house is up"))?;
    let status: Status = client.call("approver/status", &json!({})).await?;
    match &arguments.action {
        ApproverAction::Status => {
            if ui.json() {
                ui.data(&json!({"set": status.set, "strict": status.strict}))?;
                return Ok(ExitCode::SUCCESS);
            }
            if status.set {
                ui.line(&format!("a passphrase is {}", ui.paint(Paint::Green, "set")))?;
            } else {
                ui.line(&format!("{} passphrase is set", ui.paint(Paint::Yellow, "no")))?;
                ui.note("`hostel approvals` can answer nothing until there is one; set it with `hostel approver set`");
            }
            if status.strict {
                ui.line("every answer takes it (`approvals.strict`)")?;
            }
        }
        ApproverAction::Set { passphrase: from, old_passphrase_fd } => {
            let old = match status.set {
                true => Some(passphrase::obtain(*old_passphrase_fd, "Passphrase in force: ")?),
                false => None,
            };
            let new = passphrase::obtain_new(from.passphrase_fd)?;
            let asked = Set { passphrase: &new, old: old.as_ref() };
            told(client.call::<Value>("approver/set", &asked).await)?;
            done(context, true, if status.set { "the passphrase is changed" } else { "the passphrase is set" })?;
        }
        ApproverAction::Clear { passphrase: from } => {
            if !status.set {
                return Err(approvals::unset());
            }
            let shown = passphrase::obtain(from.passphrase_fd, "Passphrase of the approver: ")?;
            told(client.call::<Value>("approver/clear", &Clear { passphrase: &shown }).await)?;
            done(context, false, "the passphrase is removed")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn done(context: &Context<'_>, set: bool, words: &str) -> Result<(), CommandError> {
    match context.ui.json() {
        true => context.ui.data(&json!({"set": set})),
        false => context.ui.line(words),
    }
}

/// A refusal, with what to do next.
fn told(outcome: Result<Value, ClientError>) -> Result<(), CommandError> {
    match outcome {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(code::LOCKED_OUT) => {
            Err(CommandError::from(error).hint("see who tried with `hostel audit show`"))
        }
        Err(error) => Err(error.into()),
    }
}
