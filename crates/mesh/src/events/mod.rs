//! What happens, told to who listens: the last events in a ring on disk, and streams that begin anywhere in it.
//!
//! Invariant: an event has one number for ever, and is told only once it is on disk. A stream gets every event that is
//! for it once and in order: what it missed is read from the ring, and it goes live in the same instant in which there
//! is nothing left to read. Who falls behind is cut off, never waited for.
//!
//! It knows no transport: ids, names and lines of JSON come out.

mod hub;
mod ring;
mod subscription;

pub(crate) use hub::{Batch, Hub, Told};
pub use hub::{MOST_UNTAKEN, MOST_UNTAKEN_BYTES};
pub(crate) use ring::{Happened, append, append_messages, last, trim};
pub use subscription::{Cut, Subscription};

use std::sync::Arc;

use hostel_store::{Store, StoreError, Ticket};
use hostel_syncpoint::{SyncPoint, points};
use hostel_wire::Clock;
use serde_json::Value;

use crate::inbox::Scope;

/// Events that are kept at most, runs of hooks apart.
pub const MOST: u64 = 10_000;

/// Runs of hooks that are kept among them at most: as many as four to each.
pub const MOST_RUNS: u64 = 4 * MOST;

/// The name of the event of a hook that has run.
pub const RUN: &str = "hook_executed";

/// How long events are kept, in milliseconds.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Something to be told.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// `peer_join`, `daemon_reconnect`, ...
    pub name: String,
    /// An object; `ts` is put into it.
    pub data: Value,
    /// The topic it belongs to.
    pub topic: Option<String>,
    /// The only session it is for, besides the member; empty: for no session at all.
    pub session: Option<String>,
}

impl NewEvent {
    /// One that everybody may hear.
    pub fn new(name: impl Into<String>, data: Value) -> Self {
        Self { name: name.into(), data, topic: None, session: None }
    }
}

/// An event as a stream gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `<boot>-<n>`; empty for a `gap`.
    pub id: String,
    /// What happened.
    pub name: String,
    /// One line of JSON.
    pub data: String,
    pub(crate) n: u64,
    pub(crate) topic: Option<String>,
    /// The only session it is for; empty: for no session at all.
    pub(crate) session: Option<String>,
}

/// Where the entry of a `state_changed` is kept instead of a topic: its name behind this. No topic has such a name; with
/// nothing behind it nobody could read the name.
pub(crate) const STATE_TOPIC: &str = "state/";

/// Which events a stream wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventFilter {
    /// Only these names; empty: all.
    pub events: Vec<String>,
    /// Only those of this topic, by name.
    pub topic: Option<String>,
    /// Only those of entries of the shared state whose names begin so.
    pub state: Option<String>,
    /// Who listens.
    pub scope: Scope,
}

impl EventFilter {
    pub(crate) fn wants(&self, event: &Event) -> bool {
        let named = self.events.is_empty() || self.events.contains(&event.name);
        let about = self.topic.is_none() || self.topic == event.topic;
        let allowed = match &self.scope {
            Scope::Member => true,
            Scope::Session(id) => event.session.as_ref().is_none_or(|session| session == id),
        };
        let entry = || event.topic.as_deref().and_then(|topic| topic.strip_prefix(STATE_TOPIC));
        let watched = match &self.state {
            None => true,
            // What was missed for good may have been of any name.
            Some(_) if event.name == "history_gap" => true,
            Some(prefix) => entry().is_some_and(|name| name.is_empty() || name.starts_with(prefix.as_str())),
        };
        named && about && watched && allowed
    }
}

/// The events of a daemon. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    pub(crate) store: Store,
    pub(crate) hub: Arc<Hub>,
    pub(crate) clock: Clock,
    /// By which what is old goes.
    pub(crate) ages: Clock,
}

impl Events {
    /// Tells something: on disk first, then to the streams. Also when the caller does not wait for the end.
    pub async fn publish(&self, event: NewEvent) -> Result<(), StoreError> {
        self.publish_all(vec![event]).await
    }

    /// As `publish`, several in one transaction and in order.
    pub async fn publish_all(&self, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let (now, boot) = (self.clock.now_ms(), self.hub.boot().to_owned());
        let written = self.store.submit(points::EVENT_STORED, move |transaction| {
            let mut told = Vec::with_capacity(events.len());
            for event in events {
                told.push(Told::Event(append(transaction, &boot, now, event)?));
            }
            trim(transaction, told.last().map_or(0, Told::n))?;
            Ok(((), Batch { told }))
        });
        self.tell(written.await?).await
    }

    /// Waits for a write that made events, on a task of its own, and tells them: what is on disk is told, whatever
    /// becomes of the caller.
    pub(crate) async fn tell<T: Send + 'static>(&self, ticket: Ticket<(T, Batch)>) -> Result<T, StoreError> {
        let hub = Arc::clone(&self.hub);
        let telling = hostel_tasks::spawn(async move {
            let (answer, batch) = ticket.done().await?;
            hub.publish(batch);
            Ok(answer)
        });
        telling.await.map_err(|_| StoreError::Closed)?
    }

    /// A stream of what is wanted: from after `last_event_id` if one is given and known, else from now.
    pub async fn subscribe(
        &self,
        filter: EventFilter,
        last_event_id: Option<&str>,
    ) -> Result<Subscription, StoreError> {
        Subscription::open(self.clone(), filter, last_event_id).await
    }

    /// What happened after a number, in order, at most `limit`: for who has to see all of it, however long it takes.
    pub(crate) async fn happened(&self, after: u64, limit: usize) -> Result<Vec<Happened>, StoreError> {
        self.store.read(move |connection| ring::happened(connection, after, limit)).await
    }

    /// The last number that was told.
    pub(crate) fn told(&self) -> tokio::sync::watch::Receiver<u64> {
        self.hub.told()
    }

    /// The name of this start, as ids have it.
    pub(crate) fn boot(&self) -> &str {
        self.hub.boot()
    }

    /// Streams that are open.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.hub.streams()
    }

    /// Ends all streams: the daemon is ending.
    pub fn close(&self) {
        self.hub.close();
    }

    /// Forgets what is too old or too much.
    pub async fn sweep(&self) -> Result<u64, StoreError> {
        let now = self.ages.now_ms();
        self.store.write(SyncPoint::NONE, move |transaction| ring::sweep(transaction, now)).await
    }
}
