//! The question as it stands on the terminal: who asks, why, what exactly, and which files will run.
//!
//! Guarantee: nothing is left out. Every foreign character goes through [`visible`]. What does not fit on the screen is
//! split into pages, each of which fits, so that nothing a requester sends scrolls anything away: the question follows the
//! last page, and whoever shows the pages waits for a key after each of the others.
//!
//! It reads nothing from the terminal and decides nothing.

use hostel_house::approvals::Approval;
use hostel_house::approvals::Kind;
use hostel_house::pipelines::LibraryPath;
use hostel_house::pipelines::NamedFile;
use hostel_house::pipelines::Pipeline;
use hostel_house::pipelines::Resolved;
use hostel_house::pipelines::Stage;
use hostel_house::pipelines::Writers;
use hostel_house::pipelines::hex_of;

use super::super::digest::Style;
use crate::inbox::page::ours;
use crate::inbox::visible;
use crate::inbox::visible::Mark;

/// What a terminal that does not tell is taken for.
const USUAL: Size = Size { rows: 24, columns: 80 };

/// Rows of a page, and columns of a row, on the smallest screen.
const LEAST: Size = Size { rows: 4, columns: 20 };

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
            _ => Size { rows: usize::from(rows).max(LEAST.rows), columns: usize::from(columns).max(LEAST.columns) },
        }
    }

    /// Rows a line of so many columns takes.
    fn rows_of(self, columns: usize) -> usize {
        columns.div_ceil(self.columns).max(1)
    }
}

/// What a question depends on besides the request.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    /// The answer that holds for the whole session is offered.
    pub(super) always: bool,
    /// How long there is to answer.
    pub(super) seconds: u64,
    pub(super) size: Size,
    pub(super) style: Style,
}

/// A question, ready to be written.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Question {
    /// What it is about, page by page; at least one, and the last is followed by the question.
    pub(super) pages: Vec<String>,
    /// The question itself, up to where the key is pressed.
    pub(super) ask: String,
}

/// How a line is set off.
#[derive(Clone, Copy)]
enum Weight {
    Plain,
    Bold,
    Dim,
}

/// One line: what it is, and what it says.
struct Line {
    label: &'static str,
    marks: Vec<Mark>,
    weight: Weight,
}

impl Line {
    fn width(&self) -> usize {
        self.label.len() + self.marks.iter().map(|mark| mark.width()).sum::<usize>()
    }

    fn paint(&self, style: Style, text: &str) -> String {
        let (start, end) = match self.weight {
            Weight::Plain => ("", ""),
            Weight::Bold => (style.bold, style.reset),
            Weight::Dim => (style.dim, style.reset),
        };
        format!("{start}{text}{end}")
    }

    /// All of it as one line, however long.
    fn whole(&self, style: Style) -> String {
        format!("{}{}", self.label, self.paint(style, &visible::text(&self.marks)))
    }

    /// The same in rows of a width; the label stands before the first.
    fn rows(&self, style: Style, columns: usize) -> Vec<String> {
        let indent = " ".repeat(self.label.len());
        let rows = visible::rows(&self.marks, columns.saturating_sub(self.label.len()));
        let row = |(position, marks): (usize, &Vec<Mark>)| {
            let label = if position == 0 { self.label } else { &indent };
            format!("{label}{}", self.paint(style, visible::text(marks).trim_end()))
        };
        rows.iter().enumerate().map(row).collect()
    }
}

/// The question about a request; nothing if there is no pipeline to ask about.
pub(super) fn render(approval: &Approval, asking: &Asking) -> Question {
    let Some(pipeline) = approval.subject.pipeline() else { return Question::default() };
    let Style { bold, reset, .. } = asking.style;
    let (ask, choices) = match (approval.kind, asking.always) {
        (Kind::Privileged, _) => ("Execute as root?", "[y/N]"),
        (_, false) => ("Execute?", "[y/N]"),
        (_, true) => ("Execute?", "[y/N/a]"),
    };
    let ask = format!("{ask} {choices} ({}s timeout, default=N) ", asking.seconds);
    let lines = lines(approval, pipeline, asking.always);
    let head = format!("\n{bold}━━━ Privilege Request ━━━{reset}\n");
    let size = asking.size;
    // The empty line, the heading, and the row of the question.
    let room = size.rows.saturating_sub(2 + size.rows_of(ask.len()));
    if lines.iter().map(|line| size.rows_of(line.width())).sum::<usize>() <= room {
        let about: String = lines.iter().map(|line| line.whole(asking.style) + "\n").collect();
        return Question { pages: vec![head + &about], ask };
    }
    let rows: Vec<String> = lines.iter().flat_map(|line| line.rows(asking.style, size.columns)).collect();
    let pages: Vec<String> = rows.chunks(room.max(1)).map(|rows| format!("{head}{}\n", rows.join("\n"))).collect();
    Question { pages, ask }
}

/// The line under a page that is not the last.
pub(super) fn more(page: usize, pages: usize, style: Style) -> String {
    let Style { dim, reset, .. } = style;
    format!("{dim}page {page} of {pages}: Space shows the next, n denies{reset} ")
}

fn lines(approval: &Approval, pipeline: &Pipeline, always: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add = |label, marks, weight| lines.push(Line { label, marks, weight });
    let requester = &approval.requester;
    let host = if requester.host.is_empty() { "local" } else { &requester.host };
    let session = if requester.session.is_empty() { "unknown" } else { &requester.session };
    let from = [prose(session), ours(" @ "), prose(host)].concat();
    add("From:    ", from, Weight::Plain);
    let client = if requester.client.is_empty() { "(unknown)" } else { &requester.client };
    add("Client:  ", [ours("sudo-proxy "), prose(client)].concat(), Weight::Plain);
    if let Some(peer) = &requester.peer {
        let process = [prose(&peer.program), ours(&format!(" (process {})", peer.pid))].concat();
        add("Process: ", process, Weight::Plain);
    }
    add("Time:    ", ours(&time(approval.created_ns)), Weight::Plain);
    add("ID:      ", prose(approval.told_id()), Weight::Plain);
    if !approval.reason.is_empty() {
        add("Reason:  ", prose(&approval.reason), Weight::Bold);
    }
    add("Env:     ", environment(pipeline), Weight::Plain);
    let words = pipeline.stages.iter().map(|stage| stage.argv.iter().map(String::as_str));
    let mut command = flat(visible::command(words));
    if pipeline.forward_agent {
        command.extend(ours(" (agent forwarded)"));
    }
    add("Command: ", command, Weight::Bold);
    for (position, stage) in pipeline.stages.iter().enumerate() {
        files(stage, position == 0, &mut add);
    }
    if approval.kind != Kind::Privileged && always {
        let text = "a = approve and allow unprivileged on this host for this session (not saved)";
        add("", ours(text), Weight::Dim);
    }
    lines
}

/// The files of a stage: what it runs, what runs that, what its words name, and who can change any of it.
fn files(stage: &Stage, is_first: bool, add: &mut impl FnMut(&'static str, Vec<Mark>, Weight)) {
    match &stage.file {
        Resolved::Found { path, target, writers, digest, .. } => {
            add("Resolves: ", resolved(path, target), Weight::Plain);
            if let Some(warning) = changeable(writers) {
                add("Warning:  ", warning, Weight::Bold);
                add("Digest:   ", ours(&format!("sha256 {}", hex_of(digest))), Weight::Plain);
            }
        }
        Resolved::Missing { errno, .. } if is_first => {
            add("Resolves: ", ours(&format!("({})", missing(*errno))), Weight::Bold);
        }
        Resolved::Missing { errno, .. } => {
            let word = stage.argv.first().map_or("", String::as_str);
            add("Warning:  ", [prose(word), ours(&format!(" {}", missing(*errno)))].concat(), Weight::Bold);
        }
    }
    for interpreter in stage.file.interpreters() {
        let label = if interpreter.is_loader { "Loader:   " } else { "Run by:   " };
        match &interpreter.file {
            Resolved::Found { path, target, writers, .. } => {
                add(label, resolved(path, target), Weight::Plain);
                if let Some(warning) = changeable(writers) {
                    add("Warning:  ", warning, Weight::Bold);
                }
            }
            Resolved::Missing { errno, .. } => {
                let what = ours(&format!(" {}", missing(*errno)));
                add(label, [prose(&interpreter.name), what].concat(), Weight::Bold);
            }
        }
    }
    let programs = std::iter::once(&stage.file).chain(stage.file.interpreters().iter().map(|found| &found.file));
    for LibraryPath { path, writers } in programs.flat_map(Resolved::libraries) {
        let place = visible::bytes(path.as_os_str().as_encoded_bytes());
        add("Loads:    ", [ours("libraries in "), place].concat(), Weight::Plain);
        if let Some(warning) = changeable(writers) {
            add("Warning:  ", warning, Weight::Bold);
        }
    }
    for NamedFile { path, writers, is_code, .. } in &stage.named {
        add("Names:    ", visible::bytes(path.as_os_str().as_encoded_bytes()), Weight::Plain);
        if let Some(warning) = changeable(writers) {
            add("Warning:  ", warning, if *is_code { Weight::Bold } else { Weight::Plain });
        }
    }
    if stage.names_more {
        add("Warning:  ", ours("the arguments may name more files than were examined"), Weight::Bold);
    }
}

/// Where a file was found and, if that is a link, what it is.
fn resolved(path: &std::path::Path, target: &std::path::Path) -> Vec<Mark> {
    let show = |path: &std::path::Path| visible::bytes(path.as_os_str().as_encoded_bytes());
    match path == target {
        true => show(path),
        false => [show(path), ours(" -> "), show(target)].concat(),
    }
}

/// That somebody besides root can change a file, and why.
fn changeable(writers: &Writers) -> Option<Vec<Mark>> {
    let who = match writers {
        Writers::OnlyRoot => return None,
        Writers::Requester(_) => "the requester can change this file: ",
        Writers::Others(_) | Writers::Unknown => "others than root can change this file: ",
    };
    Some([ours(who), prose(writers.reason().unwrap_or_default())].concat())
}

fn missing(errno: i32) -> &'static str {
    const NOT_FOUND: i32 = 2;
    match errno {
        NOT_FOUND => "not found in PATH",
        _ => "cannot be run",
    }
}

/// Every variable that the commands get. The ssh agent's is named by the command.
fn environment(pipeline: &Pipeline) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (name, value) in &pipeline.env {
        if !marks.is_empty() {
            marks.push(Mark::Blank);
        }
        marks.extend(visible::word(name));
        marks.push(Mark::Plain('='));
        if !value.is_empty() {
            marks.extend(visible::word(value));
        }
    }
    flat(marks)
}

/// Foreign text on one line.
fn prose(text: &str) -> Vec<Mark> {
    flat(visible::prose(text))
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

    fn line(label: &'static str, text: &str) -> Line {
        Line { label, marks: prose(text), weight: Weight::Bold }
    }

    #[test]
    fn a_field_is_one_line() {
        assert_eq!(visible::text(&prose("one\ntwo\r\u{1b}[2J")), "one⟨LF⟩two⟨CR⟩⟨ESC⟩[2J");
        assert_eq!(line("Reason:  ", "why").whole(Style::PLAIN), "Reason:  why");
    }

    #[test]
    fn rows_hold_everything_and_fit() {
        let text = format!("{} and {}", "x".repeat(50), "y".repeat(5));
        let rows = line("Reason:  ", &text).rows(Style::PLAIN, 20);
        assert!(rows.iter().all(|row| row.chars().count() <= 20), "{rows:?}");
        assert!(rows[0].starts_with("Reason:  x") && rows[1..].iter().all(|row| row.starts_with("         ")));
        let joined: String = rows.iter().map(|row| row[9..].to_owned()).collect();
        assert_eq!(joined.matches('x').count() + joined.matches('y').count(), 55);
    }

    #[test]
    fn a_terminal_without_a_size_is_taken_for_a_usual_one() {
        assert_eq!(Size::told(0, 100), USUAL);
        assert_eq!(Size::told(30, 0), USUAL);
        assert_eq!(Size::told(1, 1), LEAST);
        let size = Size::told(50, 40);
        assert_eq!([size.rows_of(0), size.rows_of(40), size.rows_of(41)], [1, 1, 2]);
    }

    #[test]
    fn times_are_the_contracts() {
        assert_eq!(time(1_771_000_200_123_456_789), "2026-02-13T16:30:00Z");
    }
}
