//! A codecast daemon with a home of its own, to start, to kill and to start again.
//!
//! Everything lies below one temporary directory. The port stays the same over restarts, because the port is what
//! makes it the same daemon. When it goes out of scope it is told to end, and what is left of daemon, keeper and
//! children is killed by pid and start time.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::{Answer, Connection};
use crate::procfs::{self, Identity};
use crate::{agents, binary, house, http, wait};

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
    root: TempDir,
    options: Options,
    port: u16,
    child: Option<Child>,
    known: BTreeSet<Identity>,
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
        let root = tempfile::Builder::new().prefix("hostel-codecast-").tempdir().expect("a temporary directory");
        for name in ["hostel", "home", "home/.codecast", "home/Projects", "home/Projects/p", "state"] {
            fs::create_dir(root.path().join(name)).expect("a fresh directory");
        }
        if !options.no_clis {
            agents::fake_clis(&root.path().join("bin"));
        }
        if !options.settings.is_empty() {
            fs::write(root.path().join("hostel/hostel.toml"), &options.settings).expect("settings");
        }
        if !options.yaml.is_empty() {
            fs::write(root.path().join("home/.codecast/daemon.yaml"), &options.yaml).expect("settings");
        }
        let port = http::free_address().port();
        Self { root, options, port, child: None, known: BTreeSet::new() }
    }

    /// The temporary directory everything lies in.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Its `HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// A project that is there.
    pub fn project(&self) -> PathBuf {
        self.home().join("Projects/p")
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port)
    }

    /// Its pid.
    ///
    /// # Panics
    /// If it does not run.
    pub fn identity(&self) -> Identity {
        let child = self.child.as_ref().expect("the daemon was started");
        Identity::of(i32::try_from(child.id()).expect("a pid")).expect("the daemon runs")
    }

    /// A command of the program with this daemon's environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::hostel());
        command.args(arguments);
        self.set_environment(&mut command);
        command
    }

    /// Gives a command this daemon's environment and nothing else.
    pub fn set_environment(&self, command: &mut Command) {
        house::set_base_environment(command, &self.home());
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
        // No CLI of this machine may be found: tests would depend on it, and on its account.
        let clis = agents::Cli::ALL.map(agents::Cli::name);
        let clean = path.split(':').filter(|folder| clis.iter().all(|cli| !Path::new(folder).join(cli).exists()));
        let path: Vec<&str> = clean.collect();
        command.env("PATH", format!("{}:{}", self.path().join("bin").display(), path.join(":")));
        command.env("HOSTEL_HOME", self.path().join("hostel"));
        command.env("DAEMON_PORT", self.port.to_string());
        command.env("FAKECLI_LOG", self.path().join("fakecli.log"));
        command.env("FAKECLI_STATE", self.path().join("state"));
        command.envs(self.options.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.path());
        command.stdin(Stdio::null());
    }

    /// Starts the daemon, again if need be, and waits until it accepts.
    ///
    /// # Panics
    /// If it does not.
    pub fn serve(&mut self) {
        let port_file = self.home().join(".codecast/daemon.port");
        fs::remove_file(&port_file).ok();
        let output = |name: &str| {
            OpenOptions::new().create(true).append(true).open(self.path().join(name)).expect("a file for output")
        };
        let mut command = self.command(&["as", "codecast-daemon"]);
        command.stdout(output("printed.out")).stderr(output("printed.err"));
        let mut child = command.spawn().expect("the program can be started");
        let port = wait::until(wait::LIMIT, "the port file", || {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                panic!("the daemon ended with {status}:\n{}", self.printed());
            }
            fs::read_to_string(&port_file).ok().and_then(|text| text.parse::<u16>().ok())
        });
        assert_eq!(port, self.port, "the port that was asked for is free");
        self.child = Some(child);
        self.remember();
    }

    /// What it printed.
    pub fn printed(&self) -> String {
        let read =
            |name: &str| String::from_utf8_lossy(&fs::read(self.path().join(name)).unwrap_or_default()).into_owned();
        read("printed.out") + &read("printed.err")
    }

    /// What the played CLIs noted: one JSON value for each start, prompt and end.
    pub fn cli_log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path().join("fakecli.log")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of the log is JSON")).collect()
    }

    fn remember(&mut self) {
        if let Some(child) = &self.child {
            self.known.extend(Identity::of(i32::try_from(child.id()).expect("a pid")));
        }
        let houses = fs::read_dir(self.path().join("hostel/as")).into_iter().flatten().flatten();
        for house in houses {
            let keeper = UnixStream::connect(house.path().join("run/keeper.sock"))
                .ok()
                .and_then(|socket| socket_peercred(&socket).ok())
                .and_then(|peer| Identity::of(peer.pid.as_raw_nonzero().get()));
            if let Some(keeper) = keeper {
                self.known.insert(keeper);
                self.known.extend(procfs::descendants(keeper.pid));
            }
        }
    }

    /// Kills the daemon with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    /// If it was not started.
    pub fn kill(&mut self) {
        self.remember();
        let mut child = self.child.take().expect("the daemon was started");
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&mut self) -> ExitStatus {
        self.remember();
        self.identity().signal(Signal::TERM);
        let mut child = self.child.take().expect("the daemon was started");
        wait::until(wait::LIMIT, "the daemon to end", || child.try_wait().expect("our own child can be waited for"))
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
        wait::until(Duration::from_secs(60), "the end of the turn", || {
            events.extend(self.reconnect(session));
            events
                .iter()
                .any(|event| matches!(event["type"].as_str(), Some("result" | "error" | "interrupted")))
                .then_some(())
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
        wait::until_true(wait::LIMIT, &format!("a session to be {status}"), || {
            self.listed(session).is_some_and(|listed| listed["status"] == status)
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.remember();
        if let Some(child) = &mut self.child {
            if let Some(identity) = i32::try_from(child.id()).ok().and_then(Identity::of) {
                identity.signal(Signal::TERM);
            }
            // Whether a stop works is for the tests to say; here it only must be over.
            let ended = wait::attempt(Duration::from_secs(10), || child.try_wait().ok().flatten());
            if ended.is_none() {
                child.kill().ok();
                child.wait().ok();
            }
        }
        for process in &self.known {
            process.signal(Signal::KILL);
        }
        if std::thread::panicking() {
            let printed = self.printed();
            let skipped = printed.lines().count().saturating_sub(40);
            let tail: Vec<&str> = printed.lines().skip(skipped).collect();
            eprintln!("---- last lines of the daemon\n{}\n----", tail.join("\n"));
        }
    }
}
