//! A door without a daemon, for tests of the interpreter itself: it answers with what it is sent.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::door::{CallError, Door, Request};
use super::language::{Language, Sign, Word};
use super::pattern::Names;
use crate::codecast::http::Answer;
use crate::house;

/// Every sign, and what the tests of the parser need.
pub(super) const LANGUAGE: Language = Language {
    door: "fake",
    signs: &[
        Sign::Send,
        Sign::SendPart,
        Sign::Call,
        Sign::Notify,
        Sign::Header,
        Sign::Request,
        Sign::Message,
        Sign::Result,
        Sign::Error,
        Sign::Status,
        Sign::EventualStatus,
        Sign::HasHeader,
        Sign::LacksHeader,
        Sign::Contains,
        Sign::Event,
        Sign::EventualEvent,
        Sign::NoEvent,
        Sign::StreamEnd,
        Sign::Output,
    ],
    standard: &["fresh-daemon", "closed", "nothing-left"],
    directives: &[
        Word::new("knock times", "nothing"),
        Word::new("crash", "panic"),
        Word::new("events name data, name data", "events come, and the stream ends"),
        Word::new("write process stream text", "output of a process comes"),
    ],
    settings: &[Word::new("members names", "nothing")],
    variants: &["fast", "slow"],
    placeholders: &[],
};

pub(super) struct Fake {
    root: tempfile::TempDir,
    daemons: usize,
    log: String,
    messages: BTreeMap<String, VecDeque<String>>,
    calls: BTreeMap<String, String>,
    requests: BTreeMap<String, (usize, Request)>,
    events: VecDeque<String>,
    past: Vec<String>,
    output: BTreeMap<String, String>,
}

impl Fake {
    pub(super) fn start() -> Self {
        Self {
            root: tempfile::tempdir().expect("a temporary directory"),
            daemons: 1,
            log: String::new(),
            messages: BTreeMap::new(),
            calls: BTreeMap::new(),
            requests: BTreeMap::new(),
            events: VecDeque::new(),
            past: Vec::new(),
            output: BTreeMap::new(),
        }
    }

    fn take(&mut self, connection: &str) -> Result<String, String> {
        let message = self.messages.entry(connection.to_owned()).or_default().pop_front();
        message.ok_or_else(|| "nothing came".to_owned())
    }
}

impl Door for Fake {
    fn work(&self) -> PathBuf {
        self.root.path().to_owned()
    }

    fn begin(&mut self, _number: usize) -> Result<(), String> {
        self.messages.clear();
        Ok(())
    }

    fn names(&self) -> Names {
        Names::new()
    }

    fn set_environment(&self, command: &mut Command, directory: &Path) {
        house::set_base_environment(command, directory);
    }

    fn log(&self, _connection: &str) -> String {
        format!("{}\n{} daemons\n", self.log, self.daemons).trim_start().to_owned()
    }

    fn limit(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn pending(&self, connection: &str) -> Vec<String> {
        self.messages.get(connection).into_iter().flatten().cloned().collect()
    }

    fn fresh(&mut self, options: &str) -> Result<(), String> {
        if options == "broken" {
            return Err("the daemon is broken".to_owned());
        }
        self.daemons += 1;
        self.log = options.to_owned();
        Ok(())
    }

    fn send(&mut self, connection: &str, bytes: &[u8], whole: bool) -> Result<(), String> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.log.push_str(&format!("\nreceived {text}"));
        let answer = if whole { text } else { format!("{text}(part)") };
        self.messages.entry(connection.to_owned()).or_default().push_back(answer);
        Ok(())
    }

    fn call(&mut self, connection: &str, text: &str) -> Result<(), String> {
        self.calls.insert(connection.to_owned(), text.to_owned());
        Ok(())
    }

    fn notify(&mut self, _connection: &str, text: &str) -> Result<(), String> {
        self.output.insert(String::new(), text.to_owned());
        Ok(())
    }

    fn request(&mut self, connection: &str, request: &Request) -> Result<(), String> {
        let times = self.requests.get(connection).map_or(0, |(times, _)| *times);
        self.requests.insert(connection.to_owned(), (times + 1, request.clone()));
        Ok(())
    }

    fn message(&mut self, connection: &str) -> Result<String, String> {
        if self.requests.contains_key(connection) {
            return Ok(self.response(connection)?.text());
        }
        self.take(connection)
    }

    fn result(&mut self, connection: &str) -> Result<String, String> {
        let call = self.calls.get(connection).ok_or("there was no call")?;
        call.strip_prefix("ok ").map(str::to_owned).ok_or_else(|| format!("no result: {call}"))
    }

    fn error(&mut self, connection: &str) -> Result<CallError, String> {
        let call = self.calls.get(connection).ok_or("there was no call")?;
        let error = call.strip_prefix("fail ").and_then(|error| error.split_once(' '));
        let (code, message) = error.ok_or_else(|| format!("no error: {call}"))?;
        Ok(CallError { code: code.to_owned(), message: message.to_owned() })
    }

    fn response(&mut self, connection: &str) -> Result<Answer, String> {
        let (times, request) = self.requests.get(connection).ok_or("there was no request")?;
        let status = match request.path.trim_start_matches('/').parse() {
            Ok(status) => status,
            Err(_) => u16::try_from(200 + times).unwrap_or_default(),
        };
        let mut headers = vec![("server", "fake"), ("content-type", "application/json")];
        headers.extend(request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let headers = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned()));
        Ok(Answer { status, headers: headers.collect(), body: request.body.clone() })
    }

    fn event(&mut self, _connection: &str) -> Result<Option<String>, String> {
        let event = self.events.pop_front();
        self.past.extend(event.clone());
        Ok(event)
    }

    fn past_events(&self, _connection: &str) -> Result<Vec<String>, String> {
        Ok(self.past.clone())
    }

    fn output(&mut self, _connection: &str, channel: &str, _length: usize) -> Result<Vec<u8>, String> {
        Ok(self.output.remove(channel).ok_or("no output")?.into_bytes())
    }

    fn directive(&mut self, connection: &str, word: &str, text: &str, _names: &mut Names) -> Result<(), String> {
        match word {
            "crash" => panic!("the fake crashed"),
            "events" => {
                self.past.clear();
                self.events = text.split(", ").map(str::to_owned).collect();
                Ok(())
            }
            "write" => {
                let (channel, value) = text.rsplit_once(' ').ok_or("a text is needed")?;
                self.output.insert(channel.to_owned(), value.to_owned());
                Ok(())
            }
            "closed" if self.log.ends_with("bye") => Ok(()),
            "closed" => Err("the connection is open".to_owned()),
            "nothing-left" if self.pending(connection).is_empty() => Ok(()),
            "nothing-left" => Err("something is left".to_owned()),
            _ => Ok(()),
        }
    }
}
