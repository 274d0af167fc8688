//! The sending half of a connection, shared by everybody who has something to say.
//!
//! Invariant: lines never mix on the wire. They go out in the order in which their senders came, and a sender that is
//! stopped in the middle leaves no half line behind. A client that does not read holds up those who talk to it and
//! nobody else.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use futures_util::Sink;
use futures_util::SinkExt as _;
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::Message;

use super::Failure;
use super::Outcome;

/// What is kept of the buffer between lines: enough for a hot stream's pieces, but not every huge answer for ever.
const KEPT: usize = 4 << 20;

/// A WebSocket to write to.
pub(crate) type SocketSink = Pin<Box<dyn Sink<Message, Error = SocketError> + Send>>;

/// The sending half.
#[derive(Clone)]
pub(crate) struct Writer(Arc<tokio::sync::Mutex<Half>>);

enum Half {
    /// A task may be stopped in the middle of a line; whoever sends next ends that line first.
    Unix { half: OwnedWriteHalf, unsent: Vec<u8>, sent: usize },
    /// One message for each line.
    Socket(SocketSink),
}

impl Writer {
    /// To a unix socket.
    pub(crate) fn unix(half: OwnedWriteHalf) -> Self {
        Writer(Arc::new(tokio::sync::Mutex::new(Half::Unix { half, unsent: Vec::new(), sent: 0 })))
    }

    /// To a WebSocket.
    pub(crate) fn socket(sink: SocketSink) -> Self {
        Writer(Arc::new(tokio::sync::Mutex::new(Half::Socket(sink))))
    }

    /// Sends whole lines, also when the one who waits for it is stopped.
    pub(crate) async fn send(&self, lines: &[u8]) -> io::Result<()> {
        self.0.lock().await.send(lines).await
    }

    /// Sends whole lines unless somebody forbade it by the time it is their turn. Says whether they were sent.
    pub(crate) async fn send_unless(&self, forbidden: &AtomicBool, lines: &[u8]) -> io::Result<bool> {
        let mut half = self.0.lock().await;
        if forbidden.load(Ordering::Acquire) {
            return Ok(false);
        }
        half.send(lines).await.map(|()| true)
    }

    /// Answers a request; a request without an id wants no answer.
    pub(crate) async fn answer(&self, id: Option<&impl Serialize>, outcome: Outcome) -> io::Result<()> {
        let Some(id) = id else { return Ok(()) };
        let line = match &outcome {
            Ok(result) => encode(&Answer { jsonrpc: "2.0", id, result: Some(result), error: None }),
            Err(failure) => encode(&Answer { jsonrpc: "2.0", id, result: None, error: Some(failure) }),
        };
        self.send(&line).await
    }

    /// Says something nobody asked for.
    pub(crate) async fn notify(&self, method: &str, params: &impl Serialize) -> io::Result<()> {
        self.send(&encode(&Notification { jsonrpc: "2.0", method, params })).await
    }

    /// Asks the other side something.
    pub(crate) async fn ask(&self, id: &str, method: &str, params: &impl Serialize) -> io::Result<()> {
        self.send(&encode(&Question { jsonrpc: "2.0", id, method, params })).await
    }

    /// Asks a WebSocket whether it is still there.
    pub(crate) async fn ping(&self) -> io::Result<()> {
        match &mut *self.0.lock().await {
            Half::Socket(sink) => sink.send(Message::Ping(Vec::new().into())).await.map_err(io::Error::other),
            Half::Unix { .. } => Ok(()),
        }
    }

    /// Says that nothing more will come.
    pub(crate) async fn close(&self) {
        match &mut *self.0.lock().await {
            Half::Socket(sink) => sink.close().await.ok(),
            Half::Unix { half, .. } => half.shutdown().await.ok(),
        };
    }
}

impl Half {
    async fn send(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Half::Unix { half, unsent, sent } => {
                unsent.extend_from_slice(lines);
                while let Some(rest) = unsent.get(*sent..).filter(|rest| !rest.is_empty()) {
                    *sent += half.write(rest).await?;
                }
                unsent.clear();
                unsent.shrink_to(KEPT);
                *sent = 0;
                Ok(())
            }
            Half::Socket(sink) => {
                for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    let text = String::from_utf8_lossy(line).into_owned();
                    sink.feed(Message::text(text)).await.map_err(io::Error::other)?;
                }
                sink.flush().await.map_err(io::Error::other)
            }
        }
    }
}

#[derive(Serialize)]
struct Answer<'a, I> {
    jsonrpc: &'static str,
    id: &'a I,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Failure>,
}

#[derive(Serialize)]
struct Notification<'a, P> {
    jsonrpc: &'static str,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Question<'a, P> {
    jsonrpc: &'static str,
    id: &'a str,
    method: &'a str,
    params: &'a P,
}

/// One line. Our own types always encode: their maps have text keys.
fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;

    use super::*;

    #[tokio::test]
    async fn a_stopped_sender_leaves_no_half_line() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (_reader, half) = ours.into_split();
        let writer = Writer::unix(half);
        let long = [vec![b'x'; 4 << 20], vec![b'\n']].concat();
        let stuck = tokio::spawn({
            let (writer, long) = (writer.clone(), long.clone());
            async move { writer.send(&long).await }
        });
        // Part of the line has arrived: its sender is in the middle of it.
        let mut first = [0; 1];
        theirs.read_exact(&mut first).await.unwrap();
        stuck.abort();
        drop(stuck.await);
        let after = tokio::spawn(async move { writer.send(b"y\n").await });
        let mut all = Vec::new();
        while !all.ends_with(b"y\n") {
            assert!(theirs.read_buf(&mut all).await.unwrap() > 0);
        }
        after.await.unwrap().unwrap();
        assert_eq!(all.len(), long.len() - 1 + 2);
    }

    #[tokio::test]
    async fn what_was_forbidden_in_time_is_not_sent() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (reader, half) = ours.into_split();
        let writer = Writer::unix(half);
        let forbidden = AtomicBool::new(false);
        assert!(writer.send_unless(&forbidden, b"a\n").await.unwrap());
        forbidden.store(true, Ordering::Release);
        assert!(!writer.send_unless(&forbidden, b"b\n").await.unwrap());
        writer.close().await;
        drop((writer, reader));
        let mut all = String::new();
        theirs.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "a\n");
    }
}
