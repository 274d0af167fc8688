//! Going into the background: a second run of this program that says when it is ready.
//!
//! Invariant: launcher and daemon share one socket pair, which the daemon has as its stdin; a secret goes one
//! way, the news the other, and neither touches disk, arguments or environment. The launcher waits no longer than
//! its limit.
//!
//! The daemon makes its own session and gives its stdin up for /dev/null before it does anything else.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use zeroize::Zeroizing;

/// The most a launcher hands over or hears.
const MESSAGE_LIMIT: u64 = 64 << 10;

/// This very program, even if its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// A command that runs this program again under the same name. What it starts belongs to no session of a mesh, even if
/// we do: it outlives the session.
pub(crate) fn own_program(called: &OsStr, words: &[OsString]) -> Command {
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0(called).args(words);
    crate::mesh::speaker::leave_session(&mut command);
    command
}

/// What became of the daemon.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is ready.
    Ready,
    /// It gave up and said why.
    Failed(String),
    /// It ended without a word.
    Ended(Option<std::process::ExitStatus>),
    /// It has not said anything in time.
    TimedOut,
}

/// Starts the daemon and waits for its word.
pub(crate) fn launch(mut command: Command, secret: &[u8], limit: Duration) -> io::Result<Outcome> {
    let deadline = Instant::now() + limit;
    let (ours, theirs) = UnixStream::pair()?;
    let mut child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
    // The command holds a copy of the daemon's end, which would hide that the daemon closed its own.
    drop(command);
    let mut ours = ours;
    ours.set_write_timeout(Some(limit))?;
    // A daemon that is gone already is noticed below, when it is asked.
    let handed = ours.write_all(secret).and_then(|()| ours.shutdown(Shutdown::Write));
    drop(handed);
    listen(&ours, &mut child, deadline)
}

fn listen(mut ours: &UnixStream, child: &mut Child, deadline: Instant) -> io::Result<Outcome> {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Outcome::TimedOut);
        }
        ours.set_read_timeout(Some(left))?;
        match ours.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => heard.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(Outcome::TimedOut);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
        if heard.len() as u64 > MESSAGE_LIMIT {
            break;
        }
        if let Some(end) = heard.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(heard.get(..end).unwrap_or_default()).into_owned();
            return Ok(match line.strip_prefix("failed ") {
                Some(reason) => Outcome::Failed(reason.to_owned()),
                None => Outcome::Ready,
            });
        }
    }
    Ok(Outcome::Ended(child.wait().ok()))
}

/// The daemon's side of the pair.
#[derive(Debug)]
pub(crate) struct Launcher {
    stream: UnixStream,
}

impl Launcher {
    /// Takes the pair off our stdin, which becomes /dev/null, and leaves the launcher's session.
    pub(crate) fn take() -> io::Result<Self> {
        let stream = UnixStream::from(io::stdin().as_owned()?);
        silence_stdin()?;
        // Fails only where we lead a group already, and then nobody launched us.
        rustix::process::setsid().map(drop).unwrap_or_default();
        Ok(Launcher { stream })
    }

    /// The secret the launcher handed over.
    pub(crate) fn secret(&mut self) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut secret = Zeroizing::new(Vec::new());
        (&self.stream).take(MESSAGE_LIMIT).read_to_end(&mut secret)?;
        Ok(secret)
    }

    /// Tells the launcher that everything is up.
    pub(crate) fn ready(mut self) {
        // A launcher that gave up waiting need not be told.
        self.stream.write_all(b"ready\n").unwrap_or_default();
    }

    /// Tells the launcher why nothing will come of it.
    pub(crate) fn failed(mut self, reason: &str) {
        let line = format!("failed {}\n", reason.replace('\n', " "));
        self.stream.write_all(line.as_bytes()).unwrap_or_default();
    }
}

/// Standard input becomes /dev/null.
pub(crate) fn silence_stdin() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(())
}

/// A copy of a standard stream's descriptor.
trait AsOwned {
    fn as_owned(&self) -> io::Result<OwnedFd>;
}

impl AsOwned for io::Stdin {
    fn as_owned(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(self, 3)?)
    }
}
