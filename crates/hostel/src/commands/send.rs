//! `hostel send ID "PROMPT"`: a prompt for a session, and on request its turn to the end.

use std::ffi::OsString;
use std::io::Read as _;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::native::client::Client;
use hostel_doors::native::protocol::LINE_LIMIT;
use serde_json::json;

use super::Context;
use crate::cli::Send;
use crate::conversation;
use crate::conversation::End;
use crate::conversation::Follow;
use crate::conversation::Format;
use crate::conversation::Keyboard;
use crate::conversation::Spread;
use crate::conversation::Until;
use crate::conversation::page::Page;
use crate::conversation::start::Contact;
use crate::conversation::start::fitting;
use crate::conversation::update::Outcome;
use crate::conversation::wire::Sent;
use crate::conversation::wire::SessionRow;
use crate::error::CommandError;
use crate::houses::House;
use crate::text;

/// The exit code of a turn that Ctrl-C stopped, as shells have it.
const INTERRUPTED: u8 = 130;

pub(super) async fn run(context: &Context<'_>, arguments: &Send) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let reconnect = context.settings()?.limits.reconnect;
    let prompt = prompt(&arguments.prompt)?;
    let (house, client, row) = context.houses.find_session(&arguments.id).await?;
    let mut contact = Contact { house: &house, client, reconnect };
    if !row.live() {
        contact.open(&row).await?;
    }
    let sent = contact.send(&row, &prompt, false).await?;
    let client = contact.client;
    if arguments.wait {
        return follow(context, house, client, &row, sent, reconnect).await;
    }
    let handle = text::printable(row.handle()).into_owned();
    if ui.json() {
        ui.data(&json!({
            "session_id": row.session_id, "house": house.label, "turn": sent.turn, "position": sent.position,
            "after_seq": sent.after_seq,
        }))?;
    } else {
        let place = match sent.position {
            0 => "it starts at once".to_owned(),
            1 => "it is next".to_owned(),
            place => format!("{} are before it", place - 1),
        };
        ui.line(&format!("turn {} of {handle}: {place}", sent.turn))?;
        ui.note(&format!("hostel: see it with `hostel watch --since {} {handle}`", sent.after_seq));
    }
    Ok(ExitCode::SUCCESS)
}

/// The prompt a word means: itself, or our standard input.
pub(super) fn prompt(word: &OsString) -> Result<String, CommandError> {
    let prompt =
        if word == "-" {
            let mut bytes = Vec::new();
            // More than fits is as wrong as too much.
            let limit = u64::try_from(LINE_LIMIT).unwrap_or(u64::MAX);
            std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(|error| {
                CommandError::failure(format!("cannot read the prompt from standard input: {error}"))
            })?;
            String::from_utf8(bytes).map_err(|_| not_text())?
        } else {
            word.to_str().ok_or_else(not_text)?.to_owned()
        };
    if prompt.trim().is_empty() {
        return Err(CommandError::usage("the prompt is empty").hint("say what you want, in quotes"));
    }
    fitting(prompt)
}

fn not_text() -> CommandError {
    CommandError::usage("the prompt is not UTF-8").hint("put such bytes into a file and have the agent read that")
}

/// Follows a turn that was just sent to its end; the exit code is what became of it.
pub(super) async fn follow(
    context: &Context<'_>,
    house: House,
    client: Client,
    row: &SessionRow,
    sent: Sent,
    reconnect: Duration,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let handle = text::printable(row.handle()).into_owned();
    let first = sent.position == 0;
    if !first && !ui.json() {
        ui.note(&format!("hostel: turn {} waits, {} before it", sent.turn, sent.position));
    }
    let format = match ui.json() {
        true => Format::Json,
        false => Format::Page(Box::new(Page::new(conversation::look(ui, Spread::AnswerAlone)))),
    };
    let keyboard = if ui.json() { None } else { Keyboard::open() };
    let until = Until::Turn { turn: sent.turn, first };
    let end = Follow::new(house, row.session_id.clone(), until, format, reconnect)
        .since(sent.after_seq)
        .in_charge(keyboard)
        .run(client, ui)
        .await?;
    match end {
        End::Turn { outcome, interrupted } => {
            if !ui.json() {
                ui.note(&format!("hostel: go on with `hostel send --wait {handle} \"…\"`"));
            }
            Ok(match (outcome, interrupted) {
                (Outcome::Completed, _) => ExitCode::SUCCESS,
                (Outcome::Cancelled, true) => ExitCode::from(INTERRUPTED),
                (Outcome::Failed | Outcome::Cancelled, _) => ExitCode::FAILURE,
            })
        }
        End::Left => {
            ui.note(&format!(
                "hostel: left {handle} to itself; come back with `hostel watch {handle}`, stop it with `hostel sessions interrupt {handle}`"
            ));
            Ok(ExitCode::from(INTERRUPTED))
        }
        End::ReaderGone => Err(CommandError::failure(format!("nobody reads our output any more, {handle} goes on"))
            .hint(format!("come back with `hostel watch {handle}`"))),
        End::HouseDown => Err(house_down(&handle)),
        End::Closed | End::Replayed => Err(CommandError::failure(format!("the session {handle} was closed"))
            .hint(format!("open it again with `hostel send {handle} \"…\"`"))),
    }
}

/// Somebody closed the house while we were following.
pub(super) fn house_down(handle: &str) -> CommandError {
    CommandError::failure("the house was closed")
        .hint(format!("start it again with `hostel up`, then see what became of the turn with `hostel watch {handle}`"))
}
