//! The `/v1` surface of mesh daemons: HTTP over a socket or over TCP, event streams, several hosts and a broker.
//!
//! The connections of this door are hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::door::{Door, Request};
use super::language::{Language, Sign, Word};
use super::pattern::Names;
use super::script::Script;
use crate::claudemesh::{Block, Lab, Options, Stream, Transport};
use crate::codecast::http::Answer;
use crate::{house, wait};

/// What the door has of the language.
pub const LANGUAGE: Language = Language {
    door: "claudemesh",
    signs: &[
        Sign::Header,
        Sign::Request,
        Sign::Message,
        Sign::Status,
        Sign::EventualStatus,
        Sign::HasHeader,
        Sign::LacksHeader,
        Sign::Contains,
        Sign::Event,
        Sign::EventualEvent,
        Sign::NoEvent,
        Sign::StreamEnd,
    ],
    standard: &["cut", "kill", "start", "restart"],
    directives: &[
        Word::expecting("comment text", "the next block of the host's event stream is this comment"),
        Word::new(
            "broker down",
            "kill the broker and wait until every daemon has seen it; `broker up` starts it again",
        ),
        Word::expecting(
            "run arguments",
            "a `claudemesh` command on the host; it must succeed, and prints `${PRINTED}`",
        ),
    ],
    settings: &[
        Word::new("members names", "who is in the mesh; the first one is meant where a line names no host"),
        Word::new("config line", "a line of the `config.toml` of every daemon"),
    ],
    variants: &["socket", "tcp"],
    placeholders: &[
        ("alice.key", "the public key of the member"),
        ("alice.prefix", "16 digits of it"),
        ("alice.member", "the id of the member"),
        ("alice.token", "the token of the host's daemon"),
        ("alice.port", "the TCP port of the host's daemon"),
        ("alice.home", "the home directory of the host"),
    ],
};

/// A broker, and daemons on several hosts.
pub struct Claudemesh {
    streams: BTreeMap<String, Listener>,
    responses: BTreeMap<String, Answer>,
    lab: Lab,
    transport: Transport,
}

/// An open event stream, and the events that were read from it.
struct Listener {
    stream: Stream,
    past: Vec<String>,
}

impl Claudemesh {
    /// Starts what the settings of the file ask for.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(script: &Script, variant: &str) -> Self {
        let members: Vec<String> =
            script.values("members").iter().flat_map(|names| names.split(' ')).map(str::to_owned).collect();
        let options = Options {
            members: if members.is_empty() { vec!["alice".to_owned()] } else { members },
            config: script.values("config").iter().flat_map(|line| [*line, "\n"]).collect(),
            broker: String::new(),
            broker_variables: Vec::new(),
        };
        let transport = Transport::ALL.into_iter().find(|transport| transport.name() == variant);
        let lab = Lab::start_with(&options);
        lab.wait_stated();
        Self {
            streams: BTreeMap::new(),
            responses: BTreeMap::new(),
            lab,
            transport: transport.expect("a variant is a transport"),
        }
    }

    fn host_name(&self, connection: &str) -> String {
        if connection.is_empty() { self.lab.hosts[0].name.clone() } else { connection.to_owned() }
    }

    fn listener(&mut self, connection: &str) -> Result<&mut Listener, String> {
        let host = self.host_name(connection);
        self.streams.get_mut(&host).ok_or_else(|| format!("{host} has no open event stream"))
    }
}

impl Door for Claudemesh {
    fn work(&self) -> PathBuf {
        self.lab.path().to_owned()
    }

    fn begin(&mut self, _number: usize) -> Result<(), String> {
        self.streams.clear();
        self.responses.clear();
        Ok(())
    }

    fn names(&self) -> Names {
        let mut names = self.changed_names();
        for host in &self.lab.hosts {
            let mut put = |name: &str, value: String| names.insert(format!("{}.{name}", host.name), value);
            put("key", host.member("pubkey"));
            put("prefix", host.member("pubkey").chars().take(16).collect());
            put("member", host.member("memberId"));
            put("home", house::path_text(&host.home()).to_owned());
        }
        names
    }

    /// Port and token may be others after a start.
    fn changed_names(&self) -> Names {
        let mut names = Names::new();
        for host in &self.lab.hosts {
            let client = host.client(Transport::Tcp);
            names.insert(format!("{}.token", host.name), client.token);
            names.insert(format!("{}.port", host.name), client.port.to_string());
        }
        names
    }

    fn set_environment(&self, command: &mut Command, directory: &Path) {
        house::set_base_environment(command, directory);
    }

    fn log(&self, connection: &str) -> String {
        self.lab.host(&self.host_name(connection)).printed()
    }

    /// Every request has a connection of its own. One that is answered with an event stream leaves it open.
    fn request(&mut self, connection: &str, request: &Request) -> Result<(), String> {
        let host = self.host_name(connection);
        let client = self.lab.host(&host).client(self.transport);
        let mut wire = client.connect();
        client.send_on(&mut wire, &request.method, &request.path, &request.headers, &request.body);
        let response = wire.answer();
        if response.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            let stream = Stream::new(wire, response.clone());
            self.streams.insert(host.clone(), Listener { stream, past: Vec::new() });
        }
        self.responses.insert(host, response);
        Ok(())
    }

    fn message(&mut self, connection: &str) -> Result<String, String> {
        Ok(self.response(connection)?.text())
    }

    fn response(&mut self, connection: &str) -> Result<Answer, String> {
        let host = self.host_name(connection);
        self.responses.get(&host).cloned().ok_or_else(|| format!("{host} was asked nothing yet"))
    }

    fn event(&mut self, connection: &str) -> Result<Option<String>, String> {
        let listener = self.listener(connection)?;
        let event = listener.stream.try_event().map_err(|error| format!("no event: {error}"))?;
        let event = event.map(|(name, data)| format!("{name} {data}"));
        listener.past.extend(event.clone());
        Ok(event)
    }

    fn past_events(&self, connection: &str) -> Result<Vec<String>, String> {
        let host = self.host_name(connection);
        let listener = self.streams.get(&host).ok_or_else(|| format!("{host} has no open event stream"))?;
        Ok(listener.past.clone())
    }

    fn directive(&mut self, connection: &str, word: &str, text: &str, names: &mut Names) -> Result<(), String> {
        let host = self.host_name(connection);
        match (word, text) {
            ("cut", _) => {
                self.streams.remove(&host).ok_or_else(|| format!("{host} has no open event stream"))?;
            }
            ("comment", _) => match self.listener(connection)?.stream.try_block() {
                Ok(Some(Block::Comment(got))) if got == text => {}
                other => return Err(format!("the next block is {other:?}")),
            },
            ("broker", "up") => {
                self.lab.start_broker();
                for host in &self.lab.hosts {
                    host.wait_connected();
                }
            }
            ("broker", "down") => {
                self.lab.kill_broker();
                for host in &self.lab.hosts {
                    let client = host.client(Transport::Socket);
                    wait::until_true(wait::LIMIT, "the daemon to see that the broker is gone", || {
                        client.get("/v1/health").json()["connected"] == false
                    });
                }
            }
            ("run", _) => {
                let arguments: Vec<&str> = text.split(' ').collect();
                let printed = self.lab.host(&host).run(&arguments);
                names.insert("PRINTED".to_owned(), printed.trim_end().to_owned());
            }
            ("kill", _) => self.lab.host_mut(&host).kill(),
            ("start", _) => self.lab.host_mut(&host).start(),
            ("restart", _) => {
                self.lab.host_mut(&host).stop();
                self.lab.host_mut(&host).start();
            }
            _ => return Err("no such directive".to_owned()),
        }
        Ok(())
    }
}
