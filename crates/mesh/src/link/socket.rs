//! Text frames over a WebSocket over any stream.
//!
//! Invariant: a message has a largest size, reaching a broker a longest time; what is not text is no frame.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use super::End;
use super::dial::{BoxStream, BrokerUrl, Dial};

/// The largest message of a broker: a roster or a list may be longer than what it takes itself.
const LARGEST: usize = 4 * 1024 * 1024;

/// How long the upgrade may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A frame.
    Text(String),
    /// The answer to a ping.
    Pong(Bytes),
    /// A sign of life without meaning.
    Noise,
}

/// The side that is read.
pub(crate) struct Ear(SplitStream<WebSocketStream<BoxStream>>);

/// The side that is written.
pub(crate) struct Mouth(SplitSink<WebSocketStream<BoxStream>, Message>);

/// Reaches a broker and upgrades.
pub(crate) async fn connect(dial: &dyn Dial, url: &BrokerUrl) -> Result<(Ear, Mouth), End> {
    let stream = dial.dial(url).await.map_err(|error| End::lost("dial", format!("{}: {error}", url.authority())))?;
    let config = WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .write_buffer_size(16 * 1024)
        .max_write_buffer_size(2 * LARGEST)
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    let upgrade = tokio_tungstenite::client_async_with_config(url.websocket(), stream, Some(config));
    let upgraded = tokio::time::timeout(PATIENCE, upgrade).await;
    let (socket, _) = upgraded
        .map_err(|_| End::lost("dial", "the broker did not answer the upgrade"))?
        .map_err(|error| End::lost("dial", error))?;
    let (mouth, ear) = socket.split();
    Ok((Ear(ear), Mouth(mouth)))
}

impl Ear {
    /// The next thing heard, or why there is nothing more.
    pub(crate) async fn hear(&mut self) -> Result<Heard, End> {
        match self.0.next().await {
            None => Err(End::lost("closed", "the broker hung up")),
            Some(Ok(Message::Text(text))) => Ok(Heard::Text(text.as_str().to_owned())),
            Some(Ok(Message::Pong(payload))) => Ok(Heard::Pong(payload)),
            Some(Ok(Message::Close(None))) => Err(End::lost("closed", "closed by the broker")),
            Some(Ok(Message::Close(Some(frame)))) => Err(End::of_close(frame.code.into(), frame.reason.as_str())),
            Some(Ok(Message::Ping(_) | Message::Binary(_) | Message::Frame(_))) => Ok(Heard::Noise),
            Some(Err(error)) => Err(broken(&error)),
        }
    }
}

impl Mouth {
    /// Puts a frame in line; `flush` sends it.
    pub(crate) async fn feed(&mut self, text: String) -> Result<(), End> {
        self.0.feed(Message::text(text)).await.map_err(|error| broken(&error))
    }

    /// Sends what is in line.
    pub(crate) async fn flush(&mut self) -> Result<(), End> {
        self.0.flush().await.map_err(|error| broken(&error))
    }

    /// Sends a frame.
    pub(crate) async fn say(&mut self, text: String) -> Result<(), End> {
        self.feed(text).await?;
        self.flush().await
    }

    /// Asks for a sign of life.
    pub(crate) async fn ping(&mut self, payload: Bytes) -> Result<(), End> {
        self.0.send(Message::Ping(payload)).await.map_err(|error| broken(&error))
    }

    /// Closes cleanly.
    pub(crate) async fn close(&mut self) {
        let frame = CloseFrame { code: 1000.into(), reason: "".into() };
        self.0.send(Message::Close(Some(frame))).await.ok();
        self.0.close().await.ok();
    }
}

fn broken(error: &Error) -> End {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => End::lost("closed", "closed"),
        other => End::lost("error", other),
    }
}
