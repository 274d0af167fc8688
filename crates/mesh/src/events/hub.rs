//! Who listens now, and what they have not taken yet.
//!
//! Invariant: streams get events in the order of their numbers, whoever publishes first. A stream is given what comes
//! after the place it has reached, from the instant in which it is put in. One that holds too much is cut off.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hostel_wire::random;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{Event, EventFilter, ring};
use crate::inbox::InboxRow;

/// What a stream may leave untaken: events and bytes.
pub const MOST_UNTAKEN: usize = 1000;
/// As above.
pub const MOST_UNTAKEN_BYTES: usize = 1 << 20;

/// Publishers that may be ahead of a missing one; beyond that it is taken for lost.
const MOST_EARLY: usize = 1024;

/// Events of one write, with their numbers, which follow one another.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) told: Vec<Told>,
}

/// An event that is on disk; a message's is written out only if somebody listens.
pub(crate) enum Told {
    Event(Event),
    Message { n: u64, ts: u64, row: Arc<InboxRow> },
}

impl Told {
    pub(crate) fn n(&self) -> u64 {
        match self {
            Self::Event(event) => event.n,
            Self::Message { n, .. } => *n,
        }
    }
}

/// Everybody who listens.
pub(crate) struct Hub {
    boot: String,
    state: Mutex<State>,
    /// The last number that was told, for who reads the ring itself.
    told: watch::Sender<u64>,
}

struct State {
    /// The number that is to be told next.
    next: u64,
    early: BTreeMap<u64, Batch>,
    streams: Vec<Arc<Stream>>,
    closed: bool,
}

/// One who listens.
pub(crate) struct Stream {
    filter: EventFilter,
    untaken: Mutex<Untaken>,
    changed: Notify,
    cut: watch::Sender<bool>,
}

#[derive(Default)]
struct Untaken {
    after: u64,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Nothing comes after these.
    ended: bool,
}

impl Hub {
    /// `last` is the newest event on disk. The name of this start holds its time, so that an id that is no longer known
    /// still says from when on something may have been missed.
    pub(crate) fn new(last: u64, now: u64) -> Self {
        let [a, b] = random::bytes::<2>();
        let state = State { next: last + 1, early: BTreeMap::new(), streams: Vec::new(), closed: false };
        let told = watch::Sender::new(last);
        Self { boot: format!("{now:012x}{a:02x}{b:02x}"), state: Mutex::new(state), told }
    }

    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    pub(crate) fn streams(&self) -> usize {
        self.state.lock().streams.len()
    }

    /// Tells what is on disk, as soon as everything before it has been told.
    pub(crate) fn publish(&self, batch: Batch) {
        let Some(first) = batch.told.first().map(Told::n) else { return };
        let mut state = self.state.lock();
        state.early.insert(first, batch);
        if state.early.len() > MOST_EARLY
            && let Some(first) = state.early.keys().next().copied()
        {
            state.next = first;
        }
        loop {
            let next = state.next;
            let Some(batch) = state.early.remove(&next) else { break };
            for told in batch.told {
                state.next = told.n() + 1;
                self.tell(&mut state, told);
            }
        }
        let last = state.next - 1;
        drop(state);
        self.told.send_if_modified(|told| {
            let later = last > *told;
            *told = last.max(*told);
            later
        });
    }

    /// Follows the numbers that were told.
    pub(super) fn told(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    fn tell(&self, state: &mut State, told: Told) {
        if state.streams.is_empty() {
            return;
        }
        let event = Arc::new(match told {
            Told::Event(event) => event,
            Told::Message { n, ts, row } => ring::message(&self.boot, n, ts, &row),
        });
        state.streams.retain(|stream| stream.offer(&event));
    }

    /// Puts a stream in that has everything up to `after`; `false` if there is more to read first.
    pub(super) fn join(&self, stream: &Arc<Stream>, after: u64) -> bool {
        let mut state = self.state.lock();
        if after + 1 < state.next {
            return false;
        }
        stream.untaken.lock().after = after;
        if state.closed {
            stream.cut_off();
        } else {
            state.streams.push(Arc::clone(stream));
        }
        true
    }

    /// Puts a stream in that wants what comes from now on; the last number it will not get.
    pub(super) fn join_now(&self, stream: &Arc<Stream>) -> u64 {
        let mut state = self.state.lock();
        let after = state.next - 1;
        stream.untaken.lock().after = after;
        if state.closed {
            stream.cut_off();
        } else {
            state.streams.push(Arc::clone(stream));
        }
        after
    }

    pub(super) fn leave(&self, stream: &Arc<Stream>) {
        self.state.lock().streams.retain(|other| !Arc::ptr_eq(other, stream));
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        for stream in state.streams.drain(..) {
            stream.end();
        }
    }
}

impl Stream {
    pub(super) fn new(filter: EventFilter) -> Arc<Self> {
        let (untaken, changed) = (Mutex::default(), Notify::new());
        Arc::new(Self { filter, untaken, changed, cut: watch::channel(false).0 })
    }

    pub(super) fn filter(&self) -> &EventFilter {
        &self.filter
    }

    pub(super) fn cut(&self) -> watch::Receiver<bool> {
        self.cut.subscribe()
    }

    /// Leaves an event for the one who listens; `false` once that is too much.
    fn offer(&self, event: &Arc<Event>) -> bool {
        if !self.filter.wants(event) {
            return true;
        }
        {
            let mut untaken = self.untaken.lock();
            if event.n <= untaken.after {
                return true;
            }
            untaken.bytes += size(event);
            untaken.events.push_back(Arc::clone(event));
            if untaken.events.len() <= MOST_UNTAKEN && untaken.bytes <= MOST_UNTAKEN_BYTES {
                drop(untaken);
                self.changed.notify_one();
                return true;
            }
        }
        self.cut_off();
        false
    }

    fn cut_off(&self) {
        *self.untaken.lock() = Untaken { after: u64::MAX, ..Untaken::default() };
        self.cut.send_replace(true);
        self.changed.notify_one();
    }

    /// What is here is still taken: the last event says why it is the last.
    fn end(&self) {
        self.untaken.lock().ended = true;
        self.changed.notify_one();
    }

    /// The next event; `None` when the stream was cut off, or is over.
    pub(super) async fn take(&self) -> Option<Arc<Event>> {
        loop {
            let changed = self.changed.notified();
            if *self.cut.borrow() {
                return None;
            }
            {
                let mut untaken = self.untaken.lock();
                if let Some(event) = untaken.events.pop_front() {
                    untaken.bytes -= size(&event);
                    return Some(event);
                }
                if untaken.ended {
                    return None;
                }
            }
            changed.await;
        }
    }
}

fn size(event: &Event) -> usize {
    event.data.len() + event.name.len() + event.id.len() + 32
}
