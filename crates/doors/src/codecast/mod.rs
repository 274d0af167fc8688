//! The codecast door: JSON-RPC over HTTP, with answers of agents as server-sent events.
//!
//! A head node that speaks to a codecast daemon works unchanged. The sessions are the house's: they outlive the
//! connection, the door and the daemon. What the door adds is how far each session's client is, so that one that
//! vanished can fetch what it missed.
//!
//! The door binds nothing: the caller brings a listening socket, and a certificate if others can reach it.

mod access;
mod auth;
mod body;
mod caller;
mod door;
mod event;
pub mod fuzzing;
mod health;
mod http;
mod json;
mod ledger;
mod link;
mod listing;
mod methods;
mod params;
mod parcel;
mod paths;
mod present;
mod rpc;
mod settings;
mod skills;
mod stream;
mod wire;
pub mod yaml;

#[cfg(test)]
pub(crate) use methods::METHODS;
pub use settings::{Auth, Limits, Settings};

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hostel_house::insiders::{self, Insiders};
use hostel_house::sessions::Sessions;
use hostel_peer::Peer;
use hostel_peer::accept::{self, Arrival, Place};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use self::body::Body;
use self::door::Door;
use self::parcel::Connection;
use self::wire::{Layers, Line, Wire};
use crate::claustrum::Log;

/// The door's name: of its sessions, and of what it keeps with them.
pub const NAME: &str = "codecast";

/// How long connections may take to end when the door closes.
const GOODBYE: Duration = Duration::from_secs(2);

/// Serves clients on `listener` until `stop` resolves; then ends open streams and returns.
pub async fn serve(
    listener: TcpListener,
    sessions: Sessions,
    insiders: Insiders,
    settings: Settings,
    log: Log,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let door = Arc::new(Door::new(sessions, insiders, settings, log));
    let gate = caller::gate(&door);
    let serve = |arrival: Arrival<TcpStream>| converse(Arc::clone(&door), arrival);
    let ((), mut connections) = accept::serve_each(&listener, &gate, stop, serve).await;
    drop(listener);
    door.stop.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GOODBYE, ended).await.is_err() {
        door.log.warn(format_args!("codecast: {} connections are cut off", connections.len()));
        connections.shutdown().await;
    }
}

/// One connection, from its first byte to its last.
async fn converse(door: Arc<Door>, arrival: Arrival<TcpStream>) {
    let Arrival { stream, peer, place } = arrival;
    let Some(place) = place else { return };
    tokio::select! {
        () = serve_stream(&door, stream, peer, &place) => {}
        () = place.expired() => door.log.debug(format_args!("codecast: a connection showed no token in time")),
    }
}

async fn serve_stream(door: &Arc<Door>, stream: TcpStream, peer: Peer, place: &Place) {
    let line = match Line::new(stream) {
        Ok(line) => line,
        // Gone before it was here.
        Err(error) => return door.log.debug(format_args!("codecast: a connection was lost: {error}")),
    };
    let mut stop = door.stop.subscribe();
    let wire = Wire(Arc::clone(&line));
    let Some(auth) = &door.settings.auth else {
        let connection = connect(door, line, peer, Layers::Plain);
        http1(door, &connection, place, TokioIo::new(wire), &mut stop).await;
        return connection.end();
    };
    let handshake = tokio::time::timeout(door.settings.limits.handshake, auth.tls.accept(wire));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return door.log.debug(format_args!("codecast: no TLS with {}: {error}", line.remote()));
        }
        Err(_) => return door.log.debug(format_args!("codecast: no TLS with {} in time", line.remote())),
    };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let connection = connect(door, line, peer, Layers::Multiplexed);
        http2(door, &connection, place, TokioIo::new(stream), &mut stop).await;
        connection.end();
    } else {
        let connection = connect(door, line, peer, Layers::Tls);
        http1(door, &connection, place, TokioIo::new(stream), &mut stop).await;
        connection.end();
    }
}

fn connect(door: &Door, line: Arc<Line>, peer: Peer, layers: Layers) -> Arc<Connection> {
    let rights = door.insiders.rights(insiders::Door::Codecast, peer, format!("codecast:{}", line.remote()));
    Connection::new(line, layers, door.settings.limits.behind, rights)
}

async fn http1<I>(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    place: &Place,
    io: I,
    stop: &mut watch::Receiver<bool>,
) where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let service = service_fn(|request| respond(door, connection, place, request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(door.settings.limits.request)
        .serve_connection(io, service);
    let mut served = pin!(served);
    // Whatever ends a connection, its client knows; what it had not read is settled by the caller.
    tokio::select! {
        ended = served.as_mut() => drop(ended),
        () = stopped(stop) => {
            served.as_mut().graceful_shutdown();
            served.await.ok();
        }
    }
}

async fn http2<I>(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    place: &Place,
    io: I,
    stop: &mut watch::Receiver<bool>,
) where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (door, connection, place) = (Arc::clone(door), Arc::clone(connection), place.clone());
    let service = service_fn(move |request| {
        let (door, connection, place) = (Arc::clone(&door), Arc::clone(&connection), place.clone());
        async move { respond(&door, &connection, &place, request).await }
    });
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .serve_connection(io, service);
    let mut served = pin!(served);
    tokio::select! {
        ended = served.as_mut() => drop(ended),
        () = stopped(stop) => {
            served.as_mut().graceful_shutdown();
            served.await.ok();
        }
    }
}

/// Resolves when the door closes.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the door is gone already.
    stop.wait_for(|stop| *stop).await.ok();
}

async fn respond(
    door: &Arc<Door>,
    connection: &Arc<Connection>,
    place: &Place,
    request: Request<Incoming>,
) -> Result<hyper::Response<Body>, Infallible> {
    Ok(http::respond(Arc::clone(door), Arc::clone(connection), place, request).await)
}
