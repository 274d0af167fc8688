//! Waiting for a condition, with one time limit for everything.
//!
//! A limit exists only to stop a test that hangs. It is generous, it is multiplied by `HOSTEL_TEST_SCALE`, and the panic
//! that ends a wait says what was waited for and what was observed last. A test that wants to know why a wait failed
//! returns the reason from its probe: `Err(reason)`.
//!
//! Wait for content, never only for a file's existence: a file exists before its first byte is written.

use std::fmt::Display;
use std::fs;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::procfs::{self, Identity};

/// The limit of every wait, before `HOSTEL_TEST_SCALE`.
pub const LIMIT: Duration = Duration::from_secs(120);

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The limit of every wait.
pub fn limit() -> Duration {
    scaled(LIMIT)
}

/// A duration multiplied by `HOSTEL_TEST_SCALE`.
///
/// # Panics
/// If the variable is not a number above zero.
pub fn scaled(duration: Duration) -> Duration {
    let Some(text) = std::env::var_os("HOSTEL_TEST_SCALE") else { return duration };
    let factor = text.to_str().and_then(|text| text.parse::<f64>().ok()).filter(|factor| *factor > 0.0);
    duration.mul_f64(factor.unwrap_or_else(|| panic!("HOSTEL_TEST_SCALE is {text:?}, not a number above zero")))
}

/// What a probe of a wait returns: `Option`, `bool`, or a `Result` whose error says what was observed instead.
pub trait Outcome {
    /// What the wait gives.
    type Found;

    /// The found value, or what was observed if the probe knows.
    ///
    /// # Errors
    /// If the condition does not hold yet.
    fn outcome(self) -> Result<Self::Found, Option<String>>;
}

impl<T> Outcome for Option<T> {
    type Found = T;

    fn outcome(self) -> Result<T, Option<String>> {
        self.ok_or(None)
    }
}

impl Outcome for bool {
    type Found = ();

    fn outcome(self) -> Result<(), Option<String>> {
        if self { Ok(()) } else { Err(None) }
    }
}

impl<T, E: Display> Outcome for Result<T, E> {
    type Found = T;

    fn outcome(self) -> Result<T, Option<String>> {
        self.map_err(|error| Some(error.to_string()))
    }
}

/// Probes until the condition holds.
///
/// # Panics
/// If it does not hold within [`limit`]; the message has the last observation.
pub fn eventually<P: Outcome>(what: &str, probe: impl FnMut() -> P) -> P::Found {
    until(LIMIT, what, probe)
}

/// As [`eventually`] with another limit, for what has a reason to take longer.
///
/// # Panics
/// If the condition does not hold within the scaled `limit`.
pub fn until<P: Outcome>(limit: Duration, what: &str, probe: impl FnMut() -> P) -> P::Found {
    let limit = scaled(limit);
    probe_until(limit, LONGEST_PAUSE, probe).unwrap_or_else(|observed| {
        let observed = observed.map(|observed| format!("; observed last: {observed}")).unwrap_or_default();
        panic!("waited {limit:?} in vain for {what}{observed}")
    })
}

/// As [`until`], for a probe that is true or not.
///
/// # Panics
/// If the condition does not hold within the scaled `limit`.
pub fn until_true(limit: Duration, what: &str, probe: impl FnMut() -> bool) {
    until(limit, what, probe);
}

/// Probes until the condition holds or the scaled `limit` has passed.
pub fn attempt<P: Outcome>(limit: Duration, probe: impl FnMut() -> P) -> Option<P::Found> {
    attempt_often(limit, LONGEST_PAUSE, probe)
}

/// As [`attempt`] with another longest pause between two probes.
pub fn attempt_often<P: Outcome>(limit: Duration, longest: Duration, probe: impl FnMut() -> P) -> Option<P::Found> {
    probe_until(scaled(limit), longest, probe).ok()
}

fn probe_until<P: Outcome>(
    limit: Duration,
    longest: Duration,
    mut probe: impl FnMut() -> P,
) -> Result<P::Found, Option<String>> {
    let end = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        // Decided before the probe: the last probe begins after the limit, however long the machine was held up.
        let is_last = Instant::now() >= end;
        match probe().outcome() {
            Ok(found) => return Ok(found),
            Err(observed) if is_last => return Err(observed),
            Err(_) => {}
        }
        thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

/// Waits until a file has a content of which `probe` makes something.
///
/// # Panics
/// If it never has; the message has the content.
pub fn content<P: Outcome>(path: &Path, what: &str, mut probe: impl FnMut(&str) -> P) -> P::Found {
    eventually(&format!("{what} in {}", path.display()), || {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        probe(&text).outcome().map_err(|reason| reason.unwrap_or_else(|| format!("{text:?}")))
    })
}

/// Waits until a file has a whole line, with its end, and gives it without the end.
///
/// # Panics
/// If it never has.
pub fn whole_line(path: &Path) -> String {
    content(path, "a whole line", |text| text.split_once('\n').map(|(line, _)| line.to_owned()))
}

/// Waits until a file contains a JSON value.
///
/// # Panics
/// If it never does.
pub fn json(path: &Path) -> serde_json::Value {
    content(path, "a JSON value", |text| serde_json::from_str(text).ok())
}

/// Waits for a line that contains `part`, and gives it.
///
/// # Panics
/// If none appears; the message has the end of the log.
pub fn log_line(part: &str, mut log: impl FnMut() -> String) -> String {
    eventually(&format!("a log line with {part:?}"), || {
        let log = log();
        let line = log.lines().find(|line| line.contains(part)).map(str::to_owned);
        line.ok_or_else(|| format!("this log:\n{}", last_lines(&log)))
    })
}

/// The end of a log, for the message of a failure.
pub fn last_lines(log: &str) -> String {
    let skipped = log.lines().count().saturating_sub(40);
    log.lines().skip(skipped).collect::<Vec<_>>().join("\n")
}

/// Waits until a Unix socket accepts.
///
/// # Panics
/// If it does not.
pub fn socket(path: &Path) -> UnixStream {
    eventually(&format!("{} to accept", path.display()), || UnixStream::connect(path))
}

/// Waits until a child itself listens on a Unix socket. That the socket accepts is not enough: when a daemon is killed
/// between fork and exec of a program that it starts, the other process holds its sockets for some milliseconds more.
///
/// # Panics
/// If the child does not listen, or ends; `printed` then says what it wrote.
pub fn listener(socket: &Path, child: &mut Child, printed: impl Fn() -> String) {
    eventually(&format!("{} to be served", socket.display()), || {
        let ended = child.try_wait().expect("a child can be asked about");
        assert!(ended.is_none(), "process {} ended with {ended:?}: {}", child.id(), printed());
        let stream = UnixStream::connect(socket).map_err(|error| error.to_string())?;
        let server = socket_peercred(&stream).map_err(|error| error.to_string())?.pid;
        match u32::try_from(server.as_raw_nonzero().get()) == Ok(child.id()) {
            true => Ok(()),
            false => Err(format!("process {server:?} listens")),
        }
    });
}

/// Waits until a TCP port accepts.
///
/// # Panics
/// If it does not.
pub fn port(address: SocketAddr) -> TcpStream {
    eventually(&format!("{address} to accept"), || TcpStream::connect(address))
}

/// Waits until a child has ended.
///
/// # Panics
/// If it does not end; it is killed then.
pub fn end_of(child: &mut Child, what: &str) -> ExitStatus {
    end_within(child, LIMIT, what)
}

/// As [`end_of`] with another limit.
///
/// # Panics
/// If it does not end within the scaled `limit`; it is killed then.
pub fn end_within(child: &mut Child, limit: Duration, what: &str) -> ExitStatus {
    try_end_of(child, limit).unwrap_or_else(|| {
        let observed = procfs::describe(child.id().cast_signed());
        // It is our own child and unreaped: its pid cannot be somebody else's.
        child.kill().ok();
        child.wait().ok();
        panic!("waited {:?} in vain for {what} to end; observed last: {observed}", scaled(limit))
    })
}

/// Waits until a child has ended or the scaled `limit` has passed.
///
/// # Panics
/// If it is not a child that can be waited for.
pub fn try_end_of(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let process = Identity::of(child.id().cast_signed());
    if process.is_some_and(|process| !process_end(process, limit)) {
        return None;
    }
    Some(child.wait().expect("our own child can be waited for"))
}

/// Waits until a process has ended or the scaled `limit` has passed; says whether it has ended.
pub fn process_end(process: Identity, limit: Duration) -> bool {
    let end = Instant::now() + scaled(limit);
    let Some(pid) = Pid::from_raw(process.pid) else { return true };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return !process.alive() };
    // Asked after the handle was opened: from now on both are the same process.
    if !process.alive() {
        return true;
    }
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a limit of a test is short");
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left)) {
            Ok(0) => return !process.alive(),
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("a process cannot be waited for: {error}"),
        }
    }
}

/// Reads again after an interruption: a read with a time limit ends with one when the whole machine was held up, as by a
/// snapshot.
///
/// # Errors
/// As `Read::read` otherwise.
pub fn read(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
