//! The claustrum door: newline-delimited JSON-RPC on a unix socket.
//!
//! A desktop client that speaks the claustrum protocol works unchanged: every reply is, byte for
//! byte, what Go's encoder would have written. The door decodes, calls the house and encodes; a
//! process outlives the connection, the door and the daemon because none of them holds it.
//!
//! The door binds nothing and removes nothing: the caller brings a listening socket and decides
//! what becomes of the children when it closes.

mod caught;
mod connection;
mod door;
mod files;
mod flag;
mod git;
mod outbound;
mod patience;
mod process;
mod server;
mod stream;

pub mod base64;
pub mod environment;
pub mod errors;
pub mod frames;
pub mod fuzzing;
pub mod gojson;
pub mod lines;
pub mod log;
pub mod lookup;
pub mod metrics;
pub mod params;
pub mod request;
pub mod settings;
pub mod shellenv;

pub use door::NAME;
pub use hostel_peer::Secret;
pub use log::{Level, Log};
pub use metrics::Metrics;
pub use server::{architecture, platform};
pub use settings::{Limits, LoginPath, Reattach, Settings};

use door::Door;
use hostel_house::insiders::Insiders;
use hostel_house::processes::Processes;
use hostel_peer::accept::{self, Admits, Arrival, Gate, Notice, WhenFull};
use std::future::Future;
use std::sync::Arc;
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// Why the door closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownReason {
    /// A client sent `server.shutdown`.
    Asked,
    /// The caller's own signal.
    Stopped,
}

/// A door that takes no new clients. Those it has stay connected until this is dropped, so that
/// children can be ended first: a client that sees its connection close may then rely on it.
#[derive(Debug)]
pub struct Closing {
    /// Why.
    pub reason: ShutdownReason,
    _connections: JoinSet<()>,
}

/// Serves clients on `listener` until `stop` resolves or a client asks for the daemon's end.
pub async fn serve(
    listener: UnixListener,
    processes: Processes,
    insiders: Insiders,
    settings: Settings,
    stop: impl Future<Output = ()>,
) -> Closing {
    let door = Door::open(processes, insiders, settings);
    let local: Arc<str> = listener.local_addr().map_or_else(|_| "@".to_owned(), |address| name_of(&address)).into();
    let log = door.log.clone();
    let gate =
        Gate::new(Admits::OwnerAndRoot, door.limits.connections, WhenFull::Wait).on_notice(
            move |notice| match notice {
                Notice::AcceptFailed(error) => log.warn(format_args!("[Server] accept error (retrying): {error}")),
                Notice::TurnedAway { peer, reason, .. } => log.warn(format_args!("[Server] Refused {peer}: {reason}")),
                Notice::Panicked(error) => log.error(format_args!("[Server] a connection's handler failed: {error}")),
            },
        );
    let stop = async {
        tokio::select! {
            () = stop => ShutdownReason::Stopped,
            () = door.shutdown.wait() => ShutdownReason::Asked,
        }
    };
    let serve = |arrival: Arrival<UnixStream>| {
        let Arrival { stream, peer: client, place } = arrival;
        let peer = stream.peer_addr().map_or_else(|_| "@".to_owned(), |address| name_of(&address));
        let (door, local) = (Arc::clone(&door), Arc::clone(&local));
        door.metrics.connections.add(1);
        door.log.info(format_args!("[Server] New connection from: {peer}"));
        async move {
            let log = door.log.clone();
            connection::serve(door, stream, client, &local, peer.clone()).await;
            log.info(format_args!("[Server] Connection closed: {peer}"));
            drop(place);
        }
    };
    let (reason, connections) = accept::serve_each(&listener, &gate, stop, serve).await;
    Closing { reason, _connections: connections }
}

/// A socket address as Go prints it.
fn name_of(address: &SocketAddr) -> String {
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
        (None, None) => "@".to_owned(),
    }
}
