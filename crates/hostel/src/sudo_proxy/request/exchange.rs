//! One request to a daemon and its answer, also across a restart of the daemon.
//!
//! Invariant: the bytes that are sent again are the bytes that were sent, under the same id: a daemon of ours takes the old
//! request up wherever it stands, so nothing is asked or run twice. To a daemon that is not ours nothing is sent again.

use std::io;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

/// How long sending may take.
const SENDING: Duration = Duration::from_secs(5);

/// The longest answer that is read: more than the largest one there is with the default limits.
const LONGEST: u64 = 1 << 30;

/// For how long a daemon that went away is looked for: as long as it keeps a request for who comes back.
const REJOIN: Duration = Duration::from_secs(10);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What a daemon with this door may be called.
const OUR_NAMES: [&str; 2] = ["hostel", crate::sudo_proxy::NAME];

/// Sends a line and reads one.
pub(super) fn ask(socket: &Path, line: &[u8], limit: Option<Duration>) -> Result<String, String> {
    let connect = || UnixStream::connect(socket);
    let mut stream = connect().map_err(|error| format!("could not connect to {}: {error}", socket.display()))?;
    let mut gone: Option<Instant> = None;
    loop {
        // While it lives: afterwards nobody can say whose it was.
        let ours = is_ours(&stream);
        let lost = match once(&stream, line, limit) {
            Ok(answer) => return Ok(answer),
            Err(Failure::Final(message)) => return Err(message),
            Err(Failure::Lost(message)) if ours => message,
            Err(Failure::Lost(message)) => return Err(message),
        };
        let since = *gone.get_or_insert_with(Instant::now);
        stream = loop {
            if since.elapsed() >= REJOIN {
                return Err(lost);
            }
            match connect() {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(LOOK),
            }
        };
    }
}

/// Why there is no answer.
enum Failure {
    /// The daemon went away; a new one may know the request.
    Lost(String),
    Final(String),
}

fn once(mut stream: &UnixStream, line: &[u8], limit: Option<Duration>) -> Result<String, Failure> {
    let prepared = stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(Some(SENDING)));
    prepared.map_err(|error| Failure::Final(format!("write failed: {error}")))?;
    // A door that refuses while we still send has its answer ready all the same.
    let sent = stream.write_all(line);
    let mut answer = String::new();
    let read = BufReader::new(stream).take(LONGEST).read_line(&mut answer);
    match (sent, read) {
        // Half an answer of a daemon that died is none.
        (_, Ok(length)) if length > 0 && (answer.ends_with('\n') || is_whole(&answer)) => Ok(answer),
        (Err(error), _) => Err(Failure::Lost(format!("write failed: {error}"))),
        (Ok(()), Ok(_)) => Err(Failure::Lost("server closed connection without response".to_owned())),
        (Ok(()), Err(error)) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            let seconds = limit.unwrap_or_default().as_secs();
            let message = format!("no response from daemon after {seconds}s — it may be wedged or waiting on a prompt");
            Err(Failure::Final(message))
        }
        (Ok(()), Err(error)) => Err(Failure::Lost(format!("read failed: {error}"))),
    }
}

/// Whether an answer without a line's end is complete all the same.
fn is_whole(answer: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(answer).is_ok()
}

/// Whether the program at the other end is this one. A program that was replaced while it runs still has its name; a
/// daemon of ours hides its file from everybody but root, and then its name is what there is.
fn is_ours(stream: &UnixStream) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    let pid = peer.pid.as_raw_nonzero().get().to_string();
    let exe = |process: &str| std::fs::read_link(format!("/proc/{process}/exe")).map(without_mark);
    match (exe(&pid), exe("self")) {
        (Ok(theirs), Ok(own)) => theirs == own,
        (Err(_), Ok(_)) => {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            OUR_NAMES.contains(&name.trim_end())
        }
        (_, Err(_)) => false,
    }
}

fn without_mark(path: PathBuf) -> PathBuf {
    let name = path.to_string_lossy();
    name.strip_suffix(" (deleted)").map(PathBuf::from).unwrap_or(path)
}
