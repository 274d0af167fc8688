//! The codecast door: JSON-RPC over HTTP, answers that are streams of events.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::door::{CallError, Connections, Door, Request};
use super::language::{Language, Sign};
use super::pattern::Names;
use super::rpc::{escaped, params_member, split_call};
use crate::codecast::http::{Answer, Connection};
use crate::codecast::{Daemon, Options};
use crate::house;

/// What the door has of the language.
pub const LANGUAGE: Language = Language {
    door: "codecast",
    signs: &[
        Sign::Send,
        Sign::Call,
        Sign::Header,
        Sign::Request,
        Sign::Message,
        Sign::Result,
        Sign::Error,
        Sign::Status,
        Sign::HasHeader,
        Sign::LacksHeader,
        Sign::Contains,
        Sign::Event,
        Sign::StreamEnd,
    ],
    standard: &["fresh-daemon", "cut"],
    directives: &[],
    settings: &[],
    variants: &[],
    placeholders: &[
        ("HOME", "the home directory of the daemon and of shell commands"),
        ("PROJECT", "a project that exists, called `p`"),
        ("DAEMON", "the pid of the daemon"),
    ],
};

/// A daemon and the connections of a case.
pub struct Codecast {
    connections: Connections<Line>,
    daemon: Daemon,
}

struct Line {
    connection: Connection,
    response: Option<Answer>,
}

impl Codecast {
    /// Starts a daemon.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start() -> Self {
        Self { connections: Connections::default(), daemon: Daemon::start() }
    }

    fn line(&mut self, name: &str) -> Result<&mut Line, String> {
        let daemon = &self.daemon;
        self.connections.get(name, || Ok(Line { connection: daemon.connect(), response: None }))
    }

    /// The answer to a call: always a 200, and with the call's id.
    fn answer(&mut self, connection: &str) -> Result<Value, String> {
        let response = self.response(connection)?;
        if response.status != 200 || response.header("content-type") != Some("application/json") {
            return Err(format!("no JSON-RPC answer but {} {}", response.status, response.text()));
        }
        let json = response.json();
        if json["id"] == "id" { Ok(json) } else { Err(format!("the id is not the call's: {json}")) }
    }
}

impl Door for Codecast {
    fn work(&self) -> PathBuf {
        self.daemon.path().to_owned()
    }

    fn begin(&mut self, _number: usize) -> Result<(), String> {
        self.connections.clear();
        Ok(())
    }

    fn names(&self) -> Names {
        let path = |path: PathBuf| house::path_text(&path).to_owned();
        Names::from([
            ("HOME".to_owned(), path(self.daemon.home())),
            ("PROJECT".to_owned(), path(self.daemon.project())),
            ("DAEMON".to_owned(), self.daemon.identity().pid.to_string()),
        ])
    }

    fn set_environment(&self, command: &mut Command, _directory: &Path) {
        self.daemon.set_environment(command);
    }

    fn log(&self, _connection: &str) -> String {
        self.daemon.printed()
    }

    fn fresh(&mut self, options: &str) -> Result<(), String> {
        if !options.is_empty() {
            return Err("this door takes no options".to_owned());
        }
        self.connections.clear();
        self.daemon = Daemon::start_with(Options::default());
        Ok(())
    }

    /// A body that is posted as JSON.
    fn send(&mut self, connection: &str, bytes: &[u8], _whole: bool) -> Result<(), String> {
        let line = self.line(connection)?;
        line.response = None;
        line.connection.post(bytes);
        Ok(())
    }

    fn call(&mut self, connection: &str, text: &str) -> Result<(), String> {
        let (method, params) = split_call(text);
        let params = params_member(params);
        self.send(connection, format!(r#"{{"method":"{method}"{params},"id":"id"}}"#).as_bytes(), true)
    }

    fn request(&mut self, connection: &str, request: &Request) -> Result<(), String> {
        let headers: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let line = self.line(connection)?;
        line.response = None;
        line.connection.request(&request.method, &request.path, &headers, &request.body);
        Ok(())
    }

    fn message(&mut self, connection: &str) -> Result<String, String> {
        Ok(self.response(connection)?.text())
    }

    /// The result with its keys in alphabetical order.
    fn result(&mut self, connection: &str) -> Result<String, String> {
        let answer = self.answer(connection)?;
        answer.get("result").map(Value::to_string).ok_or_else(|| format!("there is no result: {answer}"))
    }

    fn error(&mut self, connection: &str) -> Result<CallError, String> {
        let answer = self.answer(connection)?;
        match (answer["error"]["code"].as_i64(), answer["error"]["message"].as_str()) {
            (Some(code), Some(message)) => Ok(CallError { code: code.to_string(), message: escaped(message) }),
            _ => Err(format!("there is no error: {answer}")),
        }
    }

    fn response(&mut self, connection: &str) -> Result<Answer, String> {
        let line = self.line(connection)?;
        let response = line.response.take().unwrap_or_else(|| line.connection.answer());
        line.response = Some(response.clone());
        Ok(response)
    }

    fn event(&mut self, connection: &str) -> Result<Option<String>, String> {
        self.response(connection)?;
        self.line(connection)?.connection.try_frame().map_err(|error| format!("no event: {error}"))
    }

    fn directive(&mut self, connection: &str, word: &str, _text: &str, _names: &mut Names) -> Result<(), String> {
        match word {
            "cut" => self.connections.cut(connection),
            _ => Err("no such directive".to_owned()),
        }
    }
}
