//! `session/export`: a transcript, piece by piece.
//!
//! Invariant: a piece depends on its events alone, so pieces can be put together wherever they were cut.

use std::fmt::Write as _;

use hostel_agents::Event;
use hostel_agents::Outcome as TurnOutcome;
use hostel_house::sessions::Entry;
use hostel_house::sessions::NextEvents;
use serde_json::json;

use super::Params;
use super::code;
use super::time;
use super::visitor::Visitor;
use super::visitor::internal;
use super::visitor::no_session;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// A piece ends with the event that reaches this many bytes.
const PIECE: usize = 1 << 20;

/// The transcript after an event, up to a limit.
pub(crate) async fn export(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let format = params.text("format")?.unwrap_or("markdown");
    let write: fn(&mut String, &Entry) = match format {
        "markdown" => markdown,
        "jsonl" => jsonl,
        _ => return Err(Failure::new(code::PARAMS, "`format` is neither `markdown` nor `jsonl`")),
    };
    let after = params.number("after_seq")?.unwrap_or(0);
    let sessions = &visitor.house().sessions;
    let info = match sessions.get(id) {
        Some(session) => session.info(),
        None => sessions.stored(id).await.map_err(internal)?.ok_or_else(|| no_session(id))?,
    };
    let mut text = String::new();
    if after == 0 && format == "markdown" {
        let title = info.name.as_deref().unwrap_or(&info.id);
        let when = time::rfc3339(info.created_ns);
        // Writing to a String cannot fail.
        writeln!(text, "# {title}\n\nAgent `{}` in `{}`, {when}", info.agent, info.cwd.display()).ok();
    }
    let mut last = after;
    let mut events = sessions.stored_events(id, after).await.map_err(internal)?.ok_or_else(|| no_session(id))?;
    while last < info.last_seq && text.len() < PIECE {
        match events.next().await.map_err(internal)? {
            NextEvents::Entries(entries) => {
                for entry in entries.iter().filter(|entry| entry.seq <= info.last_seq) {
                    write(&mut text, entry);
                    last = entry.seq;
                    if text.len() >= PIECE {
                        break;
                    }
                }
            }
            NextEvents::Gap { from, to } => {
                if format == "markdown" {
                    write!(text, "\n\n*(events {from} to {to} are gone)*\n\n").ok();
                } else {
                    writeln!(text, "{}", json!({"gap": {"from_seq": from, "to_seq": to}})).ok();
                }
                last = to;
            }
            NextEvents::Closed => last = info.last_seq,
        }
    }
    Ok(json!({
        "session_id": id,
        "format": format,
        "text": text,
        "last_seq": last,
        "done": last >= info.last_seq,
    }))
}

fn jsonl(text: &mut String, entry: &Entry) {
    // The line is put together by hand: what an agent printed is passed on as it is.
    let event = serde_json::to_string(&entry.event).unwrap_or_else(|_| "null".to_owned());
    let time = time::rfc3339(entry.time_ns);
    writeln!(text, r#"{{"seq":{},"turn":{},"time":"{time}","event":{event}}}"#, entry.seq, entry.turn).ok();
}

fn markdown(text: &mut String, entry: &Entry) {
    // Writing to a String cannot fail.
    match &entry.event {
        Event::TurnStarted { turn, prompt, .. } => {
            write!(text, "\n\n## Turn {turn}\n\n{}\n\n", quoted(prompt)).ok();
        }
        Event::TextDelta { text: piece } | Event::Text { text: piece, streamed: false } => text.push_str(piece),
        Event::ToolCall { name, input, .. } => {
            write!(text, "\n\n**{name}**\n\n{}\n\n", fenced("json", input.get())).ok();
        }
        Event::ToolResult { output, failed, .. } => {
            let failed = if *failed { "*failed*\n\n" } else { "" };
            write!(text, "\n\n{failed}{}\n\n", fenced("", output)).ok();
        }
        Event::PermissionAsked { summary, .. } => {
            write!(text, "\n\n*Asks for permission: {}*\n\n", one_line(summary)).ok();
        }
        Event::PermissionAnswered { decision, .. } => {
            write!(text, "\n\n*Answered: {}*\n\n", super::updates::word(decision)).ok();
        }
        Event::Error { message } => {
            write!(text, "\n\n*Error: {}*\n\n", one_line(message)).ok();
        }
        Event::TurnEnded { outcome: TurnOutcome::Completed, .. } => text.push('\n'),
        Event::TurnEnded { turn, outcome, text: reason, .. } => {
            let word = if *outcome == TurnOutcome::Failed { "failed" } else { "was cancelled" };
            write!(text, "\n\n*Turn {turn} {word}: {}*\n", one_line(reason)).ok();
        }
        _ => {}
    };
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A block that nothing inside can end: its fence is longer than any run of backticks in it.
fn fenced(kind: &str, text: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{kind}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use hostel_agents::Raw;

    use super::*;

    fn entry(seq: u64, event: Event) -> Entry {
        Entry { seq, turn: 1, time_ns: 0, event }
    }

    #[test]
    fn a_turn_reads_like_a_conversation() {
        let mut text = String::new();
        for event in [
            Event::TurnStarted { turn: 1, prompt: "a\nb".into(), door: "native".into() },
            Event::TextDelta { text: "Hel".into() },
            Event::TextDelta { text: "lo".into() },
            Event::Text { text: "Hello".into(), streamed: true },
            Event::ToolCall { id: "c".into(), name: "Bash".into(), input: Raw::null() },
            Event::ToolResult { id: "c".into(), name: "Bash".into(), output: "```\n".into(), failed: true },
            Event::TurnEnded {
                turn: 1,
                outcome: TurnOutcome::Failed,
                text: "no\nmore".into(),
                usage: hostel_agents::Usage::default(),
            },
        ] {
            markdown(&mut text, &entry(1, event));
        }
        let expected = "\n\n## Turn 1\n\n> a\n> b\n\nHello\n\n**Bash**\n\n```json\nnull\n```\n\n\n\n*failed*\n\n````\n```\n````\n\n\n\n*Turn 1 failed: no more*\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_are_json_with_their_numbers() {
        let mut text = String::new();
        jsonl(&mut text, &entry(7, Event::Notice { message: "x\ny".into() }));
        let value: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(value["seq"], 7);
        assert_eq!(value["event"]["notice"]["message"], "x\ny");
        assert_eq!(text.lines().count(), 1);
    }
}
