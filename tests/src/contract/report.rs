//! What is shown of a case that failed.

use std::fmt::Write as _;

use crate::binary;

use super::script::{Case, Script, Step};

/// Longer texts are shown with their ends only.
const MAX_SHOWN_BYTES: usize = 2000;
/// So many of the last lines that were sent or received are shown.
const MAX_SHOWN_LINES: usize = 40;
/// So many of the last lines of the daemon's log are shown.
const LOG_TAIL_LINES: usize = 30;

/// What was sent and received on one connection.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    lines: Vec<String>,
}

impl Exchange {
    /// Notes something that was sent.
    pub fn sent(&mut self, text: &str) {
        self.lines.push(format!("> {}", shorten(text)));
    }

    /// Notes something that was received. A response that is looked at again is noted once.
    pub fn received(&mut self, text: &str) {
        let line = format!("< {}", shorten(text));
        if self.lines.last() != Some(&line) {
            self.lines.push(line);
        }
    }
}

/// The report of a case that failed at a step.
pub fn failure(
    script: &Script,
    case: &Case,
    step: &Step,
    reason: &str,
    exchange: Option<&Exchange>,
    pending: &[String],
    log: &str,
) -> String {
    let path = script.path.strip_prefix(binary::repository()).unwrap_or(&script.path);
    let (path, number, title, line) = (path.display(), step.number, &case.title, shorten(&step.line));
    let mut text = format!("{path}:{number}: {title}\n  line:     {line}\n  {reason}");
    let mut section = |title: &str, lines: &[&str]| {
        write!(text, "\n  {title}:").expect("text takes text");
        for line in lines {
            write!(text, "\n    {line}").expect("text takes text");
        }
    };
    let lines: Vec<&str> =
        exchange.map(|exchange| exchange.lines.iter().map(String::as_str).collect()).unwrap_or_default();
    let skipped = lines.len().saturating_sub(MAX_SHOWN_LINES);
    let name = if step.connection.is_empty() { "the connection" } else { &step.connection };
    let title = match skipped {
        0 => format!("on {name} so far"),
        _ => format!("on {name} so far, without the first {skipped} lines"),
    };
    section(&title, &lines[skipped..]);
    if !pending.is_empty() {
        let pending: Vec<String> = pending.iter().map(|line| shorten(line)).collect();
        let first: Vec<&str> = pending.iter().take(MAX_SHOWN_LINES).map(String::as_str).collect();
        section(&format!("received and not looked at yet ({})", pending.len()), &first);
    }
    let log: Vec<String> = log.lines().map(shorten).collect();
    let tail: Vec<&str> = log.iter().skip(log.len().saturating_sub(LOG_TAIL_LINES)).map(String::as_str).collect();
    section("end of the daemon's log", &tail);
    text
}

/// A text that fits a terminal, and does nothing to it.
pub fn shorten(text: &str) -> String {
    let visible = |character: char| match character {
        '\t' | '\n' => character.to_string(),
        _ if character.is_control() => character.escape_default().to_string(),
        _ => character.to_string(),
    };
    let text: String = text.chars().map(visible).collect();
    if text.len() <= MAX_SHOWN_BYTES {
        return text;
    }
    let head: String = text.chars().take(MAX_SHOWN_BYTES / 2).collect();
    let tail: Vec<char> = text.chars().rev().take(MAX_SHOWN_BYTES / 8).collect();
    format!("{head} …({} bytes)… {}", text.len(), tail.iter().rev().collect::<String>())
}
