//! The writing side of a connection.
//!
//! Whole lines only: whoever holds the turn writes its lines to the end before anyone else may
//! write. Frames are written directly, in turn, by the task that made them, so they cost no queue.
//! Short replies never wait: they are written at once if the turn is free and the socket takes
//! them, and are queued for a background writer otherwise, so that a client which does not read
//! can still be heard. The queue is bounded by the reader, which stops reading while it is full.

use super::flag::Flag;
use super::log::Log;
use hostel_house::workspace::{errno_of, errno_text};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Notify, OwnedMutexGuard};

/// The right to write, held for as long as the lines take.
pub(crate) type Turn = OwnedMutexGuard<OwnedWriteHalf>;

/// The writing side of one connection.
#[derive(Debug)]
pub(crate) struct Outbound {
    half: Arc<tokio::sync::Mutex<OwnedWriteHalf>>,
    replies: Mutex<Replies>,
    /// Told whenever queued replies have gone out.
    room: Notify,
    /// Set once a write has failed: nothing can be delivered any more.
    broken: Flag,
    /// How many bytes of replies may wait before the reader pauses.
    limit: usize,
    /// The two ends as Go names them in errors.
    route: String,
    log: Log,
}

#[derive(Debug, Default)]
struct Replies {
    waiting: Vec<u8>,
    /// Whether someone is on the way to write what waits.
    underway: bool,
}

impl Outbound {
    pub(crate) fn new(half: OwnedWriteHalf, limit: usize, route: String, log: Log) -> Arc<Self> {
        Arc::new(Self {
            half: Arc::new(tokio::sync::Mutex::new(half)),
            replies: Mutex::default(),
            room: Notify::new(),
            broken: Flag::default(),
            limit,
            route,
            log,
        })
    }

    /// Sends whole reply lines, now or as soon as the client takes them. Never waits.
    pub(crate) fn reply(self: &Arc<Self>, lines: &[u8]) {
        if lines.is_empty() || self.broken.is_set() {
            return;
        }
        {
            let mut replies = self.replies.lock();
            if replies.underway {
                replies.waiting.extend_from_slice(lines);
                return;
            }
            replies.underway = true;
        }
        let written = match Arc::clone(&self.half).try_lock_owned() {
            Ok(turn) => match write_now(&turn, lines) {
                Ok(written) if written == lines.len() => {
                    if self.nothing_waits() {
                        return;
                    }
                    return self.write_behind(Some(turn), Vec::new());
                }
                Ok(written) => {
                    return self.write_behind(Some(turn), lines[written..].to_vec());
                }
                Err(error) => return self.fail(&error, 0, lines.len()),
            },
            Err(_) => 0,
        };
        self.write_behind(None, lines[written..].to_vec());
    }

    /// Waits for the turn to write lines directly.
    pub(crate) async fn turn(&self) -> Turn {
        Arc::clone(&self.half).lock_owned().await
    }

    /// Writes a long reply directly, waiting as long as the client makes us.
    pub(crate) async fn send(&self, line: &[u8]) {
        let mut turn = self.turn().await;
        if let Err(error) = turn.write_all(line).await {
            self.fail(&error, 0, line.len());
        }
    }

    /// Whether so much waits that the reader should pause.
    pub(crate) fn is_full(&self) -> bool {
        self.replies.lock().waiting.len() > self.limit && !self.broken.is_set()
    }

    /// Returns when there is room for replies again.
    pub(crate) async fn room(&self) {
        self.until(Self::is_full).await;
    }

    /// Returns when every queued reply is written or can never be.
    pub(crate) async fn drained(&self) {
        self.until(|outbound| outbound.replies.lock().underway && !outbound.broken.is_set()).await;
    }

    /// The error of a write, in Go's words.
    pub(crate) fn error_text(&self, error: &io::Error) -> String {
        format!("write {}: write: {}", self.route, errno_text(errno_of(error)))
    }

    /// Records that nothing can be written any more.
    pub(crate) fn fail(&self, error: &io::Error, written: usize, wanted: usize) {
        let first = !self.broken.is_set();
        self.broken.set();
        *self.replies.lock() = Replies::default();
        self.room.notify_waiters();
        if first {
            let text = self.error_text(error);
            self.log.debug(format_args!("[Server] writeResponse: wrote {written}/{wanted} bytes, error={text}"));
            self.log.error(format_args!("[Server] Failed to write response: {text}"));
        }
    }

    async fn until(&self, busy: impl Fn(&Self) -> bool) {
        loop {
            let changed = self.room.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !busy(self) {
                return;
            }
            changed.await;
        }
    }

    /// Ends the flush if nothing came in meanwhile.
    fn nothing_waits(&self) -> bool {
        let mut replies = self.replies.lock();
        if replies.waiting.is_empty() {
            replies.underway = false;
            // Long replies may have left a long buffer.
            if replies.waiting.capacity() > self.limit {
                replies.waiting = Vec::new();
            }
            return true;
        }
        false
    }

    fn write_behind(self: &Arc<Self>, turn: Option<Turn>, rest: Vec<u8>) {
        let outbound = Arc::clone(self);
        hostel_tasks::spawn(async move {
            let mut turn = match turn {
                Some(turn) => turn,
                None => outbound.turn().await,
            };
            let mut lines = rest;
            loop {
                if let Err(error) = turn.write_all(&lines).await {
                    return outbound.fail(&error, 0, lines.len());
                }
                lines.clear();
                if outbound.nothing_waits() {
                    break;
                }
                std::mem::swap(&mut lines, &mut outbound.replies.lock().waiting);
                outbound.room.notify_waiters();
            }
            outbound.room.notify_waiters();
        });
    }
}

/// Writes as much as the socket takes without waiting.
fn write_now(half: &OwnedWriteHalf, lines: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < lines.len() {
        match half.try_write(&lines[written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::super::log::Level;
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    fn pair(limit: usize) -> (UnixStream, Arc<Outbound>, tokio::net::unix::OwnedReadHalf) {
        let (client, server) = UnixStream::pair().unwrap();
        let (read, write) = server.into_split();
        let log = Log::new(Level::Error, std::io::sink()).unwrap();
        (client, Outbound::new(write, limit, "unix a->@".into(), log), read)
    }

    #[tokio::test]
    async fn replies_to_a_client_that_does_not_read_wait_in_order() {
        let (mut client, outbound, _read) = pair(1000);
        let mut expected = Vec::new();
        let mut count = 0;
        while !outbound.is_full() {
            let line = format!("line {count}\n");
            outbound.reply(line.as_bytes());
            expected.extend_from_slice(line.as_bytes());
            count += 1;
        }
        let sender = Arc::clone(&outbound);
        let frame = tokio::spawn(async move {
            let mut turn = sender.turn().await;
            turn.write_all(b"frame\n").await.unwrap();
        });
        expected.extend_from_slice(b"frame\n");
        let mut received = vec![0; expected.len()];
        client.read_exact(&mut received).await.unwrap();
        frame.await.unwrap();
        outbound.room().await;
        outbound.drained().await;
        assert!(received == expected);
        outbound.reply(b"last\n");
        let mut last = [0; 5];
        client.read_exact(&mut last).await.unwrap();
        assert_eq!(&last, b"last\n");
    }

    #[tokio::test]
    async fn a_client_that_is_gone_ends_every_wait() {
        let (client, outbound, _read) = pair(10);
        while !outbound.is_full() {
            outbound.reply(&[b'x'; 4096]);
        }
        drop(client);
        outbound.room().await;
        outbound.drained().await;
        outbound.reply(b"never\n");
        assert!(!outbound.is_full());
    }
}
