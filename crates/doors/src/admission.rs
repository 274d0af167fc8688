//! How doors word what the accept loop has to tell: to the log, and to a connection that is not served.

use std::os::fd::AsFd;

use hostel_peer::accept::Notice;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use crate::claustrum::Log;

/// The most that is read and thrown away from a client that is not served.
const UNREAD: usize = 1 << 20;

/// Writes notices of a door's accept loop to the log.
pub(crate) fn notices_to(log: &Log, door: &'static str) -> impl Fn(Notice<'_>) + Send + Sync + 'static {
    let log = log.clone();
    move |notice| match notice {
        Notice::AcceptFailed(error) => log.warn(format_args!("{door}: accept error (retrying): {error}")),
        Notice::TurnedAway { peer, reason, silenced: 0 } => {
            log.warn(format_args!("{door}: refused a connection ({peer}): {reason}"));
        }
        Notice::TurnedAway { peer, reason, silenced } => {
            log.warn(format_args!("{door}: refused a connection ({peer}): {reason}; {silenced} others before it"));
        }
        Notice::Panicked(error) => log.error(format_args!("{door}: a connection's handler failed: {error}")),
    }
}

/// Answers an HTTP request that was not read, and will not be: a status line, a sentence, the end. Never waits.
pub(crate) fn refuse_http(stream: impl AsFd, status: &str, sentence: &str) {
    let length = sentence.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{sentence}"
    );
    say_at_once(&stream, answer.as_bytes());
    // One that is gone needs no end.
    rustix::net::shutdown(&stream, Shutdown::Write).ok();
    discard(&stream);
}

/// Sends a short line if the system takes it this moment. The system is asked, and not the runtime, which learns only
/// later that a fresh socket can be written to.
pub(crate) fn say_at_once(stream: impl AsFd, line: &[u8]) {
    rustix::net::send(stream, line, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok();
}

/// Throws away what has arrived: closing with unread bytes would look like a broken connection to the client.
pub(crate) fn discard(stream: impl AsFd) {
    let mut rest = [0; 16 << 10];
    let mut total = 0;
    while let Ok((_, read @ 1..)) = rustix::net::recv(&stream, &mut rest, RecvFlags::DONTWAIT) {
        total += read;
        if total > UNREAD {
            return;
        }
    }
}
