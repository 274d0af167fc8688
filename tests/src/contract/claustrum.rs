//! The claustrum door: JSON-RPC lines over a socket, and frames of hosted processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::door::{CallError, Connections, Door};
use super::language::{Language, Sign};
use super::pattern::Names;
use super::rpc::{params_member, split_call};
use crate::client::{Client, Trouble};
use crate::frames::{Frame, Transcript};
use crate::house::{self, House, Options, Program};
use crate::{binary, wait};

/// What the door has of the language.
pub const LANGUAGE: Language = Language {
    door: "claustrum",
    signs: &[
        Sign::Send,
        Sign::SendPart,
        Sign::Call,
        Sign::Message,
        Sign::Result,
        Sign::Error,
        Sign::Event,
        Sign::Output,
    ],
    standard: &["fresh-daemon", "half-close", "cut", "reconnect", "closed", "daemon-gone"],
    directives: &[],
    settings: &[],
    variants: &[],
    placeholders: &[
        ("HOME", "the home directory of the daemon and of shell commands"),
        ("TOKEN", "the token of the daemon"),
        ("SOCKET", "the socket of the daemon"),
        ("CWD", "the directory the daemon runs in"),
        ("CHILD", "the hosted program whose every byte is known (`src/bin/testchild.rs`)"),
    ],
};

/// The real program is given less time: where it does otherwise, it often does nothing.
const ORACLE_LIMIT: Duration = Duration::from_secs(10);

/// A daemon and the connections of a case.
pub struct Claustrum {
    connections: Connections<Line>,
    house: House,
    /// Removed after the daemon has ended.
    work: tempfile::TempDir,
    /// The last id of the case.
    last_id: u64,
}

struct Line {
    client: Client,
    last_id: u64,
    processes: BTreeMap<String, Process>,
}

/// The output of one process, and how much of it was compared.
#[derive(Default)]
struct Process {
    transcript: Transcript,
    compared: (usize, usize),
}

impl Line {
    fn new(client: Client) -> Self {
        Self { client, last_id: 0, processes: BTreeMap::new() }
    }

    /// Adds a frame that is compared as a whole.
    fn add_compared(&mut self, frame: &Frame) -> Result<(), String> {
        let process = self
            .processes
            .entry(frame.process.clone())
            .or_insert_with(|| Process { transcript: Transcript::after(frame.seq - 1), compared: (0, 0) });
        if frame.seq == 1 && process.transcript.exit.is_some() {
            // The id was used again: a new process counts from one.
            *process = Process::default();
        }
        process.transcript.take(frame)?;
        process.compared = (process.transcript.stdout.len(), process.transcript.stderr.len());
        Ok(())
    }
}

impl Claustrum {
    /// Starts a daemon of this program.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(program: Program) -> Self {
        let work = tempfile::Builder::new().prefix("hostel-data-").tempdir().expect("a temporary directory");
        let home = work.path().join("home");
        std::fs::create_dir_all(&home).expect("a home directory");
        let house = House::start_with(Options { program, home: Some(home), ..Options::default() });
        Self { connections: Connections::default(), house, work, last_id: 0 }
    }

    fn line(&mut self, connection: &str) -> Result<&mut Line, String> {
        let house = &self.house;
        self.connections.get(connection, || house.try_connect().map(Line::new).map_err(|error| error.to_string()))
    }

    fn reply(&mut self, connection: &str) -> Result<String, String> {
        let limit = self.read_limit();
        self.line(connection)?.client.try_reply(limit).map_err(|trouble| format!("no reply: {trouble}"))
    }
}

fn no_frame(trouble: Trouble) -> String {
    format!("no frame: {trouble}")
}

impl Door for Claustrum {
    fn work(&self) -> PathBuf {
        self.work.path().to_owned()
    }

    fn begin(&mut self, _number: usize) -> Result<(), String> {
        self.connections.clear();
        self.last_id = 0;
        self.line("").map(drop)
    }

    fn names(&self) -> Names {
        let path = |path: &Path| house::path_text(path).to_owned();
        Names::from([
            ("HOME".to_owned(), path(&self.house.home())),
            ("TOKEN".to_owned(), self.house.token().to_owned()),
            ("SOCKET".to_owned(), path(&self.house.socket())),
            ("CWD".to_owned(), path(self.house.path())),
            ("CHILD".to_owned(), path(&binary::testchild())),
        ])
    }

    fn set_environment(&self, command: &mut Command, _directory: &Path) {
        self.house.set_environment(command);
    }

    fn log(&self, _connection: &str) -> String {
        self.house.log()
    }

    fn limit(&self) -> Duration {
        match self.house.options().program {
            Program::Oracle(_) => ORACLE_LIMIT,
            _ => wait::LIMIT,
        }
    }

    fn pending(&self, connection: &str) -> Vec<String> {
        self.connections.existing(connection).map(|line| line.client.pending()).unwrap_or_default()
    }

    fn fresh(&mut self, options: &str) -> Result<(), String> {
        if !options.is_empty() {
            return Err("this door takes no options".to_owned());
        }
        self.connections.clear();
        self.house = House::start_with(self.house.options().clone());
        Ok(())
    }

    fn send(&mut self, connection: &str, bytes: &[u8], whole: bool) -> Result<(), String> {
        let mut bytes = bytes.to_vec();
        if whole {
            bytes.push(b'\n');
        }
        self.line(connection)?.client.send(&bytes).map_err(|error| format!("cannot send: {error}"))
    }

    fn call(&mut self, connection: &str, text: &str) -> Result<(), String> {
        self.last_id += 1;
        let (id, (method, params), token) = (self.last_id, split_call(text), self.house.token());
        let params = params_member(params);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"{params},"auth":"{token}"}}"#);
        self.line(connection)?.last_id = id;
        self.send(connection, line.as_bytes(), true)
    }

    fn message(&mut self, connection: &str) -> Result<String, String> {
        self.reply(connection)
    }

    fn result(&mut self, connection: &str) -> Result<String, String> {
        let (reply, id) = (self.reply(connection)?, self.line(connection)?.last_id);
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        let result = reply.strip_prefix(&head).and_then(|rest| rest.strip_suffix('}'));
        result.map(str::to_owned).ok_or_else(|| format!("this is no result of call {id}: {reply}"))
    }

    fn error(&mut self, connection: &str) -> Result<CallError, String> {
        let (reply, id) = (self.reply(connection)?, self.line(connection)?.last_id);
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":"#);
        let error = reply.strip_prefix(&head).and_then(|rest| rest.strip_suffix(r#""}}"#));
        let error = error.and_then(|error| error.split_once(r#","message":""#));
        let (code, message) = error.ok_or_else(|| format!("this is no error of call {id}: {reply}"))?;
        Ok(CallError { code: code.to_owned(), message: message.to_owned() })
    }

    fn event(&mut self, connection: &str) -> Result<Option<String>, String> {
        let limit = self.read_limit();
        let line = self.line(connection)?;
        let frame = line.client.try_frame(limit).map_err(no_frame)?;
        line.add_compared(&frame)?;
        Ok(Some(frame.raw))
    }

    /// Channels are `process stdout`, `process stderr` and `process exit`.
    fn output(&mut self, connection: &str, channel: &str, length: usize) -> Result<Vec<u8>, String> {
        let limit = self.read_limit();
        let (id, stream) = channel.rsplit_once(' ').ok_or("a process and a stream are needed")?;
        let line = self.line(connection)?;
        let process = line.processes.entry(id.to_owned()).or_default();
        let mut add_frame = |transcript: &mut Transcript| {
            let frame = line.client.try_frame_of(id, limit).map_err(|trouble| {
                let (out, err) =
                    (String::from_utf8_lossy(&transcript.stdout), String::from_utf8_lossy(&transcript.stderr));
                format!("{}; in all there was {out:?} on stdout, {err:?} on stderr", no_frame(trouble))
            })?;
            transcript.take(&frame)
        };
        if stream == "exit" {
            while process.transcript.exit.is_none() {
                add_frame(&mut process.transcript)?;
            }
            return Ok(process.transcript.exit.unwrap_or_default().to_string().into_bytes());
        }
        let Process { transcript, compared } = process;
        loop {
            let (all, compared) = match stream {
                "stdout" => (&transcript.stdout, &mut compared.0),
                "stderr" => (&transcript.stderr, &mut compared.1),
                _ => return Err("the stream is stdout, stderr or exit".to_owned()),
            };
            if all.len() >= *compared + length || transcript.exit.is_some() {
                let got = all[*compared..].to_vec();
                *compared = all.len();
                return Ok(got);
            }
            add_frame(transcript)?;
        }
    }

    fn directive(&mut self, connection: &str, word: &str, _text: &str, _names: &mut Names) -> Result<(), String> {
        let limit = self.read_limit();
        match word {
            "half-close" => self.line(connection)?.client.half_close(),
            "cut" => self.connections.cut(connection)?,
            "reconnect" => {
                let client = self.house.try_connect().map_err(|error| format!("cannot connect again: {error}"))?;
                self.connections.replace(connection, Line::new(client));
            }
            "closed" => self.line(connection)?.client.try_closed(limit)?,
            "daemon-gone" => {
                let daemon = self.house.daemon();
                wait::attempt(self.limit(), || (!daemon.alive()).then_some(())).ok_or("the daemon still runs")?;
            }
            _ => return Err("no such directive".to_owned()),
        }
        Ok(())
    }
}
