//! A session behind the codecast door: a request for each message, answered by a stream.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::session::{Behind, Outcome, Question, Seen};
use super::world::World;

/// The session.
pub(crate) struct Codecast<'a> {
    world: &'a World,
    session: String,
    /// The stream of the running turn.
    stream: Option<Stream>,
    interrupted: bool,
    failed: bool,
}

impl<'a> Codecast<'a> {
    /// Makes one.
    pub(crate) fn new(world: &'a World, directory: &Path, mode: &str) -> Self {
        let params = json!({"path": directory, "mode": mode, "cli_type": world.alias});
        let made = call(world, "session.create", &params);
        let session = made["sessionId"].as_str().expect("an id").to_owned();
        Self { world, session, stream: None, interrupted: false, failed: false }
    }

    fn event(&mut self, event: &Value) -> Option<Seen> {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "partial" => Some(Seen::Piece(text("content"))),
            "text" if event["content"] != "" => Some(Seen::Block(text("content"))),
            "tool_use" if event.get("input").is_some() => {
                Some(Seen::Tool(format!("{} {}", text("tool"), event["input"])))
            }
            "system" if event["subtype"] == "permission_request" => {
                let words = format!("{} {}", text("tool"), text("summary"));
                Some(Seen::Asked(Question { id: text("approval"), words }))
            }
            "error" => {
                self.failed = true;
                Some(Seen::Error(text("message")))
            }
            "interrupted" => {
                self.interrupted = true;
                None
            }
            _ => None,
        }
    }
}

impl Behind for Codecast<'_> {
    fn id(&self) -> &str {
        &self.session
    }

    fn prompt(&mut self, text: &str) {
        (self.interrupted, self.failed) = (false, false);
        let params = json!({"sessionId": self.session, "message": text});
        let mut stream = Stream::post(self.world, "session.send", &params);
        assert_eq!(stream.event(), Some(json!({"type": "ping"})), "the first frame says that the message was taken");
        self.stream = Some(stream);
    }

    fn next(&mut self) -> Option<Seen> {
        if let Some(event) = self.stream.as_mut().expect("a turn runs").event() {
            return self.event(&event);
        }
        self.stream = None;
        Some(Seen::Over(match (self.interrupted, self.failed) {
            (true, _) => Outcome::Interrupted,
            (false, true) => Outcome::Failed,
            (false, false) => Outcome::Completed,
        }))
    }

    /// This door has no way to answer; the others of the house have.
    fn answer(&mut self, question: &Question, decision: &str) {
        let pending = self.world.stage.native().ask("approval/list", json!({}));
        let pending = pending["approvals"].as_array().expect("a list");
        let asked = pending.iter().find(|approval| approval["id"] == question.id).expect("the question is pending");
        assert_eq!(asked["session_id"], self.session, "{asked}");
        let params = json!({"session_id": self.session, "request_id": question.id, "decision": decision});
        let answer = self.world.stage.zeroclaw().ask("session/approve", params);
        assert_eq!(answer["acknowledged"], true, "{answer}");
    }

    fn interrupt(&mut self) {
        let answer = call(self.world, "session.interrupt", &json!({"sessionId": self.session}));
        assert_eq!(answer, json!({"ok": true, "interrupted": true}));
    }

    fn close(&mut self) {
        assert_eq!(call(self.world, "session.destroy", &json!({"sessionId": self.session})), json!({"ok": true}));
    }
}

fn call(world: &World, method: &str, params: &Value) -> Value {
    let mut answer = Stream::post(world, method, params);
    let mut text = String::new();
    while let Some(line) = answer.line() {
        text.push_str(&line);
    }
    let answer: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
    assert!(answer.get("error").is_none(), "{method} was refused: {answer}");
    answer["result"].clone()
}

/// The body of an answer, as it comes.
struct Stream {
    reader: BufReader<TcpStream>,
    chunked: bool,
    /// What is left of a body that is not chunked.
    length: usize,
    /// Read and not taken.
    body: Vec<u8>,
    over: bool,
}

impl Stream {
    fn post(world: &World, method: &str, params: &Value) -> Self {
        let (address, limit): (SocketAddr, Duration) = (world.stage.codecast(), world.stage.limit());
        let mut connection = TcpStream::connect_timeout(&address, limit).expect("the door accepts");
        connection.set_read_timeout(Some(limit)).expect("a connection has time limits");
        let body = json!({"method": method, "params": params, "id": "1"}).to_string();
        let head = format!(
            "POST /rpc HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body.as_bytes())).expect("it listens");
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        reader.read_line(&mut line).expect("an answer");
        assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
        let (mut chunked, mut length) = (false, 0);
        loop {
            line.clear();
            reader.read_line(&mut line).expect("a head");
            let header = line.trim_end().to_ascii_lowercase();
            match header.split_once(": ") {
                Some(("transfer-encoding", coding)) => chunked = coding == "chunked",
                Some(("content-length", number)) => length = number.parse().expect("a length"),
                Some(_) => {}
                None => break,
            }
        }
        Self { reader, chunked, length, body: Vec::new(), over: false }
    }

    /// The next event of a stream; none after the last.
    fn event(&mut self) -> Option<Value> {
        loop {
            let line = self.line().expect("a stream ends with [DONE]");
            match line.strip_prefix("data: ") {
                Some("[DONE]") => return None,
                Some(data) => return Some(serde_json::from_str(data).unwrap_or_else(|_| panic!("no event: {line}"))),
                None => assert_eq!(line, "", "between events is nothing"),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.body.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.body.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.over {
                let rest = std::mem::take(&mut self.body);
                return (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned());
            }
            self.read_more();
        }
    }

    fn read_more(&mut self) {
        let length = match self.chunked {
            true => {
                let mut size = String::new();
                self.reader.read_line(&mut size).expect("something in time");
                usize::from_str_radix(size.trim(), 16).unwrap_or_else(|_| panic!("no chunk: {size:?}"))
            }
            false => self.length,
        };
        let mut piece = vec![0; length];
        self.reader.read_exact(&mut piece).expect("what was announced");
        if self.chunked {
            self.reader.read_line(&mut String::new()).expect("the end of a chunk");
        }
        self.over = !self.chunked || length == 0;
        self.body.extend_from_slice(&piece);
    }
}
