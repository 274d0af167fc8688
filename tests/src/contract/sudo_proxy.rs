//! The sudo-proxy door: one line each way over a socket, and questions on a terminal.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::door::{CallError, Connections, Door};
use super::language::{Language, Sign, Word};
use super::pattern::Names;
use crate::house;
use crate::sudo_proxy::{Client, Daemon, Options, Program, moment, oracle};
use crate::wait;

/// What the door has of the language.
pub const LANGUAGE: Language = Language {
    door: "sudo_proxy",
    signs: &[Sign::Send, Sign::SendPart, Sign::Call, Sign::Message, Sign::Result, Sign::Error],
    standard: &["fresh-daemon", "half-close", "cut", "closed", "silent", "daemon-gone"],
    directives: &[
        Word::expecting("prompt", "the terminal asks about the request of this connection, after all its pages"),
        Word::expecting("key name", "likewise, and then this key is pressed: a letter, `enter`, `escape`, `blank`"),
        Word::new("type-ahead keys", "press keys before any question"),
        Word::expecting("shows text", "the terminal shows the text, since the question or the last key"),
    ],
    settings: &[],
    variants: &[],
    placeholders: &[("SOCKET", "the socket of the daemon")],
};

/// The real program is given less time: where it does otherwise, it often does nothing.
const ORACLE_LIMIT: Duration = Duration::from_secs(6);

/// Long enough for an answer that should not be there, short enough for a test.
const SILENCE: Duration = Duration::from_millis(300);

/// A daemon on a terminal and the connections of a case.
pub struct SudoProxy {
    connections: Connections<Line>,
    /// Started when the first case needs it: a case may want another one.
    daemon: Option<Daemon>,
    options: Options,
    /// The number of the case, and of its last request.
    number: usize,
    requests: usize,
    /// What was painted before this place belongs to what happened before.
    painted: usize,
    /// The connection whose question is on the terminal, and the place where the question began.
    asked: Option<(String, usize)>,
}

struct Line {
    client: Client,
    /// The id of the last request.
    id: String,
}

impl SudoProxy {
    /// Prepares a daemon with these options.
    pub fn new(options: Options) -> Self {
        Self {
            connections: Connections::default(),
            daemon: None,
            options,
            number: 0,
            requests: 0,
            painted: 0,
            asked: None,
        }
    }

    fn daemon(&mut self) -> &mut Daemon {
        self.daemon.get_or_insert_with(|| Daemon::start(self.options.clone()))
    }

    fn line(&mut self, connection: &str) -> Result<&mut Line, String> {
        self.daemon();
        let daemon = self.daemon.as_ref().ok_or("there is no daemon")?;
        self.connections.get(connection, || Ok(Line { client: daemon.connect(), id: String::new() }))
    }

    /// The next line without the id and the version, which are checked, and the braces around it.
    fn answer(&mut self, connection: &str) -> Result<String, String> {
        let limit = self.read_limit();
        let line = self.line(connection)?;
        let got = line.client.line(limit)?;
        let head = format!("{{\"id\":{},", Value::from(line.id.as_str()));
        let tail = format!(",\"version\":\"{}\"}}", oracle::VERSION);
        let inside = got.strip_prefix(&head).and_then(|rest| rest.strip_suffix(&tail));
        inside.map(str::to_owned).ok_or_else(|| format!("this is no answer to {:?}: {got}", line.id))
    }

    /// Waits until the request of this connection is asked about; one question is on the terminal at a time.
    fn prompt(&mut self, connection: &str) -> Result<(), String> {
        if self.asked.as_ref().is_some_and(|(asked, _)| asked == connection) {
            return Ok(());
        }
        let (limit, start) = (self.read_limit(), self.painted);
        let terminal = self.daemon().terminal();
        terminal.wait_question(start, limit)?;
        let end = terminal.length();
        self.asked = Some((connection.to_owned(), start));
        self.painted = end;
        Ok(())
    }
}

impl Door for SudoProxy {
    fn work(&self) -> PathBuf {
        self.daemon.as_ref().map(Daemon::work).unwrap_or_default()
    }

    fn begin(&mut self, number: usize) -> Result<(), String> {
        self.connections.clear();
        (self.number, self.requests, self.asked) = (number, 0, None);
        let daemon = self.daemon();
        self.painted = if daemon.is_detached() { 0 } else { daemon.terminal().length() };
        self.line("").map(drop)
    }

    fn names(&self) -> Names {
        let socket = self.daemon.as_ref().map(Daemon::socket).unwrap_or_default();
        Names::from([("SOCKET".to_owned(), house::path_text(&socket).to_owned())])
    }

    fn set_environment(&self, command: &mut Command, directory: &Path) {
        match &self.daemon {
            Some(daemon) => daemon.set_environment(command),
            None => house::set_base_environment(command, directory),
        }
    }

    fn log(&self, _connection: &str) -> String {
        self.daemon.as_ref().map(Daemon::printed).unwrap_or_default()
    }

    fn limit(&self) -> Duration {
        match self.options.program {
            Program::Oracle(_) => ORACLE_LIMIT,
            Program::Hostel | Program::House => wait::LIMIT,
        }
    }

    /// Options are flags, `NAME=value` for the environment, and `detached` for a daemon without a terminal.
    fn fresh(&mut self, options: &str) -> Result<(), String> {
        let mut daemon = self.options.clone();
        for option in options.split_ascii_whitespace() {
            match option.split_once('=') {
                None if option == "detached" => daemon.detached = true,
                Some((name, value)) if !name.starts_with('-') => {
                    daemon.environment.push((name.to_owned(), value.to_owned()));
                }
                _ => daemon.flags.push(option.to_owned()),
            }
        }
        self.connections.clear();
        self.daemon = Some(Daemon::start(daemon));
        Ok(())
    }

    fn send(&mut self, connection: &str, bytes: &[u8], whole: bool) -> Result<(), String> {
        let mut bytes = bytes.to_vec();
        if whole {
            bytes.push(b'\n');
        }
        let sent = serde_json::from_slice::<Value>(&bytes).unwrap_or_default();
        let line = self.line(connection)?;
        line.id = sent["id"].as_str().unwrap_or_default().to_owned();
        match line.client.send(&bytes) {
            // A client that sent too much may find the connection closed; the answer is there.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| format!("cannot send: {error}")),
        }
    }

    /// A request, with an id and the present time unless it has them.
    fn call(&mut self, connection: &str, text: &str) -> Result<(), String> {
        self.requests += 1;
        let mut line = "{".to_owned();
        if !text.contains("\"id\":") {
            line.push_str(&format!("\"id\":\"case-{}-{}\",", self.number, self.requests));
        }
        if !text.contains("\"time\":") {
            line.push_str(&format!("\"time\":\"{}Z\",", moment::from_now(0)));
        }
        line.push_str(text.trim_start_matches('{'));
        self.send(connection, line.as_bytes(), true)
    }

    fn message(&mut self, connection: &str) -> Result<String, String> {
        let limit = self.read_limit();
        self.line(connection)?.client.line(limit)
    }

    /// The answer without id and version, and with the text of `stdout` and `stderr` in the place of their base64.
    fn result(&mut self, connection: &str) -> Result<String, String> {
        let answer = self.answer(connection)?;
        Ok(format!("{{{}}}", decode_member(&decode_member(&answer, "stdout")?, "stderr")?))
    }

    fn error(&mut self, connection: &str) -> Result<CallError, String> {
        let answer = self.answer(connection)?;
        let message = answer.strip_prefix(r#""status":"error","message":""#).and_then(|rest| rest.strip_suffix('"'));
        let message = message.ok_or_else(|| format!("this is no error: {answer}"))?;
        Ok(CallError { code: "error".to_owned(), message: message.to_owned() })
    }

    fn directive(&mut self, connection: &str, word: &str, text: &str, _names: &mut Names) -> Result<(), String> {
        let limit = self.read_limit();
        match word {
            "prompt" => self.prompt(connection),
            "key" => {
                self.prompt(connection)?;
                self.asked = None;
                self.painted = self.daemon().terminal().length();
                self.daemon().answer(match text {
                    "enter" => "\r",
                    "escape" => "\u{1b}",
                    "blank" => " ",
                    other => other,
                });
                Ok(())
            }
            "type-ahead" => {
                self.daemon().terminal().press(text);
                Ok(())
            }
            "shows" => {
                let start = self.asked.as_ref().map_or(self.painted, |(_, start)| *start);
                self.daemon().terminal().wait(start, limit, |seen| seen.contains(text)).map(drop)
            }
            "cut" => {
                self.asked = None;
                self.connections.cut(connection)
            }
            "half-close" => {
                self.line(connection)?.client.half_close();
                Ok(())
            }
            "closed" => self.line(connection)?.client.closed(limit),
            "silent" => self.line(connection)?.client.silent(SILENCE),
            "daemon-gone" => {
                let daemon = self.daemon();
                let status = daemon.ended(wait::LIMIT);
                let gone = !daemon.socket().exists();
                if status.success() && gone { Ok(()) } else { Err(format!("{status}, socket gone: {gone}")) }
            }
            _ => Err("no such directive".to_owned()),
        }
    }
}

/// Puts text in the place of base64. A quote within a string is escaped: what is looked for is a member.
fn decode_member(answer: &str, member: &str) -> Result<String, String> {
    let head = format!("\"{member}\":\"");
    let mut pieces = answer.split(&head);
    let mut decoded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (base64, rest) = piece.split_once('"').ok_or_else(|| format!("not JSON: {answer}"))?;
        let bytes = base64_simd::STANDARD.decode_to_vec(base64).map_err(|_| format!("not base64: {base64}"))?;
        let text = Value::from(String::from_utf8_lossy(&bytes)).to_string();
        decoded.push_str(&format!("\"{member}\":{text}{rest}"));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_members_is_decoded() {
        let answer = r#""stages":[{"stderr":"ZQ=="},{"stderr":""}],"stdout":"Ig==","message":"\"stdout\":\"Ig==\"""#;
        let decoded = decode_member(answer, "stderr").and_then(|answer| decode_member(&answer, "stdout"));
        let expected = r#""stages":[{"stderr":"e"},{"stderr":""}],"stdout":"\"","message":"\"stdout\":\"Ig==\"""#;
        assert_eq!(decoded.as_deref(), Ok(expected));
        assert!(decode_member(r#""stdout":"?""#, "stdout").is_err());
    }
}
