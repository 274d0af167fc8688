//! The door on a WebSocket: TLS, a token, one frame per text message.
//!
//! Invariant: nobody is served who has not shown the token, on the upgrade or in `initialize`; those who have not yet
//! are few and have little time. A client that is silent is asked whether it is there, and dropped if it is not.

use std::time::Duration;

use futures_util::Stream;
use futures_util::StreamExt as _;
use hostel_peer::accept;
use hostel_peer::accept::Admits;
use hostel_peer::accept::Arrival;
use hostel_peer::accept::Gate;
use hostel_peer::accept::Place;
use hostel_peer::accept::StrangerLimits;
use hostel_peer::accept::WhenFull;
use hostel_peer::http::Authorization;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::ErrorResponse;
use tokio_tungstenite::tungstenite::handshake::server::Request;
use tokio_tungstenite::tungstenite::handshake::server::Response;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::Client;
use super::Door;
use super::FRAME_LIMIT;
use super::Face;
use super::Greeting;
use super::code;
use super::connection::frame;
use crate::admission;
use crate::rpc::Failure;
use crate::rpc::Writer;

/// After so much silence a client is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(20);

/// How long it has to show that it is.
const PONG: Duration = Duration::from_secs(10);

/// Clients that have not shown the token yet, and how long they may take to.
const STRANGERS: StrangerLimits = StrangerLimits { total: 32, per_source: 16, time: Duration::from_secs(10) };

/// The longest message that is read at all; one that is a little too long can then be refused in an orderly way.
const READ_LIMIT: usize = FRAME_LIMIT + (1 << 20);

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// Serves clients on a WebSocket until `stop`; then their connections end.
pub async fn serve_wss(
    listener: TcpListener,
    tls: TlsAcceptor,
    door: Door,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let settings = &door.0.settings;
    let admits = Admits::OwnerAndElsewhere { proxies: settings.proxy_users.clone() };
    let gate = Gate::new(admits, settings.connections, WhenFull::Close)
        .strangers(STRANGERS)
        .on_notice(admission::notices_to(&door.0.log, "zeroclaw (wss)"));
    let serve = |arrival| run(arrival, tls.clone(), door.clone());
    let ((), mut open) = accept::serve_each(&listener, &gate, stop, serve).await;
    drop(listener);
    open.shutdown().await;
}

async fn run(arrival: Arrival<TcpStream>, tls: TlsAcceptor, door: Door) {
    let Arrival { stream, peer, place: Some(place) } = arrival else { return };
    let deadline = Instant::now() + STRANGERS.time;
    let Ok(Some((socket, admitted))) = tokio::time::timeout_at(deadline, shake_hands(stream, tls, &door)).await else {
        return;
    };
    let _counted = door.count();
    let (sink, messages) = socket.split();
    let writer = Writer::socket(Box::pin(sink));
    let greeting = Greeting { version: door.0.settings.server_version.clone(), more: &[], admitted };
    let mut client = Client::new(door, Face::Contract, peer, writer.clone(), greeting);
    serve(&mut client, &writer, messages, deadline, &place).await;
    drop(tokio::time::timeout(Duration::from_secs(1), writer.close()).await);
}

/// TLS and the upgrade. Says whether the token was shown; one that was shown and is wrong ends it here.
async fn shake_hands(stream: TcpStream, tls: TlsAcceptor, door: &Door) -> Option<(Socket, bool)> {
    // Small frames are answers somebody waits for.
    stream.set_nodelay(true).ok();
    let stream = tls.accept(stream).await.ok()?;
    let config = WebSocketConfig::default().max_message_size(Some(READ_LIMIT)).max_frame_size(Some(READ_LIMIT));
    let mut admitted = false;
    #[expect(clippy::result_large_err, reason = "the handshake's own type")]
    let mut look = |request: &Request, response: Response| match bearer(request) {
        None => Ok(response),
        Some(shown) => {
            admitted = door.0.settings.token.as_ref().is_some_and(|token| token.matches(shown));
            if admitted { Ok(response) } else { Err(unauthorized()) }
        }
    };
    let accepted = tokio_tungstenite::accept_hdr_async_with_config(stream, &mut look, Some(config)).await;
    accepted.ok().map(|socket| (socket, admitted))
}

fn bearer(request: &Request) -> Option<&[u8]> {
    match Authorization::of(request.headers()) {
        Authorization::Missing => None,
        // Whoever shows something else has shown something wrong.
        shown => Some(shown.bearer().unwrap_or_default()),
    }
}

fn unauthorized() -> ErrorResponse {
    let mut response = ErrorResponse::new(Some("the token is not valid".to_owned()));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

/// Serves frames until the client leaves, is silent for too long, or does not introduce itself in time.
async fn serve(
    client: &mut Client,
    writer: &Writer,
    mut messages: impl Stream<Item = Result<Message, Error>> + Unpin,
    deadline: Instant,
    place: &Place,
) {
    let mut introduced = false;
    loop {
        let message = match introduced {
            false => tokio::time::timeout_at(deadline, messages.next()).await.ok(),
            true => heard(writer, &mut messages).await,
        };
        match message {
            Some(Some(Ok(Message::Text(text)))) if text.len() <= FRAME_LIMIT => {
                if frame(client, writer, text.as_bytes()).await.is_err() {
                    return;
                }
                if !introduced && client.is_initialized() {
                    introduced = true;
                    if !place.admit().await {
                        return;
                    }
                }
            }
            Some(Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed))) => return,
            Some(Some(Ok(Message::Text(_)) | Err(Error::Capacity(_)))) => {
                let failure = Failure::new(code::REQUEST, format!("a message is longer than {FRAME_LIMIT} bytes"));
                let told = writer.answer(Some(&Value::Null), Err(failure));
                drop(tokio::time::timeout(Duration::from_secs(1), told).await);
                return;
            }
            Some(Some(Ok(_))) => {}
            Some(Some(Err(_)) | None) | None => return,
        }
    }
}

/// The next message. A client that was silent is asked once; none if it does not answer.
async fn heard<M>(writer: &Writer, messages: &mut M) -> Option<Option<Result<Message, Error>>>
where
    M: Stream<Item = Result<Message, Error>> + Unpin,
{
    if let Ok(message) = tokio::time::timeout(SILENCE, messages.next()).await {
        return Some(message);
    }
    let answered = async {
        writer.ping().await.ok()?;
        Some(messages.next().await)
    };
    tokio::time::timeout(PONG, answered).await.ok().flatten()
}
