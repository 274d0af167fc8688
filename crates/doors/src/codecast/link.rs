//! A session's client: which stream follows it now, and what it is still owed.
//!
//! Invariant: at every moment each event from the first send on is either on its way in the one stream that follows
//! the session, or owed in the ledger, or was handed over. The ledger's text is kept with the session before a prompt
//! is, so that a daemon that dies in between owes too much rather than too little.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_house::sessions::{Sent, Session, Sessions, Status};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

use super::NAME;
use super::ledger::{Ledger, Range};
use super::wire::Line;

/// Clients that are remembered before those of closed sessions are looked for.
const MANY: usize = 64;

/// A stream that follows the session.
struct Live {
    stream: u64,
    /// The last event it is to send.
    until: Arc<AtomicU64>,
    /// The last event that the kernel is known to have taken from it.
    reached: u64,
    line: Arc<Line>,
}

struct State {
    ledger: Ledger,
    live: Option<Live>,
    /// Prompts that are being sent.
    sending: usize,
    /// The ledger was opened for prompts none of which has been taken yet.
    provisional: bool,
    /// Answers so far: streams, and those that hold what was owed.
    answers: u64,
    /// What was handed over, by answer, and may not have left this process yet. Should the daemon die now, it is owed.
    leaving: Vec<(u64, Vec<Range>)>,
}

/// A session's client.
pub(super) struct Link {
    session: Arc<Session>,
    state: Mutex<State>,
    /// A stream has gone, or a prompt has been sent.
    changed: Notify,
    /// Held by whoever fetches what is owed.
    pub(super) fetching: tokio::sync::Mutex<()>,
}

/// A stream's right to follow the session.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) stream: u64,
    pub(super) until: Arc<AtomicU64>,
}

/// What `session.queue_stats` tells.
#[derive(Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QueueStats {
    client_connected: bool,
    response_pending: u64,
    user_pending: usize,
}

impl QueueStats {
    fn of(session: &Session, ledger: &Ledger, following: bool) -> Self {
        Self {
            client_connected: ledger.connected || following,
            response_pending: if following { ledger.count(0) } else { ledger.count(session.last_seq()) },
            user_pending: waiting(session),
        }
    }
}

/// Prompts that wait behind the running one. One that is about to start does not wait.
fn waiting(session: &Session) -> usize {
    let info = session.info();
    match info.running_turn {
        Some(_) => info.queued,
        None => info.queued.saturating_sub(1),
    }
}

impl Link {
    fn load(session: &Arc<Session>) -> Arc<Self> {
        let state = State {
            ledger: kept(session),
            live: None,
            sending: 0,
            provisional: false,
            answers: 0,
            leaving: Vec::new(),
        };
        Arc::new(Self {
            session: Arc::clone(session),
            state: Mutex::new(state),
            changed: Notify::new(),
            fetching: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn keep(&self, state: &State, following: Option<u64>) {
        self.session.set_door_state(NAME, state.text(following));
    }

    /// A prompt is about to be sent.
    pub(super) fn begin_send(self: &Arc<Self>) -> Sending {
        let mut state = self.state.lock();
        state.sending += 1;
        if state.live.is_none() && state.ledger.open(self.session.last_seq()) {
            state.provisional = true;
            self.keep(&state, None);
        }
        Sending { link: Some(Arc::clone(self)) }
    }

    fn sent(&self, sent: &Sent, line: &Arc<Line>) -> Option<Ticket> {
        let mut state = self.state.lock();
        state.sending -= 1;
        let provisional = std::mem::take(&mut state.provisional);
        if sent.position > 0 {
            return None;
        }
        match state.live.take() {
            // It was just about to end; the new stream goes on where it stops.
            Some(live) => {
                live.until.store(sent.after_seq, Ordering::Relaxed);
                state.leaves(live.stream, vec![(live.reached, sent.after_seq)]);
            }
            None if provisional => state.ledger.forget_tail(),
            None => state.ledger.close(sent.after_seq),
        }
        state.answers += 1;
        let ticket = Ticket { stream: state.answers, until: Arc::new(AtomicU64::new(u64::MAX)) };
        state.live = Some(Live {
            stream: ticket.stream,
            until: Arc::clone(&ticket.until),
            reached: sent.after_seq,
            line: Arc::clone(line),
        });
        state.ledger.begun = sent.after_seq;
        self.keep(&state, Some(sent.after_seq));
        Some(ticket)
    }

    fn not_sent(&self) {
        let mut state = self.state.lock();
        state.sending -= 1;
        if state.provisional && state.sending == 0 {
            state.provisional = false;
            state.ledger.forget_tail();
            self.keep(&state, None);
        }
    }

    /// The client of a stream has had everything up to this number.
    pub(super) fn reached(&self, stream: u64, seq: u64) {
        let mut state = self.state.lock();
        if let Some(live) = state.live.as_mut().filter(|live| live.stream == stream) {
            live.reached = seq;
            self.keep(&state, Some(seq));
        }
    }

    /// Ends a stream that has sent everything. Not while a prompt is being sent: its events might come here.
    pub(super) fn finish(&self, stream: u64) -> bool {
        let mut state = self.state.lock();
        if !state.follows(stream) {
            return true;
        }
        if state.sending > 0 {
            return false;
        }
        let reached = state.live.take().map_or(0, |live| live.reached);
        state.leaves(stream, vec![(reached, self.session.last_seq())]);
        self.keep(&state, None);
        true
    }

    /// The client of an open stream has gone; `had` is the last event it certainly had.
    pub(super) fn lost(&self, ticket: &Ticket, had: u64) {
        let mut state = self.state.lock();
        if state.follows(ticket.stream) {
            state.live = None;
            state.ledger.open(had);
        } else {
            state.ledger.owe((had, ticket.until.load(Ordering::Relaxed).max(had)));
        }
        state.ledger.connected = false;
        self.keep_now(&state);
        drop(state);
        self.changed.notify_waiters();
    }

    /// What was handed over did not arrive.
    pub(super) fn owe(&self, ranges: &[Range]) {
        let mut state = self.state.lock();
        ranges.iter().for_each(|range| state.ledger.owe(*range));
        state.ledger.connected = false;
        self.keep_now(&state);
    }

    /// An answer has left this process, or its client is known to have lost what is owed again: the rest of it is no
    /// concern any more.
    pub(super) fn left(&self, answer: u64) {
        let mut state = self.state.lock();
        let before = state.leaving.len();
        state.leaving.retain(|(leaving, _)| *leaving != answer);
        if state.leaving.len() != before {
            self.keep_now(&state);
        }
    }

    /// Keeps the ledger while some stream may be open.
    fn keep_now(&self, state: &State) {
        let following = state.live.as_ref().map(|live| live.reached);
        self.keep(state, following);
    }

    /// The client is back.
    pub(super) fn connected(&self) {
        let mut state = self.state.lock();
        state.ledger.connected = true;
        self.keep_now(&state);
    }

    /// Waits until no stream follows whose client the kernel knows to be gone.
    pub(super) async fn vanished_stream_is_gone(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let line = self.state.lock().live.as_ref().map(|live| Arc::clone(&live.line));
            if !line.is_some_and(|line| line.is_gone()) {
                return;
            }
            changed.await;
        }
    }

    /// Everything of the last stream is owed again, unless it is still open.
    pub(super) fn owe_from_start(&self) {
        let mut state = self.state.lock();
        if state.live.is_none() {
            let begun = state.ledger.begun;
            state.ledger.owe((begun, self.session.last_seq()));
        }
    }

    /// What is owed.
    pub(super) fn owed(&self) -> Vec<Range> {
        let state = self.state.lock();
        // What a stream is sending is not owed.
        let last = if state.live.is_some() { 0 } else { self.session.last_seq() };
        state.ledger.owed(last)
    }

    /// These are handed over with an answer, whose number is returned.
    pub(super) fn paid(&self, ranges: &[Range]) -> u64 {
        let mut state = self.state.lock();
        state.answers += 1;
        let answer = state.answers;
        state.leaves(answer, ranges.to_vec());
        ranges.iter().for_each(|range| state.ledger.paid(*range));
        state.ledger.connected = true;
        let quiet = state.sending == 0 && state.live.is_none() && self.session.status() == Status::Idle;
        if quiet && state.ledger.is_open() && state.ledger.count(self.session.last_seq()) == 0 {
            state.ledger.forget_tail();
        }
        self.keep_now(&state);
        answer
    }

    pub(super) fn stats(&self) -> QueueStats {
        let state = self.state.lock();
        QueueStats::of(&self.session, &state.ledger, state.live.is_some())
    }
}

impl State {
    /// The text to keep: what may not have left this process is owed should the daemon die now.
    fn text(&self, following: Option<u64>) -> String {
        if self.leaving.is_empty() {
            return self.ledger.to_text(following);
        }
        let mut ledger = self.ledger.clone();
        self.leaving.iter().flat_map(|(_, ranges)| ranges).for_each(|range| ledger.owe(*range));
        ledger.to_text(following)
    }

    fn leaves(&mut self, answer: u64, ranges: Vec<Range>) {
        self.leaving.push((answer, ranges));
    }

    fn follows(&self, stream: u64) -> bool {
        self.live.as_ref().is_some_and(|live| live.stream == stream)
    }
}

/// A prompt that is being sent.
pub(super) struct Sending {
    link: Option<Arc<Link>>,
}

impl Sending {
    /// It was taken. If it starts at once, its sender may follow the session.
    pub(super) fn taken(mut self, sent: &Sent, line: &Arc<Line>) -> Option<Ticket> {
        let link = self.link.take()?;
        let ticket = link.sent(sent, line);
        link.changed.notify_waiters();
        ticket
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(link) = self.link.take() {
            link.not_sent();
            link.changed.notify_waiters();
        }
    }
}

fn kept(session: &Session) -> Ledger {
    session.door_state(NAME).and_then(|text| Ledger::from_text(&text)).unwrap_or_default()
}

/// The clients of all sessions that ever had one.
#[derive(Default)]
pub(super) struct Links(Mutex<HashMap<String, Arc<Link>>>);

impl Links {
    pub(super) fn of(&self, session: &Arc<Session>, sessions: &Sessions) -> Arc<Link> {
        let mut links = self.0.lock();
        if let Some(link) = links.get(session.id())
            // One that was closed and brought back is another session with the same name.
            && Arc::ptr_eq(&link.session, session)
        {
            return Arc::clone(link);
        }
        if links.len() >= MANY && links.len() > 2 * sessions.count() {
            links.retain(|id, _| sessions.get(id).is_some());
        }
        let link = Link::load(session);
        links.insert(session.id().to_owned(), Arc::clone(&link));
        link
    }

    /// The numbers of a session, without making a client for one that never had any.
    pub(super) fn stats(&self, session: &Arc<Session>) -> QueueStats {
        let link = self.0.lock().get(session.id()).filter(|link| Arc::ptr_eq(&link.session, session)).cloned();
        match link {
            Some(link) => link.stats(),
            None => QueueStats::of(session, &kept(session), false),
        }
    }

    /// A session is gone.
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn what_is_leaving_is_owed_by_the_next_daemon_and_not_by_this_one() {
        let ledger = Ledger::default();
        let mut state = State { ledger, live: None, sending: 0, provisional: false, answers: 0, leaving: Vec::new() };
        state.ledger.owe((3, 9));
        state.ledger.paid((3, 9));
        state.leaves(1, vec![(3, 9)]);
        assert_eq!(state.ledger.owed(20), [], "it was handed over here");
        assert_eq!(Ledger::from_text(&state.text(None)).unwrap().owed(20), [(3, 9)]);
        assert_eq!(Ledger::from_text(&state.text(Some(15))).unwrap().owed(20), [(3, 9), (15, 20)]);
        state.leaving.clear();
        assert_eq!(Ledger::from_text(&state.text(None)).unwrap().owed(20), []);
    }
}
