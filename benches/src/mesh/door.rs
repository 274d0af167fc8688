//! A blocking client of a mesh daemon's local surface, over its socket or over loopback TCP. Every wait has a limit.

use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use memchr::memmem;
use serde_json::Value;

use crate::client::PATIENCE;
use crate::codecast::http;

/// No answer of ours is longer than what a search gives.
const LONGEST: usize = 4 << 20;

/// How a daemon is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Socket,
    Tcp,
}

/// What is needed to reach a daemon.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) socket: PathBuf,
    pub(crate) port: u16,
    pub(crate) token: String,
}

/// A connection of either kind.
pub(crate) enum Wire {
    Socket(UnixStream),
    Tcp(TcpStream),
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Wire::Socket(stream) => stream.read(buffer),
            Wire::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Wire::Socket(stream) => stream.write(bytes),
            Wire::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Wire::Socket(stream) => stream.as_fd(),
            Wire::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Door {
    /// A new connection.
    pub(crate) fn connect(&self, transport: Transport) -> Result<Wire> {
        match transport {
            Transport::Socket => {
                let stream = UnixStream::connect(&self.socket).context("connecting to the socket")?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Wire::Socket(stream))
            }
            Transport::Tcp => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).context("connecting to the port")?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Wire::Tcp(stream))
            }
        }
    }

    /// A request as it goes over the wire; the same over both transports, so that both are asked the same.
    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let (token, length) = (&self.token, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: hostel-benches/1\r\n\
             authorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// A connection that is kept open between requests.
    pub(crate) fn client(&self, transport: Transport) -> Result<Client> {
        Ok(Client { door: self.clone(), wire: self.connect(transport)?, answer: Vec::new() })
    }

    /// The stream of its events, once it has begun.
    pub(crate) fn events(&self) -> Result<Events> {
        let mut wire = self.connect(Transport::Socket)?;
        wire.write_all(&self.request("GET", "/v1/events?events=message", None)).context("asking for events")?;
        let mut events = Events { wire, heard: Vec::new() };
        events.wait_for(b": connected")?;
        ensure!(events.heard.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&events.heard));
        events.heard.clear();
        Ok(events)
    }
}

/// A connection that is kept open between requests.
pub(crate) struct Client {
    door: Door,
    wire: Wire,
    answer: Vec<u8>,
}

impl Client {
    /// The answer to a GET, which must be a 200.
    pub(crate) fn get(&mut self, path: &str) -> Result<Value> {
        let request = self.door.request("GET", path, None);
        self.send(&request)?;
        let (status, body) = self.receive()?;
        ensure!(status == 200, "GET {path}: {status} {}", String::from_utf8_lossy(body));
        serde_json::from_slice(body).context("the answer is not JSON")
    }

    /// Sends a request and does not wait.
    pub(crate) fn send(&mut self, request: &[u8]) -> Result<()> {
        self.wire.write_all(request).context("asking")
    }

    /// Waits for the answer to what was sent: its status and its body.
    pub(crate) fn receive(&mut self) -> Result<(u16, &[u8])> {
        self.answer.clear();
        let mut part = [0; 64 * 1024];
        let (head, whole) = loop {
            if let Some(head) = http::head_length(&self.answer) {
                let whole = head + content_length(&self.answer[..head])?;
                if self.answer.len() >= whole {
                    break (head, whole);
                }
            }
            let count = self.wire.read(&mut part).context("waiting for an answer")?;
            ensure!(count > 0, "the daemon closed the connection");
            self.answer.extend_from_slice(&part[..count]);
            ensure!(self.answer.len() <= LONGEST, "an answer of more than {LONGEST} bytes");
        };
        let status = self.answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        Ok((status.context("an answer without a status")?, &self.answer[head..whole]))
    }
}

fn content_length(head: &[u8]) -> Result<usize> {
    let length = http::header(head, "content-length").context("there is no content-length")?;
    length.parse().context("content-length")
}

/// A stream of events; what is heard is looked through as it lies there.
pub(crate) struct Events {
    wire: Wire,
    heard: Vec<u8>,
}

impl Events {
    /// Reads until these bytes have come, and forgets everything up to their end.
    pub(crate) fn wait_for(&mut self, wanted: &[u8]) -> Result<()> {
        let mut part = [0; 16 * 1024];
        let mut looked = 0;
        loop {
            if let Some(at) = memmem::find(&self.heard[looked..], wanted) {
                // The head of the answer stays until it was looked at.
                if self.heard.starts_with(b"HTTP/") {
                    return Ok(());
                }
                self.heard.drain(..looked + at + wanted.len());
                return Ok(());
            }
            looked = self.heard.len().saturating_sub(wanted.len());
            let count = self.wire.read(&mut part).context("waiting for an event")?;
            ensure!(count > 0, "the stream broke off");
            self.heard.extend_from_slice(&part[..count]);
        }
    }
}
