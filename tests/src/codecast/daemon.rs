//! A codecast daemon in a sandbox of its own, to start, to kill and to start again.
//!
//! The port stays the same over restarts, because the port is what makes it the same daemon.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde_json::{Value, json};

use super::http::{Answer, Connection};
use crate::process::Process;
use crate::procfs::Identity;
use crate::sandbox::Sandbox;
use crate::{agents, http, wait};

/// How a daemon is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// More environment.
    pub environment: Vec<(String, String)>,
    /// `hostel.toml`.
    pub settings: String,
    /// `~/.codecast/daemon.yaml`.
    pub yaml: String,
    /// Leave out the played CLIs.
    pub no_clis: bool,
}

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    // Before the sandbox, whose end is the end of all processes.
    process: Process,
    sandbox: Sandbox,
    options: Options,
    port: u16,
}

impl Daemon {
    /// A running daemon, all by default.
    pub fn start() -> Self {
        Self::start_with(Options::default())
    }

    /// A running daemon.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn start_with(options: Options) -> Self {
        let mut daemon = Self::prepare(options);
        daemon.serve();
        daemon
    }

    /// Everything but the daemon.
    ///
    /// # Panics
    /// If the directories cannot be made.
    pub fn prepare(options: Options) -> Self {
        let sandbox = Sandbox::new("codecast");
        for name in ["home/.codecast", "home/Projects/p", "state"] {
            sandbox.make(name);
        }
        if !options.no_clis {
            agents::fake_clis(&sandbox.join("bin"));
        }
        if !options.settings.is_empty() {
            sandbox.write_settings(&options.settings);
        }
        if !options.yaml.is_empty() {
            fs::write(sandbox.home().join(".codecast/daemon.yaml"), &options.yaml).expect("settings");
        }
        let process = Process::new("the daemon", sandbox.join("printed"));
        Self { process, sandbox, options, port: http::free_address().port() }
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// Its `HOME`.
    pub fn home(&self) -> PathBuf {
        self.sandbox.home()
    }

    /// A project that is there.
    pub fn project(&self) -> PathBuf {
        self.home().join("Projects/p")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// Its process.
    pub fn identity(&self) -> Identity {
        self.process.identity()
    }

    /// A command of the program with this daemon's environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.hostel(arguments);
        self.set_environment(&mut command);
        command
    }

    /// Gives a command this daemon's environment and nothing else.
    pub fn set_environment(&self, command: &mut Command) {
        self.sandbox.set_environment(command);
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        // No CLI of this machine may be found: tests would depend on it, and on its account.
        let clis = agents::Cli::ALL.map(agents::Cli::name);
        let clean = path.split(':').filter(|folder| clis.iter().all(|cli| !Path::new(folder).join(cli).exists()));
        let path: Vec<&str> = clean.collect();
        command.env("PATH", format!("{}:{}", self.path().join("bin").display(), path.join(":")));
        command.env("DAEMON_PORT", self.port.to_string());
        command.env("FAKECLI_LOG", self.path().join("fakecli.log"));
        command.env("FAKECLI_STATE", self.path().join("state"));
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
    }

    /// Starts the daemon, again if need be, and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn serve(&mut self) {
        let port_file = self.home().join(".codecast/daemon.port");
        fs::remove_file(&port_file).ok();
        self.process.start(self.command(&["as", "codecast-daemon"]));
        let port = self.process.wait_ready(|| {
            let text = fs::read_to_string(&port_file).map_err(|error| format!("no port file: {error}"))?;
            text.parse::<u16>().map_err(|_| format!("the port file contains {text:?}"))
        });
        assert_eq!(port, self.port, "the port that was asked for is free");
        self.sandbox.remember();
    }

    /// What it printed.
    pub fn printed(&self) -> String {
        self.process.printed()
    }

    /// What the played CLIs noted: one JSON value for each start, prompt and end.
    pub fn cli_log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join("fakecli.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of the log is JSON")).collect()
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        self.sandbox.remember();
        self.process.kill();
    }

    /// Sends SIGTERM and waits for the end.
    pub fn stop(&mut self) -> ExitStatus {
        self.sandbox.remember();
        self.process.stop()
    }

    /// A new connection.
    ///
    /// # Panics
    /// If nobody listens.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address()).unwrap_or_else(|error| panic!("cannot connect: {error}\n{}", self.printed()))
    }

    /// A call on a connection of its own.
    pub fn call(&self, method: &str, params: &Value) -> Answer {
        self.connect().call(method, Some(params))
    }

    /// A new session in the project, with this agent.
    ///
    /// # Panics
    /// If there is none.
    pub fn create(&self, agent: &str) -> String {
        let answer = self.call("session.create", &json!({"path": "p", "cli_type": agent}));
        answer.result()["sessionId"].as_str().expect("an id").to_owned()
    }

    /// Sends a message; the stream is still to be read.
    ///
    /// # Panics
    /// If there is no stream.
    pub fn send(&self, session: &str, message: &str) -> Connection {
        let mut connection = self.connect();
        let answer = connection.call("session.send", Some(&json!({"sessionId": session, "message": message})));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("text/event-stream")),
            "{}",
            answer.text()
        );
        connection
    }

    /// What is buffered for a session's client.
    ///
    /// # Panics
    /// If the call fails.
    pub fn reconnect(&self, session: &str) -> Vec<Value> {
        let result = self.call("session.reconnect", &json!({"sessionId": session})).result();
        result["bufferedEvents"].as_array().expect("an array").clone()
    }

    /// Buffered events until the turn is over.
    ///
    /// # Panics
    /// If it never is.
    pub fn reconnect_to_end(&self, session: &str) -> Vec<Value> {
        let mut events = Vec::new();
        wait::eventually("the end of the turn", || {
            events.extend(self.reconnect(session));
            let is_end = |event: &Value| matches!(event["type"].as_str(), Some("result" | "error" | "interrupted"));
            if events.iter().any(is_end) {
                Ok(())
            } else {
                Err(format!("{} events, at last {:?}", events.len(), events.last()))
            }
        });
        events
    }

    /// What is known about a session's queue.
    pub fn queue(&self, session: &str) -> Value {
        self.call("session.queue_stats", &json!({"sessionId": session})).result()
    }

    /// The session in the list, if it is there.
    ///
    /// # Panics
    /// If there is no list.
    pub fn listed(&self, session: &str) -> Option<Value> {
        let result = self.call("session.list", &json!({})).result();
        let sessions = result["sessions"].as_array().expect("a list").clone();
        sessions.into_iter().find(|listed| listed["sessionId"] == session)
    }

    /// Waits until a session is idle or busy.
    pub fn wait_for_status(&self, session: &str, status: &str) {
        wait::eventually(&format!("a session to be {status}"), || {
            let listed = self.listed(session);
            let is_so = listed.as_ref().is_some_and(|listed| listed["status"] == status);
            if is_so { Ok(()) } else { Err(format!("{listed:?}")) }
        });
    }
}
