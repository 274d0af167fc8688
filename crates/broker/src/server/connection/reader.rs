//! The reading half of a connection: frames, in the order in which they come.
//!
//! Invariant: whatever comes is answered, counted or both; nothing that comes is a crash. No more frames are taken in than
//! there is room for answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{Stream, StreamExt as _};
use hostel_wire::frames::client::{Call, ClientAck, ClientFrame};
use hostel_wire::frames::server::{ErrorFrame, ServerFrame};
use hostel_wire::frames::{FrameError, close};
use serde::Deserialize;
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Connection;
use super::writer::Out;
use crate::engine::Engine;
use crate::server::Broker;
use crate::server::accept::{Accepted, Entrance};
use crate::server::rate::Bucket;
use crate::server::requests;

/// Answers that wait to be written, in KiB.
const ANSWERS_KIB: u32 = 2048;

/// After so many frames in a row that make no sense a connection is let go.
const MOST_INVALID: u32 = 100;

/// Reads until the other side leaves, is silent for too long, or is let go.
pub(super) async fn read<E: Engine, S>(
    broker: &Arc<Broker<E>>,
    connection: &Arc<Connection>,
    stream: &mut S,
    outs: mpsc::Sender<Out>,
) where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    let room = Arc::new(Semaphore::new(ANSWERS_KIB as usize));
    let entrance = Entrance::new(broker, connection);
    let asks = broker.asks.of(&connection.mesh, &connection.member);
    let mut reader = Reader { broker, connection, entrance, outs, asks, room, invalid: 0 };
    loop {
        let Ok(message) = tokio::time::timeout(broker.settings.silence, stream.next()).await else {
            connection.end(close::GOING_AWAY, "silent");
            return;
        };
        match message {
            Some(Ok(Message::Text(text))) => {
                let _turn = connection.turn.lock().await;
                if !reader.frame(text.as_str()).await {
                    return;
                }
            }
            Some(Ok(Message::Binary(_))) => reader.nonsense("binary"),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Err(Error::Capacity(_))) => {
                broker.metrics.invalid_frame("too_big");
                connection.end(close::TOO_BIG, "frame_too_big");
                return;
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return,
        }
    }
}

struct Reader<'a, E: Engine> {
    broker: &'a Arc<Broker<E>>,
    connection: &'a Arc<Connection>,
    entrance: Entrance<E>,
    outs: mpsc::Sender<Out>,
    /// How often its member may ask.
    asks: Arc<Bucket>,
    /// For answers that are not written yet.
    room: Arc<Semaphore>,
    /// Frames in a row that made no sense.
    invalid: u32,
}

impl<E: Engine> Reader<'_, E> {
    /// Handles a frame. Says whether to go on.
    async fn frame(&mut self, text: &str) -> bool {
        let frame = match ClientFrame::decode(text) {
            Ok(frame) => frame,
            Err(error) => {
                let (reason, code) = match error {
                    FrameError::Malformed(_) => ("malformed", "malformed"),
                    FrameError::UnknownType(_) => ("unknown_type", "unknown_message_type"),
                };
                self.nonsense(reason);
                return self.say(refusal(text, code, &error.to_string())).await;
            }
        };
        self.invalid = 0;
        match frame {
            ClientFrame::Send(send) => {
                let out = match self.entrance.take(*send).await {
                    Accepted::Now(text) => Out::Text { text: text.into(), _room: None },
                    Accepted::Later(pending) => Out::Ack(pending),
                };
                self.outs.send(out).await.is_ok()
            }
            ClientFrame::ClientAck(ack) => {
                self.acknowledged(&ack);
                true
            }
            ClientFrame::Request(request) => {
                if matches!(request.call, Call::Bye {}) {
                    self.connection.bye.store(true, Ordering::Release);
                    self.connection.end(close::NORMAL, "bye");
                    return false;
                }
                if let Err(wait) = self.asks.take_one() {
                    let message = format!("too many requests: again in {} ms", wait.as_millis() + 1);
                    return self.say(refusal(text, "rate_limited", &message)).await;
                }
                match requests::answer(self.broker, self.connection, request).await {
                    Some(text) => self.say(text).await,
                    None => true,
                }
            }
            _ => {
                self.nonsense("unexpected");
                self.say(refusal(text, "invalid", "the hello was said already")).await
            }
        }
    }

    /// Puts an answer in line; long ones wait for room, so that who asks and does not read has few of them in memory.
    async fn say(&self, text: String) -> bool {
        let kib = u32::try_from(text.len() / 1024 + 1).unwrap_or(ANSWERS_KIB).min(ANSWERS_KIB);
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(kib).await else { return false };
        self.outs.send(Out::Text { text: text.into(), _room: Some(room) }).await.is_ok()
    }

    /// Counts a frame that makes no sense; a peer that has nothing else to say is let go.
    fn nonsense(&mut self, reason: &'static str) {
        self.broker.metrics.invalid_frame(reason);
        self.invalid += 1;
        if self.invalid >= MOST_INVALID {
            self.connection.end(close::REFUSED, "malformed");
        }
    }

    fn acknowledged(&self, ack: &ClientAck) {
        let by_id = ack.broker_message_id.is_some() || ack.client_message_id.is_some();
        let count = {
            let mut window = self.connection.window.lock();
            let mut count = window.acknowledge(ack.seq, &ack.above);
            if let Some(synced) = ack.synced {
                window.note_synced(synced);
            }
            if by_id && ack.seq.is_none() {
                let (broker, client) = (ack.broker_message_id.as_deref(), ack.client_message_id.as_deref());
                count += window.acknowledge_id(broker, client);
            }
            count
        };
        if count > 0 {
            self.broker.metrics.in_window.fetch_sub(count as u64, Ordering::Relaxed);
            self.connection.opened.notify_one();
            if self.connection.protocol < 2 {
                // Who does not keep its own place in the log relies on ours.
                self.broker.keep_cursor(self.connection, 1);
            }
        }
    }
}

/// Says that a frame was refused, with its id if it has one.
fn refusal(text: &str, code: &str, message: &str) -> String {
    #[derive(Deserialize, Default)]
    struct Ids {
        #[serde(rename = "_reqId")]
        req_id: Option<String>,
        id: Option<String>,
    }
    let ids: Ids = serde_json::from_str(text).unwrap_or_default();
    let mut message = message.to_owned();
    if message.len() > 200 {
        let cut = (0..=200).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(cut);
    }
    let short = |id: &String| id.len() <= 256;
    let error =
        ErrorFrame { code: code.to_owned(), message, id: ids.id.filter(short), req_id: ids.req_id.filter(short) };
    ServerFrame::Error(error).encode()
}
