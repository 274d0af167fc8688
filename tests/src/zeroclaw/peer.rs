//! A client of the zeroclaw door: one connection, one JSON object per line, a deadline on every read.
//!
//! Frames keep the order in which they came. Who waits for an answer leaves everything else in its place. Every frame
//! is checked for both spellings of its keys and given with the first alone.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::spelling;
use crate::wait;

/// One connection.
#[derive(Debug)]
pub struct Peer {
    stream: UnixStream,
    buffer: Vec<u8>,
    /// Where the next line starts, and up to where no newline was found.
    start: usize,
    scanned: usize,
    frames: VecDeque<Value>,
    next_id: u64,
    limit: Duration,
    /// Check and fold the spellings; off for a daemon that sends one.
    pub folds: bool,
}

impl Peer {
    /// Connects and says nothing.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        let (buffer, frames) = (Vec::new(), VecDeque::new());
        Ok(Self { stream, buffer, start: 0, scanned: 0, frames, next_id: 1, limit: wait::limit(), folds: true })
    }

    /// Another deadline for every later read.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Introduces itself and gives the answer.
    ///
    /// # Panics
    /// If that is refused.
    pub fn initialize(&mut self) -> Value {
        self.ask("initialize", json!({"protocol_version": 1}))
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the daemon closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.limit))?;
        self.stream.write_all(bytes)
    }

    /// Sends one line.
    ///
    /// # Panics
    /// If the daemon closed the connection.
    pub fn line(&mut self, line: &str) {
        self.send(format!("{line}\n").as_bytes()).unwrap_or_else(|error| panic!("cannot send {line}: {error}"));
    }

    /// Sends a request and gives its id.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the params in place")]
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Sends a notification.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the params in place")]
    pub fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and gives the whole answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Sends a request and gives its result.
    ///
    /// # Panics
    /// If it is refused.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        assert!(answer.get("error").is_none(), "{method} was refused: {answer}");
        answer["result"].clone()
    }

    /// Sends a request and gives the code it is refused with.
    ///
    /// # Panics
    /// If it is not refused.
    pub fn refused(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.call(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method} was not refused: {answer}"))
    }

    /// Makes a session of the built-in agent and gives its id.
    ///
    /// # Panics
    /// If that is refused.
    pub fn session(&mut self) -> String {
        let made = self.ask("session/new", json!({"agent_alias": "echo"}));
        made["session_id"].as_str().expect("an id").to_owned()
    }

    /// The next frame.
    ///
    /// # Panics
    /// If none comes in time.
    pub fn frame(&mut self) -> Value {
        self.try_frame(self.limit).unwrap_or_else(|reason| panic!("no frame: {reason}"))
    }

    /// The next frame within `limit`.
    ///
    /// # Errors
    /// If none comes in time, or something that is no frame.
    pub fn try_frame(&mut self, limit: Duration) -> Result<Value, String> {
        match self.frames.pop_front() {
            Some(frame) => Ok(frame),
            None => self.read_frame(Instant::now() + limit),
        }
    }

    /// The answer to a request; what comes before it stays in its place.
    ///
    /// # Panics
    /// If none comes in time.
    pub fn answer(&mut self, id: u64) -> Value {
        self.try_answer(id).unwrap_or_else(|reason| panic!("no answer to request {id}: {reason}"))
    }

    /// The answer to a request; what comes before it stays in its place.
    ///
    /// # Errors
    /// If none comes in time.
    pub fn try_answer(&mut self, id: u64) -> Result<Value, String> {
        self.find(|frame| frame["id"] == id && frame.get("method").is_none())
    }

    /// The next `session/update`; answers before it stay in their place.
    ///
    /// # Panics
    /// If none comes in time.
    pub fn update(&mut self) -> Value {
        self.try_update().unwrap_or_else(|reason| panic!("no update: {reason}"))
    }

    /// The next `session/update`; answers before it stay in their place.
    ///
    /// # Errors
    /// If none comes in time.
    pub fn try_update(&mut self) -> Result<Value, String> {
        let frame = self.find(|frame| frame["method"] == "session/update")?;
        Ok(frame["params"].clone())
    }

    /// Updates up to the next one of that type, which is the last.
    ///
    /// # Panics
    /// If it does not come in time.
    pub fn updates_until(&mut self, kind: &str) -> Vec<Value> {
        let mut updates = Vec::new();
        loop {
            let update = self.update();
            let last = update["type"] == kind;
            updates.push(update);
            if last {
                return updates;
            }
        }
    }

    /// The next frame that fits; the others stay in their place.
    ///
    /// # Errors
    /// If none comes in time.
    pub fn find(&mut self, fits: impl Fn(&Value) -> bool) -> Result<Value, String> {
        if let Some(place) = self.frames.iter().position(&fits) {
            return self.frames.remove(place).ok_or_else(|| "it is gone".to_owned());
        }
        let end = Instant::now() + self.limit;
        loop {
            let frame = self.read_frame(end)?;
            if fits(&frame) {
                return Ok(frame);
            }
            self.frames.push_back(frame);
        }
    }

    /// Checks that nothing was said but what was asked for.
    ///
    /// # Panics
    /// If something is left, or comes before an answer that was asked for just now.
    pub fn expect_silence(&mut self) {
        let id = self.begin("status", json!({}));
        let frame = self.frame();
        assert!(frame["id"] == id, "something was said: {frame}");
        assert!(self.frames.is_empty(), "something is left: {:?}", self.frames);
    }

    /// Says that nothing more will be sent.
    ///
    /// # Panics
    /// If the connection is gone already.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("a connection can be closed");
    }

    /// Waits for the end of the connection; frames that come before are kept.
    ///
    /// # Errors
    /// If it does not end in time.
    pub fn try_closed(&mut self) -> Result<(), String> {
        let end = Instant::now() + self.limit;
        loop {
            match self.read_frame(end) {
                Ok(frame) => self.frames.push_back(frame),
                Err(reason) if reason == CLOSED => return Ok(()),
                Err(reason) => return Err(reason),
            }
        }
    }

    /// Frames that came and nobody asked for.
    pub fn left(&self) -> usize {
        self.frames.len()
    }

    /// The same frames as text.
    pub fn pending(&self) -> Vec<String> {
        self.frames.iter().map(Value::to_string).collect()
    }

    /// A whole line, if there is one.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let found = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n');
        let Some(found) = found else {
            self.buffer.drain(..self.start);
            self.start = 0;
            self.scanned = self.buffer.len();
            return None;
        };
        let end = self.scanned + found;
        let line = self.buffer[self.start..end].to_vec();
        self.start = end + 1;
        self.scanned = self.start;
        Some(line)
    }

    fn read_frame(&mut self, end: Instant) -> Result<Value, String> {
        loop {
            if let Some(line) = self.take_line() {
                let frame: Value = serde_json::from_slice(&line)
                    .map_err(|error| format!("not JSON ({error}): {}", String::from_utf8_lossy(&line)))?;
                if frame["jsonrpc"] != "2.0" {
                    return Err(format!("no JSON-RPC frame: {frame}"));
                }
                return if self.folds { spelling::fold_frame(&frame) } else { Ok(frame) };
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("nothing came in time".to_owned());
            }
            self.stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            let mut piece = vec![0; 256 << 10];
            match wait::read(&mut self.stream, &mut piece) {
                Ok(0) => return Err(CLOSED.to_owned()),
                Ok(length) => self.buffer.extend_from_slice(&piece[..length]),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Err(CLOSED.to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

const CLOSED: &str = "the connection was closed instead";

/// The text of all chunks among updates.
pub fn text_of(updates: &[Value]) -> String {
    updates
        .iter()
        .filter(|update| update["type"] == "agent_message_chunk")
        .map(|update| update["text"].as_str().unwrap_or_default())
        .collect()
}

/// The types of updates in order, each run of chunks as one.
pub fn kinds(updates: &[Value]) -> Vec<String> {
    let mut kinds: Vec<String> =
        updates.iter().map(|update| update["type"].as_str().unwrap_or_default().to_owned()).collect();
    kinds.dedup_by(|one, other| one == other && one.ends_with("_chunk"));
    kinds
}
