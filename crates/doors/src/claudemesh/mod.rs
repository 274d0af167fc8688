//! The claudemesh door: the `/v1` surface of a mesh daemon, over a unix socket and over HTTP on loopback.
//!
//! Any script of this host sends, posts, listens and searches here without knowing a broker. What is accepted is in the
//! mesh's outbox before the answer leaves; the door itself keeps nothing but connections, limits and counts.
//!
//! | module | what it is |
//! |---|---|
//! | `connection`, `patience` | one connection, from its first byte to its last |
//! | `respond` | one request: the checks in their order, then its endpoint |
//! | `guard` | who may ask at all |
//! | `route` | the surface in one table |
//! | `fields`, `query`, `incoming` | what a request says |
//! | `endpoints` | what it comes to |
//! | `answer`, `outgoing`, `stream` | what goes back |
//! | `rate`, `door` | limits and what connections share |
//! | `metrics` | how often and how fast |
//!
//! The door binds nothing: the caller brings listening sockets with the modes and addresses they shall have.

mod access;
mod answer;
mod confined;
mod connection;
mod door;
mod endpoints;
mod fields;
pub mod fuzzing;
mod guard;
mod incoming;
mod metrics;
mod outgoing;
mod patience;
mod query;
mod rate;
mod respond;
mod route;
mod settings;
mod stream;

pub use settings::{Limits, Settings};

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hostel_guard::ClosedPlaces;
use hostel_mesh::Mesh;
use hostel_mesh::home::Tokens;
use hostel_mesh::log::Log;
use hostel_peer::accept::{self, Admits, Arrival, Gate, Notice, WhenFull};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};

use self::guard::Transport;

/// How long connections may take to end when the door closes.
const GOODBYE: Duration = Duration::from_secs(2);

/// Where a door listens.
#[derive(Debug)]
pub struct Listeners {
    /// The socket.
    pub socket: UnixListener,
    /// Loopback, unless it is switched off.
    pub tcp: Option<TcpListener>,
}

/// The door of one mesh daemon. Clones are the same door.
#[derive(Clone)]
pub struct Door(Arc<door::Door>);

impl Door {
    /// A door to `mesh`; over TCP it is opened by `tokens`. Processes inside a house may do less: they have files
    /// shared and written only below their own working directories, and none in the places that `closed` says whenever one
    /// is named. It may block.
    #[must_use]
    pub fn new(
        mesh: Mesh,
        tokens: Tokens,
        log: Log,
        settings: Settings,
        closed: impl Fn() -> ClosedPlaces + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(door::Door::new(mesh, tokens, log, settings, Arc::new(closed))))
    }

    /// Goes on with other settings. What is under way is finished as it began; where the door listens stays.
    pub fn reload(&self, settings: Settings) {
        self.0.reload(settings);
    }

    /// Has `POST /v1/reload` do this; counts once.
    pub fn on_reload(
        &self,
        reload: impl Fn() -> Result<serde_json::Value, hostel_mesh::Refusal> + Send + Sync + 'static,
    ) {
        self.0.reloading.set(Arc::new(reload)).ok();
    }

    /// What `/v1/metrics` serves.
    pub async fn metrics_text(&self) -> String {
        self.0.mesh.metrics_text().await + &self.0.metrics.text()
    }

    /// Serves clients until `stop` resolves; then ends open streams, finishes what is under way and returns.
    pub async fn serve(&self, listeners: Listeners, stop: impl Future<Output = ()> + Send) {
        let Listeners { socket, tcp } = listeners;
        // One for each listener is held while it waits for a client.
        let most = self.0.live().settings.limits.connections.saturating_add(2);
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let (stopping, stopped) = watch::channel(false);
        let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
            // An error means that the other end of the channel is gone, which is in this very function.
            stopped.wait_for(|stopped| *stopped).await.ok();
        };
        let ears = [stopped.clone(), stopped];
        let over_socket = async {
            let gate = self.gate(Admits::Owner, &places);
            let serve =
                |arrival: Arrival<UnixStream>| connection::converse(Arc::clone(&self.0), arrival, Transport::Socket);
            accept::serve_each(&socket, &gate, until_stopped(ears[0].clone()), serve).await.1
        };
        let over_tcp = async {
            let tcp = tcp.as_ref()?;
            let gate = self.gate(Admits::Everybody, &places);
            let serve = |arrival: Arrival<TcpStream>| {
                // Events and answers are small and wanted at once.
                arrival.stream.set_nodelay(true).ok();
                connection::converse(Arc::clone(&self.0), arrival, Transport::Tcp)
            };
            Some(accept::serve_each(tcp, &gate, until_stopped(ears[1].clone()), serve).await.1)
        };
        let told = async {
            stop.await;
            stopping.send_replace(true);
        };
        let ((), mut connections, others) = tokio::join!(told, over_socket, over_tcp);
        drop((socket, tcp));
        self.0.stop.send_replace(true);
        let mut others = others.unwrap_or_default();
        let ended = async {
            while connections.join_next().await.is_some() {}
            while others.join_next().await.is_some() {}
        };
        if tokio::time::timeout(GOODBYE, ended).await.is_err() {
            self.0.warn("ipc_connections_cut_off", json!({"connections": connections.len() + others.len()}));
            connections.shutdown().await;
            others.shutdown().await;
        }
    }

    fn gate(&self, admits: Admits, places: &Arc<Semaphore>) -> Gate {
        let door = Arc::clone(&self.0);
        Gate::with_places(admits, Arc::clone(places), WhenFull::Wait).on_notice(move |notice| match notice {
            Notice::AcceptFailed(error) => door.warn("ipc_accept_failed", json!({"error": error.to_string()})),
            Notice::TurnedAway { peer, reason, silenced } => {
                let fields = json!({"peer": peer.to_string(), "reason": reason.to_string(), "silenced": silenced});
                door.warn("ipc_connection_refused", fields);
            }
            Notice::Panicked(error) => door.warn("ipc_connection_failed", json!({"error": error.to_string()})),
        })
    }
}

/// Every endpoint as the table of what processes inside a house may do calls it, and whether it is for sessions.
#[cfg(test)]
pub(crate) fn endpoint_scopes() -> impl Iterator<Item = (String, bool)> {
    route::names().map(|(name, endpoint)| (name, endpoint.is_for_sessions()))
}
