//! What all connections of the door share.
//!
//! Invariant: it holds no state of the mesh. What it holds are limits, counts and whether it is closing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hostel_guard::ClosedPlaces;
use hostel_mesh::home::Tokens;
use hostel_mesh::log::Log;
use hostel_mesh::{Mesh, Refusal};
use hostel_peer::Ends;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::answer::Refused;
use super::guard::{Transport, Visitor};
use super::metrics::Metrics;
use super::rate::{self, Bucket};
use super::settings::Settings;
use hyper::StatusCode;

/// Over the socket everything may be asked this much more often: whoever reaches it is its owner.
const SOCKET_FACTOR: f64 = 10.0;

/// Pages of messages that are made at once. One may have as many bytes as an answer, twice while it is made, and the
/// daemon's memory is bounded.
const PAGES: usize = 2;

/// Bytes of such answers that may wait to be taken, counted in pieces.
const UNTAKEN: usize = 32 * 1024 * 1024;
const PIECE: usize = 64 * 1024;

/// How long a page waits for its turn.
const TURN: Duration = Duration::from_secs(10);

/// Reads the configuration again, and says what came of it.
pub(super) type Reloading = Arc<dyn Fn() -> Result<Value, Refusal> + Send + Sync>;

/// Says which places are closed to agents now. Blocks.
pub(super) type Closed = Arc<dyn Fn() -> ClosedPlaces + Send + Sync>;

/// The door of one mesh daemon.
pub(super) struct Door {
    pub(super) mesh: Mesh,
    pub(super) tokens: Tokens,
    pub(super) metrics: Metrics,
    /// Places whose files are not for processes inside a house.
    pub(super) closed: Closed,
    log: Log,
    /// True when open streams are to end.
    pub(super) stop: watch::Sender<bool>,
    live: RwLock<Arc<Live>>,
    /// Reads the configuration again; who starts the daemon knows how.
    pub(super) reloading: OnceLock<Reloading>,
    /// Strangers must not be able to fill the log.
    alarms: Bucket,
    silenced: AtomicU64,
}

/// What changes when the settings do.
pub(super) struct Live {
    pub(super) settings: Settings,
    slots: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    untaken: Arc<Semaphore>,
    socket: Bucket,
    tcp: Bucket,
    anybody: Bucket,
}

impl Live {
    fn new(settings: Settings) -> Self {
        let limits = &settings.limits;
        let bucket = |factor: f64| Bucket::new(limits.rate * factor, limits.burst * factor);
        Self {
            slots: Arc::new(Semaphore::new(limits.inflight.clamp(1, Semaphore::MAX_PERMITS))),
            streams: Arc::new(Semaphore::new(limits.streams.min(Semaphore::MAX_PERMITS))),
            pages: Arc::new(Semaphore::new(PAGES)),
            untaken: Arc::new(Semaphore::new(UNTAKEN / PIECE)),
            socket: bucket(SOCKET_FACTOR),
            tcp: bucket(1.0),
            anybody: bucket(1.0),
            settings,
        }
    }

    /// Whether it is not too often.
    pub(super) fn pace(&self, transport: Transport, visitor: &Visitor) -> Result<(), Refused> {
        let bucket = match (transport, visitor) {
            (_, Visitor::Anybody) => &self.anybody,
            (Transport::Socket, _) => &self.socket,
            (Transport::Tcp, _) => &self.tcp,
        };
        bucket.take().map_err(|wait| {
            Refused::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests in a short time")
                .retry_after(rate::seconds(wait))
        })
    }

    /// A turn at making a page of messages.
    pub(super) async fn page(&self) -> Result<OwnedSemaphorePermit, Refused> {
        turn(&self.pages, 1).await
    }

    /// Room for an answer of so many bytes until it is taken; small ones need none.
    pub(super) async fn room(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Refused> {
        match bytes / PIECE {
            0 => Ok(None),
            pieces => turn(&self.untaken, pieces.min(UNTAKEN / PIECE)).await.map(Some),
        }
    }

    /// A slot for a request.
    pub(super) fn slot(&self) -> Result<OwnedSemaphorePermit, Refused> {
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            let detail = "too many requests are under way";
            Refused::new(StatusCode::TOO_MANY_REQUESTS, "daemon_busy", detail).retry_after(1)
        })
    }

    /// A slot for an event stream.
    pub(super) fn stream(&self) -> Result<OwnedSemaphorePermit, Refused> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let detail = "too many event streams are open";
            Refused::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail).retry_after(1)
        })
    }
}

/// Waits for a turn, not for ever.
async fn turn(places: &Arc<Semaphore>, count: usize) -> Result<OwnedSemaphorePermit, Refused> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    match tokio::time::timeout(TURN, Arc::clone(places).acquire_many_owned(count)).await {
        Ok(Ok(place)) => Ok(place),
        _ => {
            let detail = "too many large answers are being made or wait to be taken";
            Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, "daemon_busy", detail).retry_after(1))
        }
    }
}

impl Door {
    pub(super) fn new(mesh: Mesh, tokens: Tokens, log: Log, settings: Settings, closed: Closed) -> Self {
        Self {
            mesh,
            closed,
            tokens,
            metrics: Metrics::default(),
            log,
            stop: watch::Sender::new(false),
            live: RwLock::new(Arc::new(Live::new(settings))),
            reloading: OnceLock::new(),
            alarms: Bucket::new(1.0, 20.0),
            silenced: AtomicU64::new(0),
        }
    }

    /// The settings as they are now; a request keeps those it began with.
    pub(super) fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read())
    }

    /// Goes on with other settings. What is under way keeps its slots.
    pub(super) fn reload(&self, settings: Settings) {
        let live = Arc::new(Live::new(settings));
        *self.live.write() = live;
    }

    /// Whether a token opens the TCP side. A listener that others can reach has a token for them, which counts on this
    /// machine as well; the token of this machine does not count for others.
    pub(super) fn admits(&self, live: &Live, ends: Option<Ends>, token: &[u8]) -> bool {
        let is_external = live.settings.external.as_ref().is_some_and(|external| external.matches(token));
        let is_here = live.settings.external.is_none() || ends.is_some_and(|ends| ends.are_loopback());
        is_external || (is_here && self.tokens.accepts(token))
    }

    /// Writes a warning about a stranger, unless there were too many already.
    pub(super) fn alarm(&self, what: &str, fields: Value) {
        if self.alarms.take().is_err() {
            self.silenced.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut fields = fields;
        let silenced = self.silenced.swap(0, Ordering::Relaxed);
        if silenced > 0 {
            fields["silenced"] = json!(silenced);
        }
        self.log.warn(what, fields);
    }

    /// Writes a line about ourselves.
    pub(super) fn warn(&self, what: &str, fields: Value) {
        self.log.warn(what, fields);
    }
}
