//! Taking connections: one loop for every door and server.
//!
//! Guarantees: a failure to accept never ends a door and never spins. Nobody is served whom the door's rule does not admit.
//! No more are served at once than there are places. Whoever has not shown who they are takes none of the places of those
//! who have: there is a small pool of its own for them, shared out by user and by address, and time in it is limited.
//!
//! The loop knows nothing of what is said on a connection. A door that lets strangers in tells it when one has shown a
//! token ([`Place::admit`]).

mod gate;
mod notices;
mod strangers;

pub use gate::{Admits, Gate, Place, WhenFull};
pub use notices::{Notice, Reason};
pub use strangers::StrangerLimits;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use hostel_tasks::SpawnBoxed as _;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::peer::Peer;
use crate::tcp::Ends;

/// The shortest and the longest pause after a failure to accept. Descriptors that are in use come back by themselves.
const ACCEPT_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// A connection that was let in.
#[derive(Debug)]
pub struct Arrival<S> {
    /// The connection.
    pub stream: S,
    /// Who made it.
    pub peer: Peer,
    /// Its place; none if all are taken, at a door that tells so itself ([`WhenFull::Tell`]).
    pub place: Option<Place>,
}

/// A socket that connections are taken from.
pub trait Listener: Send + Sync {
    /// What a connection is.
    type Stream: AsFd + Send + 'static;

    /// The next connection, and who made it.
    fn next(&self, proxies: &Arc<[u32]>) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self, _proxies: &Arc<[u32]>) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        let peer = Peer::of_unix(&stream);
        Ok((stream, peer))
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self, proxies: &Arc<[u32]>) -> io::Result<(TcpStream, Peer)> {
        let (stream, theirs) = self.accept().await?;
        let ours: SocketAddr = stream.local_addr()?;
        let peer = Peer::behind_proxies(Ends { theirs, ours }, Arc::clone(proxies));
        Ok((stream, peer))
    }
}

/// Serves every connection that a gate lets in with a task of its own, until `stop`. Gives back what `stop` said and the
/// tasks that are still running.
pub async fn serve_each<L, W, T>(
    listener: &L,
    gate: &Gate,
    stop: impl Future<Output = T>,
    mut serve: impl FnMut(Arrival<L::Stream>) -> W,
) -> (T, JoinSet<()>)
where
    L: Listener,
    W: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let mut failures = Failures::default();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            (accepted, held) = next(listener, gate, failures.until) => match accepted {
                // Judged here, where nothing interrupts it: a connection that was accepted is not lost.
                Ok((stream, peer)) => {
                    failures = Failures::default();
                    match gate.judge(&peer, held).await {
                        Ok(place) => {
                            gate.let_in(&peer);
                            connections.spawn_boxed(serve(Arrival { stream, peer, place }));
                        }
                        Err(reason) => gate.turn_away(stream.as_fd(), &peer, reason),
                    }
                }
                // The client gave up before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    gate.accept_failed(&error);
                    failures.one_more();
                }
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => gate.ended(&ended),
            told = &mut stop => return (told, connections),
        }
    }
}

/// Failures to accept, one after the other.
#[derive(Default)]
struct Failures {
    pause: Duration,
    until: Option<Instant>,
}

impl Failures {
    fn one_more(&mut self) {
        self.pause = (self.pause * 2).clamp(ACCEPT_PAUSES.0, ACCEPT_PAUSES.1);
        self.until = Some(Instant::now() + self.pause);
    }
}

/// The next connection, and the place that was taken for it, where connections wait for one. May be dropped at any point.
async fn next<L: Listener>(listener: &L, gate: &Gate, not_before: Option<Instant>) -> Next<L> {
    if let Some(until) = not_before {
        tokio::time::sleep_until(until).await;
    }
    let held = gate.hold().await;
    (listener.next(gate.proxies()).await, held)
}

type Next<L> = (io::Result<(<L as Listener>::Stream, Peer)>, Option<OwnedSemaphorePermit>);

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
