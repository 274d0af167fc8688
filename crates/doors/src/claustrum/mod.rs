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
pub mod secret;
pub mod settings;
pub mod shellenv;

pub use door::NAME;
pub use log::{Level, Log};
pub use metrics::Metrics;
pub use secret::Secret;
pub use server::{architecture, platform};
pub use settings::{Limits, LoginPath, Reattach, Settings};

use door::Door;
use hostel_house::insiders::Insiders;
use hostel_house::processes::Processes;
use hostel_tasks::SpawnBoxed as _;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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
    let places = Arc::new(Semaphore::new(door.limits.connections));
    let local: Arc<str> = listener.local_addr().map_or_else(|_| "@".to_owned(), |address| name_of(&address)).into();
    let mut connections = JoinSet::new();
    tokio::pin!(stop);
    let reason = loop {
        tokio::select! {
            () = &mut stop => break ShutdownReason::Stopped,
            () = door.shutdown.wait() => break ShutdownReason::Asked,
            Some(_) = connections.join_next() => {}
            (stream, peer, place) = accept(&listener, &places, &door) => {
                let door = Arc::clone(&door);
                let local = Arc::clone(&local);
                connections.spawn_boxed(async move {
                    let log = door.log.clone();
                    connection::serve(door, stream, &local, peer.clone()).await;
                    log.info(format_args!("[Server] Connection closed: {peer}"));
                    drop(place);
                });
            }
        }
    };
    Closing { reason, _connections: connections }
}

/// The next client that may come in, once there is a place for it.
async fn accept(
    listener: &UnixListener,
    places: &Arc<Semaphore>,
    door: &Door,
) -> (UnixStream, String, OwnedSemaphorePermit) {
    let mut pause = FIRST_PAUSE;
    loop {
        // Fails only for a closed semaphore, and nobody closes this one.
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            std::future::pending::<()>().await;
            continue;
        };
        match listener.accept().await {
            Ok((stream, address)) => {
                let peer = name_of(&address);
                if let Err(refusal) = check_peer(&stream) {
                    door.log.warn(format_args!("[Server] Refused {peer}: {refusal}"));
                    continue;
                }
                door.metrics.connections.add(1);
                door.log.info(format_args!("[Server] New connection from: {peer}"));
                return (stream, peer, place);
            }
            Err(error) => {
                door.log.warn(format_args!("[Server] accept error (retrying): {error}"));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// The socket's mode keeps other users out; this is for the day it does not.
fn check_peer(stream: &UnixStream) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if peer == rustix::process::geteuid().as_raw() || peer == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("another user (uid {peer})")))
}

/// A socket address as Go prints it.
fn name_of(address: &SocketAddr) -> String {
    match (address.as_pathname(), address.as_abstract_name()) {
        (Some(path), _) => path.display().to_string(),
        (None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
        (None, None) => "@".to_owned(),
    }
}
