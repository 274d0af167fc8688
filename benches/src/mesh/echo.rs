//! The limit for a message from one process to another: a WebSocket on loopback that sends back what it hears.
//!
//! One thread for each connection, no runtime, nothing kept: a text frame in, the same out.

use std::net::Ipv4Addr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::anyhow;
use anyhow::ensure;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::WebSocket;

use crate::client::PATIENCE;

/// Serves one client after the other until it is ended.
pub(crate) fn run() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("binding a port")?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().context("accepting a client")?;
        stream.set_nodelay(true)?;
        let mut socket = tungstenite::accept(stream).map_err(|error| anyhow!("the upgrade: {error}"))?;
        while let Ok(message) = socket.read() {
            if message.is_text() && socket.send(message).is_err() {
                break;
            }
        }
    }
}

/// A client of it.
pub(crate) struct Echo(WebSocket<TcpStream>);

impl Echo {
    pub(crate) fn open(port: u16) -> Result<Echo> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("connecting")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let opened = tungstenite::client(format!("ws://127.0.0.1:{port}/"), stream);
        let (socket, _) = opened.map_err(|error| anyhow!("the upgrade: {error}"))?;
        Ok(Echo(socket))
    }

    /// There and back, in nanoseconds.
    pub(crate) fn round(&mut self, text: &str) -> Result<u64> {
        let begun = Instant::now();
        self.0.send(Message::text(text)).context("sending a frame")?;
        let heard = self.0.read().context("waiting for the echo")?;
        let took = begun.elapsed();
        ensure!(heard.to_text().is_ok_and(|heard| heard == text), "the echo is another text");
        Ok(u64::try_from(took.as_nanos())?)
    }
}
