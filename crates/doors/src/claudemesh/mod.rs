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
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hostel_house::approvals::{DeciderPeer, Ends};
use hostel_house::insiders::Houses;
use hostel_mesh::Mesh;
use hostel_mesh::home::Tokens;
use hostel_mesh::log::Log;
use hostel_tasks::SpawnBoxed as _;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use self::guard::Transport;
use crate::zeroclaw::Peer;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
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
    /// A door to `mesh`; over TCP it is opened by `tokens`. Processes inside `houses` may do less, and have no files of
    /// `private` directories sent or written.
    #[must_use]
    pub fn new(
        mesh: Mesh,
        tokens: Tokens,
        log: Log,
        settings: Settings,
        houses: Houses,
        private: Vec<PathBuf>,
    ) -> Self {
        Self(Arc::new(door::Door::new(mesh, tokens, log, settings, houses, private)))
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
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => {}
                (stream, place) = accept(&places, &self.0, || UnixListener::accept(&socket)) => {
                    let (door, (stream, _)) = (Arc::clone(&self.0), stream);
                    let peer = Peer::of(&stream).decider();
                    connections.spawn_boxed(async move {
                        connection::converse::<UnixStream>(door, stream, peer, Transport::Socket).await;
                        drop(place);
                    });
                }
                (stream, place) = accept_tcp(&places, &self.0, tcp.as_ref()) => {
                    // Events and answers are small and wanted at once.
                    stream.set_nodelay(true).ok();
                    let door = Arc::clone(&self.0);
                    let peer = remote(&stream);
                    connections.spawn_boxed(async move {
                        connection::converse::<TcpStream>(door, stream, peer, Transport::Tcp).await;
                        drop(place);
                    });
                }
            }
        }
        drop((socket, tcp));
        self.0.stop.send_replace(true);
        let ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(GOODBYE, ended).await.is_err() {
            self.0.warn("ipc_connections_cut_off", json!({"connections": connections.len()}));
            connections.shutdown().await;
        }
    }
}

/// The other end of a TCP connection.
fn remote(stream: &TcpStream) -> DeciderPeer {
    match (stream.peer_addr(), stream.local_addr()) {
        (Ok(theirs), Ok(ours)) => DeciderPeer::Remote(Ends { theirs, ours }),
        _ => DeciderPeer::Unknown,
    }
}

/// Every endpoint as the table of what processes inside a house may do calls it, and whether it is for sessions.
#[cfg(test)]
pub(crate) fn endpoint_scopes() -> impl Iterator<Item = (String, bool)> {
    route::names().map(|(name, endpoint)| (name, endpoint.is_for_sessions()))
}

async fn accept_tcp(
    places: &Arc<Semaphore>,
    door: &door::Door,
    listener: Option<&TcpListener>,
) -> (TcpStream, OwnedSemaphorePermit) {
    match listener {
        Some(listener) => {
            let ((stream, _), place) = accept(places, door, || TcpListener::accept(listener)).await;
            (stream, place)
        }
        None => std::future::pending().await,
    }
}

/// The next client, once there is a place for it.
async fn accept<T, F>(places: &Arc<Semaphore>, door: &door::Door, next: impl Fn() -> F) -> (T, OwnedSemaphorePermit)
where
    F: Future<Output = io::Result<T>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        // Fails only for a closed semaphore, and nobody closes this one.
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            std::future::pending::<()>().await;
            continue;
        };
        match next().await {
            Ok(client) => return (client, place),
            Err(error) => {
                door.warn("ipc_accept_failed", json!({"error": error.to_string()}));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
