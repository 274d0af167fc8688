//! One connection of a caller that expects to lose it at any moment: nothing here panics.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use hostel_tests::wait;
use serde_json::Value;

/// A connection to a daemon's socket, for one request after the other.
pub(super) struct Line {
    socket: UnixStream,
    buffer: Vec<u8>,
}

impl Line {
    pub(super) fn open(socket: &Path) -> io::Result<Self> {
        Ok(Self { socket: UnixStream::connect(socket)?, buffer: Vec::new() })
    }

    /// Status and JSON of the answer; an error means that nobody knows what became of the request.
    pub(super) fn request(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
        limit: Duration,
    ) -> io::Result<(u16, Value)> {
        let end = Instant::now() + limit;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: hostel-tests/1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.socket.set_write_timeout(Some(limit))?;
        self.socket.write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
        self.buffer.clear();
        let (head, length) = loop {
            if let Some(at) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.buffer[..at]).to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
                break (head, at + 4 + length.unwrap_or(0_usize));
            }
            self.fill(end)?;
        };
        while self.buffer.len() < length {
            self.fill(end)?;
        }
        let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| wrong("no status"))?;
        let from = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n").map_or(0, |at| at + 4);
        let json = serde_json::from_slice(&self.buffer[from..length]).map_err(|_| wrong("no JSON"))?;
        Ok((status, json))
    }

    fn fill(&mut self, end: Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        let mut bytes = [0; 64 * 1024];
        match wait::read(&mut self.socket, &mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            got => {
                self.buffer.extend_from_slice(&bytes[..got]);
                Ok(())
            }
        }
    }
}

/// Whether the time was up, and not the connection gone: the daemon may still be at it.
pub(super) fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}
