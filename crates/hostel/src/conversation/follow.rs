//! One session followed from here, through restarts of the daemon, with its questions answered at our terminal.
//!
//! Invariant: following goes on after the last update taken. Several updates may bear one number, so the number and
//! how many of it were taken are remembered together; none is shown twice and none is left out.
//!
//! It does not start sessions and does not decide exit codes.

mod asking;
mod showing;

use std::collections::HashSet;
use std::collections::VecDeque;
use std::time::Duration;

use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_doors::native::client::Message;
use hostel_doors::native::client::Messages;
use hostel_doors::native::client::Questions;
use hostel_doors::native::client::decode;
use hostel_doors::native::protocol::HouseClosing;
use hostel_doors::native::protocol::StreamName;
use hostel_doors::native::protocol::code;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::time::Instant;

use super::keyboard::Keyboard;
use super::out::Job;
use super::out::Out;
use super::page::Page;
use super::page::Piece;
use super::short;
use super::update::Outcome;
use super::update::Update;
use super::update::What;
use super::wire::Attached;
use crate::error::CommandError;
use crate::houses::House;
use crate::ui::Ui;
use asking::Asking;
use showing::data_line;

/// What is followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Until {
    /// One turn, to its end; other turns are passed over.
    Turn {
        turn: u64,
        /// It runs, or is about to: nobody else's is before it.
        first: bool,
    },
    /// Everything, until the session is closed.
    Closed,
    /// Everything there is now.
    Replayed,
}

/// What Ctrl-C does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OnInterrupt {
    /// The first stops the turn, the second leaves.
    StopTurn,
    /// Leaves.
    Leave,
}

/// How following ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The turn is over.
    Turn {
        outcome: Outcome,
        /// Ctrl-C had asked for its end.
        interrupted: bool,
    },
    /// Everything there was has been shown.
    Replayed,
    /// The session was closed.
    Closed,
    /// The person left.
    Left,
    /// Nobody reads our output any more.
    ReaderGone,
    /// The house was closed.
    HouseDown,
}

/// How updates are shown.
pub(crate) enum Format {
    /// For people.
    Page(Box<Page>),
    /// One JSON object for each.
    Json,
}

/// Which session to follow, and how.
pub(crate) struct Follow {
    house: House,
    session: String,
    until: Until,
    format: Format,
    asking: Asking,
    on_interrupt: OnInterrupt,
    reconnect: Duration,
    /// The number of the last update taken, and how many of that number were.
    seq: u64,
    taken: u64,
    /// Updates of that number still to be passed over after a reconnect.
    skip: u64,
    /// When the turn started, as far as we saw it.
    since: Instant,
    stop: Stop,
    /// On their way to the writer.
    waiting: VecDeque<Job>,
    /// Updates that came while a question was open on the screen.
    held: VecDeque<Update>,
    /// The questions of the turn that were shown or are about to be.
    asked: HashSet<String>,
    /// The questions that were open when following began, where that matters.
    open: Option<HashSet<String>>,
    /// Number of the last event there was when following began.
    history: u64,
}

/// Where stopping the turn stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stop {
    No,
    /// Asked for; the question's number on this connection.
    Wanted(Option<u64>),
    /// The house knows.
    Told,
}

enum Cut {
    End(End),
    /// The daemon is gone, and may come back.
    Lost(ClientError),
}

impl Follow {
    pub(crate) fn new(house: House, session: String, until: Until, format: Format, reconnect: Duration) -> Self {
        Follow {
            house,
            session,
            until,
            format,
            asking: Asking::new(None),
            on_interrupt: OnInterrupt::Leave,
            reconnect,
            seq: 0,
            taken: 0,
            skip: 0,
            since: Instant::now(),
            stop: Stop::No,
            waiting: VecDeque::new(),
            held: VecDeque::new(),
            asked: HashSet::new(),
            open: None,
            history: 0,
        }
    }

    /// Only what comes after this number.
    #[must_use]
    pub(crate) fn since(mut self, seq: u64) -> Self {
        // Of the number after it none was taken yet.
        self.seq = seq.saturating_add(1);
        self.taken = 0;
        self
    }

    /// Of the questions in its history only these wait for an answer.
    #[must_use]
    pub(crate) fn with_open(mut self, open: HashSet<String>) -> Self {
        self.open = Some(open);
        self
    }

    /// Ctrl-C stops the turn, and questions are answered here if there is a keyboard.
    #[must_use]
    pub(crate) fn in_charge(mut self, keyboard: Option<Keyboard>) -> Self {
        self.on_interrupt = OnInterrupt::StopTurn;
        self.asking = Asking::new(keyboard);
        self
    }

    /// Follows until there is an end. `client` is the first connection.
    pub(crate) async fn run(mut self, client: Client, ui: &Ui) -> Result<End, CommandError> {
        let out = Out::start()?;
        let mut interrupts = signal(SignalKind::interrupt())
            .map_err(|error| CommandError::failure(format!("cannot watch for Ctrl-C: {error}")))?;
        let mut client = Some(client);
        let end = loop {
            let connection = match client.take() {
                Some(connection) => connection,
                None => tokio::select! {
                    found = self.find_again(&out) => found?,
                    _ = interrupts.recv() => break End::Left,
                },
            };
            match self.connected(connection, &out, &mut interrupts).await? {
                Cut::End(end) => break end,
                Cut::Lost(error) if self.reconnect.is_zero() => return Err(error.into()),
                Cut::Lost(_) => self.remark(ui, "hostel: the daemon went away, looking for it again"),
            }
        };
        // What was handed over has to reach the reader before we say how it ended, unless somebody is tired of waiting.
        let mut written = std::pin::pin!(self.finish(out, end));
        tokio::select! {
            written = &mut written => written,
            _ = interrupts.recv() => match tokio::time::timeout(LAST_WORDS, written).await {
                Ok(written) => written,
                Err(_) => Ok(end),
            },
        }
    }

    async fn finish(&mut self, out: Out, end: End) -> Result<End, CommandError> {
        if end != End::ReaderGone {
            if let Format::Page(page) = &mut self.format {
                let pieces = page.finish();
                self.show(pieces);
            }
            self.flush(&out).await;
        }
        match (out.finish().await, end) {
            (Ok(()), end) => Ok(end),
            (Err(error), _) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(End::ReaderGone),
            (Err(error), _) => Err(CommandError::failure(format!("cannot write the output: {error}"))),
        }
    }

    /// Hands over everything that waits.
    async fn flush(&mut self, out: &Out) {
        while !self.waiting.is_empty()
            && let Some(room) = out.room().await
            && let Some(job) = self.waiting.pop_front()
        {
            room.send(job);
        }
    }

    async fn find_again(&mut self, out: &Out) -> Result<Client, CommandError> {
        self.flush(out).await;
        self.house.again(self.reconnect, &format!("hostel watch {}", short(&self.session))).await
    }

    async fn connected(&mut self, client: Client, out: &Out, interrupts: &mut Signal) -> Result<Cut, CommandError> {
        let (mut questions, mut messages) = client.split();
        match self.exchange(&mut questions, &mut messages, out, interrupts).await {
            Ok(end) => Ok(Cut::End(end)),
            // The keeper's link being down for a moment is a restart in miniature.
            Err(error) if error.is_lost() || error.code() == Some(code::KEEPER) => Ok(Cut::Lost(error)),
            Err(error) => Err(error.into()),
        }
    }

    async fn exchange(
        &mut self,
        questions: &mut Questions,
        messages: &mut Messages,
        out: &Out,
        interrupts: &mut Signal,
    ) -> Result<End, ClientError> {
        self.attach(questions, messages).await?;
        let mut end = None;
        loop {
            if self.waiting.is_empty()
                && let Some(end) = end
            {
                return Ok(end);
            }
            self.speak(questions).await?;
            tokio::select! {
                message = messages.next(), if self.waiting.is_empty() && end.is_none() => match message? {
                    Message::Notification { method, params } => end = self.heard(&method, &params)?,
                    Message::Answer { id, result } => self.answered(id, result),
                },
                room = out.room(), if !self.waiting.is_empty() => match (room, self.waiting.pop_front()) {
                    (Some(room), Some(job)) => room.send(job),
                    _ => return Ok(End::ReaderGone),
                },
                () = self.asking.progress() => {
                    if let Format::Page(page) = &mut self.format {
                        let jobs = self.asking.proceed(page);
                        self.waiting.extend(jobs);
                    }
                    self.release();
                }
                _ = interrupts.recv() => {
                    if !self.may_stop() {
                        return Ok(End::Left);
                    }
                    self.stop = Stop::Wanted(None);
                    self.note("stopping the turn; Ctrl-C once more goes away and leaves it to itself");
                }
            }
        }
    }

    /// Asks for the updates we do not have yet.
    async fn attach(&mut self, questions: &mut Questions, messages: &mut Messages) -> Result<(), ClientError> {
        let asked = questions
            .send(
                "session/attach",
                &json!({
                    "session_id": self.session,
                    "since_seq": self.seq.saturating_sub(1),
                    "follow": self.until != Until::Replayed,
                }),
            )
            .await?;
        loop {
            if let Message::Answer { id, result } = messages.next().await?
                && id == asked
            {
                let attached: Attached = decode(result)?;
                if self.history == 0 {
                    self.history = attached.last_seq;
                }
                break;
            }
        }
        self.skip = self.taken;
        self.asking.reconnected();
        if let Stop::Wanted(asked) = &mut self.stop {
            *asked = None;
        }
        Ok(())
    }

    /// Sends what is due.
    async fn speak(&mut self, questions: &mut Questions) -> Result<(), ClientError> {
        if self.stop == Stop::Wanted(None) {
            let asked = questions.send("session/cancel", &json!({"session_id": self.session})).await?;
            self.stop = Stop::Wanted(Some(asked));
        }
        self.asking.speak(questions, &self.session).await
    }

    /// Ctrl-C means the turn: it is ours, and was not told to stop before.
    fn may_stop(&self) -> bool {
        self.on_interrupt == OnInterrupt::StopTurn
            && self.stop == Stop::No
            && matches!(self.until, Until::Turn { first: true, .. })
    }

    fn answered(&mut self, id: u64, result: Result<Box<RawValue>, (i64, String)>) {
        if self.stop == Stop::Wanted(Some(id)) {
            self.stop = Stop::Told;
            // With no turn running there is nothing to stop: its end is on the way to us.
            if let Err((code, message)) = result
                && code != NO_TURN
            {
                self.note(&format!("the turn could not be stopped: {message}"));
            }
            return;
        }
        if let Format::Page(page) = &mut self.format {
            let refusal = result.err().map(|(_, message)| message);
            let jobs = self.asking.answered(id, refusal.as_deref(), page);
            self.waiting.extend(jobs);
            self.release();
        }
    }

    fn heard(&mut self, method: &str, params: &RawValue) -> Result<Option<End>, ClientError> {
        let protocol = |error: serde_json::Error| ClientError::Protocol(error.to_string());
        match method {
            "house/closing" => {
                let closing: HouseClosing = serde_json::from_str(params.get()).map_err(protocol)?;
                Ok((!closing.keep).then_some(End::HouseDown))
            }
            "session/update" => {
                let of: Of<'_> = serde_json::from_str(params.get()).map_err(protocol)?;
                if of.session_id != self.session {
                    return Ok(None);
                }
                let update = Update::parse(params.get()).map_err(protocol)?;
                if update.what == What::Broken {
                    let message = "the session cannot be read any further, `log/daemon.log` in the house says why";
                    return Err(ClientError::Reply { code: code::INTERNAL, message: message.to_owned() });
                }
                if self.is_new(&update) { Ok(self.take(update, params)) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }

    /// Whether an update was not taken before; counts it.
    fn is_new(&mut self, update: &Update) -> bool {
        if update.seq == 0 {
            return true;
        }
        if update.seq == self.seq {
            if self.skip > 0 {
                self.skip -= 1;
                return false;
            }
            self.taken += 1;
            return true;
        }
        if update.seq < self.seq {
            return false;
        }
        self.seq = update.seq;
        self.taken = 1;
        self.skip = 0;
        true
    }

    /// Shows an update and says whether it is the last.
    fn take(&mut self, update: Update, params: &RawValue) -> Option<End> {
        if let Until::Turn { turn, first } = &mut self.until {
            if update.turn != 0 && update.turn != *turn {
                return None;
            }
            if matches!(update.what, What::TurnStarted { .. }) {
                *first = true;
                self.since = Instant::now();
            }
        }
        let end = match (&update.what, self.until) {
            (What::TurnEnded { outcome, .. }, Until::Turn { .. }) => {
                Some(End::Turn { outcome: *outcome, interrupted: self.stop != Stop::No })
            }
            (What::Replayed, Until::Replayed) => Some(End::Replayed),
            (What::Closed, _) => Some(End::Closed),
            _ => None,
        };
        if matches!(self.format, Format::Page(_)) {
            self.turn_page(update);
        } else if let Some(line) = data_line(params) {
            self.waiting.push_back(Job::Write(Piece { stream: StreamName::Stdout, text: line }));
        }
        end
    }
}

/// How long the last words may still take once somebody wants to leave.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The house's word for "no turn of this session runs".
const NO_TURN: i64 = -32000;

#[derive(serde::Deserialize)]
struct Of<'a> {
    #[serde(default, borrow)]
    session_id: std::borrow::Cow<'a, str>,
}

#[cfg(test)]
#[path = "follow/tests.rs"]
mod tests;
