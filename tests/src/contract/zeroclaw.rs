//! The zeroclaw door: JSON-RPC frames over a socket, updates of sessions, both spellings of every key.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::door::{CallError, Connections, Door};
use super::language::{Language, Sign, Word};
use super::pattern::Names;
use super::rpc::{escaped, params_member, split_call};
use crate::house;
use crate::zeroclaw::{Daemon, Options, Peer};

/// What the door has of the language.
pub const LANGUAGE: Language = Language {
    door: "zeroclaw",
    signs: &[
        Sign::Send,
        Sign::SendPart,
        Sign::Call,
        Sign::Notify,
        Sign::Message,
        Sign::Result,
        Sign::Error,
        Sign::Event,
        Sign::Output,
    ],
    standard: &["fresh-daemon", "half-close", "cut", "reconnect", "closed", "nothing-left"],
    directives: &[Word::expecting("init", "introduce the connection with `initialize`; takes an id")],
    settings: &[],
    variants: &[],
    placeholders: &[
        ("DATA", "the data directory of the daemon"),
        ("SOCKET", "the socket of the daemon"),
        ("DAEMON", "the pid of the daemon"),
    ],
};

/// A daemon and the connections of a case.
pub struct Zeroclaw {
    connections: Connections<Line>,
    daemon: Daemon,
    options: Options,
    /// The last id of the case.
    last_id: u64,
}

struct Line {
    peer: Peer,
    last_id: u64,
}

impl Zeroclaw {
    /// Starts a daemon.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(options: Options) -> Self {
        let daemon = Daemon::start_with(options.clone());
        Self { connections: Connections::default(), daemon, options, last_id: 0 }
    }

    fn line(&mut self, connection: &str) -> Result<&mut Line, String> {
        let daemon = &self.daemon;
        self.connections.get(connection, || Ok(Line { peer: daemon.connect(), last_id: 0 }))
    }

    fn peer(&mut self, connection: &str) -> Result<&mut Peer, String> {
        Ok(&mut self.line(connection)?.peer)
    }

    /// The answer to the last call, which has these members and no others.
    fn answer(&mut self, connection: &str, member: &str) -> Result<Value, String> {
        let line = self.line(connection)?;
        let answer = line.peer.try_answer(line.last_id)?;
        let keys = answer.as_object().map(|members| members.keys().map(String::as_str).collect::<Vec<_>>());
        let mut expected = ["id", "jsonrpc", member];
        expected.sort_unstable();
        if keys.unwrap_or_default() != expected {
            return Err(format!("the answer has no `{member}`, or more than that: {answer}"));
        }
        Ok(answer[member].clone())
    }

    fn update(&mut self, connection: &str) -> Result<Value, String> {
        self.peer(connection)?.try_update().map_err(|reason| format!("no update: {reason}"))
    }
}

impl Door for Zeroclaw {
    fn work(&self) -> PathBuf {
        self.daemon.work()
    }

    fn begin(&mut self, _number: usize) -> Result<(), String> {
        self.connections.clear();
        self.last_id = 0;
        self.line("").map(drop)
    }

    fn names(&self) -> Names {
        let path = |path: PathBuf| house::path_text(&path).to_owned();
        Names::from([
            ("DATA".to_owned(), path(self.daemon.data())),
            ("SOCKET".to_owned(), path(self.daemon.socket())),
            ("DAEMON".to_owned(), self.daemon.pid().to_string()),
        ])
    }

    fn set_environment(&self, command: &mut Command, _directory: &Path) {
        house::set_base_environment(command, self.daemon.path());
    }

    fn log(&self, _connection: &str) -> String {
        self.daemon.printed()
    }

    fn pending(&self, connection: &str) -> Vec<String> {
        self.connections.existing(connection).map(|line| line.peer.pending()).unwrap_or_default()
    }

    fn fresh(&mut self, options: &str) -> Result<(), String> {
        if !options.is_empty() {
            return Err("this door takes no options".to_owned());
        }
        self.connections.clear();
        self.daemon = Daemon::start_with(self.options.clone());
        Ok(())
    }

    fn send(&mut self, connection: &str, bytes: &[u8], whole: bool) -> Result<(), String> {
        let mut bytes = bytes.to_vec();
        if whole {
            bytes.push(b'\n');
        }
        self.peer(connection)?.send(&bytes).map_err(|error| format!("cannot send: {error}"))
    }

    fn call(&mut self, connection: &str, text: &str) -> Result<(), String> {
        self.last_id += 1;
        let (id, (method, params)) = (self.last_id, split_call(text));
        let params = params_member(params);
        self.line(connection)?.last_id = id;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params}}}"#);
        self.send(connection, line.as_bytes(), true)
    }

    fn notify(&mut self, connection: &str, text: &str) -> Result<(), String> {
        let (method, params) = split_call(text);
        let params = params_member(params);
        self.send(connection, format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#).as_bytes(), true)
    }

    fn message(&mut self, connection: &str) -> Result<String, String> {
        let limit = self.read_limit();
        self.peer(connection)?.try_frame(limit).map(|frame| frame.to_string())
    }

    fn result(&mut self, connection: &str) -> Result<String, String> {
        self.answer(connection, "result").map(|result| result.to_string())
    }

    fn error(&mut self, connection: &str) -> Result<CallError, String> {
        let error = self.answer(connection, "error")?;
        let message = error["message"].as_str().filter(|message| !message.is_empty());
        match (error["code"].as_i64(), message, error.as_object().map_or(0, serde_json::Map::len)) {
            (Some(code), Some(message), 2) => Ok(CallError { code: code.to_string(), message: escaped(message) }),
            _ => Err(format!("the error is not just a code and a message: {error}")),
        }
    }

    /// The next `session/update`: its type, and its other params.
    fn event(&mut self, connection: &str) -> Result<Option<String>, String> {
        let mut update = self.update(connection)?;
        let kind = update.as_object_mut().and_then(|params| params.remove("type"));
        let kind = kind.as_ref().and_then(Value::as_str).ok_or_else(|| format!("an update has no type: {update}"))?;
        Ok(Some(format!("{kind} {update}")))
    }

    /// The only channel is the text of the agent, without a name.
    fn output(&mut self, connection: &str, channel: &str, length: usize) -> Result<Vec<u8>, String> {
        if !channel.is_empty() {
            return Err("the text of the agent has no name".to_owned());
        }
        let mut collected = Vec::new();
        while collected.len() < length {
            let update = self.update(connection)?;
            if update["type"] != "agent_message_chunk" {
                return Err(format!("after {:?} came {update}", String::from_utf8_lossy(&collected)));
            }
            collected.extend_from_slice(update["text"].as_str().unwrap_or_default().as_bytes());
        }
        Ok(collected)
    }

    fn directive(&mut self, connection: &str, word: &str, _text: &str, _names: &mut Names) -> Result<(), String> {
        match word {
            "init" => {
                self.call(connection, "initialize {}")?;
                let result = self.answer(connection, "result")?;
                let greeted = result["protocol_version"] == json!(1);
                if greeted { Ok(()) } else { Err(format!("`initialize` was answered with {result}")) }
            }
            "half-close" => {
                self.peer(connection)?.half_close();
                Ok(())
            }
            "cut" => self.connections.cut(connection),
            "reconnect" => {
                let peer = self.daemon.connect();
                self.connections.replace(connection, Line { peer, last_id: 0 });
                Ok(())
            }
            "closed" => self.peer(connection)?.try_closed(),
            "nothing-left" => match self.peer(connection)?.left() {
                0 => Ok(()),
                left => Err(format!("{left} frames were not looked at")),
            },
            _ => Err("no such directive".to_owned()),
        }
    }
}
