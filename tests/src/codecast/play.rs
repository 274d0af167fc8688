//! Plays a data file of the codecast door against a daemon and collects what differs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::daemon::Daemon;
use super::http::{Answer, Connection};
use super::script::{Action, Case, Script};
use crate::pattern::{self, Names, Pattern};
use crate::{house, wait};

/// Plays all cases of a script; gives what differed.
///
/// # Panics
/// If a directory cannot be made.
pub fn play(script: &Script, daemon: &Daemon) -> Vec<String> {
    let mut failures = Vec::new();
    for (index, case) in script.cases.iter().enumerate() {
        let directory = daemon.path().join(format!("case{}", index + 1));
        fs::create_dir_all(&directory).expect("a case directory");
        let mut run =
            Run { daemon, names: names(daemon, &directory), directory, lines: BTreeMap::new(), sent: String::new() };
        if let Err((line, reason)) = run.play(case) {
            let sent = shorten(&run.sent);
            failures.push(format!("{}.txt:{line} ({})\n  sent:     {sent}\n  {reason}", script.name, case.title));
        }
    }
    failures
}

fn names(daemon: &Daemon, directory: &Path) -> Names {
    let path = |path: PathBuf| house::path_text(&path).to_owned();
    Names::from([
        ("DIR".to_owned(), path(directory.to_owned())),
        ("HOME".to_owned(), path(daemon.home())),
        ("PROJECT".to_owned(), path(daemon.project())),
        ("DAEMON".to_owned(), daemon.identity().pid.to_string()),
    ])
}

/// Method, path and headers.
type Request = (String, String, Vec<(String, String)>);

/// One connection of a case.
struct Line {
    connection: Connection,
    /// A request that is being put together.
    request: Option<Request>,
    answer: Option<Answer>,
}

struct Run<'a> {
    daemon: &'a Daemon,
    directory: PathBuf,
    names: Names,
    lines: BTreeMap<String, Line>,
    sent: String,
}

impl Run<'_> {
    fn play(&mut self, case: &Case) -> Result<(), (usize, String)> {
        for step in &case.steps {
            self.step(&step.connection, &step.action).map_err(|reason| (step.line, reason))?;
        }
        Ok(())
    }

    fn line(&mut self, name: &str) -> &mut Line {
        let daemon = self.daemon;
        self.lines.entry(name.to_owned()).or_insert_with(|| Line {
            connection: daemon.connect(),
            request: None,
            answer: None,
        })
    }

    fn answer(&mut self, name: &str) -> Result<&Answer, String> {
        let line = self.line(name);
        if line.answer.is_none() {
            line.answer = Some(line.connection.answer());
        }
        line.answer.as_ref().ok_or_else(|| "no answer".to_owned())
    }

    fn post(&mut self, name: &str, body: &[u8]) {
        self.sent = String::from_utf8_lossy(body).into_owned();
        let line = self.line(name);
        line.answer = None;
        line.connection.post(body);
    }

    fn step(&mut self, name: &str, action: &Action) -> Result<(), String> {
        match action {
            Action::Shell(command) => self.shell(command).map(drop),
            Action::Capture(name, command) => {
                let printed = self.shell(command)?;
                self.names.insert(name.clone(), printed.trim_end().to_owned());
                Ok(())
            }
            Action::Call(method, params) => {
                let params = params.as_ref().map_or_else(String::new, |params| format!(r#","params":{params}"#));
                let body = pattern::render(&format!(r#"{{"method":"{method}"{params},"id":"id"}}"#), &self.names)?;
                self.post(name, &body);
                Ok(())
            }
            Action::Post(body) => {
                let body = pattern::render(body, &self.names)?;
                self.post(name, &body);
                Ok(())
            }
            Action::Request(method, path) => {
                self.line(name).request = Some((method.clone(), path.clone(), Vec::new()));
                Ok(())
            }
            Action::Header(header, value) => {
                let value = pattern::render_text(value, &self.names)?;
                let request = self.line(name).request.as_mut().ok_or("there is no request yet")?;
                request.2.push((header.clone(), value));
                Ok(())
            }
            Action::Body(body) => {
                let body = pattern::render(body, &self.names)?;
                let line = self.line(name);
                let (method, path, headers) = line.request.take().ok_or("there is no request yet")?;
                let headers: Vec<(&str, &str)> =
                    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                line.connection.request(&method, &path, &headers, &body);
                line.answer = None;
                self.sent = format!("{method} {path}");
                Ok(())
            }
            Action::Cut => {
                self.lines.remove(name);
                Ok(())
            }
            Action::Log(text) => {
                let text = pattern::render_text(text, &self.names)?;
                let found = wait::attempt(wait::LIMIT, || self.daemon.printed().contains(&text).then_some(()));
                found.ok_or_else(|| format!("no log line contains: {text}\n{}", self.daemon.printed()))
            }
            expectation => self.expect(name, expectation),
        }
    }

    fn expect(&mut self, name: &str, action: &Action) -> Result<(), String> {
        let (expected, got) = match action {
            Action::Result(result) => {
                let json = self.json(name)?;
                let got = json.get("result").ok_or_else(|| format!("there is no result: {json}"))?;
                (result.clone(), got.to_string())
            }
            Action::Error(code, message) => {
                let error = self.json(name)?["error"].clone();
                let got = format!("{} {}", error["code"], error["message"].as_str().unwrap_or_default());
                (format!("{code} {message}"), got)
            }
            Action::Whole(body) => (body.clone(), self.answer(name)?.text()),
            Action::Status(status) => (status.to_string(), self.answer(name)?.status.to_string()),
            Action::HasHeader(header, value) => {
                let got = self.answer(name)?.header(header).unwrap_or("(none)").to_owned();
                (value.clone(), got)
            }
            Action::Frame(frame) => {
                self.answer(name)?;
                let got = self.line(name).connection.try_frame().map_err(|error| format!("no frame: {error}"))?;
                (frame.clone(), got.unwrap_or_else(|| "(the end)".to_owned()))
            }
            Action::End => {
                self.answer(name)?;
                let got = self.line(name).connection.try_frame().map_err(|error| format!("no end: {error}"))?;
                ("(the end)".to_owned(), got.unwrap_or_else(|| "(the end)".to_owned()))
            }
            _ => return Err("this line expects nothing".to_owned()),
        };
        let pattern = Pattern::compile(&expected, &self.names)?;
        let found = pattern.matches(got.as_bytes()).ok_or_else(|| {
            let shown = pattern::render_text(&expected, &self.names).unwrap_or_else(|_| expected.clone());
            format!("expected: {}\n  got:      {}", shorten(&shown), shorten(&got))
        })?;
        self.names.extend(found);
        Ok(())
    }

    /// The answer to a call: always a 200, and with the call's id.
    fn json(&mut self, name: &str) -> Result<Value, String> {
        let answer = self.answer(name)?;
        if answer.status != 200 || answer.header("content-type") != Some("application/json") {
            return Err(format!("no JSON-RPC answer but {} {}", answer.status, answer.text()));
        }
        let json = answer.json();
        match json["id"].as_str() {
            Some("id") => Ok(json),
            _ => Err(format!("the id is not the call's: {json}")),
        }
    }

    fn shell(&mut self, command: &str) -> Result<String, String> {
        let text = pattern::render_text(command, &self.names)?;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-ec").arg(format!("umask 022\n{text}"));
        self.daemon.set_environment(&mut shell);
        shell.current_dir(&self.directory);
        let output = house::run(shell);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{text}` ended with {}: {}{}", output.status, printed.trim_end(), complaint.trim_end()))
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= 1200 {
        return text.to_owned();
    }
    let head: String = text.chars().take(900).collect();
    format!("{head} …({} bytes)", text.len())
}
