//! hostel as a codecast daemon: started in a directory of its own, and ended for certain.
//!
//! It gets a fresh home, house and port. Its one agent of note is this very program, under the alias `bench`.

use std::ffi::OsString;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use rustix::process::Pid;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::http::Client;
use super::native;
use crate::procfs;
use crate::server;
use crate::server::Guard;
use crate::subject::Subject;

/// The agent that is this program.
pub(crate) const AGENT: &str = "bench";

/// The same without a guard around it.
pub(crate) const UNGUARDED: &str = "unguarded";

/// How long a daemon may take to say its port.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take to go away when asked.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Between two looks at a file that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// A running daemon.
pub(crate) struct Daemon {
    // The order matters: the guard ends the processes before the directory is removed.
    guard: Guard,
    dir: TempDir,
    port: u16,
}

impl Daemon {
    /// Starts hostel with `own_program` as an agent and waits until it answers.
    pub(crate) fn start(subject: &Subject, parent: &Path, own_program: &Path) -> Result<Daemon> {
        Self::start_with(subject, parent, own_program, |_| Ok(Vec::new()))
    }

    /// The same with more in its environment, which may live in the directory it is given.
    pub(crate) fn start_with(
        subject: &Subject,
        parent: &Path,
        own_program: &Path,
        environment: impl FnOnce(&Path) -> Result<Vec<(OsString, OsString)>>,
    ) -> Result<Daemon> {
        let dir = server::scratch(parent)?;
        let (home, user, work) = (dir.path().join("h"), dir.path().join("u"), dir.path().join("w"));
        for path in [&home, &user, &work] {
            fs::DirBuilder::new().mode(0o700).create(path)?;
        }
        let program = own_program.to_str().context("this program's path")?;
        let command = Value::from(vec![program, "agent"]);
        // A JSON list of plain strings is a TOML one as well.
        let agent = |name: &str| format!("[agents.{name}]\nkind = \"claude\"\ncommand = {command}\n");
        let settings = format!("{}{}guard = \"off\"\n", agent(AGENT), agent(UNGUARDED));
        fs::write(home.join("hostel.toml"), settings)?;
        let log = fs::File::create(dir.path().join("log"))?;
        let launcher = Command::new(&subject.program)
            .args(["as", "codecast-daemon"])
            .env("HOSTEL_HOME", &home)
            .env("HOME", &user)
            .env("DAEMON_PORT", "0")
            .env("DAEMON_BIND", "127.0.0.1")
            .env_remove("RUST_LOG")
            .envs(environment(dir.path())?)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .current_dir(dir.path())
            .spawn()
            .with_context(|| format!("starting {}", subject.label))?;
        let guard = Guard { launcher, dir: dir.path().to_owned(), program: subject.program.clone(), daemon: None };
        let mut daemon = Daemon { guard, dir, port: 0 };
        daemon.port = daemon.wait_for_port().with_context(|| format!("{} did not start", subject.label))?;
        let health = daemon.client()?.call("health.check", &Value::Null)?;
        ensure!(health["ok"] == Value::Bool(true), "health.check answered {health}");
        Ok(daemon)
    }

    fn wait_for_port(&mut self) -> Result<u16> {
        let file = self.dir.path().join("u/.codecast/daemon.port");
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(&file) {
                return text.trim().parse().context("the port file");
            }
            if let Some(status) = self.guard.launcher.try_wait()? {
                let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                bail!("it ended with {status}: {}", log.lines().last().unwrap_or_default());
            }
            ensure!(begun.elapsed() < START_LIMIT, "no port after {} s", START_LIMIT.as_secs());
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A directory for agents to work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("w")
    }

    /// A new connection.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::open(self.port)
    }

    /// A connection to the socket of its house.
    pub(crate) fn native(&self) -> Result<native::Client> {
        let houses = self.dir.path().join("h/as");
        let house = fs::read_dir(&houses)?.next().context("there is no house")??;
        native::Client::open(&house.path().join("run/hostel.sock"))
    }

    /// Daemon and keeper.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        let mut found = procfs::belonging_to(self.dir.path(), &self.guard.program);
        found.push(self.guard.launcher.id());
        ensure!(found.len() >= 2, "the keeper is not there");
        Ok(found)
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.guard.launcher.id()).ok().and_then(Pid::from_raw).context("its process id")?;
        rustix::process::kill_process(pid, Signal::TERM).context("asking the daemon to stop")?;
        let mut status = None;
        let ended = procfs::wait_until(STOP_LIMIT, || {
            status = self.guard.launcher.try_wait().ok().flatten();
            status.is_some()
        });
        ensure!(ended, "the daemon still runs {} s after SIGTERM", STOP_LIMIT.as_secs());
        ensure!(status.is_some_and(|status| status.success()), "the daemon ended with {status:?}");
        ensure!(TcpStream::connect(("127.0.0.1", self.port)).is_err(), "the port is still open");
        Ok(())
    }
}
