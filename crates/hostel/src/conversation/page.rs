//! A session as it looks in a terminal: updates in, text for our two streams out.
//!
//! Invariant: nothing an agent wrote reaches a stream unless `text` has made it harmless, colour never outlives the
//! piece it was begun in, and a block of a new kind starts on a line of its own.
//!
//! It decides how things look and nothing else: it does no input or output and knows no clock.

use std::collections::VecDeque;
use std::time::Duration;

use hostel_doors::native::protocol::StreamName;
use serde_json::Value;

use super::summary;
use super::update::Outcome;
use super::update::Question;
use super::update::Step;
use super::update::Update;
use super::update::Usage;
use super::update::What;
use super::words::LONG;
use super::words::brief;
use super::words::cost;
use super::words::shortened;
use super::words::verdict;
use crate::inbox::visible;
use crate::text;
use crate::ui::Paint;

/// Calls whose names are remembered for their results.
const CALLS: usize = 64;

/// Rows of the screen that a question leaves free: who asks, and the line that is typed.
const CHOICE_ROWS: usize = 3;

/// What the page is written on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Columns a line of ours may take.
    pub(crate) width: usize,
    /// Rows of the screen.
    pub(crate) height: usize,
    /// Whether the answer's stream takes colour.
    pub(crate) paint_text: bool,
    /// Whether the stream of everything else does.
    pub(crate) paint_aside: bool,
    /// Where everything but the answer goes.
    pub(crate) aside: StreamName,
    /// Both streams end on the same screen.
    pub(crate) joined: bool,
    /// Show what was asked, too.
    pub(crate) prompts: bool,
}

/// Something to write.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Piece {
    pub(crate) stream: StreamName,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Block {
    #[default]
    Nothing,
    Prompt,
    Text,
    Thought,
    Tool,
    Question,
    Remark,
}

impl Block {
    /// Blocks that come in pieces and are set off by blank lines.
    fn flows(self) -> bool {
        matches!(self, Block::Prompt | Block::Text | Block::Thought | Block::Question)
    }
}

/// How far one stream, or one screen, is.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    last: Block,
    /// Line ends at the very end, two at most.
    ends: usize,
}

/// The page so far.
pub(crate) struct Page {
    look: Look,
    text_lane: Lane,
    aside_lane: Lane,
    /// What was written last, on whichever stream.
    block: Block,
    /// The turn has said something.
    said: bool,
    /// The call whose line is the last one.
    open_call: Option<String>,
    calls: Vec<(String, String)>,
    started_ns: u64,
    /// The last error of the turn: its end often repeats it.
    complaint: String,
    /// Rows of the question on the screen that were not shown yet.
    unread: VecDeque<String>,
    pieces: Vec<Piece>,
}

impl Page {
    pub(crate) fn new(look: Look) -> Self {
        Page {
            look,
            text_lane: Lane::default(),
            aside_lane: Lane::default(),
            block: Block::Nothing,
            said: false,
            open_call: None,
            calls: Vec::new(),
            started_ns: 0,
            complaint: String::new(),
            unread: VecDeque::new(),
            pieces: Vec::new(),
        }
    }

    /// The terminal has another size now.
    pub(crate) fn resize(&mut self, (width, height): (usize, usize)) {
        (self.look.width, self.look.height) = (width, height);
    }

    /// Takes one update; `elapsed` is how long its turn has been followed, for updates without times.
    pub(crate) fn update(&mut self, update: &Update, elapsed: Option<Duration>) -> Vec<Piece> {
        let call = self.open_call.take();
        match &update.what {
            What::TurnStarted { prompt, door } => {
                self.said = false;
                self.started_ns = update.time_ns;
                if self.look.prompts {
                    self.prompt(update.turn, prompt, door);
                }
            }
            What::Text(chunk) => {
                self.said |= !chunk.trim().is_empty();
                self.flow(Block::Text, chunk);
            }
            What::Thought(chunk) => self.flow(Block::Thought, chunk),
            What::ToolCall { id, name, input } => self.tool_call(id, name, input),
            What::ToolResult { id, name, output, failed } => {
                let told = call.is_some_and(|call| call == *id);
                self.tool_result(id, name, output, *failed, told);
            }
            What::Asked(question) => {
                self.question(question);
                self.how_to_answer(question);
            }
            What::Answered { decision, .. } => self.answered(decision),
            What::Plan(steps) => self.plan(steps),
            What::Notice(message) => self.remark(Paint::Dim, &format!("· {}", text::printable(message.trim()))),
            What::Error(message) => {
                self.remark(Paint::Red, &format!("! {}", text::printable(message.trim())));
                message.trim().clone_into(&mut self.complaint);
            }
            What::TurnEnded { outcome, content, usage } => {
                let took = match (self.started_ns, update.time_ns) {
                    (0, _) | (_, 0) => elapsed,
                    (started, ended) => Some(Duration::from_nanos(ended.saturating_sub(started))),
                };
                self.ended(*outcome, content, usage, took);
            }
            What::Gap { from, to } => {
                self.remark(Paint::Yellow, &format!("… the updates {from} to {to} are gone"));
            }
            What::Closed => self.remark(Paint::Dim, "· the session was closed"),
            What::Replayed | What::Broken | What::Other => self.open_call = call,
        }
        std::mem::take(&mut self.pieces)
    }

    /// A question, as much of it as fits on the screen, and room for an answer.
    pub(crate) fn ask(&mut self, question: &Question) -> Vec<Piece> {
        self.unread = self.begin_question(question);
        self.read_on()
    }

    /// The next rows of a question, and room for an answer.
    pub(crate) fn read_on(&mut self) -> Vec<Piece> {
        let stream = self.look.aside;
        let rows = self.look.height.saturating_sub(CHOICE_ROWS).max(1).min(self.unread.len());
        for row in self.unread.drain(..rows).collect::<Vec<_>>() {
            self.write(stream, Paint::Plain, &format!("    {row}\n"));
        }
        self.choices();
        std::mem::take(&mut self.pieces)
    }

    /// Whether the whole question was on the screen; before that it cannot be agreed to.
    pub(crate) fn is_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// A question that nobody has to answer any more.
    pub(crate) fn past_question(&mut self, question: &Question) -> Vec<Piece> {
        self.question(question);
        std::mem::take(&mut self.pieces)
    }

    /// The line after which an answer is typed, once more.
    pub(crate) fn ask_again(&mut self) -> Vec<Piece> {
        self.choices();
        std::mem::take(&mut self.pieces)
    }

    /// Somebody agreed to what was not shown to its end.
    pub(crate) fn not_yet(&mut self) -> Vec<Piece> {
        let stream = self.look.aside;
        self.write(stream, Paint::Yellow, "  this is not all of it: read on first\n");
        self.choices();
        std::mem::take(&mut self.pieces)
    }

    /// Somebody typed a line end: ours is not needed any more.
    pub(crate) fn typed_line(&mut self) {
        self.lane(self.look.aside).ends = 1;
    }

    /// How to answer from elsewhere, for a question that cannot be answered here any more.
    pub(crate) fn elsewhere(&mut self, question: &Question) -> Vec<Piece> {
        let stream = self.look.aside;
        self.end_line(stream);
        self.how_to_answer(question);
        std::mem::take(&mut self.pieces)
    }

    /// A remark of our own. What comes in pieces goes on after it as if nothing had been said.
    pub(crate) fn note(&mut self, note: &str) -> Vec<Piece> {
        let note = text::printable(note).into_owned();
        let (block, stream) = (self.block, self.look.aside);
        let apart = block == Block::Text && stream != StreamName::Stdout && !self.look.joined;
        match block {
            Block::Text | Block::Thought if !apart => {
                self.end_line(stream);
                self.write(stream, Paint::Dim, &note);
                self.write(stream, Paint::Plain, "\n");
            }
            _ => self.remark(Paint::Dim, &note),
        }
        if apart {
            self.block = block;
        }
        std::mem::take(&mut self.pieces)
    }

    /// Ends the last line, if it is open.
    pub(crate) fn finish(&mut self) -> Vec<Piece> {
        self.end_line(StreamName::Stdout);
        self.end_line(StreamName::Stderr);
        std::mem::take(&mut self.pieces)
    }

    fn end_line(&mut self, stream: StreamName) {
        let lane = self.lane(stream);
        if lane.last != Block::Nothing && lane.ends == 0 {
            lane.ends = 1;
            self.pieces.push(Piece { stream, text: "\n".to_owned() });
        }
    }

    fn lane(&mut self, stream: StreamName) -> &mut Lane {
        let main = stream == StreamName::Stdout || self.look.joined;
        if main { &mut self.text_lane } else { &mut self.aside_lane }
    }

    /// Starts a block on its stream: on a new line, after an empty one where that reads better.
    fn begin(&mut self, stream: StreamName, block: Block) {
        self.block = block;
        let lane = self.lane(stream);
        let wanted: usize = match (lane.last, block) {
            (Block::Nothing, _) => 0,
            (last, block) if last.flows() || block.flows() => 2,
            _ => 1,
        };
        let missing = wanted.saturating_sub(lane.ends);
        lane.last = block;
        if missing > 0 {
            lane.ends = lane.ends.max(wanted);
            self.pieces.push(Piece { stream, text: "\n".repeat(missing) });
        }
    }

    fn write(&mut self, stream: StreamName, paint: Paint, written: &str) {
        if written.is_empty() {
            return;
        }
        let on = if stream == StreamName::Stdout { self.look.paint_text } else { self.look.paint_aside };
        let lane = self.lane(stream);
        let ends = written.len() - written.trim_end_matches('\n').len();
        lane.ends = if ends == written.len() { (lane.ends + ends).min(2) } else { ends.min(2) };
        self.pieces.push(Piece { stream, text: paint.apply(written, on) });
    }

    /// A piece of something that comes in pieces.
    fn flow(&mut self, block: Block, chunk: &str) {
        // A carriage return here may be the first half of a line end.
        let chunk = text::prose(chunk.strip_suffix('\r').unwrap_or(chunk));
        let (stream, paint) = match block {
            Block::Text => (StreamName::Stdout, Paint::Plain),
            _ => (self.look.aside, Paint::Dim),
        };
        let mut chunk = chunk.as_ref();
        if self.block != block {
            chunk = chunk.trim_start_matches('\n');
            if chunk.is_empty() {
                return;
            }
            self.begin(stream, block);
        }
        self.write(stream, paint, chunk);
    }

    fn line(&mut self, block: Block, parts: &[(Paint, &str)]) {
        let stream = self.look.aside;
        self.begin(stream, block);
        for (paint, part) in parts {
            self.write(stream, *paint, part);
        }
        self.write(stream, Paint::Plain, "\n");
    }

    fn remark(&mut self, paint: Paint, remark: &str) {
        self.line(Block::Remark, &[(paint, remark)]);
    }

    fn prompt(&mut self, turn: u64, prompt: &str, door: &str) {
        let stream = self.look.aside;
        self.begin(stream, Block::Prompt);
        self.write(stream, Paint::Dim, &format!("── turn {turn} · {}\n", text::printable(door)));
        let shown = shortened(prompt.trim());
        for (at, line) in shown.lines().enumerate() {
            self.write(stream, Paint::Bold, &format!("{}{line}\n", if at == 0 { "› " } else { "  " }));
        }
    }

    fn tool_call(&mut self, id: &str, name: &str, input: &Value) {
        let name = text::printable(name).into_owned();
        let room = self.look.width.saturating_sub(text::columns(&name) + 3);
        let said = summary::input(input);
        let said = text::fit(&said, room).into_owned();
        self.line(
            Block::Tool,
            &[
                (Paint::Dim, "▸ "),
                (Paint::Bold, &name),
                (Paint::Plain, if said.is_empty() { "" } else { " " }),
                (Paint::Plain, &said),
            ],
        );
        self.open_call = Some(id.to_owned());
        if self.calls.len() == CALLS {
            self.calls.remove(0);
        }
        self.calls.push((id.to_owned(), name));
    }

    fn tool_result(&mut self, id: &str, name: &str, output: &str, failed: bool, told: bool) {
        let known = self.calls.iter().position(|(call, _)| call == id).map(|at| self.calls.remove(at).1);
        let name = known.unwrap_or_else(|| text::printable(name).into_owned());
        let (first, more) = summary::output(output);
        let mut said = String::new();
        // The line above is another's: say whose result this is.
        if !told && !name.is_empty() {
            said.push_str(&name);
            said.push_str(": ");
        }
        if failed {
            said.push_str("failed");
            said.push_str(if first.is_empty() { "" } else { ": " });
        } else if first.is_empty() {
            said.push_str("done");
        }
        said.push_str(&first);
        let rest = match more {
            0 => String::new(),
            1 => " (1 more line)".to_owned(),
            more => format!(" ({more} more lines)"),
        };
        let room = self.look.width.saturating_sub(4 + rest.len());
        let said = format!("  └ {}{rest}", text::fit(&said, room));
        self.line(Block::Tool, &[(if failed { Paint::Red } else { Paint::Dim }, &said)]);
    }

    /// Shows who asks for what; returns all that the tool would get, in rows.
    fn begin_question(&mut self, question: &Question) -> VecDeque<String> {
        let tool = visible::text(&visible::word(&question.tool));
        let stream = self.look.aside;
        self.begin(stream, Block::Question);
        self.write(stream, Paint::Yellow, "? ");
        self.write(stream, Paint::Bold, &tool);
        self.write(stream, Paint::Yellow, " asks for permission\n");
        let width = self.look.width.saturating_sub(4);
        let rows = match summary::rows(&question.input, width) {
            rows if rows.is_empty() => summary::rows(&Value::String(question.summary.clone()), width),
            rows => rows,
        };
        rows.into()
    }

    /// Shows a question that cannot be answered here; what is too much is only counted.
    fn question(&mut self, question: &Question) {
        let rows = self.begin_question(question);
        let stream = self.look.aside;
        for row in rows.iter().take(LONG) {
            self.write(stream, Paint::Plain, &format!("    {row}\n"));
        }
        if rows.len() > LONG {
            let id = text::printable(super::short(&question.request_id)).into_owned();
            let more = format!("    … {} more lines: `hostel approvals show {id}`\n", rows.len() - LONG);
            self.write(stream, Paint::Yellow, &more);
        }
    }

    fn choices(&mut self) {
        let stream = self.look.aside;
        let choices = match self.unread.len() {
            0 => "  allow it? y = once, a = always, n = no: ".to_owned(),
            rows => format!("  … {rows} more lines; Enter = read on, n = no: "),
        };
        self.write(stream, Paint::Yellow, &choices);
    }

    fn how_to_answer(&mut self, question: &Question) {
        let id = text::printable(super::short(&question.request_id)).into_owned();
        let waits = match question.timeout_secs {
            0 => String::new(),
            seconds => format!("; it waits {}", text::duration(Duration::from_secs(seconds))),
        };
        let stream = self.look.aside;
        let hint = format!("  answer with `hostel approvals approve {id}` or `hostel approvals deny {id}`{waits}\n");
        self.write(stream, Paint::Yellow, &hint);
    }

    fn answered(&mut self, decision: &str) {
        let (paint, said) = verdict(decision);
        // Straight below its question, which was set off already.
        let stream = self.look.aside;
        if self.block == Block::Question {
            self.end_line(stream);
            self.write(stream, paint, &format!("  └ {said}\n"));
            // What follows is about the tool that was asked for.
            self.block = Block::Tool;
            self.lane(stream).last = Block::Tool;
            return;
        }
        self.line(Block::Tool, &[(paint, &format!("  └ {said}"))]);
    }

    fn plan(&mut self, steps: &[Step]) {
        if steps.is_empty() {
            return;
        }
        let done = steps.iter().filter(|step| step.status == "completed").count();
        let now = steps
            .iter()
            .find(|step| step.status == "in_progress")
            .or_else(|| steps.iter().find(|step| step.status != "completed"));
        let now = now.map(|step| format!(", now: {}", text::printable(step.content.trim()))).unwrap_or_default();
        let line = format!("· plan: {done} of {} done{now}", steps.len());
        let line = text::fit(&line, self.look.width).into_owned();
        self.line(Block::Tool, &[(Paint::Dim, &line)]);
    }

    fn ended(&mut self, outcome: Outcome, content: &str, usage: &Usage, took: Option<Duration>) {
        // An agent that does not stream says everything at the end.
        if outcome == Outcome::Completed && !self.said && !content.trim().is_empty() {
            self.flow(Block::Text, content);
        }
        self.end_line(StreamName::Stdout);
        let took =
            took.map(|took| format!(" {} {}", if outcome == Outcome::Completed { "in" } else { "after" }, brief(took)));
        let took = took.unwrap_or_default();
        let cost = cost(usage);
        let cost = if cost.is_empty() { cost } else { format!(" · {cost}") };
        let repeated = std::mem::take(&mut self.complaint) == content.trim();
        let reason = if repeated { String::new() } else { text::prose(content.trim()).replace('\n', "\n  ") };
        match outcome {
            Outcome::Completed => self.remark(Paint::Dim, &format!("✓ done{took}{cost}")),
            Outcome::Failed => {
                let colon = if reason.is_empty() { "" } else { ": " };
                self.remark(Paint::Red, &format!("✗ failed{took}{colon}{reason}"));
                self.cost_of_what_did_not_end(&cost);
            }
            Outcome::Cancelled => {
                let colon = if reason.is_empty() { "" } else { ": " };
                self.remark(Paint::Yellow, &format!("■ cancelled{took}{colon}{reason}"));
                self.cost_of_what_did_not_end(&cost);
            }
        }
        self.block = Block::Nothing;
        self.said = false;
        self.started_ns = 0;
    }

    fn cost_of_what_did_not_end(&mut self, cost: &str) {
        if !cost.is_empty() {
            self.remark(Paint::Dim, &format!(" {cost}"));
        }
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
