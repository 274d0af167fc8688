//! The conversation with one agent process: its journal, folded.
//!
//! Invariant: state changes by what is read from the journal and by nothing else, so that reading it again after a
//! crash gives the same events in the same order. Inputs are announced by marks; an input that has no mark in the
//! journal was never given. It does no I/O.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hostel_agents::{Decision, Driver, Encoded, Event, Exit, Heard, Input, Raw, Shown, TurnOver};
use hostel_journal::{Item, Stream};
use hostel_keeper::proto::MAX_STDIN_BYTES;

use super::lines::{Found, Lines, Place};
use crate::processes;

/// How much of standard error is remembered for the reason of a failure.
const STDERR_TAIL: usize = 4096;

/// The number by which an input is found again in the journal: a kind in the highest byte, a number below.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct MarkId(pub(crate) u64);

impl MarkId {
    const OWN: u64 = 1 << 56;
    const PROMPT: u64 = 2 << 56;
    const DECISION: u64 = 3 << 56;
    const INTERRUPT: u64 = 4 << 56;
    const NUMBER: u64 = (1 << 56) - 1;

    pub(crate) const fn own() -> Self {
        MarkId(Self::OWN)
    }

    pub(crate) const fn prompt(turn: u64) -> Self {
        MarkId(Self::PROMPT | (turn & Self::NUMBER))
    }

    pub(crate) const fn decision(approval: u64) -> Self {
        MarkId(Self::DECISION | (approval & Self::NUMBER))
    }

    pub(crate) const fn interrupt(turn: u64) -> Self {
        MarkId(Self::INTERRUPT | (turn & Self::NUMBER))
    }

    const fn is_prompt(self) -> bool {
        self.0 & !Self::NUMBER == Self::PROMPT
    }

    /// The input, where the mark says all there is to it.
    const fn plain(self) -> Option<Given> {
        match self.0 & !Self::NUMBER {
            Self::OWN => Some(Given::Own),
            // Also one that comes after the end of its turn: whoever reads the journal later must hear the same.
            Self::INTERRUPT => Some(Given::Interrupt),
            _ => None,
        }
    }
}

/// An input that was, or may be, given.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Own,
    Prompt { turn: u64, text: String },
    Decision { approval: String, request: String, decision: Decision, tool: Arc<ShownTool> },
    Interrupt,
}

/// What a person was shown of a call of a tool.
#[derive(Debug)]
pub(crate) struct ShownTool {
    pub(crate) tool: String,
    pub(crate) input: Raw,
}

impl Given {
    fn as_input(&self) -> Input<'_> {
        match self {
            Given::Own => Input::Own,
            Given::Prompt { turn, text } => Input::Prompt { turn: *turn, text },
            Given::Decision { request, decision, tool, .. } => {
                let shown = Some(Shown { tool: &tool.tool, input: &tool.input });
                Input::Decision { request, decision, shown }
            }
            Given::Interrupt => Input::Interrupt,
        }
    }
}

/// A state between turns, from which reading can begin.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) saved: Option<String>,
    pub(crate) place: Place,
    pub(crate) stdin: u64,
}

/// What the journal said.
pub(crate) enum Parsed {
    Event {
        time_ns: u64,
        event: Event,
    },
    /// The running turn is over.
    Over {
        time_ns: u64,
        over: TurnOver,
        at: Checkpoint,
        /// The process has ended with it: nothing comes after this.
        last: bool,
    },
    /// The process has ended; the last of all.
    Ended,
}

/// Bytes to be written to the agent.
pub(crate) struct Due {
    pub(crate) mark: MarkId,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What became of a wish to say something.
pub(crate) enum Said {
    Due(Due),
    Later,
    Signal,
    Nothing,
}

/// The conversation.
pub(crate) struct Conversation {
    driver: Box<dyn Driver>,
    lines: Lines,
    stderr: VecDeque<u8>,
    /// Bytes of standard input that marks account for.
    stdin: u64,
    /// Inputs whose marks may come, as far as a mark does not say it all.
    given: HashMap<MarkId, Given>,
    /// The rest of an input too large to be given at once.
    rest: Option<(MarkId, Vec<u8>)>,
    /// Inputs whose marks have come, of this turn.
    sent: Vec<MarkId>,
    /// The journal has a prompt of which this conversation does not know.
    has_unknown_prompt: bool,
    /// The house has signalled the process.
    pub(crate) stopped: bool,
    /// Lines that were too long to be read.
    heard: Heard,
    line_limit: usize,
    last_seq: u64,
}

impl Conversation {
    pub(crate) fn new(driver: Box<dyn Driver>, from: &Checkpoint, line_limit: usize) -> Self {
        Self {
            driver,
            lines: Lines::new(line_limit, from.place),
            stderr: VecDeque::new(),
            stdin: from.stdin,
            given: HashMap::new(),
            rest: None,
            sent: Vec::new(),
            has_unknown_prompt: false,
            stopped: false,
            heard: Heard::default(),
            line_limit,
            last_seq: from.place.seq,
        }
    }

    /// The CLI's id of the conversation, once known.
    pub(crate) fn session_id(&self) -> Option<&str> {
        self.driver.session_id()
    }

    pub(crate) fn wants_eof(&self) -> bool {
        self.rest.is_none() && self.driver.wants_eof()
    }

    /// Bytes of standard input that are accounted for.
    pub(crate) fn stdin(&self) -> u64 {
        self.stdin
    }

    /// Number of the last frame that was read.
    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Whether this input's mark has come.
    pub(crate) fn was_sent(&self, mark: MarkId) -> bool {
        self.sent.contains(&mark)
    }

    /// Whether a prompt was read that is none of the running turn. The write that ends a turn has a checkpoint behind all
    /// that belongs to it, so whoever finds one has begun at an earlier checkpoint than the last.
    pub(crate) fn has_unknown_prompt(&self) -> bool {
        self.has_unknown_prompt
    }

    /// An input that may be found in the journal.
    pub(crate) fn expect(&mut self, mark: MarkId, given: Given) {
        self.given.insert(mark, given);
    }

    /// Whether the agent can take a prompt.
    pub(crate) fn ready(&self) -> bool {
        self.rest.is_none() && self.driver.ready()
    }

    /// A new turn begins: what was given before is history, unless it is still on its way.
    pub(crate) fn begin_turn(&mut self) {
        self.sent.clear();
        self.given.retain(|_, given| matches!(given, Given::Decision { .. }));
    }

    /// Whether the agent waits for the answer to this question.
    pub(crate) fn waits_for(&self, request: &str) -> bool {
        let input = Input::Decision { request, decision: &Decision::AllowOnce, shown: None };
        self.driver.encode(&input) != Encoded::Nothing
    }

    /// Half an input was given.
    pub(crate) fn is_mid_sentence(&self) -> bool {
        self.rest.is_some()
    }

    /// The state now, to go on from later. Only between turns.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { saved: Some(self.driver.save()), place: self.lines.place(), stdin: self.stdin }
    }

    /// What is to be written before anything else: the rest of an input, or the driver's own words.
    pub(crate) fn own_words(&mut self) -> Option<Due> {
        if let Some((mark, rest)) = &self.rest {
            let piece = rest.get(..rest.len().min(MAX_STDIN_BYTES)).unwrap_or_default().to_vec();
            return Some(Due { mark: *mark, offset: self.stdin, bytes: piece });
        }
        let bytes = self.driver.wants()?;
        Some(self.due(MarkId::own(), bytes))
    }

    /// An input in the agent's words.
    pub(crate) fn say(&mut self, mark: MarkId, given: Given) -> Said {
        match self.driver.encode(&given.as_input()) {
            Encoded::Bytes(bytes) => {
                self.given.insert(mark, given);
                Said::Due(self.due(mark, bytes))
            }
            Encoded::Later => Said::Later,
            Encoded::Signal => Said::Signal,
            Encoded::Nothing => Said::Nothing,
        }
    }

    fn due(&self, mark: MarkId, mut bytes: Vec<u8>) -> Due {
        // The rest is remembered when the mark of this piece is read.
        bytes.truncate(MAX_STDIN_BYTES);
        Due { mark, offset: self.stdin, bytes }
    }

    /// Folds what was read.
    pub(crate) fn read(&mut self, batch: &processes::Batch, parsed: &mut Vec<Parsed>) {
        let (items, silent) = batch.records();
        for item in items {
            match item {
                Item::Output { stream: Stream::Out, seq, time_ns, data } => {
                    self.last_seq = seq;
                    self.output(seq, time_ns, data, parsed);
                }
                Item::Output { seq, data, .. } => {
                    self.last_seq = seq;
                    self.stderr.extend(data);
                    let excess = self.stderr.len().saturating_sub(STDERR_TAIL);
                    self.stderr.drain(..excess);
                }
                Item::Mark { mark, stdin_offset, len, time_ns, .. } => {
                    self.mark(MarkId(mark), stdin_offset, len, time_ns, parsed);
                }
                Item::Exit { seq, time_ns, exit } => {
                    self.last_seq = seq;
                    self.ended(time_ns, exit.code, exit.signal, false, parsed);
                }
                Item::Lost { seq, time_ns, .. } => {
                    self.last_seq = seq;
                    self.ended(time_ns, -1, 0, true, parsed);
                }
                Item::Note { .. } => {}
            }
        }
        if let Some((_, exit)) = silent {
            self.ended(super::now_ns(), exit.code, exit.signal, exit.lost, parsed);
        }
    }

    fn output(&mut self, seq: u64, time_ns: u64, data: &[u8], parsed: &mut Vec<Parsed>) {
        let mut at = 0;
        while at < data.len() {
            let Self { driver, lines, heard, line_limit, .. } = self;
            at = lines.frame(seq, data, at, |found, _| {
                match found {
                    Found::Line(line) => driver.line(line, heard),
                    Found::TooLong(length) => heard.events.push(Event::Error {
                        message: format!(
                            "the agent printed a line of {length} bytes, which was passed over: {line_limit} are read"
                        ),
                    }),
                }
                heard.over.is_none()
            });
            self.hand_out(time_ns, false, parsed);
        }
    }

    fn hand_out(&mut self, time_ns: u64, last: bool, parsed: &mut Vec<Parsed>) {
        parsed.extend(self.heard.events.drain(..).map(|event| Parsed::Event { time_ns, event }));
        if let Some(over) = self.heard.over.take() {
            parsed.push(Parsed::Over { time_ns, over, at: self.checkpoint(), last });
        }
    }

    fn mark(&mut self, mark: MarkId, offset: u64, len: u32, time_ns: u64, parsed: &mut Vec<Parsed>) {
        // Read before the checkpoint this conversation began at.
        if offset < self.stdin {
            return;
        }
        self.stdin = offset + u64::from(len);
        if let Some((pending, rest)) = &mut self.rest
            && *pending == mark
        {
            rest.drain(..rest.len().min(len as usize));
            if rest.is_empty() {
                self.rest = None;
            }
            return;
        }
        let Some(given) = mark.plain().or_else(|| self.given.remove(&mark)) else {
            self.has_unknown_prompt |= mark.is_prompt();
            return;
        };
        let whole = match &given {
            Given::Own => self.driver.wants(),
            given => match self.driver.encode(&given.as_input()) {
                Encoded::Bytes(bytes) => Some(bytes),
                _ => None,
            },
        };
        self.rest = whole.and_then(|whole| {
            whole.get(len as usize..).filter(|rest| !rest.is_empty()).map(|rest| (mark, rest.to_vec()))
        });
        self.driver.sent(&given.as_input(), &mut self.heard);
        if let Given::Decision { approval, request, decision, .. } = given {
            let answered = Event::PermissionAnswered { request, approval, decision };
            self.heard.events.push(answered);
        }
        if mark != MarkId::own() {
            self.sent.push(mark);
        }
        self.hand_out(time_ns, false, parsed);
    }

    fn ended(&mut self, time_ns: u64, code: i32, signal: i32, lost: bool, parsed: &mut Vec<Parsed>) {
        if let Some(line) = self.lines.last() {
            self.driver.line(&line, &mut self.heard);
            self.hand_out(time_ns, false, parsed);
        }
        let exit = Exit { code, signal, lost, stopped: self.stopped };
        let stderr: Vec<u8> = self.stderr.iter().copied().collect();
        self.driver.ended(exit, String::from_utf8_lossy(&stderr).trim(), &mut self.heard);
        self.hand_out(time_ns, true, parsed);
        parsed.push(Parsed::Ended);
    }
}
