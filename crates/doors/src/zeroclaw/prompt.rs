//! `session/prompt`: a turn, streamed to the client that asked for it.
//!
//! Invariant: the prompt is durable and its turn known before the next line of the client is read. `turn_complete`
//! comes exactly once, after everything else of the turn and before the answer. A client that leaves in the middle
//! leaves the turn as it is.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Event;
use hostel_agents::Outcome as TurnOutcome;
use hostel_agents::Raw;
use hostel_agents::Usage;
use hostel_house::sessions::Entry;
use hostel_house::sessions::Events;
use hostel_house::sessions::NextEvents;
use hostel_house::sessions::Prompt;
use hostel_house::sessions::SendError;
use hostel_house::sessions::Sent;
use hostel_house::sessions::Session;
use hostel_house::sessions::Status;
use hostel_tasks::SpawnBoxed as _;
use serde_json::json;
use tokio::time::Instant;

use super::Client;
use super::Params;
use super::PeerNames as _;
use super::approvals;
use super::attachments;
use super::attachments::Stored;
use super::attachments::Wanted;
use super::code;
use super::turns::Streaming;
use super::updates::Updates;
use super::visitor::Visitor;
use super::visitor::internal;
use super::visitor::no_session;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// Prompts of one connection at once.
const AT_ONCE: usize = 1024;

/// What is sent in one piece.
const PIECE: usize = 256 << 10;

/// The most of a cancelled turn's text that is given back.
const PARTIAL: usize = 1 << 20;

/// Takes a prompt and lets its turn run beside the connection.
pub(super) async fn begin(client: &mut Client, id: Option<Raw>, params: Result<Params, Failure>) -> io::Result<()> {
    let visitor = Arc::clone(client.visitor());
    let session = params.as_ref().ok().and_then(|params| params.text("session_id").ok().flatten()).map(str::to_owned);
    let taken = match params {
        Err(failure) => Err(failure),
        Ok(_) if client.work.len() >= AT_ONCE => {
            Err(Failure::new(code::BUSY, format!("{AT_ONCE} prompts of this connection are waiting already")))
        }
        Ok(params) => take(&visitor, &params).await,
    };
    match taken {
        Ok((session, sent)) => {
            client.work.spawn_boxed(Turn::new(visitor, id, session, sent).run());
            Ok(())
        }
        Err(failure) => refuse(&visitor, id.as_ref(), session.as_deref(), failure).await,
    }
}

/// `session/send`: takes a prompt and does not wait for it.
pub(super) async fn send(visitor: &Visitor, params: &Params) -> Outcome {
    let (session, sent) = take(visitor, params).await?;
    Ok(json!({
        "session_id": session.id(),
        "turn": sent.turn,
        "position": sent.position,
        "after_seq": sent.after_seq,
    }))
}

/// `file/attach`: stores files ahead of the prompt that will name them.
pub(super) async fn attach_files(visitor: &Visitor, params: &Params) -> Outcome {
    let id = params.need("session_id")?;
    let wanted = attachments::wanted(params.list("files")?, shares_files(visitor).await)?;
    visitor.live(id)?;
    let stored = store(visitor, id, wanted).await?;
    Ok(json!({"files": stored.iter().map(Stored::describe).collect::<Vec<_>>()}))
}

/// Whether the daemon reads files for the client by their paths: not for a process inside the house, which may be kept
/// from files that the daemon can read.
async fn shares_files(visitor: &Visitor) -> bool {
    visitor.peer.is_local() && visitor.rights.insider().await.is_none()
}

async fn store(visitor: &Visitor, session: &str, wanted: Vec<Wanted>) -> Result<Vec<Stored>, Failure> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let directory = attachments::directory(&visitor.house().settings.data_dir, session);
    hostel_tasks::spawn_blocking(move || attachments::store(wanted, &directory)).await.map_err(internal)?
}

async fn take(visitor: &Visitor, params: &Params) -> Result<(Arc<Session>, Sent), Failure> {
    let id = params.need("session_id")?;
    let text = params.need("prompt")?;
    let files = params.list("attachments")?;
    if text.trim().is_empty() && files.is_empty() {
        return Err(Failure::new(code::PARAMS, "the prompt is blank"));
    }
    let wanted = attachments::wanted(files, shares_files(visitor).await)?;
    let session = visitor.live(id)?;
    let info = session.info();
    let depth = info.queued + usize::from(info.status == Status::Busy);
    if depth >= visitor.house().settings.queue_depth {
        return Err(Failure::new(code::BUSY, format!("{depth} prompts of session `{id}` are waiting already")));
    }
    let stored = store(visitor, id, wanted).await?;
    let prompt = Prompt { text: attachments::with_markers(text, &stored), door: visitor.face.door() };
    let sent = session.send(prompt).await.map_err(|error| not_taken(id, &error))?;
    Ok((session, sent))
}

fn not_taken(session: &str, error: &SendError) -> Failure {
    match error {
        SendError::Closed => no_session(session),
        SendError::QueueFull(_) => Failure::new(code::BUSY, error.to_string()),
        SendError::TooLong { .. } => Failure::new(code::PARAMS, error.to_string()),
        SendError::Store(_) => internal(error),
    }
}

/// Refuses a prompt. Whoever lives by `turn_complete` alone is told by one: always for a session that does not exist,
/// else where no answer will come.
async fn refuse(visitor: &Visitor, id: Option<&Raw>, session: Option<&str>, failure: Failure) -> io::Result<()> {
    if let Some(session) = session.filter(|_| failure.code == code::NO_SESSION || id.is_none()) {
        let mut lines = Vec::new();
        visitor.updates(session, false).push_refused(&mut lines, &failure.message);
        visitor.writer.send(&lines).await?;
    }
    visitor.answer(id, Err(failure)).await
}

/// How a turn ended.
struct Ended {
    seq: u64,
    outcome: TurnOutcome,
    text: String,
    usage: Usage,
}

/// A turn on its way to the client that asked for it.
struct Turn {
    visitor: Arc<Visitor>,
    id: Option<Raw>,
    session: Arc<Session>,
    turn: u64,
    events: Events,
    updates: Updates,
    streaming: Streaming,
    /// Until when it may wait for its place; none once it has it.
    patience: Option<Instant>,
    partial: String,
    lines: Vec<u8>,
}

impl Turn {
    fn new(visitor: Arc<Visitor>, id: Option<Raw>, session: Arc<Session>, sent: Sent) -> Self {
        visitor.stream(session.id(), sent.turn, true);
        // On our own socket a prompt waits for as long as it takes.
        let wait: Option<Duration> =
            (sent.position > 0 && !visitor.face.is_native()).then(|| visitor.house().settings.queue_wait);
        Turn {
            events: session.events(sent.after_seq),
            updates: visitor.updates(session.id(), false),
            streaming: visitor.house().turns.enter(session.id(), sent.turn),
            patience: wait.map(|wait| Instant::now() + wait),
            partial: String::new(),
            lines: Vec::new(),
            turn: sent.turn,
            visitor,
            id,
            session,
        }
    }

    /// Streams the turn and answers; ends early when the client is gone.
    async fn run(mut self) {
        // An error is the client's: it is gone, and the turn goes on without it.
        drop(self.stream().await);
    }

    async fn stream(&mut self) -> io::Result<()> {
        loop {
            let next = match self.patience {
                None => self.events.next().await,
                Some(end) => match tokio::time::timeout_at(end, self.events.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.patience = None;
                        // It may have got its place at this very moment.
                        match self.session.withdraw(self.turn).await {
                            true => return self.busy().await,
                            false => continue,
                        }
                    }
                },
            };
            let ended = match next {
                Ok(NextEvents::Entries(entries)) => self.take(&entries).await?,
                Ok(NextEvents::Gap { from, to }) => {
                    self.updates.push_gap(&mut self.lines, from, to);
                    self.flush().await?;
                    self.remembered(to, false).await
                }
                Ok(NextEvents::Closed) => self.remembered(self.events.position(), true).await,
                Err(error) => {
                    let seq = self.events.position();
                    Some(Ended { seq, outcome: TurnOutcome::Failed, text: error.to_string(), usage: Usage::default() })
                }
            };
            if let Some(ended) = ended {
                return self.end(ended).await;
            }
        }
    }

    /// Sends what belongs to this turn; gives its end once that is there.
    async fn take(&mut self, entries: &[Arc<Entry>]) -> io::Result<Option<Ended>> {
        for entry in entries {
            match &entry.event {
                Event::TurnEnded { turn, outcome, text, usage } if *turn == self.turn => {
                    self.flush().await?;
                    let (seq, outcome, text, usage) = (entry.seq, *outcome, text.clone(), *usage);
                    return Ok(Some(Ended { seq, outcome, text, usage }));
                }
                Event::TurnEnded { .. } => {}
                _ if entry.turn != self.turn => {}
                Event::PermissionAsked { approval, tool, input, .. } => {
                    if self.is_concerned()
                        && !approvals::may_elicit(&self.visitor, tool, input).await
                        && self.visitor.claim(approval)
                    {
                        self.updates.push(&mut self.lines, entry);
                    }
                }
                event => {
                    self.patience = None;
                    self.remember(event);
                    self.updates.push(&mut self.lines, entry);
                }
            }
            if self.lines.len() >= PIECE {
                self.flush().await?;
            }
        }
        self.flush().await?;
        Ok(None)
    }

    /// Whether questions of this turn are for this client: it owns the session, or nobody does.
    fn is_concerned(&self) -> bool {
        let visitor = &self.visitor;
        visitor.face.is_native() || visitor.owns(&self.session) || self.session.info().owner.is_none()
    }

    /// Keeps the text so far, for the day the turn is cancelled.
    fn remember(&mut self, event: &Event) {
        if let Event::TextDelta { text } | Event::Text { text, streamed: false } = event {
            let room = PARTIAL.saturating_sub(self.partial.len());
            self.partial.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
        }
    }

    /// Sends what was collected, unless the turn was hushed or another stream of this connection sends it.
    async fn flush(&mut self) -> io::Result<()> {
        if !self.lines.is_empty() && self.visitor.attached(self.session.id()).is_none() {
            self.visitor.writer.send_unless(self.streaming.hushed(), &self.lines).await?;
        }
        self.lines.clear();
        self.lines.shrink_to(PIECE);
        Ok(())
    }

    /// The end of the turn from what the house remembers, where its event is not to be had.
    async fn remembered(&self, seq: u64, closed: bool) -> Option<Ended> {
        let turns = self.visitor.house().sessions.turns(self.session.id()).await.unwrap_or_default();
        let found = turns.into_iter().find(|turn| turn.turn == self.turn);
        let outcome = match found.as_ref().map(|turn| turn.state.as_str()) {
            Some("completed") => TurnOutcome::Completed,
            Some("failed") => TurnOutcome::Failed,
            Some("cancelled") => TurnOutcome::Cancelled,
            _ if closed => {
                let text = "cancelled: session_removed".to_owned();
                return Some(Ended { seq, outcome: TurnOutcome::Cancelled, text, usage: Usage::default() });
            }
            _ => return None,
        };
        let usage = found.as_ref().map(|turn| turn.usage).unwrap_or_default();
        Some(Ended { seq, outcome, text: found.map(|turn| turn.answer).unwrap_or_default(), usage })
    }

    /// Says that the turn is over, then answers.
    async fn end(&mut self, ended: Ended) -> io::Result<()> {
        let told = match self.visitor.attached(self.session.id()) {
            // The other stream says so; the answer comes after it.
            Some(mut position) => position.wait_for(|position| *position >= ended.seq).await.is_ok(),
            None => false,
        };
        if !told {
            let event = Event::TurnEnded {
                turn: self.turn,
                outcome: ended.outcome,
                text: ended.text.clone(),
                usage: ended.usage,
            };
            let entry = Entry { seq: ended.seq, turn: self.turn, time_ns: 0, event };
            self.lines.clear();
            self.updates.push(&mut self.lines, &entry);
            self.visitor.writer.send(&self.lines).await?;
        }
        let session = self.session.id();
        let outcome = match ended.outcome {
            TurnOutcome::Completed => {
                Ok(json!({"session_id": session, "stop_reason": "end_turn", "content": ended.text}))
            }
            TurnOutcome::Cancelled => {
                let partial = std::mem::take(&mut self.partial);
                Ok(json!({"session_id": session, "stop_reason": "cancelled", "content": partial}))
            }
            TurnOutcome::Failed => Err(Failure::new(code::INTERNAL, ended.text)),
        };
        self.visitor.answer(self.id.as_ref(), outcome).await
    }

    async fn busy(&mut self) -> io::Result<()> {
        let seconds = self.visitor.house().settings.queue_wait.as_secs();
        let message = format!("the session is busy: this prompt waited for {seconds} s");
        let failure = Failure::new(code::BUSY, message);
        refuse(&self.visitor, self.id.as_ref(), Some(self.session.id()), failure).await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.visitor.stream(self.session.id(), self.turn, false);
    }
}
