//! The data files of the zeroclaw door: requests in, frames out, in a form a person can read.
//!
//! `tests/README.md` describes the format.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::daemon::Daemon;
use super::matching::{fill, matches};
use super::peer::Peer;
use crate::house::{self, path_text};
use crate::pattern::{self, Names};

/// Plays a data file against a daemon and gives how many expectations it had, and what was not as it says.
///
/// # Panics
/// If the file cannot be read.
pub fn play(path: &Path, daemon: &Daemon) -> (usize, Vec<String>) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut failures = Vec::new();
    let mut expectations = 0;
    let mut case: Option<Case<'_>> = None;
    let mut number = 0;
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("@ ") {
            number += 1;
            case = Some(Case::new(daemon, title, number));
            continue;
        }
        let Some(current) = case.as_mut().filter(|case| !case.failed) else { continue };
        expectations += usize::from(line.starts_with(['<', '~', '!', '$']));
        if let Err(reason) = current.step(line) {
            current.failed = true;
            let (line_number, title) = (index + 1, &current.title);
            failures.push(format!("{file}:{line_number} ({title})\n  {line}\n  {reason}"));
        }
    }
    (expectations, failures)
}

struct Case<'a> {
    daemon: &'a Daemon,
    title: String,
    names: Names,
    clients: BTreeMap<String, Peer>,
    current: String,
    last_id: u64,
    failed: bool,
}

impl<'a> Case<'a> {
    fn new(daemon: &'a Daemon, title: &str, number: usize) -> Self {
        let directory = daemon.work().join(format!("case{number}"));
        fs::create_dir_all(&directory).expect("a case directory");
        let mut names = Names::new();
        for (name, path) in [("DIR", directory), ("DATA", daemon.data()), ("SOCKET", daemon.socket())] {
            names.insert(name.to_owned(), path_text(&path).to_owned());
        }
        names.insert("CASE".to_owned(), format!("case-{number}"));
        names.insert("PID".to_owned(), daemon.pid().to_string());
        let clients = BTreeMap::from([("A".to_owned(), daemon.connect())]);
        Case { daemon, title: title.to_owned(), names, clients, current: "A".to_owned(), last_id: 0, failed: false }
    }

    fn client(&mut self) -> Result<&mut Peer, String> {
        self.clients.get_mut(&self.current).ok_or_else(|| "no such client".to_owned())
    }

    fn json(&self, text: &str) -> Result<Value, String> {
        serde_json::from_str(text).map_err(|error| format!("the data file is wrong: {error}: {text}"))
    }

    fn step(&mut self, line: &str) -> Result<(), String> {
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        match sign {
            "$" => self.shell(rest).map(drop),
            "$=" => {
                let (name, command) = rest.split_once(' ').ok_or("a name and a command are needed")?;
                let printed = self.shell(command)?;
                self.names.insert(name.to_owned(), printed.trim_end().to_owned());
                Ok(())
            }
            ">" | ">." => {
                let mut bytes = pattern::render(rest, &self.names)?;
                if sign == ">" {
                    bytes.push(b'\n');
                }
                self.client()?.send(&bytes).map_err(|error| error.to_string())
            }
            ">>" | ">-" => self.request(rest, sign == ">>"),
            "<" => {
                let expected = self.json(rest)?;
                let limit = crate::wait::LIMIT;
                let frame = self.client()?.try_frame(limit)?;
                self.compare(&expected, &frame)
            }
            "<=" => {
                let (id, expected) = (self.last_id, self.json(rest)?);
                let answer = self.client()?.try_answer(id)?;
                self.compare(&json!({"jsonrpc": "2.0", "id": id, "result": expected}), &answer)
            }
            "<!" => {
                let (code, part) = rest.split_once(' ').unwrap_or((rest, ""));
                let (id, code, part) = (self.last_id, self.json(code)?, fill(part, &self.names));
                let answer = self.client()?.try_answer(id)?;
                let said = answer["error"]["message"].as_str().unwrap_or_default();
                if !said.contains(&part) {
                    return Err(format!("{said:?} does not say {part:?}"));
                }
                let error = json!({"code": code, "message": "${STR}"});
                self.compare(&json!({"jsonrpc": "2.0", "id": id, "error": error}), &answer)
            }
            "<~" => {
                let (kind, rest) = rest.split_once(' ').unwrap_or((rest, "{}"));
                let mut expected = self.json(rest)?;
                expected["type"] = json!(kind);
                expected["..."] = json!(1);
                let update = self.client()?.try_update()?;
                self.compare(&expected, &update)
            }
            "~" => {
                let expected: String = serde_json::from_str(rest).map_err(|error| error.to_string())?;
                let expected = fill(&expected, &self.names);
                self.text(&expected)
            }
            "!" => self.directive(rest),
            _ => Err("the line starts with no known sign".to_owned()),
        }
    }

    fn request(&mut self, rest: &str, answered: bool) -> Result<(), String> {
        let (method, params) = rest.split_once(' ').map_or((rest, None), |(method, params)| (method, Some(params)));
        let params = params.map_or_else(String::new, |params| format!(r#","params":{params}"#));
        self.last_id += u64::from(answered);
        let id = if answered { format!(r#""id":{},"#, self.last_id) } else { String::new() };
        let line = format!("{{\"jsonrpc\":\"2.0\",{id}\"method\":\"{method}\"{params}}}\n");
        let bytes = pattern::render(&line, &self.names)?;
        self.client()?.send(&bytes).map_err(|error| error.to_string())
    }

    fn compare(&mut self, expected: &Value, got: &Value) -> Result<(), String> {
        matches(expected, got, &mut self.names).map_err(|reason| format!("{reason}\n  got: {got}"))
    }

    /// Chunks of text, until they are what is expected.
    fn text(&mut self, expected: &str) -> Result<(), String> {
        let mut collected = String::new();
        while collected.len() < expected.len() {
            let update = self.client()?.try_update()?;
            if update["type"] != "agent_message_chunk" {
                return Err(format!("after {collected:?} came {update}"));
            }
            collected.push_str(update["text"].as_str().unwrap_or_default());
        }
        if collected == expected { Ok(()) } else { Err(format!("the text is {collected:?}")) }
    }

    fn directive(&mut self, rest: &str) -> Result<(), String> {
        match rest.split_once(' ').unwrap_or((rest, "")) {
            ("client", name) => {
                self.current = name.to_owned();
                if !self.clients.contains_key(name) {
                    self.clients.insert(name.to_owned(), self.daemon.connect());
                }
                Ok(())
            }
            ("leave", name) => self.clients.remove(name).map(drop).ok_or_else(|| "no such client".to_owned()),
            ("init", "") => {
                self.last_id += 1;
                let id = self.last_id;
                let line = json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {}}).to_string();
                self.client()?.send(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())?;
                let answer = self.client()?.try_answer(id)?;
                let greeted = answer["result"]["protocol_version"] == 1;
                if greeted { Ok(()) } else { Err(format!("no greeting: {answer}")) }
            }
            ("half-close", "") => {
                self.client()?.half_close();
                Ok(())
            }
            ("closed", "") => self.client()?.try_closed(),
            ("nothing-left", "") => match self.client()?.left() {
                0 => Ok(()),
                left => Err(format!("{left} frames are left")),
            },
            _ => Err("no such directive".to_owned()),
        }
    }

    fn shell(&self, command: &str) -> Result<String, String> {
        let text = fill(command, &self.names);
        let mut shell = Command::new("/bin/sh");
        shell.arg("-ec").arg(&text);
        house::set_base_environment(&mut shell, self.daemon.path());
        shell.current_dir(&self.names["DIR"]);
        let output = house::run(shell);
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("`{text}` failed: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
