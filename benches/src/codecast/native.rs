//! A blocking client of a house's own socket, as far as turns need it.

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;
use serde_json::json;

/// A real CLI on a busy machine may take its time; more than this it never needs.
const LONGEST_TURN: Duration = Duration::from_secs(120);

/// How long the processes of a session live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hosting {
    Warm,
    PerMessage,
}

/// A connection that has said hello.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    next_id: u64,
}

impl Client {
    pub(crate) fn open(socket: &Path) -> Result<Client> {
        let stream = UnixStream::connect(socket).with_context(|| format!("connecting to {}", socket.display()))?;
        stream.set_read_timeout(Some(LONGEST_TURN))?;
        stream.set_write_timeout(Some(LONGEST_TURN))?;
        let mut client = Client { stream: BufReader::new(stream), next_id: 1 };
        client.call("initialize", &json!({"protocol_version": 1}))?;
        Ok(client)
    }

    /// Makes a call and waits for its result; what is told in between is passed over.
    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes()).with_context(|| format!("sending {method}"))?;
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.stream.read_line(&mut line).with_context(|| format!("waiting for {method}"))?;
            ensure!(count > 0, "the server closed the connection");
            let mut answer: Value = serde_json::from_str(&line).context("not JSON")?;
            if answer["id"].as_u64() == Some(id) {
                ensure!(answer.get("error").is_none(), "{method} answered {answer}");
                return Ok(answer["result"].take());
            }
        }
    }

    /// Which guard agents have.
    pub(crate) fn guard(&mut self) -> Result<String> {
        let status = self.call("house/status", &json!({}))?;
        Ok(status["guard"]["active"].as_str().context("house/status tells of no guard")?.to_owned())
    }

    /// Makes a session.
    pub(crate) fn new_session(&mut self, agent: &str, dir: &Path, hosting: Hosting) -> Result<String> {
        let hosting = match hosting {
            Hosting::Warm => "warm",
            Hosting::PerMessage => "per-message",
        };
        let params = json!({"agent_alias": agent, "cwd": dir, "hosting": hosting, "mode": "auto"});
        let result = self.call("session/new", &params)?;
        Ok(result["session_id"].as_str().context("session/new gave no session_id")?.to_owned())
    }

    /// Runs a turn whose answer must hold `expected`; says how long it took.
    pub(crate) fn turn(&mut self, session: &str, prompt: &str, expected: &str) -> Result<Duration> {
        let begun = Instant::now();
        let result = self.call("session/prompt", &json!({"session_id": session, "prompt": prompt}))?;
        let took = begun.elapsed();
        ensure!(
            result["content"].as_str().is_some_and(|content| content.contains(expected)),
            "the turn `{prompt}` ended with {result}"
        );
        Ok(took)
    }

    /// Ends a session.
    pub(crate) fn close(&mut self, session: &str) -> Result<()> {
        self.call("session/close", &json!({"session_id": session})).map(drop)
    }
}
