//! A server under test: started in a directory of its own, and ended for certain.
//!
//! Each has a fresh home, socket and token. `stop` ends it the polite way and checks that it is
//! gone; dropping it without that ends its processes by their ids. The directory goes last, when
//! nobody writes into it any more. Nothing outside the directory is touched.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
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
use tempfile::TempDir;

use crate::client::Connection;
use crate::procfs;
use crate::subject::Kind;
use crate::subject::Subject;

/// How long a server may take to answer its first ping.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may take to go away when asked.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How long a process may take to go away when told to by a signal that it can handle.
const POLITE_LIMIT: Duration = Duration::from_millis(500);
/// A house puts its keeper's socket some sixty bytes below; the kernel takes 107 in all.
const LONGEST_DIR: usize = 40;
/// Between two looks at a socket that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// How long a start took.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// Until the command that started it returned.
    pub(crate) launcher: Duration,
    /// Until the first ping was answered.
    pub(crate) first_ping: Duration,
}

/// A running server.
pub(crate) struct Server {
    // The order matters: the guard ends the processes before the directory is removed.
    guard: Guard,
    dir: TempDir,
    socket: PathBuf,
    token: String,
    kind: Kind,
}

/// A temporary directory whose path is short enough for a socket several levels down.
pub(crate) fn scratch(parent: &Path) -> Result<TempDir> {
    let dir = tempfile::Builder::new()
        .prefix("hb")
        .rand_bytes(6)
        .tempdir_in(parent)
        .with_context(|| format!("making a directory in {}", parent.display()))?;
    ensure!(
        dir.path().as_os_str().len() <= LONGEST_DIR,
        "{} is too long for socket paths: choose a shorter --dir",
        parent.display()
    );
    Ok(dir)
}

impl Server {
    /// Starts `subject` and waits for its first answer.
    pub(crate) fn start(subject: &Subject, parent: &Path) -> Result<(Server, Start)> {
        let dir = scratch(parent)?;
        let token = token()?;
        let token_file = dir.path().join("t");
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&token_file)?;
        std::io::Write::write_all(&mut file, token.as_bytes())?;
        let (home, user) = (dir.path().join("h"), dir.path().join("u"));
        for path in [&home, &user] {
            fs::DirBuilder::new().mode(0o700).create(path)?;
        }
        let log = fs::File::create(dir.path().join("log"))?;
        let socket = dir.path().join("s");

        let mut command = Command::new(&subject.program);
        if subject.kind == Kind::Hostel {
            command.args(["as", "claustrum"]);
        }
        command
            .arg("-serve")
            .arg("-socket")
            .arg(&socket)
            .arg("-token-file")
            .arg(&token_file)
            .env("HOSTEL_HOME", &home)
            // Nobody's login scripts should be part of a figure.
            .env("HOME", &user)
            .env_remove("CLAUDE_SSH_DAEMON_CHILD")
            .env_remove("CLAUSTRUM_DAEMON_CHILD")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .current_dir(dir.path());
        let begun = Instant::now();
        let launcher = command.spawn().with_context(|| format!("starting {}", subject.label))?;
        let mut server = Server {
            guard: Guard { launcher, dir: dir.path().to_owned(), program: subject.program.clone(), daemon: None },
            dir,
            socket,
            token,
            kind: subject.kind,
        };
        let start = server
            .wait_for_start(begun)
            .with_context(|| format!("{} did not start{}", subject.label, server.log_tail()))?;
        Ok((server, start))
    }

    fn wait_for_start(&mut self, begun: Instant) -> Result<Start> {
        let (mut launcher, mut first_ping) = (None, None);
        loop {
            if first_ping.is_none()
                && let Ok(mut connection) = self.connect()
            {
                connection.ping()?;
                first_ping = Some(begun.elapsed());
                self.guard.daemon = listening_process(&connection);
            }
            if launcher.is_none()
                && let Some(status) = self.guard.launcher.try_wait()?
            {
                ensure!(status.success(), "the command ended with {status}");
                launcher = Some(begun.elapsed());
            }
            if let (Some(launcher), Some(first_ping)) = (launcher, first_ping) {
                return Ok(Start { launcher, first_ping });
            }
            if begun.elapsed() > START_LIMIT {
                bail!("not ready after {} s", START_LIMIT.as_secs());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        if lines.is_empty() {
            return String::new();
        }
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        format!(" (it said: {})", lines.join(" / "))
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> std::io::Result<Connection> {
        Connection::open(&self.socket, &self.token)
    }

    /// A new connection with a small buffer.
    pub(crate) fn connect_small(&self) -> std::io::Result<Connection> {
        Connection::open_small(&self.socket, &self.token)
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it asks for.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The processes that make up the server: daemon and keeper for hostel, one for claustrum.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        let mut found = procfs::belonging_to(self.dir.path(), &self.guard.program);
        if let Some(daemon) = self.guard.daemon
            && procfs::is_running(daemon)
            && !found.contains(&daemon)
        {
            found.push(daemon);
        }
        let least = if self.kind == Kind::Hostel { 2 } else { 1 };
        ensure!(found.len() >= least, "found {} of the {least} processes of the server", found.len());
        Ok(found)
    }

    /// Asks the server to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        let daemon = self.guard.daemon;
        let mut connection = self.connect().context("the server is gone already")?;
        connection.send("server.shutdown", None)?;
        connection.wait_for_close()?;
        if let Some(daemon) = daemon {
            ensure!(
                procfs::wait_until(STOP_LIMIT, || !procfs::is_running(daemon)),
                "the server still runs {} s after server.shutdown",
                STOP_LIMIT.as_secs()
            );
            self.guard.daemon = None;
        }
        Ok(())
    }
}

/// Ends whatever a server left, when it goes out of scope.
pub(crate) struct Guard {
    pub(crate) launcher: Child,
    pub(crate) dir: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) daemon: Option<u32>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        end(&mut self.launcher);
        let others = || procfs::belonging_to(&self.dir, &self.program);
        // The daemon first, so that it does not start a new keeper for the one that went.
        let daemon = self.daemon.filter(|daemon| others().contains(daemon));
        signal(daemon.as_slice(), Signal::KILL);
        signal(&others(), Signal::TERM);
        if !procfs::wait_until(POLITE_LIMIT, || others().is_empty()) {
            signal(&others(), Signal::KILL);
            if !procfs::wait_until(Duration::from_secs(3), || others().is_empty()) {
                eprintln!("hostel-benches: left behind: processes {:?}", others());
            }
        }
    }
}

fn signal(pids: &[u32], signal: Signal) {
    for pid in pids {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid
            && let Err(error) = rustix::process::kill_process(pid, signal)
            && error != rustix::io::Errno::SRCH
        {
            eprintln!("hostel-benches: could not end process {pid:?}: {error}");
        }
    }
}

/// Ends a process of our own and waits for it.
pub(crate) fn end(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(Some(_)))
        && let Err(error) = child.kill().and_then(|()| child.wait().map(drop))
    {
        eprintln!("hostel-benches: could not end process {}: {error}", child.id());
    }
}

/// A process of ours that ends with the scope, and a limit for its natural end.
pub(crate) struct Helper(pub(crate) Child);

impl Helper {
    /// Waits for a successful end.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<String> {
        let mut status = None;
        let ended = procfs::wait_until(limit, || {
            status = self.0.try_wait().ok().flatten();
            status.is_some()
        });
        ensure!(ended, "not finished after {} s", limit.as_secs());
        let mut output = String::new();
        if let Some(mut stdout) = self.0.stdout.take() {
            stdout.read_to_string(&mut output)?;
        }
        match status {
            Some(status) if status.success() => Ok(output),
            Some(status) => bail!("ended with {status}"),
            None => bail!("no exit status"),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

fn listening_process(connection: &Connection) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(connection.stream()).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

fn token() -> Result<String> {
    let mut bytes = [0; 24];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(base64_simd::URL_SAFE_NO_PAD.encode_to_string(bytes))
}
