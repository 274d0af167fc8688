//! A client's socket, watched: how it ended and what certainly never arrived.
//!
//! A server cannot know what a vanished client has read, but it can know what it cannot have read: what is still in
//! our buffers, what the kernel has not had acknowledged, and, for a client of this machine, what lies unread in its
//! own socket. [`Line`] keeps these facts; [`Wire`] is the socket as the HTTP layer uses it.
//!
//! The socket stays open as long as its `Line` is held, because a closed one answers no questions.

use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use hostel_peer::tcp::{self, Socket};

/// What the layers between us and the socket may hold back unseen.
const HIDDEN_BY_LAYERS: u64 = 1024 * 1024;

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Layers {
    /// HTTP/1.1 on TCP.
    Plain,
    /// HTTP/1.1 in TLS.
    Tls,
    /// HTTP/2 in TLS, several streams at once.
    Multiplexed,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Ending {
    /// Bytes that certainly did not arrive.
    pub(super) unsent: u64,
    /// Bytes of an unfinished answer that may not even have been sent.
    pub(super) hidden: u64,
    /// Whether what arrived was also read.
    pub(super) read: bool,
}

/// What is known about a connection's socket.
#[derive(Debug)]
pub(super) struct Line {
    stream: TcpStream,
    local: SocketAddr,
    remote: SocketAddr,
    /// Bytes the HTTP layer offered with its last write and the kernel did not take.
    refused: AtomicUsize,
    /// Bytes given to the HTTP layer since its last write.
    given: AtomicUsize,
    /// The client has closed its side.
    ended: AtomicBool,
    /// Reading or writing has failed.
    broken: AtomicBool,
    /// The socket when its end was read: after a goodbye of ours it cannot be seen how the client closed it.
    at_end: OnceLock<Option<Socket>>,
    /// Bytes that were written after that.
    late: AtomicUsize,
}

impl Ending {
    /// Nothing is missing.
    pub(super) const FINE: Self = Self { unsent: 0, hidden: 0, read: true };

    /// How much of an answer may be missing at its end, for a client that may be `behind` in reading.
    pub(super) fn missing(self, behind: u64, finished: bool) -> u64 {
        // A finished answer left every layer before the connection came to a proper end.
        if finished && self.read && self.unsent == 0 {
            return 0;
        }
        // Read from the socket is not read by the program: what its own buffers held is lost with it. What was noted as
        // read before (once a second) is not in question.
        self.unsent.saturating_add(self.hidden).saturating_add(behind)
    }
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> io::Result<Arc<Self>> {
        // Events are small and wanted at once.
        stream.set_nodelay(true)?;
        let (local, remote) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(Arc::new(Self {
            stream,
            local,
            remote,
            refused: AtomicUsize::new(0),
            given: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            at_end: OnceLock::new(),
            late: AtomicUsize::new(0),
        }))
    }

    pub(super) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Whether the client is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.remote.ip().to_canonical().is_loopback()
    }

    /// These bytes of a body are the HTTP layer's now.
    pub(super) fn give(&self, bytes: usize) {
        self.given.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that are still ours: given to the HTTP layer, and not taken by the kernel.
    pub(super) fn held_back(&self, layers: Layers) -> u64 {
        self.known_held_back() + hidden(layers)
    }

    /// Without what the layers between may hold unseen.
    pub(super) fn known_held_back(&self) -> u64 {
        (self.refused.load(Ordering::Relaxed) + self.given.load(Ordering::Relaxed)) as u64
    }

    /// Bytes the client has not read yet, if that can be known.
    pub(super) fn unread(&self, layers: Layers) -> Option<u64> {
        if layers == Layers::Multiplexed || !self.is_local() {
            return None;
        }
        let ours = tcp::look_up(self.local, self.remote).ok()??;
        let theirs = tcp::look_up(self.remote, self.local).ok()??;
        Some(self.held_back(layers) + ours.unsent + theirs.unread)
    }

    /// Whether the client has gone, as far as the kernel knows.
    pub(super) fn is_gone(&self) -> bool {
        match tcp::look_up(self.local, self.remote) {
            Ok(socket) => !socket.is_some_and(|socket| socket.is_open()),
            Err(_) => self.ended.load(Ordering::Relaxed) || self.broken.load(Ordering::Relaxed),
        }
    }

    /// How it ended, asked when nobody reads or writes any more.
    pub(super) fn ending(&self, layers: Layers) -> Ending {
        let (unsent, hidden) = (self.known_held_back(), hidden(layers));
        let broken = Ending { unsent, hidden, read: false };
        if self.broken.load(Ordering::Relaxed) {
            return broken;
        }
        if !self.ended.load(Ordering::Relaxed) {
            // We have ended it ourselves; what the kernel holds it still delivers.
            return Ending { unsent, hidden, read: true };
        }
        match self.socket() {
            Some(socket) if socket.is_ended_by_peer() => {
                // TLS says goodbye to clients that are gone; nothing of an answer is in that.
                let late = if layers == Layers::Plain { self.late.load(Ordering::Relaxed) as u64 } else { 0 };
                Ending { unsent: unsent + socket.unsent + late, hidden, read: true }
            }
            // The end was followed by a reset: something arrived there that nobody read.
            _ => broken,
        }
    }

    fn socket(&self) -> Option<Socket> {
        *self.at_end.get_or_init(|| tcp::look_up(self.local, self.remote).ok().flatten())
    }

    fn failed(&self, error: &io::Error) {
        if error.kind() != io::ErrorKind::WouldBlock {
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a write of `offered` bytes.
    fn wrote(&self, offered: usize, written: usize) {
        self.given.store(0, Ordering::Relaxed);
        self.refused.store(offered - written.min(offered), Ordering::Relaxed);
        if self.ended.load(Ordering::Relaxed) {
            self.late.fetch_add(written, Ordering::Relaxed);
        }
    }

    fn poll_write(
        &self,
        context: &mut Context<'_>,
        offered: usize,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        self.wrote(offered, 0);
        loop {
            if let Err(error) = ready!(self.stream.poll_write_ready(context)) {
                self.failed(&error);
                return Poll::Ready(Err(error));
            }
            match write(&self.stream) {
                Ok(written) => {
                    self.wrote(offered, written);
                    return Poll::Ready(Ok(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.failed(&error);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

/// What the layers between us and the socket may hold.
fn hidden(layers: Layers) -> u64 {
    match layers {
        Layers::Plain => 0,
        Layers::Tls | Layers::Multiplexed => HIDDEN_BY_LAYERS,
    }
}

/// The socket as it is read and written.
#[derive(Debug)]
pub(super) struct Wire(pub(super) Arc<Line>);

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let line = &self.0;
        loop {
            if let Err(error) = ready!(line.stream.poll_read_ready(context)) {
                line.failed(&error);
                return Poll::Ready(Err(error));
            }
            match line.stream.try_read_buf(buffer) {
                Ok(0) => {
                    line.ended.store(true, Ordering::Relaxed);
                    line.socket();
                    return Poll::Ready(Ok(()));
                }
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    line.failed(&error);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, bytes.len(), |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        self.0.poll_write(context, offered, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A client that is gone already needs no goodbye.
        rustix::net::shutdown(&self.0.stream, rustix::net::Shutdown::Write).ok();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use std::io::Read as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    async fn pair() -> (std::net::TcpStream, Arc<Line>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, Line::new(listener.accept().await.unwrap().0).unwrap())
    }

    #[tokio::test]
    async fn a_reader_that_leaves_has_read_everything() {
        let (mut client, line) = pair().await;
        let mut wire = Wire(Arc::clone(&line));
        wire.write_all(b"hello").await.unwrap();
        assert_eq!(line.unread(Layers::Plain), Some(5));
        client.read_exact(&mut [0; 5]).unwrap();
        assert_eq!(line.unread(Layers::Plain), Some(0));
        assert!(!line.is_gone());
        drop(client);
        assert_eq!(wire.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(line.is_gone());
        wire.shutdown().await.unwrap();
        assert_eq!(line.ending(Layers::Plain), Ending::FINE);
        assert_eq!(line.ending(Layers::Tls).missing(1 << 30, true), 0);
        assert!(line.ending(Layers::Tls).missing(1 << 30, false) > 0);
    }

    #[tokio::test]
    async fn one_that_leaves_something_unread_is_noticed() {
        let (client, line) = pair().await;
        let mut wire = Wire(Arc::clone(&line));
        wire.write_all(b"hello").await.unwrap();
        drop(client);
        assert!(wire.read(&mut [0; 8]).await.is_err());
        assert!(!line.ending(Layers::Plain).read);
    }

    #[tokio::test]
    async fn what_arrives_after_the_end_was_not_read() {
        let (client, line) = pair().await;
        let mut wire = Wire(Arc::clone(&line));
        drop(client);
        assert_eq!(wire.read(&mut [0; 8]).await.unwrap(), 0);
        wire.write_all(b"too late").await.unwrap();
        assert_eq!(line.ending(Layers::Plain).missing(0, true), 8);
    }

    #[tokio::test]
    async fn what_the_kernel_does_not_take_is_counted() {
        let (client, line) = pair().await;
        let mut wire = Wire(Arc::clone(&line));
        line.give(100);
        assert_eq!(line.held_back(Layers::Plain), 100);
        let block = vec![0; 64 * 1024];
        let filled = tokio::time::timeout(std::time::Duration::from_millis(200), async {
            loop {
                wire.write_all(&block).await.unwrap();
            }
        });
        assert!(filled.await.is_err(), "nobody reads, so writing must come to a halt");
        assert!(line.held_back(Layers::Plain) > 0);
        assert!(line.unread(Layers::Plain).unwrap() > 64 * 1024);
        drop(client);
    }
}
