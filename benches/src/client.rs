//! A blocking client of the claustrum wire.
//!
//! One buffer per connection, every read and write with a time limit. It never matches replies by
//! anything but their id, since a server may answer out of order.

use std::io::ErrorKind;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

use crate::wire;

/// A server that says nothing for this long has failed the run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Room for several of the longest frames (about 44 KiB each).
const BUFFER_BYTES: usize = 512 * 1024;

/// An open connection.
pub(crate) struct Connection {
    stream: UnixStream,
    token: String,
    next_id: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Connection {
    /// Connects with room for streams of output.
    pub(crate) fn open(socket: &Path, token: &str) -> std::io::Result<Connection> {
        Connection::with_buffer(socket, token, BUFFER_BYTES)
    }

    /// Connects for short replies only, so that a thousand of them stay small.
    pub(crate) fn open_small(socket: &Path, token: &str) -> std::io::Result<Connection> {
        Connection::with_buffer(socket, token, 1024)
    }

    fn with_buffer(socket: &Path, token: &str, bytes: usize) -> std::io::Result<Connection> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, token: token.to_owned(), next_id: 1, buffer: vec![0; bytes], start: 0, end: 0 })
    }

    /// The socket, for its peer's credentials.
    pub(crate) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Option<&Value>) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let line = wire::request(id, method, params, &self.token);
        self.stream.write_all(&line).with_context(|| format!("sending {method}"))?;
        Ok(id)
    }

    /// The next line without its newline.
    pub(crate) fn next_line(&mut self) -> Result<&[u8]> {
        let mut searched = self.start;
        let newline = loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[searched..self.end]) {
                break searched + at;
            }
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            searched = self.end;
            ensure!(self.end < self.buffer.len(), "a line is too long");
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    bail!("no answer within {} s", PATIENCE.as_secs())
                }
                Err(error) => return Err(error).context("reading from the server"),
            }
        };
        let line = self.start..newline;
        self.start = newline + 1;
        Ok(&self.buffer[line])
    }

    /// Sends a request and waits for its result; frames in between are passed over.
    pub(crate) fn call(&mut self, method: &str, params: Option<&Value>) -> Result<Value> {
        let id = self.send(method, params)?;
        loop {
            let line = self.next_line()?;
            if !wire::is_frame(line) {
                let (answered, result) = reply(line)?;
                if answered == id {
                    return Ok(result);
                }
            }
        }
    }

    /// Asks `server.ping` and checks the answer.
    pub(crate) fn ping(&mut self) -> Result<()> {
        let result = self.call("server.ping", None)?;
        ensure!(result["pong"] == Value::Bool(true), "server.ping answered {result}");
        Ok(())
    }

    /// Reads and throws away until the server closes.
    pub(crate) fn wait_for_close(&mut self) -> Result<()> {
        loop {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("waiting for the connection to close"),
            }
        }
    }
}

/// The id and the result of a reply line; an error reply is an error.
pub(crate) fn reply(line: &[u8]) -> Result<(u64, Value)> {
    let mut value: Value =
        serde_json::from_slice(line).with_context(|| format!("not JSON: {}", String::from_utf8_lossy(line)))?;
    ensure!(value.get("error").is_none(), "the server answered {value}");
    let id = value["id"].as_u64().with_context(|| format!("a reply without an id: {value}"))?;
    Ok((id, value["result"].take()))
}

/// Parameters of `process.spawn`.
pub(crate) fn spawn_params(id: &str, command: &[String]) -> Value {
    json!({
        "id": id,
        "command": command.first().map(String::as_str).unwrap_or_default(),
        "args": command.get(1..).unwrap_or_default(),
    })
}
