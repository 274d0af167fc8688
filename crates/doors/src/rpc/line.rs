//! Lines from a socket, with a bound.
//!
//! Invariant: never more than the limit is held in memory for one line; the buffer is reused between lines.

use std::io;

use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt as _;

/// How much is asked of the socket at once.
const READ_SIZE: usize = 64 << 10;

/// Splits what a socket delivers into lines.
#[derive(Debug)]
pub struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Up to here no newline was found.
    scanned: usize,
    limit: usize,
}

/// What reading a line can end in, besides an error of the socket.
#[derive(Debug, Eq, PartialEq)]
pub enum Line {
    /// There is a line; `LineReader::line` has its bytes.
    Ready(std::ops::Range<usize>),
    /// The other side closed, with nothing or half a line before.
    Closed,
    /// The line is longer than the limit.
    TooLong,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Lines of `source`, none longer than `limit`.
    pub fn new(source: R, limit: usize) -> Self {
        LineReader { source, buffer: Vec::new(), start: 0, scanned: 0, limit }
    }

    /// Waits for the next line. Giving up waiting loses nothing: what was read stays in the buffer.
    ///
    /// # Errors
    /// Whatever the socket reports.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let unseen = self.buffer.get(self.scanned..).unwrap_or_default();
            if let Some(found) = memchr::memchr(b'\n', unseen) {
                let end = self.scanned + found;
                let range = self.start..end;
                self.start = end + 1;
                self.scanned = self.start;
                return Ok(if range.len() > self.limit { Line::TooLong } else { Line::Ready(range) });
            }
            self.scanned = self.buffer.len();
            if self.buffer.len() - self.start > self.limit {
                return Ok(Line::TooLong);
            }
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.scanned -= self.start;
                self.start = 0;
            }
            // A huge line's buffer is given back once small lines follow.
            if self.buffer.is_empty() && self.buffer.capacity() > 4 * READ_SIZE {
                self.buffer = Vec::new();
            }
            self.buffer.reserve(READ_SIZE);
            if self.source.read_buf(&mut self.buffer).await? == 0 {
                return Ok(Line::Closed);
            }
        }
    }

    /// What came after the last newline; all of it, once `next` said `Closed`.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Where the bytes come from.
    #[must_use]
    pub fn source(&self) -> &R {
        &self.source
    }

    /// Reads and throws away until the other side has closed: one that is still sending would otherwise not hear why.
    pub async fn discard(&mut self) {
        loop {
            self.buffer.clear();
            self.buffer.shrink_to(READ_SIZE);
            self.buffer.reserve(READ_SIZE);
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    /// The bytes of the line that `next` announced last.
    #[must_use]
    pub fn line(&self, range: &std::ops::Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8], limit: usize) -> (Vec<Vec<u8>>, Line) {
        let mut reader = LineReader::new(input, limit);
        let mut lines = Vec::new();
        loop {
            match reader.next().await.unwrap() {
                Line::Ready(range) => lines.push(reader.line(&range).to_vec()),
                end => return (lines, end),
            }
        }
    }

    #[tokio::test]
    async fn lines_up_to_the_limit_and_no_longer() {
        let (lines, end) = all(b"a\n\nbcd\nhalf", 3).await;
        assert_eq!(lines, [&b"a"[..], b"", b"bcd"]);
        assert_eq!(end, Line::TooLong);
        assert_eq!(all(b"ab\nhal", 3).await.1, Line::Closed);
        assert_eq!(all(b"abcd\n", 3).await, (Vec::new(), Line::TooLong));
        let long = [vec![b'x'; 200_000], b"\nshort\n".to_vec()].concat();
        assert_eq!(all(&long, 200_000).await.0.len(), 2);
    }

    #[tokio::test]
    async fn what_is_left_at_the_end_can_be_had() {
        let mut reader = LineReader::new(&b"a\nhalf"[..], 10);
        assert_eq!(reader.next().await.unwrap(), Line::Ready(0..1));
        assert_eq!(reader.next().await.unwrap(), Line::Closed);
        assert_eq!(reader.rest(), b"half");
        let mut reader = LineReader::new(&b"a\n"[..], 10);
        reader.next().await.unwrap();
        assert_eq!(reader.next().await.unwrap(), Line::Closed);
        assert_eq!(reader.rest(), b"");
    }
}
