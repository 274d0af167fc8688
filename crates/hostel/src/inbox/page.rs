//! A request in full, as lines of a width: who asks, what exactly, why, and what to look at twice.
//!
//! Invariant: everything that decides what will happen is on the page, nothing is cut, and nothing foreign stands in
//! our own columns: labels and numbers are ours, foreign text is indented past them on every row.
//!
//! Pure: the same page is painted by the full-screen face and printed by `hostel approvals show`.

use serde_json::Value;

use super::hints::Level;
use super::hints::hints;
use super::request::File;
use super::request::Interpreter;
use super::request::NamedFile;
use super::request::Pipeline;
use super::request::Request;
use super::request::Writers;
use super::visible;
use super::visible::Mark;
use super::visible::Tone;
use crate::conversation::wire::moment;
use crate::conversation::wire::moment_ns;
use crate::text;

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    Plain,
    Strong,
    Dim,
    Accent,
    Danger,
    Caution,
    Meta,
    Escape,
}

/// Text of one look.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) look: Look,
}

/// One line.
pub(crate) type Line = Vec<Span>;

/// Columns of the labels, where there is room for them.
const LABEL: usize = 10;

/// Narrower than this, labels stand above what they belong to.
const NARROW: usize = 56;

pub(crate) fn span(text: impl Into<String>, look: Look) -> Span {
    Span { text: text.into(), look }
}

/// Marks of one row as spans.
pub(crate) fn spans(marks: &[Mark]) -> Line {
    let mut line: Line = Vec::new();
    let end = marks.iter().rposition(|mark| *mark != Mark::Blank).map_or(0, |last| last + 1);
    for mark in marks.iter().take(end) {
        let look = match mark.tone() {
            Tone::Plain => Look::Plain,
            Tone::Meta => Look::Meta,
            Tone::Faint => Look::Dim,
            Tone::Escape => Look::Escape,
        };
        if *mark == Mark::Break {
            continue;
        }
        match line.last_mut() {
            Some(last) if last.look == look => mark.write(&mut last.text),
            _ => {
                let mut text = String::new();
                mark.write(&mut text);
                line.push(Span { text, look });
            }
        }
    }
    line
}

/// The whole request.
pub(crate) fn page(request: &Request, width: usize) -> Vec<Line> {
    let mut sheet = Sheet { width: width.max(20), lines: Vec::new() };
    sheet.title(request);
    sheet.hints(request);
    if let Some(pipeline) = request.pipeline() {
        sheet.pipeline(&pipeline);
    } else if let Some((text, details)) = request.question() {
        sheet.field("asks", &visible::prose(text));
        if !details.is_empty() {
            sheet.field("details", &visible::prose(details));
        }
    } else if let Some(text) = request.letter("text") {
        sheet.letter(request, text);
    } else if request.kind.is_empty() || request.kind == "agent_tool" {
        sheet.field("tool", &visible::word(&request.tool));
        sheet.input(&request.input);
    } else {
        sheet.field("subject", &visible::code(&pretty(&request.subject)));
    }
    sheet.who(request);
    sheet.state(request);
    sheet.lines
}

struct Sheet {
    width: usize,
    lines: Vec<Line>,
}

impl Sheet {
    fn narrow(&self) -> bool {
        self.width < NARROW
    }

    fn indent(&self) -> usize {
        if self.narrow() { 2 } else { LABEL }
    }

    fn blank(&mut self) {
        self.lines.push(Vec::new());
    }

    /// A label, and beside or below it marks broken to what is left of the width.
    fn field(&mut self, label: &str, marks: &[Mark]) {
        let rows = visible::rows(marks, self.width.saturating_sub(self.indent()));
        self.rows(label, rows.iter().map(|row| spans(row)).collect());
    }

    /// The same in our own words.
    fn fact(&mut self, label: &str, text: &str, look: Look) {
        let rows = visible::rows(&ours(text), self.width.saturating_sub(self.indent()));
        let lines = rows.iter().map(|row| vec![span(visible::text(row).trim_end(), look)]).collect();
        self.rows(label, lines);
    }

    fn rows(&mut self, label: &str, rows: Vec<Line>) {
        let indent = self.indent();
        if self.narrow() && !label.is_empty() {
            self.lines.push(vec![span(label, Look::Dim)]);
        }
        for (position, row) in rows.into_iter().enumerate() {
            let gutter = match position {
                0 if !self.narrow() => format!("{label:<indent$}"),
                _ => " ".repeat(indent),
            };
            let mut line = vec![span(gutter, Look::Dim)];
            line.extend(row);
            self.lines.push(line);
        }
    }

    fn title(&mut self, request: &Request) {
        let text = match request.kind.as_str() {
            "privileged_pipeline" => "Run as root?",
            "pipeline" => "Run this?",
            "question" => "A question",
            "mesh_message" => "Put this message to an agent?",
            _ => "Let an agent use this tool?",
        };
        self.lines.push(vec![span(text, Look::Accent)]);
    }

    /// A message with all it says: whoever agrees has read it.
    fn letter(&mut self, request: &Request, text: &str) {
        let part = |key| request.letter(key).unwrap_or_default();
        self.field("from", &visible::word(part("from")));
        self.field("key", &visible::word(part("from_key")));
        self.field("mesh", &visible::word(part("mesh")));
        self.field("to", &visible::word(part("name")));
        self.field("message", &visible::word(part("message_id")));
        if !part("reply_to").is_empty() {
            self.field("answers", &visible::word(part("reply_to")));
        }
        self.field("text", &visible::prose(text));
    }

    fn hints(&mut self, request: &Request) {
        let found = hints(request);
        for hint in &found {
            let (sign, look) = match hint.level {
                Level::Danger => ("▲ ", Look::Danger),
                Level::Caution => ("△ ", Look::Caution),
            };
            for (position, row) in visible::rows(&ours(&hint.text), self.width.saturating_sub(2)).iter().enumerate() {
                let sign = if position == 0 { sign } else { "  " };
                self.lines.push(vec![span(sign, look), span(visible::text(row).trim_end(), look)]);
            }
        }
        self.blank();
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        let several = pipeline.stages.len() > 1;
        for (position, stage) in pipeline.stages.iter().enumerate() {
            let label = if several { format!("stage {}", position + 1) } else { "command".to_owned() };
            if position > 0 {
                self.fact("", "its output goes on to:", Look::Dim);
            }
            self.words(&label, &stage.argv);
            self.file("file", &stage.file);
            for interpreter in &stage.file.interpreters {
                let label = if interpreter.loader { "loaded by" } else { "run by" };
                self.file(label, &File { path: named_path(interpreter), ..interpreter.file.clone() });
            }
            for file in &stage.named {
                self.named(file);
            }
            if stage.names_more {
                self.fact("", "the arguments may name more files than were examined", Look::Danger);
            }
        }
        let by = match (pipeline.privileged, pipeline.by.as_deref()) {
            (true, Some("pkexec")) => "root, through pkexec",
            (true, _) => "root, through sudo",
            (false, _) => "you",
        };
        let agent = if pipeline.forward_agent { ", with your SSH agent" } else { "" };
        let mut place = ours(&format!("{by}{agent}, in "));
        place.extend(visible::word(&pipeline.cwd));
        self.field("as", &place);
        // Blanks inside a value are visible, so blanks can stand between variables.
        let mut variables = Vec::new();
        for (position, variable) in pipeline.env.iter().enumerate() {
            if position > 0 {
                variables.extend([Mark::Blank, Mark::Blank]);
            }
            variables.extend(visible::word(&variable.name));
            variables.push(Mark::Plain('='));
            variables.extend(visible::word(&variable.value));
        }
        if variables.is_empty() {
            self.fact("env", "empty", Look::Dim);
        } else {
            self.field("env", &variables);
        }
    }

    /// Words as a numbered list; the program is number 0, as programs count.
    fn words(&mut self, label: &str, words: &[String]) {
        let digits = words.len().saturating_sub(1).to_string().len();
        let room = self.width.saturating_sub(self.indent() + digits + 2);
        let mut lines = Vec::new();
        for (number, word) in words.iter().enumerate() {
            for (row, marks) in visible::rows(&visible::word(word), room).iter().enumerate() {
                let gutter = if row == 0 { format!("{number:>digits$}  ") } else { " ".repeat(digits + 2) };
                let mut line = vec![span(gutter, Look::Dim)];
                line.extend(spans(marks));
                // The program is what matters most.
                if number == 0 {
                    for span in line.iter_mut().skip(1).filter(|span| span.look == Look::Plain) {
                        span.look = Look::Strong;
                    }
                }
                lines.push(line);
            }
        }
        self.rows(label, lines);
    }

    fn file(&mut self, label: &str, file: &File) {
        if let Some(why) = &file.missing {
            let mut marks = if file.path.is_empty() { Vec::new() } else { visible::word(&file.path) };
            marks.extend(ours(if marks.is_empty() { "cannot be run: " } else { " cannot be run: " }));
            marks.extend(visible::prose(why));
            self.field(label, &marks);
            return;
        }
        if file.path.is_empty() {
            return;
        }
        let mut marks = visible::word(&file.path);
        if file.target != file.path && !file.target.is_empty() {
            marks.extend(ours(" → "));
            marks.extend(visible::word(&file.target));
        }
        marks.extend(ours(&format!(", inode {}, {}, sha256", file.inode, text::size(file.size))));
        self.field(label, &marks);
        self.digest(&file.digest);
        self.changes(file.changed, &file.writers);
        for library in &file.libraries {
            let mut marks = ours("libraries in ");
            marks.extend(visible::word(&library.path));
            self.field("loads", &marks);
            self.changes(false, &library.writers);
        }
    }

    fn digest(&mut self, digest: &str) {
        let rows = visible::rows(&visible::word(digest), self.width.saturating_sub(self.indent()));
        self.rows("", rows.iter().map(|row| vec![span(visible::text(row), Look::Dim)]).collect());
    }

    /// A file that a word of the command names.
    fn named(&mut self, file: &NamedFile) {
        let mut marks = ours(&format!("word {} ", file.word));
        marks.extend(visible::word(&file.path));
        marks.extend(ours(match (file.directory, file.code) {
            (true, true) => ", a directory whose content is run",
            (true, false) => ", a directory",
            (false, true) => ", which is run",
            (false, false) => "",
        }));
        self.field("names", &marks);
        if let Some(digest) = &file.digest {
            self.digest(digest);
        }
        self.changes(file.changed, &file.writers);
    }

    /// That a file has changed, or can be.
    fn changes(&mut self, has_changed: bool, writers: &Writers) {
        if has_changed {
            self.fact("", "it is not the file that was asked for any more", Look::Danger);
        }
        if let Some((who, reason)) = writers.warning() {
            let reason = visible::text(&visible::prose(reason));
            self.fact("", &format!("{who}{reason}"), Look::Caution);
        }
    }

    /// What a tool would get, field by field.
    fn input(&mut self, input: &Value) {
        match input {
            Value::Null => {}
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.value(key, value);
                }
            }
            other => self.field("input", &visible::code(&pretty(other))),
        }
    }

    fn value(&mut self, key: &str, value: &Value) {
        let text = match value {
            Value::String(text) => text.clone(),
            other => pretty(other),
        };
        let key = visible::word(key);
        let width: usize = key.iter().map(|mark| mark.width()).sum();
        // A short name of plain letters can be the label; any other is foreign text like the rest.
        let plain = key.iter().all(|mark| matches!(mark, Mark::Plain(letter) if letter.is_ascii()));
        if plain && width < LABEL && !self.narrow() {
            self.field(&visible::text(&key), &visible::code(&text));
        } else {
            self.field("", &key);
            let rows = visible::rows(&visible::code(&text), self.width.saturating_sub(self.indent() + 2));
            let lines = rows.iter().map(|row| {
                let mut line = vec![span("  ", Look::Plain)];
                line.extend(spans(row));
                line
            });
            self.rows("", lines.collect());
        }
    }

    fn who(&mut self, request: &Request) {
        let requester = &request.requester;
        // Blanks in what they tell are visible, so that it cannot go on in our words.
        let mut session = match (requester.session.as_str(), request.session_id.as_str()) {
            ("", "") => Vec::new(),
            ("", session) | (session, _) => visible::word(session),
        };
        if !requester.host.is_empty() {
            session.extend(ours(" on "));
            session.extend(visible::word(&requester.host));
        }
        if request.turn > 0 {
            session.extend(ours(&format!(", turn {}", request.turn)));
        }
        if !requester.door.is_empty() {
            session.extend(ours(if session.is_empty() { "by " } else { ", by " }));
            session.extend(visible::word(&requester.door));
        }
        if !requester.client.is_empty() {
            session.push(Mark::Blank);
            session.extend(visible::word(&requester.client));
        }
        if !request.reason.is_empty() {
            self.field("because", &visible::prose(&request.reason));
        }
        if !session.is_empty() {
            self.field("session", &session);
        }
        let mut process = Vec::new();
        if let Some(pid) = requester.pid {
            process = ours(&format!("{pid} "));
            process.extend(visible::word(&requester.program));
            if let Some(root) = requester.root_pid.filter(|root| *root != pid) {
                process.extend(ours(&format!(", below {root}")));
            }
            if let Some(uid) = requester.uid {
                process.extend(ours(&format!(", user {uid}")));
            }
        }
        match (process.is_empty(), requester.cwd.as_str()) {
            (true, "") => {}
            (true, cwd) => self.field("in", &visible::word(cwd)),
            (false, cwd) => {
                if !cwd.is_empty() {
                    process.extend(ours(", in "));
                    process.extend(visible::word(cwd));
                }
                self.field("process", &process);
            }
        }
    }

    fn state(&mut self, request: &Request) {
        let mut id = visible::word(&request.id);
        if request.created_ns() > 0 {
            id.extend(ours(&format!(" of {}", moment(request.created_ns()))));
        }
        self.field("request", &id);
        if request.pending() {
            return;
        }
        let mut state = visible::word(&request.state);
        let at = moment(moment_ns(&request.decided_at));
        if let Some(by) = request.decider.as_deref().filter(|by| !by.is_empty()) {
            state.extend(ours(" by "));
            state.extend(visible::prose(by));
        }
        if !at.is_empty() {
            state.extend(ours(&format!(", {at}")));
        }
        self.field("state", &state);
        if let Some(rule) = request.rule.as_deref().filter(|rule| !rule.is_empty()) {
            self.field("rule", &visible::prose(rule));
        }
        if let Some(outcome) = &request.outcome {
            self.field("outcome", &visible::code(&outcome_words(outcome)));
        } else if matches!(request.run.as_str(), "due" | "started") {
            self.fact("outcome", "not known yet", Look::Dim);
        }
    }
}

/// Our own words, or what was made visible before, as marks.
pub(crate) fn ours(text: &str) -> Vec<Mark> {
    text.chars().map(|letter| if letter == ' ' { Mark::Blank } else { Mark::Plain(letter) }).collect()
}

/// The path of an interpreter, or what its script calls it.
fn named_path(interpreter: &Interpreter) -> String {
    if interpreter.file.path.is_empty() { interpreter.name.clone() } else { interpreter.file.path.clone() }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// How an execution ended, in words; as it came where it is not understood.
pub(crate) fn outcome_words(outcome: &Value) -> String {
    let said = |key: &str| outcome.pointer(&format!("/end/{key}"));
    let why = || said("why").or_else(|| said("what")).and_then(Value::as_str).unwrap_or_default().to_owned();
    match said("word").and_then(Value::as_str) {
        Some("finished") => {
            let codes: Vec<String> = outcome["stages"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|stage| match stage["signal"].as_i64() {
                    Some(signal) => format!("signal {signal}"),
                    None => format!("exit {}", stage["exit_code"]),
                })
                .collect();
            codes.join(", ")
        }
        Some("cannot_start") => format!(
            "could not be started: {}",
            std::io::Error::from_raw_os_error(
                said("errno").and_then(Value::as_i64).unwrap_or(0).try_into().unwrap_or(0)
            )
        ),
        Some("timed_out") => format!("took too long, killed after {} s", said("secs").unwrap_or(&Value::Null)),
        Some("changed") => format!("refused: {}", why()),
        Some("killed") => format!("killed: {}", why()),
        Some("not_run") => format!("not run: {}", why()),
        Some("lost") => format!("what became of it is not known: {}", why()),
        _ => outcome.to_string(),
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
