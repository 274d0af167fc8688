//! One stream: first what it missed, then what happens.

use std::collections::VecDeque;
use std::sync::Arc;

use hostel_store::StoreError;
use hostel_wire::iso;
use serde_json::json;
use tokio::sync::watch;

use super::hub::Stream;
use super::{Event, EventFilter, Events, KEPT_MS, ring};

/// Rows read from the ring at a time.
const READ: usize = 256;

/// A stream of events. It is left when it is dropped.
pub struct Subscription {
    events: Events,
    stream: Arc<Stream>,
    /// Everything up to here was given or passed over.
    after: u64,
    live: bool,
    ready: VecDeque<Event>,
    /// The id of the last event it does not give.
    begins: String,
}

/// Tells when a stream was cut off, also while nobody takes its events.
#[derive(Clone)]
pub struct Cut(watch::Receiver<bool>);

impl Cut {
    /// Waits for it.
    pub async fn wait(&mut self) {
        // An error means that the stream is gone, which is the same.
        self.0.wait_for(|cut| *cut).await.ok();
    }
}

impl Subscription {
    pub(super) async fn open(events: Events, filter: EventFilter, last: Option<&str>) -> Result<Self, StoreError> {
        let stream = Stream::new(filter);
        let mut new = Self { events, stream, after: 0, live: false, ready: VecDeque::new(), begins: String::new() };
        let Some(last) = last else {
            new.go_live();
            new.begins = new.id_of(new.after).await?;
            return Ok(new);
        };
        match new.place(last).await? {
            Some(n) => {
                new.after = n;
                last.clone_into(&mut new.begins);
            }
            None => {
                let since = since(last, new.events.clock.now_ms());
                new.ready.push_back(gap(last, since));
                new.go_live();
                new.begins = new.id_of(new.after).await?;
            }
        }
        Ok(new)
    }

    /// Where it begins: who names this id next time goes on from there, also if nothing was told in between. After a
    /// gap it is the place behind it.
    #[must_use]
    pub fn begins(&self) -> &str {
        &self.begins
    }

    /// The id of a number that was told. Nought is the place before the first event, whoever was there first.
    async fn id_of(&self, n: u64) -> Result<String, StoreError> {
        let boot = self.events.store.read(move |connection| ring::boot_of(connection, n)).await?;
        Ok(ring::id(boot.as_deref().unwrap_or_else(|| self.events.hub.boot()), n))
    }

    fn go_live(&mut self) {
        self.after = self.events.hub.join_now(&self.stream);
        self.live = true;
    }

    /// The number of an id, if the ring still has that event. Before the first one there is none to have.
    async fn place(&self, id: &str) -> Result<Option<u64>, StoreError> {
        let Some((boot, n)) = parse(id) else { return Ok(None) };
        if n == 0 {
            return Ok(Some(0));
        }
        let found = self.events.store.read(move |connection| ring::boot_of(connection, n)).await?;
        Ok(found.filter(|found| *found == boot).map(|_| n))
    }

    /// The next event that is wanted; `None` when the stream fell behind, or the daemon ends.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.live {
                return self.stream.take().await.map(|event| Event::clone(&event));
            }
            if self.events.hub.join(&self.stream, self.after) {
                self.live = true;
            } else {
                self.read().await?;
            }
        }
    }

    /// Reads on in the ring.
    async fn read(&mut self) -> Option<()> {
        let after = self.after;
        let rows = self.events.store.read(move |connection| ring::read(connection, after, READ)).await.ok()?;
        let Some((first, _)) = rows.first() else {
            // Told to others and not in the ring: nothing can be made of that but a gap.
            self.ready.push_back(gap("", self.events.clock.now_ms().saturating_sub(KEPT_MS)));
            self.go_live();
            return Some(());
        };
        if *first > after + 1 {
            self.ready.push_back(gap("", self.events.clock.now_ms().saturating_sub(KEPT_MS)));
        }
        for (n, event) in rows {
            self.after = n;
            self.ready.extend(event.filter(|event| self.stream.filter().wants(event)));
        }
        Some(())
    }

    /// Tells when this stream was cut off.
    #[must_use]
    pub fn cut(&self) -> Cut {
        Cut(self.stream.cut())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.events.hub.leave(&self.stream);
    }
}

fn parse(id: &str) -> Option<(String, u64)> {
    let (boot, n) = id.split_once('-')?;
    let n = n.parse().ok().filter(|n| i64::try_from(*n).is_ok())?;
    (boot.len() <= 64).then(|| (boot.to_owned(), n))
}

/// From when on something may have been missed: the start of the process that gave the id, or as long ago as events are
/// kept.
fn since(id: &str, now: u64) -> u64 {
    let time = id.get(..12).and_then(|time| u64::from_str_radix(time, 16).ok());
    time.filter(|time| *time <= now && id.as_bytes().get(16) == Some(&b'-'))
        .unwrap_or_else(|| now.saturating_sub(KEPT_MS))
}

/// Something is missing here; the inbox has what can be had.
fn gap(from: &str, since: u64) -> Event {
    let from: String = from.chars().take(100).collect();
    let data = json!({"from": from, "resume": format!("/v1/inbox?since={}", iso(since))}).to_string();
    Event { id: String::new(), name: "gap".to_owned(), data, n: 0, topic: None, session: None }
}
