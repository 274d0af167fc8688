//! A client of the codecast door: one HTTP request per connection, streams read frame by frame.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hostel_tests::wait;
use serde_json::{Value, json};

/// The door.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cast {
    address: SocketAddr,
    limit: Duration,
}

/// An answer that is being read.
pub(crate) struct Answer {
    body: BufReader<Unchunked>,
}

impl Cast {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, limit: wait::LIMIT }
    }

    /// Sends a request and reads the head of its answer.
    pub(crate) fn begin(&self, method: &str, params: &Value) -> io::Result<Answer> {
        let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect_timeout(&self.address, self.limit)?;
        stream.set_read_timeout(Some(self.limit))?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /rpc HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
        let mut source = BufReader::new(stream);
        let mut status = String::new();
        source.read_line(&mut status)?;
        if !status.starts_with("HTTP/1.1 200") {
            return Err(io::Error::other(format!("{method}: {status:?}")));
        }
        let mut left = Some(0);
        loop {
            let mut line = String::new();
            if source.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                left = length.trim().parse().ok();
            } else if line == "transfer-encoding: chunked" {
                left = None;
            }
        }
        let body = Unchunked { source, chunked: left.is_none(), left: left.unwrap_or(0) };
        Ok(Answer { body: BufReader::with_capacity(64 << 10, body) })
    }

    /// Sends a request and gives its result.
    pub(crate) fn call(&self, method: &str, params: &Value) -> io::Result<Value> {
        let mut text = String::new();
        self.begin(method, params)?.body.read_to_string(&mut text)?;
        let mut answer: Value = serde_json::from_str(&text).map_err(io::Error::other)?;
        match answer.get("error") {
            Some(error) => Err(io::Error::other(error["message"].as_str().unwrap_or_default())),
            None => Ok(answer["result"].take()),
        }
    }

    /// Makes a session and gives its id.
    pub(crate) fn make(&self, params: &Value) -> String {
        let made = self.call("session.create", params).unwrap_or_else(|error| panic!("session.create: {error}"));
        made["sessionId"].as_str().expect("a session has an id").to_owned()
    }

    /// Sends a message.
    pub(crate) fn send(&self, session: &str, message: &str) -> io::Result<Answer> {
        self.begin("session.send", &json!({"sessionId": session, "message": message}))
    }

    /// Sends a message and gives every event of its answer.
    pub(crate) fn turn(&self, session: &str, message: &str) -> Vec<Value> {
        let mut answer = self.send(session, message).expect("the message is taken");
        let mut events = Vec::new();
        while let Some(event) = answer.event().expect("the stream goes on to its end") {
            events.push(event);
        }
        events
    }
}

impl Answer {
    /// The next event of a stream; `None` after the last.
    pub(crate) fn event(&mut self) -> io::Result<Option<Value>> {
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                continue;
            }
            let data = line.strip_prefix("data: ").ok_or_else(|| io::Error::other(format!("no frame: {line:?}")))?;
            if data == "[DONE]" {
                return Ok(None);
            }
            // A frame that was cut off in the middle by the daemon's death was not received.
            return serde_json::from_str(data).map(Some).map_err(|_| io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A body without the marks of its chunks.
struct Unchunked {
    source: BufReader<TcpStream>,
    chunked: bool,
    /// Of the chunk, or of the body.
    left: usize,
}

impl Read for Unchunked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && self.chunked {
            let mut line = String::new();
            self.source.read_line(&mut line)?;
            // After every chunk comes the end of its line.
            if line.trim_end().is_empty() && !line.is_empty() {
                line.clear();
                self.source.read_line(&mut line)?;
            }
            if line.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.left = usize::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
            if self.left == 0 {
                self.chunked = false;
            }
        }
        if self.left == 0 {
            return Ok(0);
        }
        let most = buffer.len().min(self.left);
        let read = wait::read(&mut self.source, &mut buffer[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        Ok(read)
    }
}
