//! The part of a broker that speaks with others.
//!
//! `http` takes streams, answers requests and turns some of them into WebSockets; `connection` is the life of one of
//! those, from its hello to its close; `accept` is how a message gets into the log and `connection::delivery` how it gets
//! out; `room` and `presence` are who is there; `requests` is everything else that can be asked; `changes` tells the
//! others; `upkeep` is what time does.
//!
//! Invariant: everything that others can make grow has a bound in `settings`. Time of day comes from the clock that was
//! given, waiting is tokio's, so that all of it can run in a simulation.

mod accept;
mod changes;
mod connection;
mod http;
mod keys_needed;
mod lanes;
mod listen;
pub(crate) mod log;
mod metrics;
mod presence;
mod rate;
mod replay;
mod requests;
mod room;
pub(crate) mod settings;
mod upkeep;
mod welcome;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_wire::Clock;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::AbortHandle;

use crate::audit;
use crate::engine::{Bounds, Engine, EngineError};
use crate::registry::{Registry, RegistryError, RegistrySettings};
use connection::{Connection, Role};
use log::{Level, Log};
use metrics::Metrics;
use rate::{Bucket, Rates};
use room::Rooms;
use settings::Settings;

pub use listen::Served;

/// A daemon's place is kept anew after so many entries, and when it leaves.
const CURSOR_EVERY: u64 = 1000;

/// Lines about strangers at once; one more each second.
const ALARMS: u32 = 20;

/// Why a broker could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Its records could not be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Its log could not be opened.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Where a stream comes from.
#[derive(Debug, Clone, Copy, Default)]
pub struct PeerInfo {
    /// Its address, if it has one.
    pub address: Option<SocketAddr>,
}

impl PeerInfo {
    /// Whether it is on this machine, or no address at all: a stream that somebody handed over.
    fn is_local(&self) -> bool {
        self.address.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    fn text(&self) -> String {
        self.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string())
    }
}

/// A broker.
pub struct Broker<E: Engine> {
    pub(crate) engine: E,
    pub(crate) registry: Registry<E>,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    pub(crate) metrics: Metrics,
    /// How fast members send, and how fast they ask for other things.
    pub(crate) rates: Rates,
    pub(crate) asks: Rates,
    pub(crate) rooms: Rooms,
    /// What was said by who cannot be challenged.
    pub(crate) hellos: replay::Hellos,
    /// How often strangers may make us write a line.
    alarms: Arc<Bucket>,
    /// Rung when a lease begins.
    pub(crate) leased: Arc<Notify>,
    /// Rung when a task is claimed for a time.
    pub(crate) claimed: Arc<Notify>,
    /// Places for connections of any kind, and for uploads and downloads.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) transfers: Arc<Semaphore>,
    /// Meshes whose log was found to be an earlier one in this process's life.
    set_back: parking_lot::Mutex<HashSet<String>>,
    ids: AtomicU64,
    stop: watch::Sender<bool>,
    tasks: parking_lot::Mutex<Vec<AbortHandle>>,
}

impl<E: Engine> Broker<E> {
    /// Opens a broker on an engine: reads its records and begins to look after them.
    pub async fn open(
        engine: E,
        settings: Settings,
        registry: RegistrySettings,
        clock: Clock,
        log: Log,
    ) -> Result<Arc<Self>, BrokerError> {
        let registry = Registry::open(engine.clone(), clock.clone(), registry).await?;
        let changes = registry.changes();
        let limits = &settings.limits;
        let broker = Arc::new(Self {
            metrics: Metrics::new(),
            rates: Rates::new(limits.rate_per_s, limits.burst),
            asks: Rates::new(limits.requests_per_s, limits.requests_burst),
            rooms: Rooms::default(),
            hellos: replay::Hellos::default(),
            alarms: Rates::new(1, ALARMS).of("", ""),
            leased: Arc::new(Notify::new()),
            claimed: Arc::new(Notify::new()),
            places: Arc::new(Semaphore::new(limits.connections)),
            transfers: Arc::new(Semaphore::new(limits.transfers)),
            set_back: parking_lot::Mutex::default(),
            ids: AtomicU64::new(1),
            stop: watch::channel(false).0,
            tasks: parking_lot::Mutex::default(),
            engine,
            registry,
            settings,
            clock,
            log,
        });
        let weak = Arc::downgrade(&broker);
        let tasks = [
            hostel_tasks::spawn(changes::listen(weak.clone(), changes)).abort_handle(),
            hostel_tasks::spawn(upkeep::leases(weak.clone())).abort_handle(),
            hostel_tasks::spawn(upkeep::claims(weak.clone())).abort_handle(),
            hostel_tasks::spawn(upkeep::relief(weak.clone())).abort_handle(),
            hostel_tasks::spawn(upkeep::sweeps(weak)).abort_handle(),
        ];
        broker.tasks.lock().extend(tasks);
        Ok(broker)
    }

    /// What it keeps its meshes in.
    #[must_use]
    pub fn registry(&self) -> &Registry<E> {
        &self.registry
    }

    /// Lets everybody go, and lets what stands in line be written. Nothing is taken after that.
    pub async fn shutdown(&self) {
        self.stop.send_replace(true);
        let gone = async {
            while self.metrics.active.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(2 * connection::FAREWELL, gone).await.ok();
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
        self.engine.close().await;
    }

    /// A line about a stranger, unless strangers have caused many lately; the counters have them all.
    pub(crate) fn alarm(&self, message: &str, fields: serde_json::Value) {
        if self.alarms.take_one().is_ok() {
            self.log.line(Level::Warn, message, fields);
        }
    }

    /// Becomes true when the broker ends.
    pub(crate) fn stopping(&self) -> Stopping {
        Stopping(self.stop.subscribe())
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// A reader has more of a log than there is: a copy of earlier days was put in its place. The log gets another epoch,
    /// and everybody comes again: senders with what it lost, readers from its beginning. That happens once in a process's
    /// life, when the files can have been changed; who says so after that speaks for itself alone.
    pub(crate) async fn log_was_set_back(&self, mesh: &str, by: &str) -> Result<Bounds, EngineError> {
        if !self.set_back.lock().insert(mesh.to_owned()) {
            return self.engine.bounds(mesh).ok_or_else(|| EngineError::NoLog(mesh.to_owned()));
        }
        let bounds = self.engine.renew_epoch(mesh).await?;
        self.log.line(Level::Warn, "log_set_back", serde_json::json!({"mesh": mesh, "lastSeq": bounds.last_seq}));
        self.audit(mesh, audit::kind::LOG_SET_BACK, by, serde_json::json!({"lastSeq": bounds.last_seq})).await;
        for connection in self.rooms.room(mesh).connections() {
            connection.end(hostel_wire::frames::close::GOING_AWAY, "log_set_back");
        }
        Ok(bounds)
    }

    /// Keeps a reader's place for when it comes without one, if enough has changed.
    pub(crate) fn keep_cursor(self: &Arc<Self>, connection: &Arc<Connection>, least: u64) {
        if self.cursor_moved(connection) >= least {
            let (broker, connection) = (Arc::clone(self), Arc::clone(connection));
            hostel_tasks::spawn(async move { broker.save_cursor(&connection).await });
        }
    }

    /// How far a reader has come since its place was kept. Only who cannot keep its own relies on ours; a daemon's is a
    /// hint for people.
    fn cursor_moved(&self, connection: &Connection) -> u64 {
        if !connection.wants_entries || (connection.role == Role::Session && connection.protocol >= 2) {
            return 0;
        }
        connection.window.lock().durable().saturating_sub(connection.cursor_saved.load(Ordering::Relaxed))
    }

    /// Keeps a reader's place if it has moved.
    pub(crate) async fn save_cursor(&self, connection: &Connection) {
        if self.cursor_moved(connection) == 0 {
            return;
        }
        let Some(bounds) = self.engine.bounds(&connection.mesh) else { return };
        let low = connection.window.lock().durable();
        connection.cursor_saved.store(low, Ordering::Relaxed);
        let (member_key, key) = (connection.member_key.hex(), connection.key.hex());
        let key = welcome::cursor_key(&connection.member, &member_key, Some(&key));
        let kept = self.registry.cursor_put(&connection.mesh, &key, &bounds.epoch, low).await;
        self.note("cursor", kept);
    }
}

impl<E: Engine> Drop for Broker<E> {
    fn drop(&mut self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

/// Tells when a broker ends.
pub(crate) struct Stopping(watch::Receiver<bool>);

impl Stopping {
    /// Waits for it; a broker that is gone has ended.
    pub(crate) async fn wait(&mut self) {
        self.0.wait_for(|stop| *stop).await.ok();
    }
}
