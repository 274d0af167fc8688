//! hostel as `sudo-proxy`, or the real one: on a terminal of its own, with the session grant given by a key, and ended
//! for certain.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
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
use tempfile::TempDir;

use super::client;
use super::terminal::Terminal;
use crate::procfs;
use crate::server;
use crate::server::Guard;
use crate::subject;
use crate::subject::Kind;
use crate::subject::Subject;

/// How long it may take to listen, and to take a key.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long it may take to go away when asked.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// Between two looks at a socket that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Between two presses of a key: what is typed before the question is shown is dropped.
const PRESS_AGAIN: Duration = Duration::from_millis(150);

/// A running daemon.
pub(crate) struct Proxy {
    // The order matters: the guard ends the processes before the directory is removed.
    guard: Guard,
    terminal: Terminal,
    dir: TempDir,
    socket: PathBuf,
    kind: Kind,
}

impl Proxy {
    /// Starts `subject` and waits until it listens.
    pub(crate) fn start(subject: &Subject, parent: &Path) -> Result<Proxy> {
        let dir = server::scratch(parent)?;
        for name in ["h", "u", "r"] {
            fs::DirBuilder::new().mode(0o700).create(dir.path().join(name))?;
        }
        let socket = dir.path().join("s");
        let (terminal, far) = Terminal::open()?;
        // Makes the terminal on its standard input the one that the program is controlled by.
        let mut command = Command::new(subject::program("setsid")?);
        command.arg("--ctty").arg(&subject.program);
        if subject.kind == Kind::Hostel {
            command.args(["as", "sudo-proxy"]);
        }
        let launcher = command
            .arg("--socket")
            .arg(&socket)
            .arg("--unattended-eligible")
            .env("HOSTEL_HOME", dir.path().join("h"))
            .env("HOME", dir.path().join("u"))
            .env("XDG_CONFIG_HOME", dir.path().join("u"))
            .env("XDG_RUNTIME_DIR", dir.path().join("r"))
            .env("TERM", "xterm")
            .env_remove("RUST_LOG")
            .stdin(far.try_clone()?)
            .stdout(far.try_clone()?)
            .stderr(Stdio::from(far))
            .current_dir(dir.path())
            .spawn()
            .with_context(|| format!("starting {}", subject.label))?;
        drop(command);
        let guard = Guard { launcher, dir: dir.path().to_owned(), program: subject.program.clone(), daemon: None };
        let mut proxy = Proxy { guard, terminal, dir, socket, kind: subject.kind };
        let started = proxy.wait_for_socket();
        started
            .with_context(|| format!("{} did not start (on its screen: {})", subject.label, proxy.terminal.screen()))?;
        Ok(proxy)
    }

    /// The same, and gives it the session grant.
    pub(crate) fn granted(subject: &Subject, parent: &Path) -> Result<Proxy> {
        let mut proxy = Self::start(subject, parent)?;
        let given = proxy.give_grant();
        given.with_context(|| format!("{} (on its screen: {})", subject.label, proxy.terminal.screen()))?;
        Ok(proxy)
    }

    fn wait_for_socket(&mut self) -> Result<()> {
        let begun = Instant::now();
        // The file is there a moment before somebody listens.
        while UnixStream::connect(&self.socket).is_err() {
            if let Some(status) = self.guard.launcher.try_wait()? {
                bail!("it ended with {status}");
            }
            ensure!(begun.elapsed() < START_LIMIT, "no socket after {} s", START_LIMIT.as_secs());
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Asks for a command and presses `a` until it ran; then one must run unasked.
    fn give_grant(&mut self) -> Result<()> {
        let command = [subject::program("true")?];
        let socket = self.socket.clone();
        let asked = command.clone();
        let asking = std::thread::spawn(move || client::run(&socket, &asked));
        let begun = Instant::now();
        while !asking.is_finished() {
            ensure!(begun.elapsed() < START_LIMIT, "the key `a` was not taken in {} s", START_LIMIT.as_secs());
            std::thread::sleep(PRESS_AGAIN);
            self.terminal.press(b'a')?;
        }
        asking.join().map_err(|_| anyhow::anyhow!("the asking thread died"))?.context("the first command")?;
        client::run(&self.socket, &command).context("a command under the grant")?;
        Ok(())
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The daemon, and its keeper if it has one.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        let mut found = procfs::belonging_to(self.dir.path(), &self.guard.program);
        found.push(self.guard.launcher.id());
        ensure!(self.kind != Kind::Hostel || found.len() >= 2, "the keeper is not there");
        Ok(found)
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        client::stop(&self.socket)?;
        let mut status = None;
        let ended = procfs::wait_until(STOP_LIMIT, || {
            status = self.guard.launcher.try_wait().ok().flatten();
            status.is_some()
        });
        ensure!(ended, "the daemon still runs {} s after stop", STOP_LIMIT.as_secs());
        ensure!(status.is_some_and(|status| status.success()), "the daemon ended with {status:?}");
        Ok(())
    }
}
