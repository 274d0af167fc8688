//! A client of the claustrum door: one connection, whole lines, a deadline on every read.
//!
//! Lines keep the order in which they arrived; a caller that waits for a reply leaves frames in
//! their queue and the other way round. Nothing is repaired or skipped: a line that is neither a
//! reply nor a well-formed frame ends the test.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;

use crate::frames::{self, Frame, Payload, Transcript};
use crate::wait;

/// What came next on the connection.
#[derive(Debug, Clone)]
pub enum Event {
    /// A reply line, without its newline.
    Reply(String),
    /// A stream frame.
    Frame(Frame),
}

/// Why something awaited did not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The server closed the connection.
    Closed,
    /// Nothing came within this time.
    Late(Duration),
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => formatter.write_str("the connection was closed instead"),
            Self::Late(limit) => write!(formatter, "nothing came within {limit:?}"),
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    token: String,
    limit: Duration,
    next_id: u64,
    buffer: Vec<u8>,
    start: usize,
    scanned: usize,
    replies: VecDeque<String>,
    frames: VecDeque<Frame>,
    closed: bool,
    torn_end_allowed: bool,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(socket: &Path, token: &str) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        Ok(Self {
            stream,
            token: token.to_owned(),
            limit: wait::limit(),
            next_id: 1,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            replies: VecDeque::new(),
            frames: VecDeque::new(),
            closed: false,
            torn_end_allowed: false,
        })
    }

    /// Another deadline for every later read.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The pid of the process that listens at the other end.
    ///
    /// # Panics
    /// If the kernel does not tell.
    pub fn server_pid(&self) -> i32 {
        let credentials = socket_peercred(&self.stream).expect("a unix socket knows its peer");
        credentials.pid.as_raw_nonzero().get()
    }

    /// A second handle for writing from another thread.
    ///
    /// # Panics
    /// If the descriptor cannot be duplicated.
    pub fn writer(&self) -> UnixStream {
        self.stream.try_clone().expect("a socket can be duplicated")
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the server closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.limit))?;
        self.stream.write_all(bytes)
    }

    /// Sends one line.
    ///
    /// # Panics
    /// If the server closed the connection.
    pub fn send_line(&mut self, line: &str) {
        let mut bytes = line.as_bytes().to_vec();
        bytes.push(b'\n');
        self.send(&bytes).unwrap_or_else(|error| panic!("cannot send {line}: {error}"));
    }

    /// The line of a well-formed request, without its newline.
    pub fn request(&self, id: u64, method: &str, params: &str) -> String {
        let token = &self.token;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params},"auth":"{token}"}}"#)
    }

    /// Sends a request and gives its id.
    pub fn begin(&mut self, method: &str, params: &str) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let line = self.request(id, method, params);
        self.send_line(&line);
        id
    }

    /// Sends a request and gives the whole reply line.
    pub fn call(&mut self, method: &str, params: &str) -> String {
        let id = self.begin(method, params);
        self.finish(id)
    }

    /// Sends a request and gives the bytes of its result.
    ///
    /// # Panics
    /// If the reply is an error.
    pub fn ask(&mut self, method: &str, params: &str) -> String {
        let id = self.begin(method, params);
        let reply = self.finish(id);
        result_of(id, &reply).unwrap_or_else(|| panic!("{method} {params} was answered with {reply}"))
    }

    /// Hosts a command under a name of the caller's.
    ///
    /// # Panics
    /// If the spawn fails.
    pub fn spawn(&mut self, process: &str, command: &str, arguments: &[&str]) {
        let params = serde_json::json!({"id": process, "command": command, "args": arguments});
        assert_eq!(self.ask("process.spawn", &params.to_string()), r#"{"success":true}"#);
    }

    /// Hosts the tests' own child program and gives its pid.
    ///
    /// # Panics
    /// If the spawn fails.
    pub fn spawn_child(&mut self, process: &str, arguments: &[&str]) -> i32 {
        let command = crate::binary::testchild();
        let params = serde_json::json!({"id": process, "command": command, "args": arguments, "wantPid": true});
        let result = self.ask("process.spawn", &params.to_string());
        i32::try_from(number(&result, "pid")).expect("a pid")
    }

    /// Hosts a shell text and gives the shell's pid.
    ///
    /// # Panics
    /// If the spawn fails.
    pub fn spawn_shell(&mut self, process: &str, text: &str) -> i32 {
        let params = serde_json::json!({"id": process, "command": "/bin/sh", "args": ["-c", text], "wantPid": true});
        let result = self.ask("process.spawn", &params.to_string());
        i32::try_from(number(&result, "pid")).expect("a pid")
    }

    /// Attaches to a process after a seq and gives the result; replayed frames stay queued.
    pub fn reattach(&mut self, process: &str, from_seq: u64) -> String {
        self.ask("process.reattach", &serde_json::json!({"id": process, "fromSeq": from_seq}).to_string())
    }

    /// Sends input, at an offset if given, and gives the whole reply.
    pub fn stdin(&mut self, process: &str, offset: Option<u64>, data: &[u8]) -> String {
        let mut params = serde_json::json!({"id": process, "data": base64(data)});
        if let Some(offset) = offset {
            params["offset"] = offset.into();
        }
        self.call("process.stdin", &params.to_string())
    }

    /// The reply to the request of this id.
    ///
    /// # Panics
    /// If none comes in time or the connection ends.
    pub fn finish(&mut self, id: u64) -> String {
        self.try_finish(id, self.limit).unwrap_or_else(|trouble| panic!("no reply to request {id}: {trouble}"))
    }

    /// The reply to the request of this id within `limit`.
    ///
    /// # Errors
    /// If none comes in time or the connection ends.
    pub fn try_finish(&mut self, id: u64, limit: Duration) -> Result<String, Trouble> {
        let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
        let place = self.replies.iter().position(|line| line.starts_with(&start));
        if let Some(line) = place.and_then(|place| self.replies.remove(place)) {
            return Ok(line);
        }
        let end = Instant::now() + limit;
        loop {
            match self.read_event(end, limit)? {
                Event::Reply(line) if line.starts_with(&start) => return Ok(line),
                Event::Reply(line) => self.replies.push_back(line),
                Event::Frame(frame) => self.frames.push_back(frame),
            }
        }
    }

    /// Sends a request and gives the whole reply, on a connection that may end at any moment.
    ///
    /// # Errors
    /// If none comes in time or the connection ends.
    pub fn try_call(&mut self, method: &str, params: &str) -> Result<String, Trouble> {
        let id = self.try_begin(method, params)?;
        self.try_finish(id, self.limit)
    }

    /// Sends a request on a connection that may end at any moment, and gives its id.
    ///
    /// # Errors
    /// If the connection ended.
    pub fn try_begin(&mut self, method: &str, params: &str) -> Result<u64, Trouble> {
        let id = self.next_id;
        self.next_id += 1;
        let line = format!("{}\n", self.request(id, method, params));
        self.send(line.as_bytes()).map_err(|_| Trouble::Closed)?;
        Ok(id)
    }

    /// The next reply, whichever request it belongs to.
    ///
    /// # Panics
    /// If none comes in time or the connection ends.
    pub fn reply(&mut self) -> String {
        self.try_reply(self.limit).unwrap_or_else(|trouble| panic!("no reply: {trouble}"))
    }

    /// The next reply within `limit`.
    ///
    /// # Errors
    /// If none comes in time or the connection ends.
    pub fn try_reply(&mut self, limit: Duration) -> Result<String, Trouble> {
        if let Some(line) = self.replies.pop_front() {
            return Ok(line);
        }
        let end = Instant::now() + limit;
        loop {
            match self.read_event(end, limit)? {
                Event::Reply(line) => return Ok(line),
                Event::Frame(frame) => self.frames.push_back(frame),
            }
        }
    }

    /// The next frame of any process.
    ///
    /// # Panics
    /// If none comes in time or the connection ends.
    pub fn frame(&mut self) -> Frame {
        self.try_frame(self.limit).unwrap_or_else(|trouble| panic!("no frame: {trouble}"))
    }

    /// The next frame within `limit`.
    ///
    /// # Errors
    /// If none comes in time or the connection ends.
    pub fn try_frame(&mut self, limit: Duration) -> Result<Frame, Trouble> {
        if let Some(frame) = self.frames.pop_front() {
            return Ok(frame);
        }
        let end = Instant::now() + limit;
        loop {
            match self.read_event(end, limit)? {
                Event::Frame(frame) => return Ok(frame),
                Event::Reply(line) => self.replies.push_back(line),
            }
        }
    }

    /// The next frame of one process; those of others stay queued.
    ///
    /// # Errors
    /// If none comes in time or the connection ends.
    pub fn try_frame_of(&mut self, process: &str, limit: Duration) -> Result<Frame, Trouble> {
        let place = self.frames.iter().position(|frame| frame.process == process);
        if let Some(frame) = place.and_then(|place| self.frames.remove(place)) {
            return Ok(frame);
        }
        let end = Instant::now() + limit;
        loop {
            match self.read_event(end, limit)? {
                Event::Frame(frame) if frame.process == process => return Ok(frame),
                Event::Frame(frame) => self.frames.push_back(frame),
                Event::Reply(line) => self.replies.push_back(line),
            }
        }
    }

    /// Adds the frames of one process to a transcript until `done` says so.
    ///
    /// # Panics
    /// If a frame is wrong or does not come in time.
    pub fn follow_until(
        &mut self,
        process: &str,
        transcript: &mut Transcript,
        mut done: impl FnMut(&Transcript) -> bool,
    ) {
        while !done(transcript) {
            match self.try_frame_of(process, self.limit) {
                Ok(frame) => transcript.push(&frame),
                Err(trouble) => panic!(
                    "no frame of {process:?}: {trouble}; had {} frames, {} + {} bytes",
                    transcript.frames,
                    transcript.stdout.len(),
                    transcript.stderr.len()
                ),
            }
        }
    }

    /// Everything of one process from seq 1 to its exit.
    ///
    /// # Panics
    /// If a frame is wrong or does not come in time.
    pub fn follow(&mut self, process: &str) -> Transcript {
        let mut transcript = Transcript::default();
        self.follow_until(process, &mut transcript, |so_far| so_far.exit.is_some());
        transcript
    }

    /// The frames that are queued already, of any process.
    pub fn queued_frames(&mut self) -> Vec<Frame> {
        self.frames.drain(..).collect()
    }

    /// The lines that have arrived and were not taken yet: replies first, then frames.
    pub fn pending(&self) -> Vec<String> {
        self.replies.iter().chain(self.frames.iter().map(|frame| &frame.raw)).cloned().collect()
    }

    /// The next event in the order of arrival, whatever it is.
    ///
    /// # Panics
    /// If nothing comes in time or the connection ends.
    pub fn event(&mut self) -> Event {
        self.try_event(self.limit).unwrap_or_else(|trouble| panic!("no event: {trouble}"))
    }

    /// The next event in the order of arrival, within `limit`.
    ///
    /// # Errors
    /// If nothing comes in time or the connection ends.
    ///
    /// # Panics
    /// If events were queued already, and so the order is lost.
    pub fn try_event(&mut self, limit: Duration) -> Result<Event, Trouble> {
        assert!(self.replies.is_empty() && self.frames.is_empty(), "events were queued out of order already");
        self.read_event(Instant::now() + limit, limit)
    }

    /// Whether the server closes the connection without sending anything more.
    ///
    /// # Errors
    /// If something else comes, or nothing at all within `limit`.
    pub fn try_closed(&mut self, limit: Duration) -> Result<(), String> {
        match self.read_event(Instant::now() + limit, limit) {
            Err(Trouble::Closed) => Ok(()),
            Ok(event) => Err(format!("expected the connection to close, got {event:?}")),
            Err(Trouble::Late(limit)) => Err(format!("the connection was still open after {limit:?}")),
        }
    }

    /// Says that nothing more will be sent, and goes on reading.
    ///
    /// # Panics
    /// If the socket is gone.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("a connected socket can be half closed");
    }

    /// The next line off the socket.
    fn read_event(&mut self, end: Instant, limit: Duration) -> Result<Event, Trouble> {
        loop {
            if let Some(line) = self.take_line() {
                if !frames::is_frame(&line) {
                    return Ok(Event::Reply(line));
                }
                return match Frame::parse(&line) {
                    Ok(frame) => Ok(Event::Frame(frame)),
                    Err(reason) => panic!("{reason}"),
                };
            }
            if self.closed {
                let torn = self.buffer.len() - self.start;
                assert!(
                    torn == 0 || self.torn_end_allowed,
                    "the connection ended in the middle of a line ({torn} bytes)"
                );
                return Err(Trouble::Closed);
            }
            let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
            let left = left.ok_or(Trouble::Late(limit))?;
            self.stream.set_read_timeout(Some(left)).expect("a socket takes a deadline");
            let mut chunk = [0_u8; 65536];
            match wait::read(&mut self.stream, &mut chunk) {
                Ok(0) => self.closed = true,
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Err(Trouble::Late(limit)),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset => self.closed = true,
                    _ => panic!("cannot read from the socket: {error}"),
                },
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let Some(place) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') else {
            // Only the unfinished line is kept, so that the buffer does not grow with the stream.
            self.buffer.drain(..self.start);
            self.start = 0;
            self.scanned = self.buffer.len();
            return None;
        };
        let end = self.scanned + place;
        let line = self.buffer[self.start..end].to_vec();
        self.start = end + 1;
        self.scanned = self.start;
        Some(String::from_utf8(line).expect("the server sends UTF-8 only"))
    }

    /// Allows the connection to end within a line: what a killed server leaves behind.
    pub fn allow_torn_end(&mut self) {
        self.torn_end_allowed = true;
    }
}

/// The bytes of a reply's result, if it is one and its envelope is byte for byte right.
pub fn result_of(id: u64, reply: &str) -> Option<String> {
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    Some(reply.strip_prefix(&start)?.strip_suffix('}')?.to_owned())
}

/// One integer member of a flat result.
///
/// # Panics
/// If it is not there.
pub fn number(result: &str, key: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(result).expect("a result is JSON");
    value[key].as_u64().unwrap_or_else(|| panic!("no number {key} in {result}"))
}

/// `data` for a `process.stdin` request.
pub fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// Whether this frame is the last of its process.
pub fn is_exit(frame: &Frame) -> bool {
    matches!(frame.payload, Payload::Exit(_))
}
