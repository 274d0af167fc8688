//! The data files of the sudo-proxy door: requests and keys in, answers out, in a form a person can read.
//!
//! `tests/sudo_proxy/README.md` describes the format. The same files are played to the real program: what it does
//! otherwise is listed, case by case, in `tests/sudo_proxy/differences.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use super::daemon::{Daemon, Options};
use super::{moment, oracle};
use crate::house::{self, path_text};
use crate::pattern::{self, Names, Pattern};
use crate::wait;

/// What playing a file brought.
#[derive(Debug, Default)]
pub struct Played {
    /// How many expectations were looked at.
    pub expectations: usize,
    /// The cases that were not as the file says, each with what differed.
    pub failures: BTreeMap<String, String>,
    /// The titles of all cases.
    pub cases: Vec<String>,
}

/// Plays a data file against one program.
///
/// # Panics
/// If the file cannot be read, or a daemon cannot be started.
pub fn play(path: &Path, options: &Options) -> Played {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut played = Played::default();
    // Most cases share a daemon; one that asks for its own has it alone.
    let mut shared: Option<Daemon> = None;
    for (number, (title, steps)) in cases(&text).into_iter().enumerate() {
        played.cases.push(title.to_owned());
        played.expectations += steps.iter().filter(|(_, line)| line.starts_with(['<', '!', '$'])).count();
        let own = steps.first().and_then(|(_, line)| line.strip_prefix("! own"));
        let mut alone = own.map(|flags| Daemon::start(with_flags(options, flags)));
        let daemon = match &mut alone {
            Some(daemon) => daemon,
            None => shared.get_or_insert_with(|| Daemon::start(options.clone())),
        };
        let outcome = Case::new(daemon, number).play(&steps[usize::from(own.is_some())..]);
        if let Err((line, step, reason)) = outcome {
            played.failures.insert(title.to_owned(), format!("{file}.txt:{line} ({title})\n  {step}\n  {reason}"));
            // What the case left behind, a prompt perhaps, must not meet the next one.
            shared = None;
        }
    }
    played
}

/// The titles and the numbered lines of the cases.
fn cases(text: &str) -> Vec<(&str, Vec<(usize, &str)>)> {
    let mut cases: Vec<(&str, Vec<(usize, &str)>)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("@ ") {
            assert!(cases.iter().all(|(known, _)| *known != title), "two cases have the title {title:?}");
            cases.push((title, Vec::new()));
        } else if !line.is_empty() && !line.starts_with('#') {
            cases.last_mut().expect("a line belongs to a case").1.push((index + 1, line));
        }
    }
    cases
}

fn with_flags(options: &Options, flags: &str) -> Options {
    let mut options = options.clone();
    for flag in flags.split_ascii_whitespace() {
        match flag.split_once('=') {
            None if flag == "detached" => options.detached = true,
            Some((name, value)) if !name.starts_with('-') => {
                options.environment.push((name.to_owned(), value.to_owned()));
            }
            _ => options.flags.push(flag.to_owned()),
        }
    }
    options
}

struct Case<'a> {
    daemon: &'a mut Daemon,
    directory: PathBuf,
    names: Names,
    number: usize,
    clients: BTreeMap<String, (Client, String)>,
    current: String,
    requests: usize,
    /// What was painted before this belongs to what happened before.
    painted: usize,
    /// The client whose question is on the terminal, and where that began.
    asked: Option<(String, usize)>,
}

type Failure = (usize, String, String);

impl<'a> Case<'a> {
    fn new(daemon: &'a mut Daemon, number: usize) -> Self {
        let directory = daemon.work().join(format!("case{number}"));
        fs::create_dir_all(&directory).expect("a case directory");
        let names = Names::from([
            ("DIR".to_owned(), path_text(&directory).to_owned()),
            ("SOCKET".to_owned(), path_text(&daemon.socket()).to_owned()),
            ("CASE".to_owned(), format!("case-{number}")),
        ]);
        let clients = BTreeMap::from([("A".to_owned(), (daemon.connect(), String::new()))]);
        let painted = if daemon.is_detached() { 0 } else { daemon.terminal().length() };
        Case { daemon, directory, names, number, clients, current: "A".to_owned(), requests: 0, painted, asked: None }
    }

    fn play(mut self, steps: &[(usize, &str)]) -> Result<(), Failure> {
        for (line, step) in steps {
            self.step(step).map_err(|reason| (*line, (*step).to_owned(), reason))?;
        }
        Ok(())
    }

    fn client(&mut self) -> Result<&mut Client, String> {
        Ok(&mut self.clients.get_mut(&self.current).ok_or("no such client")?.0)
    }

    fn id(&self) -> String {
        self.clients.get(&self.current).map(|(_, id)| id.clone()).unwrap_or_default()
    }

    fn step(&mut self, line: &str) -> Result<(), String> {
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = &moments(rest)?;
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
                self.send(&bytes)
            }
            ">>" => {
                let mut bytes = pattern::render(&self.request(rest), &self.names)?;
                bytes.push(b'\n');
                self.send(&bytes)
            }
            "<" => {
                let limit = self.daemon.options().patience();
                let got = self.client()?.line(limit)?;
                let found = Pattern::compile(rest, &self.names)?.matches(got.as_bytes());
                self.names.extend(found.ok_or_else(|| format!("got: {}", shorten(&got)))?);
                Ok(())
            }
            "<!" | "<!~" => self.refused(&pattern::render_text(rest, &self.names)?, sign == "<!"),
            "<=" => self.answered(&pattern::render_text(rest, &self.names)?),
            "!" => self.directive(rest),
            _ => Err("the line starts with no known sign".to_owned()),
        }
    }

    /// A request with an id and a time of its own, unless it has them.
    fn request(&mut self, rest: &str) -> String {
        self.requests += 1;
        let mut line = "{".to_owned();
        if !rest.contains("\"id\":") {
            line.push_str(&format!("\"id\":\"case-{}-{}\",", self.number, self.requests));
        }
        if !rest.contains("\"time\":") {
            line.push_str(&format!("\"time\":\"{}Z\",", moment::from_now(0)));
        }
        line.push_str(rest.trim_start_matches('{'));
        line
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sent = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        let id = sent["id"].as_str().unwrap_or_default().to_owned();
        let (client, known) = self.clients.get_mut(&self.current).ok_or("no such client")?;
        *known = id;
        match client.send(bytes) {
            // One that sent too much may find the connection closed; its answer is there.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| format!("cannot send: {error}")),
        }
    }

    fn refused(&mut self, message: &str, whole: bool) -> Result<(), String> {
        let (id, limit) = (self.id(), self.daemon.options().patience());
        let got = self.client()?.line(limit)?;
        let text = |text: &str| Value::from(text).to_string();
        let head = format!("{{\"id\":{},\"status\":\"error\",\"message\":", text(&id));
        let tail = format!(",\"version\":\"{}\"}}", oracle::VERSION);
        let said = got.strip_prefix(&head).and_then(|rest| rest.strip_suffix(&tail));
        let said: String = said.and_then(|said| serde_json::from_str(said).ok()).unwrap_or_default();
        if (whole && said == message) || (!whole && said.starts_with(message)) {
            return Ok(());
        }
        Err(format!("got: {}", shorten(&got)))
    }

    /// Compares with base64 undone, the id and the version filled in, and the order of keys checked.
    fn answered(&mut self, expected: &str) -> Result<(), String> {
        let mut expected: Value = serde_json::from_str(expected).map_err(|error| format!("the data file: {error}"))?;
        expected["id"] = json!(self.id());
        expected["version"] = json!(oracle::VERSION);
        let limit = self.daemon.options().patience();
        let got = self.client()?.line(limit)?;
        let mut value: Value = serde_json::from_str(&got).map_err(|error| format!("{error}: {}", shorten(&got)))?;
        let keys = ["id", "status", "stages", "stdout", "stdout_truncated", "message", "version"];
        let places: Vec<usize> = keys.iter().filter_map(|key| got.find(&format!("\"{key}\":"))).collect();
        if !places.is_sorted() {
            return Err(format!("the keys are in another order: {}", shorten(&got)));
        }
        undo(&mut value["stdout"])?;
        if value["stdout"].is_null() {
            value.as_object_mut().ok_or("not an object")?.remove("stdout");
        }
        for stage in value["stages"].as_array_mut().into_iter().flatten() {
            undo(&mut stage["stderr"])?;
        }
        if value["stages"].is_null() {
            value.as_object_mut().ok_or("not an object")?.remove("stages");
        }
        if value == expected { Ok(()) } else { Err(format!("got: {}", shorten(&value.to_string()))) }
    }

    fn directive(&mut self, rest: &str) -> Result<(), String> {
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let text = pattern::render_text(rest, &self.names)?;
        let limit = self.daemon.options().patience();
        match word {
            "prompt" => self.prompt(),
            "key" => {
                self.prompt()?;
                self.asked = None;
                self.painted = self.daemon.terminal().length();
                let key = match rest {
                    "enter" => "\r",
                    "escape" => "\u{1b}",
                    "blank" => " ",
                    other => other,
                };
                self.daemon.answer(key);
                Ok(())
            }
            "type-ahead" => {
                self.daemon.terminal().press(rest);
                Ok(())
            }
            "shows" => {
                let start = self.asked.as_ref().map_or(self.painted, |(_, start)| *start);
                self.daemon.terminal().wait(start, limit, |seen| seen.contains(&text)).map(drop)
            }
            "client" => {
                if !self.clients.contains_key(rest) {
                    self.clients.insert(rest.to_owned(), (self.daemon.connect(), String::new()));
                }
                rest.clone_into(&mut self.current);
                Ok(())
            }
            "leave" => {
                self.asked = None;
                self.clients.remove(&self.current).map(drop).ok_or_else(|| "no such client".to_owned())
            }
            "half-close" => {
                self.client()?.half_close();
                Ok(())
            }
            "closed" => self.client()?.closed(limit),
            // Long enough for an answer that should not be there, short enough for a test.
            "silent" => self.client()?.silent(Duration::from_millis(300)),
            "ended" => {
                let status = self.daemon.ended(wait::LIMIT);
                let gone = !self.daemon.socket().exists();
                if status.success() && gone { Ok(()) } else { Err(format!("{status}, socket gone: {gone}")) }
            }
            "log" => wait::attempt(wait::LIMIT, || self.daemon.printed().contains(&text).then_some(()))
                .ok_or_else(|| format!("printed: {}", self.daemon.printed())),
            _ => Err("no such directive".to_owned()),
        }
    }

    /// Waits until the request of this client is asked about; one question is on the terminal at a time.
    fn prompt(&mut self) -> Result<(), String> {
        if self.asked.as_ref().is_some_and(|(client, _)| *client == self.current) {
            return Ok(());
        }
        let limit = self.daemon.options().patience();
        self.daemon.terminal().wait(self.painted, limit, |seen| seen.contains("default=N"))?;
        self.asked = Some((self.current.clone(), self.painted));
        self.painted = self.daemon.terminal().length();
        Ok(())
    }

    fn shell(&self, command: &str) -> Result<String, String> {
        let text = pattern::render_text(command, &self.names)?;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-ec").arg(&text);
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

/// Fills in `${T}`, `${T+30}` and `${T-61}`: the moment so many seconds from now, without a zone.
fn moments(text: &str) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${T") {
        filled.push_str(before);
        match after.split_once('}') {
            Some(("", tail)) => {
                filled.push_str(&moment::from_now(0));
                rest = tail;
            }
            Some((offset, tail)) if offset.starts_with(['+', '-']) => {
                filled.push_str(&moment::from_now(offset.parse().map_err(|_| format!("no offset: {offset}"))?));
                rest = tail;
            }
            _ => {
                filled.push_str("${T");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Base64 of text becomes the text.
fn undo(value: &mut Value) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Ok(()) };
    let bytes = base64_simd::STANDARD.decode_to_vec(text).map_err(|_| format!("not base64: {}", shorten(text)))?;
    *value = Value::from(String::from_utf8_lossy(&bytes).into_owned());
    Ok(())
}

fn shorten(text: &str) -> String {
    let head: String = text.chars().take(600).collect();
    if head.len() == text.len() { head } else { format!("{head} …({} bytes)", text.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_filled_in() {
        assert_eq!(moments("a ${TOKEN} b").as_deref(), Ok("a ${TOKEN} b"));
        let filled = moments("${T}Z ${T-100}Z").unwrap();
        assert_eq!(filled.len(), 41);
        assert!(moments("${T+x}").is_err());
    }
}
