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
use crate::inbox::visible;
use crate::ui::Paint;

#[derive(Deserialize)]
struct Status {
    set: bool,
    #[serde(default)]
    strict: bool,
    /// What the settings say and the approver has not confirmed.
    #[serde(default)]
    unconfirmed: Vec<String>,
    #[serde(default)]
    alarms: Vec<Alarm>,
}

/// Something that people have to hear of.
#[derive(Deserialize, Serialize)]
pub(super) struct Alarm {
    pub(super) time: String,
    pub(super) text: String,
}

#[derive(Deserialize)]
struct Confirmed {
    confirmed: Vec<String>,
}

#[derive(Serialize)]
struct Set<'a> {
    passphrase: &'a Passphrase,
    #[serde(skip_serializing_if = "Option::is_none")]
    old: Option<&'a Passphrase>,
}

#[derive(Serialize)]
struct Shown<'a> {
    passphrase: &'a Passphrase,
}

pub(super) async fn run(context: &Context<'_>, arguments: &Approver) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    // All houses below one directory have the same approver. What is asked of the first is true of all; what is changed is
    // changed in all of them, because each knows by itself what is in force.
    let mut live = context.houses.live().await?;
    let (_, client) = live.first_mut().ok_or_else(|| CommandError::failure("no house is up"))?;
    let status: Status = client.call("approver/status", &json!({})).await?;
    match &arguments.action {
        ApproverAction::Status => {
            if ui.json() {
                ui.data(&json!({
                    "set": status.set,
                    "strict": status.strict,
                    "unconfirmed": status.unconfirmed,
                    "alarms": status.alarms,
                }))?;
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
            for reason in &status.unconfirmed {
                ui.line(&format!("not in force: {}", visible::text(&visible::prose(reason))))?;
            }
            if !status.unconfirmed.is_empty() {
                ui.note("`hostel approver confirm` puts it in force");
            }
            for Alarm { time, text } in &status.alarms {
                let text = visible::text(&visible::prose(text));
                ui.line(&format!("{} {time} {text}", ui.paint(Paint::Red, "alarm")))?;
            }
        }
        ApproverAction::Confirm { passphrase: from } => {
            if !status.set {
                return Err(approvals::unset());
            }
            let shown = passphrase::obtain(from.passphrase_fd, "Passphrase of the approver: ")?;
            let mut all = Vec::new();
            for (_, client) in &mut live {
                let answer = client.call::<Confirmed>("approver/confirm", &Shown { passphrase: &shown }).await;
                all.extend(told(answer)?.confirmed);
            }
            all.sort();
            all.dedup();
            if ui.json() {
                ui.data(&json!({"confirmed": all}))?;
                return Ok(ExitCode::SUCCESS);
            }
            for reason in &all {
                ui.line(&format!("in force: {}", visible::text(&visible::prose(reason))))?;
            }
            if all.is_empty() {
                ui.line("the settings are in force; there was nothing to confirm")?;
            }
        }
        ApproverAction::Set { passphrase: from, old_passphrase_fd } => {
            let old = match status.set {
                true => Some(passphrase::obtain(*old_passphrase_fd, "Passphrase in force: ")?),
                false => None,
            };
            let new = passphrase::obtain_new(from.passphrase_fd)?;
            for (_, client) in &mut live {
                let there: Status = client.call("approver/status", &json!({})).await?;
                let asked = Set { passphrase: &new, old: old.as_ref().filter(|_| there.set) };
                told(client.call::<Value>("approver/set", &asked).await)?;
            }
            done(context, true, if status.set { "the passphrase is changed" } else { "the passphrase is set" })?;
        }
        ApproverAction::Clear { passphrase: from } => {
            if !status.set {
                return Err(approvals::unset());
            }
            let shown = passphrase::obtain(from.passphrase_fd, "Passphrase of the approver: ")?;
            for (_, client) in &mut live {
                let there: Status = client.call("approver/status", &json!({})).await?;
                if there.set {
                    told(client.call::<Value>("approver/clear", &Shown { passphrase: &shown }).await)?;
                }
            }
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
fn told<T>(outcome: Result<T, ClientError>) -> Result<T, CommandError> {
    match outcome {
        Ok(answer) => Ok(answer),
        Err(error) if error.code() == Some(code::LOCKED_OUT) => {
            Err(CommandError::from(error).hint("see who tried with `hostel audit show`"))
        }
        Err(error) => Err(error.into()),
    }
}
