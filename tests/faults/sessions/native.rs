//! A client of our own socket and of the zeroclaw socket that expects to lose its connection at any moment.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use hostel_tests::wait;
use serde_json::{Value, json};

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection has ended: the daemon is gone.
    Lost,
    /// Nothing came in time.
    Late,
    /// The request was refused.
    Refused(i64, String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Lost => formatter.write_str("the connection ended"),
            Trouble::Late => formatter.write_str("nothing came in time"),
            Trouble::Refused(code, message) => write!(formatter, "refused with {code}: {message}"),
        }
    }
}

/// One connection.
pub(crate) struct Native {
    stream: UnixStream,
    buffer: Vec<u8>,
    start: usize,
    next_id: u64,
    limit: Duration,
    updates: VecDeque<Value>,
    /// Answers that came before somebody asked for them.
    answers: HashMap<u64, Value>,
}

impl Native {
    /// Connects and introduces itself.
    pub(crate) fn introduced(socket: &Path) -> Result<Self, Trouble> {
        let stream = UnixStream::connect(socket).map_err(|_| Trouble::Lost)?;
        let mut native = Self {
            stream,
            buffer: Vec::new(),
            start: 0,
            next_id: 1,
            limit: wait::LIMIT,
            updates: VecDeque::new(),
            answers: HashMap::new(),
        };
        native.call("initialize", json!({"protocol_version": 1}))?;
        Ok(native)
    }

    /// Another deadline for every later wait.
    pub(crate) fn patient(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sends a request and gives its id.
    pub(crate) fn begin(&mut self, method: &str, params: Value) -> Result<u64, Trouble> {
        let id = self.next_id;
        self.next_id += 1;
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method});
        request["params"] = params;
        let line = format!("{request}\n");
        self.stream.set_write_timeout(Some(self.limit)).map_err(|_| Trouble::Lost)?;
        self.stream.write_all(line.as_bytes()).map_err(|_| Trouble::Lost)?;
        Ok(id)
    }

    /// The result of a request; what comes before it is kept.
    pub(crate) fn finish(&mut self, id: u64) -> Result<Value, Trouble> {
        let end = Instant::now() + self.limit;
        let mut answer = loop {
            if let Some(answer) = self.answers.remove(&id) {
                break answer;
            }
            let frame = self.frame(end)?;
            self.keep(frame);
        };
        match answer.get("error") {
            Some(error) => {
                let message = error["message"].as_str().unwrap_or_default();
                Err(Trouble::Refused(error["code"].as_i64().unwrap_or(0), message.to_owned()))
            }
            None => Ok(answer["result"].take()),
        }
    }

    /// Keeps a frame until somebody asks for it.
    fn keep(&mut self, mut frame: Value) {
        if frame["method"] == "session/update" {
            self.updates.push_back(frame["params"].take());
        } else if let Some(id) = frame["id"].as_u64().filter(|_| frame.get("method").is_none()) {
            self.answers.insert(id, frame);
        }
    }

    /// Sends a request and gives its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, Trouble> {
        let id = self.begin(method, params)?;
        self.finish(id)
    }

    /// Sends a request and gives its result; anything else ends the test.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let shown = params.to_string();
        self.call(method, params).unwrap_or_else(|trouble| panic!("{method} {shown}: {trouble}"))
    }

    /// Makes a session and gives its id.
    pub(crate) fn make(&mut self, params: Value) -> String {
        let made = self.ask("session/new", params);
        made["session_id"].as_str().expect("a session has an id").to_owned()
    }

    /// Puts a prompt in a session's queue and gives its turn.
    pub(crate) fn send(&mut self, session: &str, prompt: &str) -> u64 {
        let sent = self.ask("session/send", json!({"session_id": session, "prompt": prompt}));
        sent["turn"].as_u64().expect("a prompt has a turn")
    }

    /// A session as `session/list` shows it.
    pub(crate) fn listed(&mut self, session: &str) -> Result<Value, Trouble> {
        let mut list = self.call("session/list", json!({"all": true, "limit": 1000}))?;
        let sessions = list["sessions"].as_array_mut().expect("a list of sessions");
        let at = sessions.iter().position(|listed| listed["session_id"] == session);
        Ok(sessions.swap_remove(at.unwrap_or_else(|| panic!("session {session} is not listed"))))
    }

    /// Attaches to a session after an event.
    pub(crate) fn attach(&mut self, session: &str, since: u64, follow: bool) -> Result<Value, Trouble> {
        self.call("session/attach", json!({"session_id": session, "since_seq": since, "follow": follow}))
    }

    /// The next update.
    pub(crate) fn update(&mut self) -> Result<Value, Trouble> {
        let end = Instant::now() + self.limit;
        self.update_until(end)
    }

    /// The next update until then.
    pub(crate) fn update_until(&mut self, end: Instant) -> Result<Value, Trouble> {
        loop {
            if let Some(update) = self.updates.pop_front() {
                return Ok(update);
            }
            let frame = self.frame(end)?;
            self.keep(frame);
        }
    }

    /// The next update of a type.
    pub(crate) fn update_of(&mut self, kind: &str) -> Value {
        loop {
            let update = self.update().unwrap_or_else(|trouble| panic!("no {kind}: {trouble}"));
            if update["type"] == kind {
                return update;
            }
        }
    }

    /// The end of a turn of an attached session.
    pub(crate) fn ended(&mut self, turn: u64) -> Value {
        loop {
            let update = self.update_of("turn_complete");
            if update["turn"] == turn {
                return update;
            }
        }
    }

    /// Sends a prompt and waits for the end of its turn.
    pub(crate) fn prompt(&mut self, session: &str, prompt: &str) -> Value {
        let sent = self.ask("session/send", json!({"session_id": session, "prompt": prompt}));
        self.attach(session, sent["after_seq"].as_u64().expect("a number"), true).expect("a session to attach to");
        self.ended(sent["turn"].as_u64().expect("a turn"))
    }

    fn frame(&mut self, end: Instant) -> Result<Value, Trouble> {
        let line = self.line(end)?;
        Ok(serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(line))))
    }

    /// The next line as it came.
    pub(crate) fn line(&mut self, end: Instant) -> Result<&[u8], Trouble> {
        let mut scanned = self.start;
        loop {
            if let Some(length) = self.buffer[scanned..].iter().position(|byte| *byte == b'\n') {
                let (from, to) = (self.start, scanned + length);
                self.start = to + 1;
                return Ok(&self.buffer[from..to]);
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            scanned = self.buffer.len();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Late);
            }
            self.stream.set_read_timeout(Some(left)).map_err(|_| Trouble::Lost)?;
            let filled = self.buffer.len();
            self.buffer.resize(filled + (256 << 10), 0);
            let read = wait::read(&mut self.stream, &mut self.buffer[filled..]);
            self.buffer.truncate(filled + read.as_ref().copied().unwrap_or(0));
            match read {
                Ok(0) => return Err(Trouble::Lost),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(_) => return Err(Trouble::Lost),
            }
        }
    }
}
