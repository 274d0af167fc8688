//! One connection, from its first byte to its last.
//!
//! Invariant: whoever is refused while still sending gets to read why. An event stream whose reader falls behind takes
//! its connection with it at once, whatever is still to be written.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hostel_peer::accept::{Arrival, Place};
use hostel_peer::{Peer, Standing};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, watch};

use super::door::Door;
use super::guard::Transport;
use super::outgoing::Body;
use super::patience::Patient;
use super::respond;

/// What the HTTP layer reads of a head before it gives up by itself, without a word of ours: twice what is allowed.
const HEAD_FACTOR: usize = 2;
/// How long and how much of what was not wanted is read so that the answer can be.
const LINGER: Duration = Duration::from_secs(10);
const LINGER_BYTES: u64 = 16 * 1024 * 1024;

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the requests of a connection share.
pub(super) struct Connection {
    /// Who is at the other end.
    peer: Peer,
    /// Its place, which is a stranger's until a token was shown.
    place: Place,
    /// A body was not read to its end.
    leftover: AtomicBool,
    /// Ends when the reader of a stream has fallen behind.
    behind: Mutex<Option<Waiting>>,
    opened: Notify,
}

impl Connection {
    fn new(peer: Peer, place: Place) -> Self {
        Self { peer, place, leftover: AtomicBool::new(false), behind: Mutex::default(), opened: Notify::new() }
    }

    /// Who is at the other end.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the client is a process inside a house of this user, or cannot be recognised.
    pub(super) async fn is_inside(&self) -> bool {
        !matches!(self.peer.standing().await, Standing::Owner | Standing::Remote)
    }

    /// The client has shown a token. Says whether there is a place for it.
    pub(super) async fn is_admitted(&self) -> bool {
        self.place.admit().await
    }

    /// Something of the request was not read.
    pub(super) fn leaves_over(&self) {
        self.leftover.store(true, Ordering::Relaxed);
    }

    /// A stream begins whose reader is cut off when `behind` ends.
    pub(super) fn streams(&self, behind: Waiting) {
        *self.behind.lock() = Some(behind);
        self.opened.notify_one();
    }

    /// Ends when the reader of a stream is to be cut off.
    async fn fell_behind(&self) {
        let mut waiting: Option<Waiting> = None;
        loop {
            tokio::select! {
                () = self.opened.notified() => waiting = self.behind.lock().take(),
                () = either(&mut waiting) => return,
            }
        }
    }
}

async fn either(waiting: &mut Option<Waiting>) {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

/// Serves one client to its end.
pub(super) async fn converse<S>(door: Arc<Door>, arrival: Arrival<S>, transport: Transport)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Arrival { stream, peer, place: Some(place) } = arrival else { return };
    let limits = door.live().settings.limits.clone();
    let connection = Arc::new(Connection::new(peer, place));
    let mut stop = door.stop.subscribe();
    let service = {
        let (door, connection) = (Arc::clone(&door), Arc::clone(&connection));
        service_fn(move |request: Request<Incoming>| {
            let (door, connection) = (Arc::clone(&door), Arc::clone(&connection));
            Box::pin(async move {
                Ok::<Response<Body>, Infallible>(respond::respond(door, connection, transport, request).await)
            })
        })
    };
    let mut served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_wait)
        .max_buf_size((limits.head * HEAD_FACTOR).max(16 * 1024))
        .max_headers(limits.headers * HEAD_FACTOR)
        .serve_connection(TokioIo::new(Patient::new(stream, limits.answer_wait)), service);
    let ended = {
        let mut behind = pin!(connection.fell_behind());
        let mut expired = pin!(connection.place.expired());
        let first = tokio::select! {
            ended = poll_fn(|context| served.poll_without_shutdown(context)) => Some(ended),
            () = &mut behind => return,
            () = &mut expired => return,
            () = closing(&mut stop) => None,
        };
        match first {
            Some(ended) => ended,
            None => {
                Pin::new(&mut served).graceful_shutdown();
                tokio::select! {
                    ended = poll_fn(|context| served.poll_without_shutdown(context)) => ended,
                    () = &mut behind => return,
                }
            }
        }
    };
    let unread = match ended {
        Ok(()) => connection.leftover.load(Ordering::Relaxed),
        // What is no HTTP, or too much of it, was answered by the HTTP layer.
        Err(error) if error.is_parse() || error.is_parse_too_large() => true,
        Err(_) => connection.leftover.load(Ordering::Relaxed),
    };
    let stream = served.into_parts().io.into_inner();
    tokio::time::timeout(LINGER, part(stream, unread)).await.ok();
}

/// Says goodbye. A socket that is closed with something unread in it takes back what the client has not read yet, so
/// what is still coming is read first.
async fn part(mut stream: impl AsyncRead + AsyncWrite + Unpin, leftover: bool) {
    if stream.shutdown().await.is_err() || !leftover {
        return;
    }
    let mut unwanted = stream.take(LINGER_BYTES);
    // Nothing to be told: the client has gone, or goes on for too long.
    tokio::io::copy(&mut unwanted, &mut tokio::io::sink()).await.ok();
}

/// Ends when the door closes.
async fn closing(stop: &mut watch::Receiver<bool>) {
    // An error means that the door is gone already.
    stop.wait_for(|stop| *stop).await.ok();
}
