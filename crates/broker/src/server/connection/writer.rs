//! The writing half of a connection.
//!
//! Invariant: acks and answers go out in the order of what they answer; what the log has for the reader and what others
//! say comes between them as it comes. Frames are gathered while there are more and flushed when there are none. A
//! reader that does not read holds up nothing but itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_util::{Sink, SinkExt as _};
use hostel_wire::frames::close;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::Connection;
use super::delivery::Delivery;
use crate::engine::Engine;
use crate::server::accept::Pending;
use crate::server::{Broker, CURSOR_EVERY};

/// How long a farewell may take.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

/// How long the answer to the last frame is waited for.
const LAST_ANSWER: Duration = Duration::from_millis(500);

/// An answer to a frame.
pub(super) enum Out {
    /// As it is, with the room it takes until it is written.
    Text { text: Utf8Bytes, _room: Option<OwnedSemaphorePermit> },
    /// The ack of a message, when the log is written.
    Ack(Box<Pending>),
}

/// Writes, the welcome first, until the connection ends: by its own side, or because it cannot be written to.
pub(super) async fn write<E: Engine, S>(
    broker: &Arc<Broker<E>>,
    connection: &Arc<Connection>,
    sink: &mut S,
    welcome: Vec<Utf8Bytes>,
    outs: mpsc::Receiver<Out>,
    mut news: mpsc::Receiver<Utf8Bytes>,
) -> Result<(), Error>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    let mut answers = Answers { outs, head: None };
    let mut delivery = match connection.wants_entries {
        true => Delivery::new(broker, connection),
        false => None,
    };
    let mut ping = tokio::time::interval_at(Instant::now() + broker.settings.ping, broker.settings.ping);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut gathered = false;
    let mut welcome = welcome.into_iter();
    loop {
        let message = tokio::select! {
            biased;
            () = connection.ended() => break,
            Some(text) = std::future::ready(welcome.next()) => Message::Text(text),
            text = poll_fn(|context| answers.poll(broker, context)) => Message::Text(text),
            Some(text) = news.recv() => Message::Text(text),
            text = next(delivery.as_mut()) => Message::Text(text),
            _ = ping.tick() => {
                broker.keep_cursor(connection, CURSOR_EVERY);
                Message::Ping(bytes::Bytes::new())
            }
            flushed = sink.flush(), if gathered => {
                flushed?;
                gathered = false;
                continue;
            }
        };
        // One that does not read must not keep us from ending it.
        tokio::select! {
            biased;
            fed = sink.feed(message) => fed?,
            () = connection.ended() => break,
        }
        gathered = true;
    }
    // What was said before the end is heard before the end, and so is the answer to what was asked last.
    let farewell = async {
        tokio::time::timeout(LAST_ANSWER, connection.turn.lock()).await.ok();
        while let Some(text) = answers.at_hand(broker) {
            sink.feed(Message::Text(text)).await?;
        }
        while let Ok(text) = news.try_recv() {
            sink.feed(Message::Text(text)).await?;
        }
        let (code, reason) = connection.ending().cloned().unwrap_or((close::GOING_AWAY, String::new()));
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        sink.send(Message::Close(Some(frame))).await
    };
    tokio::time::timeout(FAREWELL, farewell).await.unwrap_or(Ok(()))
}

async fn next<E: Engine>(delivery: Option<&mut Delivery<E>>) -> Utf8Bytes {
    match delivery {
        Some(delivery) => delivery.next().await,
        None => std::future::pending().await,
    }
}

/// Answers in their order, each as soon as it and all before it are known.
struct Answers {
    outs: mpsc::Receiver<Out>,
    head: Option<Out>,
}

impl Answers {
    /// The next answer, if it is known.
    fn at_hand<E: Engine>(&mut self, broker: &Broker<E>) -> Option<Utf8Bytes> {
        match self.poll(broker, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(text) => Some(text),
            Poll::Pending => None,
        }
    }

    fn poll<E: Engine>(&mut self, broker: &Broker<E>, context: &mut Context<'_>) -> Poll<Utf8Bytes> {
        let mut head = match self.head.take() {
            Some(out) => out,
            None => match ready!(self.outs.poll_recv(context)) {
                Some(out) => out,
                // The reading half is gone; the connection ends by that.
                None => return Poll::Pending,
            },
        };
        let text = match &mut head {
            Out::Text { text, .. } => Poll::Ready(std::mem::take(text)),
            Out::Ack(pending) => pending.poll_ack(&broker.metrics, context).map(Utf8Bytes::from),
        };
        if text.is_pending() {
            self.head = Some(head);
        }
        text
    }
}
