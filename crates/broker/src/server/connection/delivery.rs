//! What comes next for a reader: a cursor over the log of its mesh.
//!
//! Invariant: entries that concern the reader are sent in the order of the log, each once per connection, and no more of
//! them than its window holds. Urgent ones (`now`) may come before their turn while others wait; they are marked, and
//! keep their order among themselves. A reader is told from time to time up to where it has everything, so that one for
//! whom nothing comes does not read the same log again when it comes back.
//!
//! It may be stopped at every await and goes on where it was.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use hostel_wire::frames::server::{Push, ServerFrame};
use hostel_wire::frames::{Kind, Priority};
use hostel_wire::iso;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{Connection, Role};
use crate::engine::{Engine, EngineError, Entry};
use crate::registry::Mesh;
use crate::server::metrics::Metrics;
use crate::server::{Broker, log::Level};

/// Entries that are read at a time, and their bytes.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 512 * 1024;

/// Urgent entries that are looked for at a time, and that may be ahead of their turn.
const URGENT: usize = 32;
const MOST_AHEAD: usize = 1024;

/// A reader for whom nothing comes is told how far the log is after so many entries, or so much time.
const MARK_EVERY: u64 = 1000;
const MARK_AFTER: Duration = Duration::from_secs(60);

/// The pause before the log is read again after it could not be.
const PAUSE: Duration = Duration::from_millis(500);

type Reading = Pin<Box<dyn Future<Output = (Asked, Result<Vec<Arc<Entry>>, EngineError>)> + Send>>;

/// What was asked of the log.
#[derive(Clone, Copy)]
enum Asked {
    /// What comes next; the log ended there.
    Next(u64),
    /// Urgent ones up to there.
    Urgent(u64),
}

/// What can be taken from what was read.
enum Taken {
    Text(Utf8Bytes),
    /// The window is closed, or the reader does not want to be disturbed.
    Shut,
    /// Nothing was read that is not taken.
    Empty,
}

/// The cursor of a connection.
pub(super) struct Delivery<E: Engine> {
    broker: Arc<Broker<E>>,
    connection: Arc<Connection>,
    tail: watch::Receiver<u64>,
    /// Read, and to be sent in their turn.
    batch: VecDeque<Arc<Entry>>,
    /// Read, and to be sent before that.
    urgent: VecDeque<Arc<Entry>>,
    /// Urgent ones up to here were found.
    urgent_to: u64,
    reading: Option<Reading>,
    /// The reader knows that it has everything up to here.
    told: u64,
    told_at: Instant,
    /// It should be told at the next opportunity: at the end of its backlog, and after what came before its turn.
    owes_mark: bool,
}

impl<E: Engine> Delivery<E> {
    /// Begins where the connection's window begins. `None` if the mesh has no log.
    pub(super) fn new(broker: &Arc<Broker<E>>, connection: &Arc<Connection>) -> Option<Self> {
        let tail = broker.engine.tail(&connection.mesh)?;
        let from = connection.window.lock().scan();
        Some(Self {
            broker: Arc::clone(broker),
            connection: Arc::clone(connection),
            tail,
            batch: VecDeque::new(),
            urgent: VecDeque::new(),
            urgent_to: from,
            reading: None,
            told: from,
            told_at: Instant::now(),
            owes_mark: true,
        })
    }

    /// The next frame for the reader; waits until there is one and it may be sent.
    pub(super) async fn next(&mut self) -> Utf8Bytes {
        loop {
            let shut = match self.take() {
                Taken::Text(text) => return text,
                Taken::Shut => true,
                Taken::Empty => false,
            };
            if !self.reads() {
                if !shut && let Some(text) = self.mark() {
                    return text;
                }
                self.wait(shut).await;
                continue;
            }
            if let Some(reading) = &mut self.reading {
                let (asked, entries) = reading.await;
                self.reading = None;
                match entries {
                    Ok(entries) => self.took(asked, entries),
                    Err(error) => {
                        let fields = json!({"mesh": self.connection.mesh, "error": error.to_string()});
                        self.broker.log.line(Level::Error, "log_unreadable", fields);
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                // What is in memory is there at once: others must get their turn all the same.
                tokio::task::coop::consume_budget().await;
            }
        }
    }

    /// Takes the next entry that concerns the reader from what was read.
    fn take(&mut self) -> Taken {
        let Some(mesh) = self.broker.registry.mesh(&self.connection.mesh) else { return Taken::Shut };
        let held = self.connection.held(self.broker.settings.working).is_some();
        loop {
            let mut window = self.connection.window.lock();
            if !window.has_room() {
                return Taken::Shut;
            }
            let (entry, early) = if let Some(entry) = self.urgent.pop_front() {
                if entry.seq <= window.scan() || window.was_sent(entry.seq) {
                    continue;
                }
                (entry, true)
            } else {
                match self.batch.front() {
                    None => return Taken::Empty,
                    Some(entry) if held && entry.priority != Priority::Now => return Taken::Shut,
                    Some(_) => {}
                }
                let Some(entry) = self.batch.pop_front() else { return Taken::Empty };
                if window.pass(entry.seq) {
                    // Sent before its turn: the reader cannot know that its turn has come.
                    self.owes_mark = true;
                    continue;
                }
                (entry, false)
            };
            if !concerns(&self.broker.metrics, &self.connection, &mesh, &entry) {
                continue;
            }
            let Some(text) = frame(&entry, early) else { continue };
            let ids = (self.connection.protocol < 2).then(|| (entry.id.clone(), entry.client_id.clone()));
            window.send(entry.seq, text.len(), early, ids);
            if !early {
                (self.told, self.told_at) = (entry.seq, Instant::now());
            }
            self.broker.metrics.in_window.fetch_add(1, Ordering::Relaxed);
            Metrics::count(&self.broker.metrics.pushed);
            return Taken::Text(text);
        }
    }

    /// Begins to read what may be sent next, or goes on with it. Says whether there is anything to read.
    fn reads(&mut self) -> bool {
        if self.reading.is_some() {
            return true;
        }
        let tail = *self.tail.borrow_and_update();
        let (scan, ahead, room) = {
            let window = self.connection.window.lock();
            (window.scan(), window.ahead(), window.has_room())
        };
        if !room || !self.urgent.is_empty() {
            return false;
        }
        let held = self.connection.held(self.broker.settings.working).is_some();
        let (engine, mesh) = (self.broker.engine.clone(), self.connection.mesh.clone());
        let behind = tail.saturating_sub(scan) > BATCH as u64;
        if (held || behind) && self.urgent_to < tail && ahead < MOST_AHEAD {
            let after = self.urgent_to.max(scan);
            self.reading = Some(Box::pin(async move {
                (Asked::Urgent(tail), engine.read_urgent(&mesh, after, tail, URGENT, BATCH_BYTES).await)
            }));
            return true;
        }
        if held || scan >= tail || !self.batch.is_empty() {
            return false;
        }
        self.reading =
            Some(Box::pin(async move { (Asked::Next(tail), engine.read(&mesh, scan, BATCH, BATCH_BYTES).await) }));
        true
    }

    fn took(&mut self, asked: Asked, entries: Vec<Arc<Entry>>) {
        let last = entries.last().map(|entry| entry.seq);
        match asked {
            Asked::Urgent(up_to) => {
                self.urgent_to = last.unwrap_or(up_to);
                self.urgent.extend(entries);
            }
            // What was there is too old by now.
            Asked::Next(tail) if entries.is_empty() => {
                self.connection.window.lock().pass(tail);
            }
            Asked::Next(_) => {
                self.urgent = overtaking(&entries, self.urgent_to);
                self.urgent_to = self.urgent_to.max(last.unwrap_or_default());
                self.batch = entries.into();
            }
        }
    }

    /// Tells the reader that it has everything, when that is news and it is time for it.
    fn mark(&mut self) -> Option<Utf8Bytes> {
        let scan = self.connection.window.lock().scan();
        let news = scan.saturating_sub(self.told);
        let due = self.owes_mark || news >= MARK_EVERY || (news > 0 && self.told_at.elapsed() >= MARK_AFTER);
        if self.connection.protocol < 2 || !due {
            return None;
        }
        (self.told, self.told_at, self.owes_mark) = (scan, Instant::now(), false);
        let push = Push {
            mesh_id: self.connection.mesh.clone(),
            sender_pubkey: "system".to_owned(),
            created_at: iso(self.broker.clock.now_ms()),
            seq: scan,
            subtype: Some("system".to_owned()),
            event: Some("caught_up".to_owned()),
            event_data: Some(json!({"seq": scan})),
            ..Push::default()
        };
        Some(ServerFrame::Push(Box::new(push)).encode().into())
    }

    /// Waits until something may have changed.
    async fn wait(&mut self, shut: bool) {
        let held = self.connection.held(self.broker.settings.working);
        let untold = self.connection.window.lock().scan() > self.told;
        let mark = (!shut && untold && self.connection.protocol >= 2).then(|| self.told_at + MARK_AFTER);
        let wake = match (held.flatten(), mark) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let grows = async {
            if self.tail.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            () = grows => {}
            () = self.connection.opened.notified() => {}
            () = sleep_until(wake) => {}
        }
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => pending().await,
    }
}

/// Urgent entries of a batch that others of it stand before: all its urgent ones, in order, or none if nothing is
/// before them.
fn overtaking(entries: &[Arc<Entry>], known_to: u64) -> VecDeque<Arc<Entry>> {
    let first = entries.iter().position(|entry| entry.priority != Priority::Now).unwrap_or(entries.len());
    if !entries.iter().skip(first).any(|entry| entry.priority == Priority::Now && entry.seq > known_to) {
        return VecDeque::new();
    }
    entries.iter().filter(|entry| entry.priority == Priority::Now && entry.seq > known_to).cloned().collect()
}

/// Whether an entry is sent on a connection.
fn concerns(metrics: &Metrics, connection: &Connection, mesh: &Mesh, entry: &Entry) -> bool {
    let member = connection.member.as_str();
    if !mesh.sees(member, entry) {
        let meant = match entry.kind {
            Kind::All => true,
            Kind::Topic => mesh.subscribed_at(&entry.dest, member, entry.seq),
            Kind::Group => entry.audience.iter().any(|one| one == member),
            Kind::Dm | Kind::File | Kind::Sys | Kind::State | Kind::Task => false,
        };
        if meant && entry.sender != member && !mesh.may(member, &entry.sender, "broadcast") {
            metrics.dropped_by_grant("broadcast");
        }
        return false;
    }
    // What is shared is told to daemons that have said that they know what it is.
    if matches!(entry.kind, Kind::State | Kind::Task) {
        return connection.role == Role::Service && connection.shares;
    }
    // A direct message is the member's, or one session's.
    connection.role == Role::Service || entry.kind != Kind::Dm || is_for(entry, &connection.key.hex())
}

/// Whether a direct message is for this session.
fn is_for(entry: &Entry, key: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Addressee {
        recipient_pubkey: Option<String>,
    }
    let read = serde_json::from_slice::<Addressee>(&entry.bytes);
    read.is_ok_and(|addressee| addressee.recipient_pubkey.as_deref() == Some(key))
}

/// An entry as a frame. It is written once for all readers.
pub(crate) fn frame(entry: &Entry, early: bool) -> Option<Utf8Bytes> {
    let bytes = entry.frame.get_or_init(|| {
        let head = format!(
            "{{\"type\":\"push\",\"messageId\":\"{}\",\"seq\":{},\"createdAt\":\"{}\",",
            entry.id,
            entry.seq,
            iso(entry.ts_ms)
        );
        join(head.as_bytes(), entry.bytes.get(1..).unwrap_or_default())
    });
    let bytes = match early {
        true => join(b"{\"ahead\":true,", bytes.get(1..).unwrap_or_default()),
        false => bytes.clone(),
    };
    Utf8Bytes::try_from(bytes).ok()
}

fn join(head: &[u8], rest: &[u8]) -> Bytes {
    let mut all = BytesMut::with_capacity(head.len() + rest.len());
    all.put_slice(head);
    all.put_slice(rest);
    all.freeze()
}
