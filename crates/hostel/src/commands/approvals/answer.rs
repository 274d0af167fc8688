//! `hostel approvals approve|deny`: the answer, with the approver's passphrase.
//!
//! Invariant: the passphrase is asked for only when there is something to answer and a passphrase to compare it with;
//! with a wrong one nothing further is tried. What is approved was shown before ([`super::reading`]).

use std::process::ExitCode;

use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_doors::native::code;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;

use super::one_line;
use super::read;
use super::reading;
use super::settled;
use super::whole;
use crate::cli::GrantTerms;
use crate::cli::PassphraseFrom;
use crate::cli::Reviewed;
use crate::cli::Scope;
use crate::commands::Context;
use crate::conversation::short;
use crate::conversation::wire::one_spelling;
use crate::conversation::words;
use crate::error::CommandError;
use crate::houses::House;
use crate::inbox::passphrase;
use crate::inbox::passphrase::Passphrase;
use crate::inbox::request::Request;
use crate::text;

/// How long a grant lasts that does not say so.
const GRANT: u64 = 600;

/// What is answered.
#[derive(Clone, Debug, Serialize)]
struct Answer<'a> {
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    replacement: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grant: Option<Value>,
}

/// `approval/decide`.
#[derive(Serialize)]
struct Decide<'a> {
    id: &'a str,
    /// Of what was seen: another is not what is answered.
    digest: &'a str,
    passphrase: &'a Passphrase,
    #[serde(flatten)]
    answer: &'a Answer<'a>,
}

#[derive(Deserialize)]
struct Decided {
    approval: Value,
    #[serde(default)]
    grant: Option<u64>,
}

#[derive(Deserialize)]
struct Status {
    set: bool,
}

pub(super) async fn approve(
    context: &Context<'_>,
    ids: &[String],
    decision: &'static str,
    terms: &GrantTerms,
    reviewed: &Reviewed,
    from: PassphraseFrom,
) -> Result<ExitCode, CommandError> {
    reading::check(reviewed, ids, from)?;
    decide(context, ids, Answer { decision, replacement: None, grant: grant(terms)? }, Some(reviewed), from).await
}

pub(super) async fn deny(
    context: &Context<'_>,
    ids: &[String],
    reason: Option<&str>,
    from: PassphraseFrom,
) -> Result<ExitCode, CommandError> {
    decide(context, ids, Answer { decision: "reject", replacement: reason, grant: None }, None, from).await
}

/// The terms of a grant, if one is asked for.
fn grant(terms: &GrantTerms) -> Result<Option<Value>, CommandError> {
    if !terms.wanted() {
        return Ok(None);
    }
    let seconds = match &terms.lasting {
        Some(time) => text::parse_duration(time).map_err(CommandError::usage)?.as_secs(),
        None => GRANT,
    };
    let scope = terms.scope.unwrap_or(Scope::Session).word();
    let mut grant = json!({"scope": scope, "seconds": seconds, "privileged": terms.privileged});
    if let Some(count) = terms.count {
        grant["count"] = count.into();
    }
    if !terms.argv.is_empty() {
        grant["argv"] = terms.argv.clone().into();
    }
    Ok(Some(grant))
}

async fn decide(
    context: &Context<'_>,
    ids: &[String],
    answer: Answer<'_>,
    reviewed: Option<&Reviewed>,
    from: PassphraseFrom,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let mut failed: Option<CommandError> = None;
    let mut fail = |error: CommandError| {
        if let Some(earlier) = failed.replace(error) {
            ui.error(&earlier);
        }
    };
    let mut open = Vec::new();
    for id in ids {
        let found = find(context, id).await;
        match found
            .and_then(|found| reviewed.map_or(Ok(()), |wanted| reading::check_digest(wanted, &found.2)).map(|()| found))
        {
            Ok(found) => open.push(found),
            Err(error) => fail(error),
        }
    }
    let mut outcomes = Vec::new();
    if let Some((_, client, _)) = open.first_mut() {
        let passphrase = match reviewed {
            None => ask(client, from).await?,
            Some(reviewed) => {
                check_set(client).await?;
                let rows: Vec<_> = open.iter().map(|(house, _, row)| (house.label.as_str(), row)).collect();
                reading::show_and_ask(ui, &rows, reviewed, from)?
            }
        };
        for (house, mut client, row) in open {
            match decide_one(&mut client, &row, &answer, &passphrase).await {
                Ok(Decided { approval, grant }) => {
                    let mut approval = one_spelling(approval);
                    if !ui.json() {
                        let (paint, said) = words::verdict(answer.decision);
                        let what = text::printable(&one_line(&row)).into_owned();
                        let more = grant.map(|grant| format!(", grant {grant}")).unwrap_or_default();
                        ui.line(&format!("{} {}{more}: {what}", short(&row.id), ui.paint(paint, said)))?;
                    }
                    if let Some(fields) = approval.as_object_mut() {
                        fields.remove("input");
                        fields.insert("house".to_owned(), house.label.into());
                        fields.extend(grant.map(|grant| ("grant".to_owned(), grant.into())));
                    }
                    outcomes.push(approval);
                }
                Err(error) => {
                    let hopeless = stops(&error);
                    fail(refused(&mut client, &row, error).await);
                    if hopeless {
                        break;
                    }
                }
            }
        }
    }
    if ui.json() {
        ui.data(&json!({"approvals": outcomes}))?;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// One that is open, all of it.
async fn find(context: &Context<'_>, id: &str) -> Result<(House, Client, Request), CommandError> {
    let (house, mut client, _, value) = context.houses.find_approval(id).await?;
    let row = read(&whole(&mut client, value).await?)?;
    if row.pending() { Ok((house, client, row)) } else { Err(settled(&row)) }
}

/// The passphrase, if there is one to be had.
pub(super) async fn ask(client: &mut Client, from: PassphraseFrom) -> Result<Passphrase, CommandError> {
    check_set(client).await?;
    passphrase::obtain(from.passphrase_fd, "Passphrase of the approver: ")
}

async fn check_set(client: &mut Client) -> Result<(), CommandError> {
    let status: Status = client.call("approver/status", &json!({})).await?;
    if status.set { Ok(()) } else { Err(unset()) }
}

/// There is none.
pub(crate) fn unset() -> CommandError {
    CommandError::failure("no passphrase is set, so nobody can answer from here")
        .hint("set one with `hostel approver set`")
}

async fn decide_one(
    client: &mut Client,
    row: &Request,
    answer: &Answer<'_>,
    passphrase: &Passphrase,
) -> Result<Decided, ClientError> {
    client.call("approval/decide", &Decide { id: &row.id, digest: &row.digest, passphrase, answer }).await
}

/// Whether the next one would be refused for the same reason.
fn stops(error: &ClientError) -> bool {
    matches!(error.code(), Some(code::WRONG_PASSPHRASE | code::LOCKED_OUT | code::NO_PASSPHRASE))
}

/// Why it was not taken; somebody else may have been faster.
async fn refused(client: &mut Client, row: &Request, error: ClientError) -> CommandError {
    match error.code() {
        Some(code::SETTLED) => {
            #[derive(Deserialize)]
            struct Got {
                approval: Value,
            }
            match client.call::<Got>("approval/get", &json!({"id": row.id})).await.map(|got| read(&got.approval)) {
                Ok(Ok(now)) if now.pending() => changed(&now),
                Ok(Ok(now)) => settled(&now),
                _ => error.into(),
            }
        }
        Some(code::NO_PASSPHRASE) => unset(),
        _ => error.into(),
    }
}

/// It is another request by now than the one that was shown.
fn changed(row: &Request) -> CommandError {
    let id = short(&row.id);
    CommandError::failure(format!("{id} is not the request that was shown any more; nothing was decided"))
        .hint(format!("read it with `hostel approvals show {id}`"))
}
