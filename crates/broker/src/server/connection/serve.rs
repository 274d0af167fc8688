//! A connection from its challenge to its close.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hostel_peer::accept::Place;
use hostel_wire::frames::server::{ErrorFrame, HelloChallenge, ServerFrame};
use hostel_wire::ids;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::hello::{self, Admitted, Refused};
use super::writer::FAREWELL;
use super::{reader, writer};
use crate::engine::Engine;
use crate::server::log::Level;
use crate::server::metrics::Metrics;
use crate::server::{Broker, PeerInfo};

/// What a stranger said is not said back at any length.
const MESSAGE: usize = 300;

/// What is read and thrown away of a peer that is shown out, so that it can hear why.
const LEFTOVERS: u64 = 16 << 20;

/// Serves a WebSocket until it is closed.
pub(crate) async fn serve<E: Engine, S>(
    broker: &Arc<Broker<E>>,
    mut socket: WebSocketStream<S>,
    peer: &PeerInfo,
    place: &Place,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let deadline = Instant::now() + broker.settings.limits.handshake;
    let nonce = ids::nonce_b64();
    let admitted = match greet(broker, &mut socket, &nonce, deadline).await {
        Ok(text) => hello::admit(broker, &nonce, &text).await,
        Err(None) => return,
        Err(Some(refused)) => Err(refused),
    };
    match admitted {
        Ok(admitted) if place.admit().await => converse(broker, socket, admitted).await,
        // A member comes again; until then its presence ends with what was admitted.
        Ok(_) => broker.metrics.rejected_hello("connections"),
        Err(refused) => {
            broker.metrics.rejected_hello(refused.code);
            let fields = json!({"reason": refused.code, "peer": peer.text(), "detail": refused.message.chars().take(MESSAGE).collect::<String>()});
            broker.alarm("hello_refused", fields);
            refuse(socket, refused).await;
        }
    }
}

/// Sends the challenge and waits for the first frame. An error without a reason: there is nobody any more.
async fn greet<E: Engine, S>(
    broker: &Broker<E>,
    socket: &mut WebSocketStream<S>,
    nonce: &str,
    deadline: Instant,
) -> Result<Utf8Bytes, Option<Refused>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let challenge = ServerFrame::HelloChallenge(HelloChallenge {
        nonce: nonce.to_owned(),
        broker_id: broker.engine.broker_id(),
        time: broker.clock.now_ms(),
        protocol: vec![1, 2],
    });
    let first = async {
        socket.send(Message::Text(challenge.encode().into())).await.map_err(|_| None)?;
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Binary(_))) => return Err(Some(Refused::malformed("the first frame is not text"))),
                Some(Err(Error::Capacity(_))) => return Err(Some(Refused::too_big())),
                Some(Ok(_) | Err(_)) | None => return Err(None),
            }
        }
    };
    match tokio::time::timeout_at(deadline, first).await {
        Ok(first) => first,
        Err(_) => Err(Some(Refused::no_hello("no hello in time"))),
    }
}

/// Says why, and closes.
async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, refused: Refused) {
    let message = refused.message.chars().take(MESSAGE).collect();
    let error = ErrorFrame { code: refused.code.to_owned(), message, ..ErrorFrame::default() };
    let told = async {
        socket.feed(Message::Text(ServerFrame::Error(error).encode().into())).await?;
        let frame = CloseFrame { code: refused.close.into(), reason: refused.reason.into() };
        socket.send(Message::Close(Some(frame))).await
    };
    if let Ok(Ok(())) = tokio::time::timeout(FAREWELL, told).await {
        show_out(socket).await;
    }
}

/// Reads what is still coming: a socket that is closed with unread bytes takes back what was said last.
async fn show_out<S: AsyncRead + AsyncWrite + Unpin>(socket: WebSocketStream<S>) {
    let mut stream = socket.into_inner();
    let rest = async {
        stream.flush().await.ok();
        let mut waste = [0; 4096];
        let mut left = LEFTOVERS;
        while let Ok(read @ 1..) = stream.read(&mut waste).await {
            left = left.saturating_sub(read as u64);
            if left == 0 {
                break;
            }
        }
    };
    tokio::time::timeout(FAREWELL, rest).await.ok();
}

/// The life of a connection that was let in.
async fn converse<E: Engine, S>(broker: &Arc<Broker<E>>, socket: WebSocketStream<S>, admitted: Admitted<E>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Metrics::count(&broker.metrics.connections);
    broker.metrics.active.fetch_add(1, Ordering::Relaxed);
    let Admitted { presence, news, welcome } = admitted;
    let connection = Arc::clone(presence.connection());
    let (mut sink, mut stream) = socket.split();
    let (outs, answers) = mpsc::channel(broker.settings.limits.pipeline);
    let talk = async {
        let mut stopping = broker.stopping();
        let mut read = std::pin::pin!(reader::read(broker, &connection, &mut stream, outs));
        tokio::select! {
            written = writer::write(broker, &connection, &mut sink, welcome, answers, news) => {
                if written.is_err() && connection.ending().is_none() {
                    // A client that says goodbye need not wait for the answer: writing to it fails while its last frames
                    // still lie in the socket. Unread, it would count as present until its lease ends.
                    tokio::time::timeout(FAREWELL, read).await.ok();
                }
                written
            }
            () = async {
                read.as_mut().await;
                if connection.ending().is_some() {
                    // The other half says so; it is given the time for it.
                    tokio::time::sleep(FAREWELL).await;
                }
            } => Ok(()),
            () = async {
                stopping.wait().await;
                connection.end(hostel_wire::frames::close::GOING_AWAY, "shutdown");
                std::future::pending::<()>().await;
            } => Ok(()),
        }
    };
    talk.await.ok();
    let waiting = connection.window.lock().len() as u64;
    broker.metrics.in_window.fetch_sub(waiting, Ordering::Relaxed);
    broker.save_cursor(&connection).await;
    let seen = broker.registry.note_presence(&connection.mesh, &connection.member, None, None, None).await;
    broker.note("seen", seen);
    broker.metrics.active.fetch_sub(1, Ordering::Relaxed);
    let code = connection.ending().map(|(code, _)| *code);
    let fields = json!({"mesh": connection.mesh, "member": connection.member, "code": code});
    broker.log.line(Level::Debug, "connection_closed", fields);
    drop(presence);
    if let Ok(mut socket) = stream.reunite(sink) {
        if code.is_some() {
            tokio::time::timeout(Duration::from_millis(500), async { while let Some(Ok(_)) = socket.next().await {} })
                .await
                .ok();
        } else {
            tokio::time::timeout(FAREWELL, socket.close(None)).await.ok();
        }
        if code == Some(hostel_wire::frames::close::TOO_BIG) {
            show_out(socket).await;
        }
    }
}
