//! A client of the sudo-proxy door: one line out, one line in, a deadline on every read.

use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::wait;

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects and says nothing.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        Ok(Self { stream: UnixStream::connect(socket)?, buffer: Vec::new() })
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the daemon closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(wait::limit()))?;
        self.stream.write_all(bytes)
    }

    /// Says that nothing more will be sent.
    ///
    /// # Panics
    /// If the connection is broken.
    pub fn half_close(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a connection can be half closed");
    }

    /// The answer line, without its newline.
    ///
    /// # Errors
    /// If none comes in time, or the connection ends first.
    pub fn line(&mut self, limit: Duration) -> Result<String, String> {
        let end = Instant::now() + limit;
        let mut scanned = 0;
        loop {
            if let Some(at) = self.buffer[scanned..].iter().position(|byte| *byte == b'\n').map(|at| scanned + at) {
                let rest = self.buffer.split_off(at + 1);
                self.buffer.pop();
                let line = std::mem::replace(&mut self.buffer, rest);
                return String::from_utf8(line).map_err(|_| "the answer is not UTF-8".to_owned());
            }
            scanned = self.buffer.len();
            if self.fill(end)? == 0 {
                let so_far = String::from_utf8_lossy(&self.buffer);
                return Err(format!("the connection ended after {:?}", &so_far[..so_far.len().min(200)]));
            }
        }
    }

    /// Waits until the daemon has closed, with nothing more said.
    ///
    /// # Errors
    /// If something is said, or nothing happens in time.
    pub fn closed(&mut self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        if self.fill(end)? > 0 || !self.buffer.is_empty() {
            return Err(format!("more was said: {:?}", String::from_utf8_lossy(&self.buffer)));
        }
        Ok(())
    }

    /// Waits until the daemon has closed the connection, and reads nothing of what it sent before.
    ///
    /// # Panics
    /// If the connection stays open.
    pub fn wait_hangup(&self) {
        let mut events = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let limit = Timespec::try_from(wait::limit()).expect("a limit of a test is short");
        let ready = poll(&mut events, Some(&limit)).expect("a connection can be waited for");
        assert!(ready > 0, "waited {:?} in vain for the end of the connection", wait::limit());
    }

    /// Whether nothing comes, and the connection stays, for so long.
    ///
    /// # Errors
    /// What came.
    pub fn silent(&mut self, time: Duration) -> Result<(), String> {
        match self.fill(Instant::now() + time) {
            Err(_) => Ok(()),
            Ok(0) => Err("the connection ended".to_owned()),
            Ok(_) => Err(format!("something was said: {:?}", String::from_utf8_lossy(&self.buffer))),
        }
    }

    /// Reads at most so many bytes of the answer and gives how many there were.
    ///
    /// # Errors
    /// If none come in time.
    pub fn part(&mut self, most: usize, limit: Duration) -> Result<usize, String> {
        let mut piece = vec![0; most];
        self.stream.set_read_timeout(Some(limit)).map_err(|error| error.to_string())?;
        wait::read(&mut self.stream, &mut piece).map_err(|error| error.to_string())
    }

    fn fill(&mut self, end: Instant) -> Result<usize, String> {
        let mut piece = [0; 1 << 16];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("nothing came in time".to_owned());
            }
            self.stream.set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            match wait::read(&mut self.stream, &mut piece) {
                Ok(read) => {
                    self.buffer.extend_from_slice(&piece[..read]);
                    return Ok(read);
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("cannot read: {error}")),
            }
        }
    }
}
