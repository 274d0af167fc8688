//! The numbered events of a session: written once, read by any number of cursors.
//!
//! Invariant: numbers rise by one and never change. What is not on disk yet is in memory; what is in memory beyond
//! that is a convenience for readers who keep up. A cursor holds nothing but its place, so a reader that is slow or
//! never comes back costs nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use hostel_agents::{Decision, Event, Raw};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use tokio::sync::watch;

use super::run;
use super::types::{Entry, NextEvents};
use crate::store::{Store, StoreError};

/// Events handed out at once.
const BATCH: usize = 1024;

/// What is kept in memory though it is on disk, for readers who keep up.
const TAIL_ENTRIES: usize = 4096;
const TAIL_BYTES: usize = 512 * 1024;

/// The events of one session.
pub(crate) struct Log {
    store: Store,
    /// The session's row.
    session: i64,
    inner: Mutex<Inner>,
    /// Number of the last event; also moves when the session is closed.
    changed: watch::Sender<Tip>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Tip {
    last_seq: u64,
    closed: bool,
}

struct Inner {
    /// The newest events; the last one is the last there is.
    tail: VecDeque<Arc<Entry>>,
    tail_bytes: usize,
    last_seq: u64,
    /// Everything up to this is on disk.
    stored_seq: u64,
}

impl Log {
    pub(crate) fn new(store: Store, session: i64, last_seq: u64, closed: bool) -> Self {
        let inner = Inner { tail: VecDeque::new(), tail_bytes: 0, last_seq, stored_seq: last_seq };
        Self { store, session, inner: Mutex::new(inner), changed: watch::Sender::new(Tip { last_seq, closed }) }
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.inner.lock().last_seq
    }

    /// Adds events; their numbers must follow. Readers hear of them at `publish`.
    pub(crate) fn append(&self, entries: &[Arc<Entry>]) {
        let mut inner = self.inner.lock();
        for entry in entries {
            debug_assert_eq!(entry.seq, inner.last_seq + 1);
            inner.last_seq = entry.seq;
            inner.tail_bytes += weight(&entry.event);
            inner.tail.push_back(Arc::clone(entry));
        }
    }

    /// Tells readers what there is.
    pub(crate) fn publish(&self) {
        let last_seq = self.last_seq();
        self.changed.send_if_modified(|tip| {
            let news = tip.last_seq != last_seq;
            tip.last_seq = last_seq;
            news
        });
    }

    /// Everything up to `seq` is on disk: memory may let go of it.
    pub(crate) fn stored(&self, seq: u64) {
        let mut inner = self.inner.lock();
        inner.stored_seq = inner.stored_seq.max(seq);
        inner.trim(TAIL_ENTRIES, TAIL_BYTES);
    }

    /// Lets go of everything that is on disk.
    pub(crate) fn rest(&self) {
        let mut inner = self.inner.lock();
        inner.trim(0, 0);
        inner.tail.shrink_to_fit();
    }

    /// There will be no more events.
    pub(crate) fn close(&self) {
        self.changed.send_modify(|tip| tip.closed = true);
    }

    /// What is in memory after `seq`, if all of it is.
    fn in_memory(&self, after: u64) -> Option<Vec<Arc<Entry>>> {
        let inner = self.inner.lock();
        let first = inner.tail.front()?.seq;
        if after + 1 < first || after >= inner.last_seq {
            return None;
        }
        let start = usize::try_from(after + 1 - first).ok()?;
        Some(inner.tail.range(start..).take(BATCH).cloned().collect())
    }
}

impl Inner {
    fn trim(&mut self, entries: usize, bytes: usize) {
        while let Some(oldest) = self.tail.front() {
            let fits = self.tail.len() <= entries && self.tail_bytes <= bytes;
            if fits || oldest.seq > self.stored_seq {
                break;
            }
            self.tail_bytes = self.tail_bytes.saturating_sub(weight(&oldest.event));
            self.tail.pop_front();
        }
    }
}

/// About how much memory an event takes, at least what the agent chose the length of.
pub(crate) fn weight(event: &Event) -> usize {
    let raw = |raw: &Option<Raw>| raw.as_ref().map_or(0, |raw| raw.get().len());
    let content = match event {
        Event::TurnStarted { prompt, .. } => prompt.len(),
        Event::Init { raw: line, .. } | Event::Result { raw: line, .. } => raw(line),
        Event::TextDelta { text } | Event::Text { text, .. } | Event::TurnEnded { text, .. } => text.len(),
        Event::ThoughtDelta { text } | Event::Thought { text, .. } => text.len(),
        Event::ToolBegan { name } => name.len(),
        Event::ToolCall { id, name, input } => id.len() + name.len() + input.get().len(),
        Event::ToolProgress { name, message, raw: line } => name.len() + message.len() + raw(line),
        Event::ToolResult { id, name, output, .. } => id.len() + name.len() + output.len(),
        Event::PermissionAsked { request, call, tool, input, summary, .. } => {
            request.len() + call.len() + tool.len() + input.get().len() + summary.len()
        }
        Event::PermissionAnswered { request, decision, .. } => request.len() + words(decision),
        Event::PermissionWithdrawn { request } => request.len(),
        Event::Plan { entries } => entries
            .iter()
            .map(|entry| size_of_val(entry) + entry.content.len() + entry.status.len() + entry.priority.len())
            .sum(),
        Event::Notice { message } | Event::Error { message } => message.len(),
        Event::ContextUsage { .. } => 0,
    };
    content + 96
}

fn words(decision: &Decision) -> usize {
    match decision {
        Decision::AllowOnce | Decision::AllowChangeable | Decision::AllowAlways => 0,
        Decision::Reject(text) | Decision::RejectWithEdit(text) => text.len(),
        Decision::Answers(answers) => answers.iter().map(|(question, answer)| question.len() + answer.len()).sum(),
    }
}

/// Writes a run of events and moves the session's last number. One whose predecessor is not there is refused: should an
/// earlier run have been, there must be no hole that a restart would take for written.
pub(crate) fn store_run(transaction: &Transaction<'_>, session: i64, run: &[Arc<Entry>]) -> rusqlite::Result<()> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
    let body = run::write(run).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    let moved = transaction
        .prepare_cached("UPDATE sessions SET last_seq = ? WHERE no = ? AND last_seq = ?")?
        .execute(params![last.seq as i64, session, first.seq as i64 - 1])?;
    if moved != 1 {
        return Err(rusqlite::Error::StatementChangedRows(moved));
    }
    transaction
        .prepare_cached("INSERT INTO events (session, first_seq, last_seq, body) VALUES (?, ?, ?, ?)")?
        .execute(params![session, first.seq as i64, last.seq as i64, body])
        .map(drop)
}

/// What reading the disk found.
enum OnDisk {
    Run(Vec<Arc<Entry>>),
    /// The next event that is there has this number.
    Missing(u64),
    Nothing,
}

fn read_run(connection: &Connection, session: i64, after: u64) -> rusqlite::Result<OnDisk> {
    let mut statement = connection.prepare_cached(
        "SELECT first_seq, last_seq, body FROM events WHERE session = ?1 AND last_seq > ?2
         AND first_seq >= (SELECT coalesce(max(first_seq), 0) FROM events WHERE session = ?1 AND first_seq <= ?2 + 1)
         ORDER BY first_seq LIMIT 1",
    )?;
    let row = statement
        .query_row(params![session, after as i64], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64, row.get::<_, Vec<u8>>(2)?))
        })
        .optional()?;
    let Some((first, _, body)) = row else { return Ok(OnDisk::Nothing) };
    if first > after + 1 {
        return Ok(OnDisk::Missing(first));
    }
    let run = run::read(&body, first, after)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Blob, Box::new(error)))?;
    Ok(OnDisk::Run(run))
}

/// A place in a session's events: replay and live are the same.
pub struct Events {
    log: Arc<Log>,
    tip: watch::Receiver<Tip>,
    position: u64,
    /// Read from disk and not handed out yet.
    waiting: VecDeque<Arc<Entry>>,
}

impl Events {
    pub(crate) fn new(log: &Arc<Log>, after_seq: u64) -> Self {
        Self { tip: log.changed.subscribe(), log: Arc::clone(log), position: after_seq, waiting: VecDeque::new() }
    }

    /// Number of the last event that was handed out, or skipped.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Waits for the next events. Giving up waiting loses nothing.
    pub async fn next(&mut self) -> Result<NextEvents, StoreError> {
        loop {
            let tip = *self.tip.borrow_and_update();
            if let Some(found) = self.find(tip).await? {
                return Ok(found);
            }
            if tip.closed && self.position >= self.log.last_seq() {
                return Ok(NextEvents::Closed);
            }
            if self.tip.changed().await.is_err() {
                return Ok(NextEvents::Closed);
            }
        }
    }

    async fn find(&mut self, tip: Tip) -> Result<Option<NextEvents>, StoreError> {
        if self.waiting.is_empty() {
            if self.position >= tip.last_seq {
                return Ok(None);
            }
            if let Some(entries) = self.log.in_memory(self.position) {
                return Ok(Some(self.hand_out(entries)));
            }
            let (session, after) = (self.log.session, self.position);
            match self.log.store.read(move |connection| read_run(connection, session, after)).await? {
                OnDisk::Run(run) => self.waiting.extend(run),
                OnDisk::Missing(next) => {
                    let from = self.position + 1;
                    self.position = next - 1;
                    return Ok(Some(NextEvents::Gap { from, to: next - 1 }));
                }
                // It was let go of between the two looks, or it is lost.
                OnDisk::Nothing => match self.log.in_memory(self.position) {
                    Some(entries) => return Ok(Some(self.hand_out(entries))),
                    None => {
                        let from = self.position + 1;
                        self.position = tip.last_seq;
                        return Ok(Some(NextEvents::Gap { from, to: tip.last_seq }));
                    }
                },
            }
        }
        let count = self.waiting.len().min(BATCH);
        let entries: Vec<_> = self.waiting.drain(..count).collect();
        Ok((!entries.is_empty()).then(|| self.hand_out(entries)))
    }

    fn hand_out(&mut self, entries: Vec<Arc<Entry>>) -> NextEvents {
        self.position = entries.last().map_or(self.position, |entry| entry.seq);
        NextEvents::Entries(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_an_agent_makes_long_is_counted() {
        let long = "x".repeat(1 << 20);
        let raw = || Some(Raw::of(&long));
        let text = || long.clone();
        let events = [
            Event::Init { subtype: String::new(), session_id: None, model: None, raw: raw() },
            Event::ToolProgress { name: String::new(), message: String::new(), raw: raw() },
            Event::ToolProgress { name: String::new(), message: text(), raw: None },
            Event::Result { session_id: None, raw: raw() },
            Event::Notice { message: text() },
            Event::Error { message: text() },
            Event::ToolBegan { name: text() },
            Event::ToolCall { id: text(), name: String::new(), input: Raw::null() },
            Event::PermissionWithdrawn { request: text() },
            Event::Plan {
                entries: vec![hostel_agents::PlanEntry {
                    content: text(),
                    status: String::new(),
                    priority: String::new(),
                }],
            },
        ];
        for event in events {
            assert!(weight(&event) >= long.len(), "{:.80}", format!("{event:?}"));
        }
    }
}
