//! Carries out the steps of one case: what is sent, what is run, and what is expected.
//!
//! A step either is as the file says or gives the reason why not, with the text that would have been right. Whether the
//! case goes on after that is decided in `run`, not here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::door::{Door, Request};
use super::json;
use super::pattern::{self, Names, Pattern};
use super::report::{self, Exchange, shorten};
use super::script::{Action, Case, Script, Step};
use crate::codecast::http::Answer;
use crate::{house, wait};

/// Why a step failed, and the text that would have been right.
pub(super) struct Problem {
    pub(super) reason: String,
    pub(super) proposed: Option<String>,
}

impl From<String> for Problem {
    fn from(reason: String) -> Self {
        Self { reason, proposed: None }
    }
}

impl From<&str> for Problem {
    fn from(reason: &str) -> Self {
        Self::from(reason.to_owned())
    }
}

/// A case that is being played: its connections, and the names that stand for values.
pub(super) struct CaseRun<'a, D> {
    json: bool,
    door: &'a mut D,
    directory: PathBuf,
    names: Names,
    /// Of the next request of a connection.
    headers: BTreeMap<String, Vec<(String, String)>>,
    /// The last request of a connection.
    requests: BTreeMap<String, Request>,
    exchanges: BTreeMap<String, Exchange>,
}

impl<'a, D: Door> CaseRun<'a, D> {
    pub(super) fn new(json: bool, door: &'a mut D, directory: PathBuf, names: Names) -> Self {
        Self {
            json,
            door,
            directory,
            names,
            headers: BTreeMap::new(),
            requests: BTreeMap::new(),
            exchanges: BTreeMap::new(),
        }
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// What is printed about a step that failed.
    pub(super) fn report(&self, script: &Script, case: &Case, step: &Step, reason: &str) -> String {
        let exchange = self.exchanges.get(&step.connection);
        let (pending, log) = (self.door.pending(&step.connection), self.door.log(&step.connection));
        report::failure(script, case, step, reason, exchange, &pending, &log)
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Problem> {
        let connection = step.connection.as_str();
        match &step.action {
            Action::Shell(command) => self.shell(command).map(drop),
            Action::Capture(name, command) => {
                let printed = self.shell(command)?;
                self.names.insert(name.clone(), printed.trim_end().to_owned());
                Ok(())
            }
            Action::Send(text, whole) => {
                let bytes = pattern::render(text, &self.names)?;
                self.exchange(connection).sent(&String::from_utf8_lossy(&bytes));
                Ok(self.door.send(connection, &bytes, *whole)?)
            }
            Action::Call(text) => {
                let text = pattern::render_text(text, &self.names)?;
                self.exchange(connection).sent(&text);
                Ok(self.door.call(connection, &text)?)
            }
            Action::Notify(text) => {
                let text = pattern::render_text(text, &self.names)?;
                self.exchange(connection).sent(&text);
                Ok(self.door.notify(connection, &text)?)
            }
            Action::Header(name, value) => {
                let value = pattern::render_text(value, &self.names)?;
                self.headers.entry(connection.to_owned()).or_default().push((name.clone(), value));
                Ok(())
            }
            Action::Request(method, path, body) => {
                let path = pattern::render_text(path, &self.names)?;
                let body = pattern::render(body, &self.names)?;
                let headers = self.headers.remove(connection).unwrap_or_default();
                let request = Request { method: method.clone(), path, headers, body };
                self.requests.insert(connection.to_owned(), request);
                self.request(connection)
            }
            Action::Directive(word, text) => self.directive(connection, word, text),
            _ => self.expect(step),
        }
    }

    fn expect(&mut self, step: &Step) -> Result<(), Problem> {
        let connection = step.connection.as_str();
        match &step.action {
            Action::Message(expected) => {
                let got = self.door.message(connection)?;
                self.exchange(connection).received(&got);
                self.fits(expected, &got)
            }
            Action::Result(expected) => {
                let got = self.door.result(connection)?;
                self.exchange(connection).received(&got);
                self.fits(expected, &got)
            }
            Action::Error(code, message) => {
                let error = self.door.error(connection)?;
                let whole = format!("{} {}", error.code, error.message);
                self.exchange(connection).received(&whole);
                match message {
                    Some(message) => self.fits_text(&format!("{code} {message}"), &whole),
                    None => self.fits_text(code, &error.code),
                }
            }
            Action::Status { status, body, until: false } => self.answered(connection, *status, body.as_deref()),
            Action::Status { status, body, until: true } => {
                let mut outcome = self.answered(connection, *status, body.as_deref());
                wait::attempt(self.door.limit(), || {
                    if outcome.is_err() {
                        outcome = self.request(connection);
                    }
                    if outcome.is_ok() {
                        outcome = self.answered(connection, *status, body.as_deref());
                    }
                    outcome.is_ok().then_some(())
                });
                outcome
            }
            Action::HasHeader(name, expected) => {
                let response = self.response(connection)?;
                let got = response.header(&name.to_ascii_lowercase()).unwrap_or("(none)").to_owned();
                self.fits_text(expected, &got).map_err(|problem| {
                    let headers = format!("\n  headers:  {:?}", response.headers);
                    Problem { reason: problem.reason + &headers, proposed: Some(format!("{name}: {got}")) }
                })
            }
            Action::LacksHeader(name) => match self.response(connection)?.header(&name.to_ascii_lowercase()) {
                None => Ok(()),
                Some(value) => Err(Problem::from(format!("the response has the header {name}: {value}"))),
            },
            Action::Contains(part) => {
                let part = pattern::render_text(part, &self.names)?;
                let got = self.response(connection)?.text();
                if got.contains(&part) { Ok(()) } else { Err(difference(&part, &got, None)) }
            }
            Action::Event { text, until: false } => {
                let got = self.event(connection)?.ok_or("the stream is over")?;
                self.fits_event(text, &got)
            }
            Action::Event { text, until: true } => self.eventual_event(connection, text),
            Action::NoEvent(text) => {
                let past = self.door.past_events(connection)?;
                let names = self.names.clone();
                let like = past.iter().find(|event| self.fits_event(text, event).is_ok());
                let outcome =
                    like.map_or(Ok(()), |event| Err(Problem::from(format!("there was such an event: {event}"))));
                self.names = names;
                outcome
            }
            Action::StreamEnd => match self.event(connection)? {
                None => Ok(()),
                Some(event) => Err(Problem::from(format!("the stream goes on with: {event}"))),
            },
            Action::Output(channel, text) => self.output(step, channel, text),
            other => Err(Problem::from(format!("this is no expectation: {other:?}"))),
        }
    }

    fn directive(&mut self, connection: &str, word: &str, text: &str) -> Result<(), Problem> {
        let text = pattern::render_text(text, &self.names)?;
        if word == "log" {
            let found = wait::attempt(self.door.limit(), || self.door.log(connection).contains(&text).then_some(()));
            return Ok(found.ok_or_else(|| format!("nothing in the log contains: {text}"))?);
        }
        self.exchange(connection).sent(&format!("! {word} {text}"));
        self.door.directive(connection, word, &text, &mut self.names)?;
        self.names.extend(self.door.changed_names());
        Ok(())
    }

    fn request(&mut self, connection: &str) -> Result<(), Problem> {
        let request = self.requests.get(connection).ok_or("there was no request yet")?.clone();
        let body = String::from_utf8_lossy(&request.body);
        self.exchange(connection).sent(&format!("{} {} {body}", request.method, request.path));
        Ok(self.door.request(connection, &request)?)
    }

    fn response(&mut self, connection: &str) -> Result<Answer, Problem> {
        let response = self.door.response(connection)?;
        self.exchange(connection).received(&format!("{} {}", response.status, response.text()));
        Ok(response)
    }

    fn answered(&mut self, connection: &str, status: u16, body: Option<&str>) -> Result<(), Problem> {
        let response = self.response(connection)?;
        let proposed = match body {
            Some(_) => format!("{} {}", response.status, response.text()),
            None => response.status.to_string(),
        };
        let wrong = |reason: String| Problem { reason, proposed: Some(proposed.clone()) };
        if response.status != status {
            return Err(wrong(format!(
                "expected: {status}\n  received: {} {}",
                response.status,
                shorten(&response.text())
            )));
        }
        let Some(body) = body else { return Ok(()) };
        if self.json && response.header("content-type") != Some("application/json") {
            return Err(Problem::from(format!("the body is not sent as JSON: {:?}", response.headers)));
        }
        self.fits(body, &response.text()).map_err(|problem| wrong(problem.reason))
    }

    fn event(&mut self, connection: &str) -> Result<Option<String>, Problem> {
        let event = self.door.event(connection)?;
        self.exchange(connection).received(event.as_deref().unwrap_or("(end of the stream)"));
        Ok(event)
    }

    fn eventual_event(&mut self, connection: &str, expected: &str) -> Result<(), Problem> {
        let end = Instant::now() + self.door.read_limit();
        let mut others = String::new();
        loop {
            let event = match self.event(connection) {
                Ok(Some(event)) => event,
                Ok(None) => return Err(Problem::from(format!("the stream is over; no event fits:{others}"))),
                Err(problem) => return Err(Problem::from(format!("{}; no event fits:{others}", problem.reason))),
            };
            match self.fits_event(expected, &event) {
                Ok(()) => return Ok(()),
                Err(problem) => others.push_str(&format!("\n  {}", problem.reason)),
            }
            if Instant::now() >= end {
                return Err(Problem::from(format!("no event fits:{others}")));
            }
        }
    }

    fn output(&mut self, step: &Step, channel: &str, text: &str) -> Result<(), Problem> {
        let channel = pattern::render_text(channel, &self.names)?;
        let expected = pattern::render(text, &self.names)?;
        let got = self.door.output(&step.connection, &channel, expected.len())?;
        let shown = String::from_utf8_lossy(&got).into_owned();
        self.exchange(&step.connection).received(&format!("{channel} {shown:?}"));
        if got == expected {
            return Ok(());
        }
        let value = if step.line.ends_with('"') { Value::from(shown.as_str()).to_string() } else { shown.clone() };
        let proposed = format!("{channel} {value}").trim_start().to_owned();
        Err(difference(&format!("{:?}", String::from_utf8_lossy(&expected)), &format!("{shown:?}"), Some(proposed)))
    }

    /// Compares as the file says: as JSON, or byte for byte.
    fn fits(&mut self, expected: &str, got: &str) -> Result<(), Problem> {
        if !self.json {
            return self.fits_text(expected, got);
        }
        let wrong = |reason: String| Problem {
            reason: format!("{reason}\n  received: {}", shorten(got)),
            proposed: Some(got.to_owned()),
        };
        let value: Value = serde_json::from_str(expected).map_err(|error| error.to_string())?;
        let got: Value = serde_json::from_str(got).map_err(|error| wrong(format!("not JSON ({error})")))?;
        let mut names = self.names.clone();
        json::compare(&value, &got, &mut names).map_err(wrong)?;
        self.names = names;
        Ok(())
    }

    fn fits_text(&mut self, expected: &str, got: &str) -> Result<(), Problem> {
        match Pattern::compile(expected, &self.names)?.matches(got.as_bytes()) {
            Some(found) => {
                self.names.extend(found);
                Ok(())
            }
            None => {
                let shown = pattern::render_text(expected, &self.names).unwrap_or_else(|_| expected.to_owned());
                Err(difference(&shown, got, Some(got.to_owned())))
            }
        }
    }

    fn fits_event(&mut self, expected: &str, got: &str) -> Result<(), Problem> {
        if !self.json {
            return self.fits_text(expected, got);
        }
        let wrong = |reason: String| Problem { reason, proposed: Some(got.to_owned()) };
        let (name, data) = expected.split_once(' ').map_or((expected, None), |(name, data)| (name, Some(data)));
        let (got_name, got_data) = got.split_once(' ').unwrap_or((got, ""));
        if name != got_name {
            return Err(wrong(format!("another event: {}", shorten(got))));
        }
        let Some(data) = data else { return Ok(()) };
        self.fits(data, got_data).map_err(|problem| wrong(problem.reason))
    }

    fn exchange(&mut self, connection: &str) -> &mut Exchange {
        self.exchanges.entry(connection.to_owned()).or_default()
    }

    pub(super) fn shell(&self, command: &str) -> Result<String, Problem> {
        let text = pattern::render_text(command, &self.names)?;
        Ok(shell(&text, &self.directory, |shell| self.door.set_environment(shell, &self.directory))?)
    }
}

fn difference(expected: &str, got: &str, proposed: Option<String>) -> Problem {
    Problem { reason: format!("expected: {}\n  received: {}", shorten(expected), shorten(got)), proposed }
}

fn shell(text: &str, directory: &Path, prepare: impl FnOnce(&mut Command)) -> Result<String, String> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-ec").arg(format!("umask 022\n{text}"));
    prepare(&mut shell);
    shell.current_dir(directory);
    let output = house::run(shell);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{text}` ended with {}: {}{}", output.status, printed.trim_end(), complaint.trim_end()))
}
