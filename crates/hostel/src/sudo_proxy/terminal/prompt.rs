//! The question as it stands on the terminal: who asks, why, what exactly, and which file will run.
//!
//! Invariant: every foreign character goes through [`visible`] and every field has a bound that is told when it is
//! reached. What may be long stands before the command, and the command and all that follows it fit on the screen: nothing
//! a requester sends can scroll the command away.
//!
//! It reads nothing from the terminal and decides nothing.

use std::fmt::Write as _;

use hostel_house::approvals::Approval;
use hostel_house::approvals::Kind;
use hostel_house::pipelines::Pipeline;
use hostel_house::pipelines::Resolved;
use hostel_house::pipelines::Stage;

use super::super::digest::Style;
use crate::inbox::visible;
use crate::inbox::visible::Mark;

/// Marks of a name that are shown: session, host, id, program.
const NAME: usize = 100;

/// Marks of a reason.
const REASON: usize = 300;

/// Marks of the environment, all variables together.
const ENVIRONMENT: usize = 400;

/// Marks of a command, by contract, if the screen has room for them.
const COMMAND: usize = 1024;

/// Marks of a path.
const PATH: usize = 200;

/// Stages whose file is shown; the others are counted.
const FILES: usize = 4;

/// The least of a command that is shown on the smallest screen.
const LEAST_COLUMNS: usize = 120;

/// What a terminal that does not tell is taken for.
const USUAL: Size = Size { rows: 24, columns: 80 };

/// A terminal's size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Size {
    rows: usize,
    columns: usize,
}

impl Size {
    /// A size as a terminal tells it; zero is no size.
    pub(super) fn told(rows: u16, columns: u16) -> Self {
        match (rows, columns) {
            (0, _) | (_, 0) => USUAL,
            _ => Size { rows: rows.into(), columns: columns.into() },
        }
    }

    /// Rows a text takes that begins at the left.
    fn rows_of(self, text: &str) -> usize {
        text.lines().map(|line| crate::text::columns(line).div_ceil(self.columns).max(1)).sum()
    }
}

/// What a prompt needs to know besides the request.
#[derive(Clone, Debug)]
pub(super) struct Asking<'a> {
    /// What every command gets anyway, and nobody needs to read.
    pub(super) usual: &'a [(String, String)],
    /// The answer that holds for the whole session is offered.
    pub(super) always: bool,
    /// How long there is to answer.
    pub(super) seconds: u64,
    pub(super) size: Size,
    pub(super) style: Style,
}

/// What the question is about, and the question itself, up to where the key is pressed. Both empty if there is no
/// pipeline to ask about.
pub(super) fn render(approval: &Approval, asking: &Asking<'_>) -> (String, String) {
    let Some(pipeline) = approval.subject.pipeline() else { return (String::new(), String::new()) };
    let Style { bold, dim, reset } = asking.style;
    let mut out = format!("\n{bold}━━━ Privilege Request ━━━{reset}\n");
    let requester = &approval.requester;
    let host = if requester.host.is_empty() { "local" } else { &requester.host };
    let session = if requester.session.is_empty() { "unknown" } else { &requester.session };
    line(&mut out, "From:    ", &format!("{} @ {}", name(session), name(host)));
    let client = match requester.client.as_str() {
        "" => "(unknown)".to_owned(),
        client => name(client),
    };
    line(&mut out, "Client:  ", &format!("sudo-proxy {client}"));
    if let Some(peer) = &requester.peer {
        line(&mut out, "Process: ", &format!("{} (process {})", name(&peer.program), peer.pid));
    }
    line(&mut out, "Time:    ", &time(approval.created_ns));
    line(&mut out, "ID:      ", &name(approval.told_id()));
    if !approval.reason.is_empty() {
        let reason = bounded(&flat(visible::prose(&approval.reason)), REASON, usize::MAX, HIDDEN);
        line(&mut out, "Reason:  ", &format!("{bold}{reason}{reset}"));
    }
    let environment = environment(pipeline, asking.usual);
    if !environment.is_empty() {
        line(&mut out, "Env:     ", &bounded(&environment, ENVIRONMENT, usize::MAX, HIDDEN));
    }
    let (tail, question) = tail(approval.kind, pipeline, asking);
    let agent = if pipeline.forward_agent { format!(" {dim}(agent forwarded){reset}") } else { String::new() };
    // The row of the question is the last one; the note about what is hidden may take two.
    let rows = asking.size.rows.saturating_sub(asking.size.rows_of(&tail) + asking.size.rows_of(&question) + 2);
    let room = (rows * asking.size.columns).max(LEAST_COLUMNS);
    let command = visible::command(pipeline.stages.iter().map(|stage| stage.argv.iter().map(String::as_str)));
    let shown = bounded(&flat(command), COMMAND, room, " — full command not shown");
    line(&mut out, "Command: ", &format!("{bold}{shown}{reset}{agent}"));
    out.push_str(&tail);
    (out, question)
}

/// What follows the command: the files, what is missing; and the question.
fn tail(kind: Kind, pipeline: &Pipeline, asking: &Asking<'_>) -> (String, String) {
    let Style { bold, dim, reset } = asking.style;
    let mut out = String::new();
    for (position, stage) in pipeline.stages.iter().take(FILES).enumerate() {
        match (resolved(stage, asking.style), position) {
            (Some(file), _) => line(&mut out, "Resolves: ", &file),
            (None, 0) => line(&mut out, "Resolves: ", &format!("{bold}({}){reset}", missing(stage))),
            (None, _) => {
                let word = name(stage.argv.first().map_or("", String::as_str));
                line(&mut out, "Warning:  ", &format!("{bold}{word}{reset} {}", missing(stage)));
            }
        }
    }
    let further = pipeline.stages.get(FILES..).unwrap_or_default();
    if !further.is_empty() {
        let lost = further.iter().filter(|stage| matches!(stage.file, Resolved::Missing { .. })).count();
        let lost = if lost > 0 { format!(", {lost} of them not found") } else { String::new() };
        line(&mut out, "Warning:  ", &format!("{bold}{} more commands{lost}{reset}", further.len()));
    }
    let (question, choices) = match (kind, asking.always) {
        (Kind::Privileged, _) => ("Execute as root?", "[y/N]"),
        (_, false) => ("Execute?", "[y/N]"),
        (_, true) => {
            let text = "a = approve and allow unprivileged on this host for this session (not saved)";
            line(&mut out, "", &format!("{dim}{text}{reset}"));
            ("Execute?", "[y/N/a]")
        }
    };
    (out, format!("{question} {choices} ({}s timeout, default=N) ", asking.seconds))
}

fn line(out: &mut String, label: &str, text: &str) {
    // Writing to a string cannot fail.
    writeln!(out, "{label}{text}").unwrap_or_default();
}

/// The file a stage will run: where it was found and, if that is a link, what it is.
fn resolved(stage: &Stage, style: Style) -> Option<String> {
    let Resolved::Found { path, target, .. } = &stage.file else { return None };
    let show = |path: &std::path::Path| {
        bounded(&visible::bytes(path.as_os_str().as_encoded_bytes()), PATH, usize::MAX, HIDDEN)
    };
    let Style { bold, reset, .. } = style;
    Some(match path == target {
        true => show(path),
        false => format!("{} {bold}->{reset} {}", show(path), show(target)),
    })
}

fn missing(stage: &Stage) -> &'static str {
    const NOT_FOUND: i32 = 2;
    match &stage.file {
        Resolved::Missing { errno, .. } if *errno != NOT_FOUND => "cannot be run",
        _ => "not found in PATH",
    }
}

/// What the commands get beyond the usual. The agent is told apart.
fn environment(pipeline: &Pipeline, usual: &[(String, String)]) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (name, value) in &pipeline.env {
        let is_agent = pipeline.forward_agent && name == "SSH_AUTH_SOCK";
        if is_agent || usual.iter().any(|(known, standard)| known == name && standard == value) {
            continue;
        }
        if !marks.is_empty() {
            marks.push(Mark::Blank);
        }
        marks.extend(visible::word(name));
        marks.push(Mark::Plain('='));
        if !value.is_empty() {
            marks.extend(visible::word(value));
        }
    }
    marks
}

fn name(text: &str) -> String {
    bounded(&flat(visible::prose(text)), NAME, usize::MAX, HIDDEN)
}

/// The rest of the note about what is hidden, where there is nothing more to say.
const HIDDEN: &str = "";

/// At most so many marks and so many columns of a text, and how many marks are not shown.
fn bounded(marks: &[Mark], most: usize, columns: usize, note: &str) -> String {
    let mut used = 0;
    let fits = |mark: &&Mark| {
        used += mark.width();
        used <= columns
    };
    let shown = marks.iter().take(most).take_while(fits).count();
    let mut text = visible::text(marks.get(..shown).unwrap_or_default());
    if shown < marks.len() {
        write!(text, "… [{} more chars hidden{note}]", marks.len() - shown).unwrap_or_default();
    }
    text
}

/// Line ends as something that is seen: a field is one line.
fn flat(mut marks: Vec<Mark>) -> Vec<Mark> {
    for mark in &mut marks {
        if matches!(mark, Mark::Break | Mark::Return) {
            *mark = Mark::Escape('\n');
        }
    }
    marks
}

/// A moment as the contract writes it.
fn time(ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into())
        .map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_counted() {
        let marks = visible::word("abcdef");
        assert_eq!(bounded(&marks, 6, 6, HIDDEN), "abcdef");
        assert_eq!(bounded(&marks, 4, 80, HIDDEN), "abcd… [2 more chars hidden]");
        assert_eq!(
            bounded(&marks, 80, 3, " — full command not shown"),
            "abc… [3 more chars hidden — full command not shown]"
        );
        // An escape takes its columns whole or not at all.
        assert_eq!(bounded(&visible::word("a\u{1b}b"), 80, 5, HIDDEN), "a… [2 more chars hidden]");
        assert_eq!(bounded(&[], 0, 0, HIDDEN), "");
    }

    #[test]
    fn a_field_is_one_line() {
        assert_eq!(name("one\ntwo\r\u{1b}[2J"), "one⟨LF⟩two⟨CR⟩⟨ESC⟩[2J");
        assert_eq!(name(&"x".repeat(5000)), format!("{}… [4900 more chars hidden]", "x".repeat(100)));
    }

    #[test]
    fn a_terminal_without_a_size_is_taken_for_a_usual_one() {
        assert_eq!(Size::told(0, 100), USUAL);
        assert_eq!(Size::told(30, 0), USUAL);
        let size = Size::told(50, 10);
        assert_eq!(size.rows_of("0123456789\n\n01234567890"), 1 + 1 + 2);
    }

    #[test]
    fn times_are_the_contracts() {
        assert_eq!(time(1_771_000_200_123_456_789), "2026-02-13T16:30:00Z");
    }
}
