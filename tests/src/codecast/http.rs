//! As much HTTP/1.1 as the contract needs, by hand: every byte of a request is chosen, every byte of an answer is
//! looked at.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

use crate::wait;

/// Something that can be read and written.
pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// One connection.
pub struct Connection {
    wire: Box<dyn Wire>,
    /// The socket itself, for ends that are not polite.
    socket: TcpStream,
    buffer: Vec<u8>,
    body: Body,
    /// Text of a stream that makes no frame yet.
    text: Vec<u8>,
    /// Bytes that were read.
    pub read: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Body {
    /// So many bytes are left.
    Length(usize),
    /// So many bytes of this chunk are left; none when its size comes next.
    Chunked(Option<usize>),
    /// To the end of the connection.
    ToEnd,
    Over,
}

/// An answer, whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; empty for a stream that is still to be read.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in an answer with status {}: {}", self.status, self.text()))
    }

    /// The `result` of a call that worked.
    ///
    /// # Panics
    /// If it did not.
    pub fn result(&self) -> Value {
        let json = self.json();
        assert!(json.get("error").is_none(), "the call failed: {json}");
        json["result"].clone()
    }

    /// Code and message of a call that failed.
    ///
    /// # Panics
    /// If it did not.
    pub fn error(&self) -> (i64, String) {
        let json = self.json();
        assert!(json.get("result").is_none(), "the call worked: {json}");
        let error = &json["error"];
        (error["code"].as_i64().expect("a code"), error["message"].as_str().expect("a message").to_owned())
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, wait::limit())?;
        socket.set_read_timeout(Some(wait::limit()))?;
        let wire = socket.try_clone()?;
        Ok(Self::over(Box::new(wire), socket))
    }

    /// A connection over something that is spoken on a socket.
    pub fn over(wire: Box<dyn Wire>, socket: TcpStream) -> Self {
        Self { wire, socket, buffer: Vec::new(), body: Body::Over, text: Vec::new(), read: 0 }
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If nobody takes them.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.write_all(bytes)?;
        self.wire.flush()
    }

    /// Sends a request with these headers.
    ///
    /// # Panics
    /// If nobody takes it.
    pub fn request(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let named = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        if !named("host") {
            head.push_str("Host: localhost\r\n");
        }
        if !named("content-length") {
            write!(head, "Content-Length: {}\r\n", body.len()).expect("text takes text");
        }
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").expect("text takes text");
        }
        head.push_str("\r\n");
        let bytes = [head.as_bytes(), body].concat();
        // A server may refuse before it has read everything; what it says is then still to be read.
        self.send(&bytes).ok();
    }

    /// Posts a body.
    pub fn post(&mut self, body: &[u8]) {
        self.request("POST", "/rpc", &[("Content-Type", "application/json")], body);
    }

    /// Makes a call and gives its answer, of a stream only the head.
    pub fn call(&mut self, method: &str, params: Option<&Value>) -> Answer {
        let mut request = json!({"method": method});
        if let Some(params) = params {
            request["params"] = params.clone();
        }
        self.post(request.to_string().as_bytes());
        self.answer()
    }

    /// Reads an answer; of a stream only the head.
    ///
    /// # Panics
    /// If none comes.
    pub fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        if answer.header("content-type").is_none_or(|kind| !kind.starts_with("text/event-stream")) {
            while let Some(bytes) = self.body_bytes().unwrap_or_else(|error| panic!("no body: {error}")) {
                answer.body.extend(bytes);
            }
        }
        answer
    }

    fn head(&mut self) -> Answer {
        assert_eq!(self.body, Body::Over, "the answer before was not read to its end");
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at;
            }
            let got = self.fill().unwrap_or_else(|error| panic!("no answer: {error}"));
            assert!(got > 0, "the connection ended where an answer was expected");
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).expect("a head is plain text");
        let mut lines = head.trim_end().split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let answer = Answer { status, headers, body: Vec::new() };
        self.text.clear();
        self.body = match (answer.header("transfer-encoding"), answer.header("content-length")) {
            (Some("chunked"), _) => Body::Chunked(None),
            (_, Some(length)) => Body::Length(length.parse().expect("a length is a number")),
            _ => Body::ToEnd,
        };
        answer
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 64 * 1024];
        let got = wait::read(&mut self.wire, &mut bytes)?;
        self.read += got as u64;
        self.buffer.extend_from_slice(&bytes[..got]);
        Ok(got)
    }

    /// The next bytes of the body; `None` at its proper end.
    ///
    /// # Errors
    /// If it ends otherwise.
    pub fn body_bytes(&mut self) -> io::Result<Option<Vec<u8>>> {
        let cut_off = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut off");
        loop {
            match self.body {
                Body::Over | Body::Length(0) => {
                    self.body = Body::Over;
                    return Ok(None);
                }
                Body::Chunked(None) => {
                    if let Some(at) = self.buffer.windows(2).position(|bytes| bytes == b"\r\n") {
                        let line: Vec<u8> = self.buffer.drain(..at + 2).collect();
                        let line = String::from_utf8_lossy(&line[..at]).into_owned();
                        let size = usize::from_str_radix(&line, 16).map_err(|_| cut_off())?;
                        self.body = Body::Chunked(Some(size));
                        continue;
                    }
                }
                Body::Chunked(Some(0)) if self.buffer.starts_with(b"\r\n") => {
                    self.buffer.drain(..2);
                    self.body = Body::Over;
                    return Ok(None);
                }
                Body::Chunked(Some(size)) if size > 0 && self.buffer.len() >= size + 2 => {
                    let bytes = self.buffer.drain(..size).collect();
                    self.buffer.drain(..2);
                    self.body = Body::Chunked(None);
                    return Ok(Some(bytes));
                }
                Body::Length(left) if !self.buffer.is_empty() => {
                    let bytes: Vec<u8> = self.buffer.drain(..left.min(self.buffer.len())).collect();
                    self.body = Body::Length(left - bytes.len());
                    return Ok(Some(bytes));
                }
                Body::ToEnd if !self.buffer.is_empty() => return Ok(Some(std::mem::take(&mut self.buffer))),
                _ => {}
            }
            if self.fill()? == 0 {
                if self.body == Body::ToEnd {
                    self.body = Body::Over;
                    return Ok(None);
                }
                return Err(cut_off());
            }
        }
    }

    /// The next frame of a stream without its `data: `; `None` when the stream is over.
    ///
    /// # Errors
    /// If the stream is cut off.
    ///
    /// # Panics
    /// If a frame has another form than the contract's.
    pub fn try_frame(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(at) = self.text.windows(2).position(|bytes| bytes == b"\n\n") {
                let frame: Vec<u8> = self.text.drain(..at + 2).collect();
                let frame = std::str::from_utf8(&frame[..at]).expect("a frame is UTF-8");
                let line = frame.strip_prefix("data: ").unwrap_or_else(|| panic!("a frame has no data: {frame:?}"));
                assert!(!line.contains(['\n', '\r']), "a frame has more than one line: {frame:?}");
                return Ok(Some(line.to_owned()));
            }
            match self.body_bytes()? {
                Some(bytes) => self.text.extend(bytes),
                None => {
                    assert!(self.text.is_empty(), "a stream ends in the middle of a frame");
                    return Ok(None);
                }
            }
        }
    }

    /// The next frame of a stream.
    ///
    /// # Panics
    /// If there is none.
    pub fn frame(&mut self) -> String {
        self.try_frame().unwrap_or_else(|error| panic!("no frame: {error}")).expect("a frame, and not the end")
    }

    /// The next event that is no ping; `None` for `[DONE]`, after which the stream must end.
    ///
    /// # Panics
    /// If neither comes.
    pub fn event(&mut self) -> Option<Value> {
        loop {
            let frame = self.frame();
            if frame == "[DONE]" {
                assert_eq!(self.try_frame().expect("the end"), None, "nothing comes after [DONE]");
                return None;
            }
            let event: Value = serde_json::from_str(&frame).unwrap_or_else(|error| panic!("{error}: {frame}"));
            if event["type"] != "ping" {
                return Some(event);
            }
        }
    }

    /// Events that have arrived here already, without looking for more.
    ///
    /// # Panics
    /// If one is no JSON.
    pub fn arrived(&mut self) -> Vec<Value> {
        // Whatever is asked for beyond that gets nothing.
        self.wire = Box::new(io::empty());
        let mut events = Vec::new();
        while let Ok(Some(frame)) = self.try_frame() {
            if frame != "[DONE]" && frame != r#"{"type":"ping"}"# {
                events.push(serde_json::from_str(&frame).unwrap_or_else(|error| panic!("{error}: {frame}")));
            }
        }
        events
    }

    /// All events to the end of the stream.
    pub fn events(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.event()).collect()
    }
}
