//! From bytes to lines.
//!
//! A line of up to 1,048,575 bytes is handed out, without its newline and without one carriage
//! return before that; one byte more is an error, as soon as it is known and whatever follows.
//! Empty lines are dropped. What is left when the client stops sending is a line too.
//!
//! The buffer never holds more than one line that is not complete yet.

/// The first length that is not served any more, newline excluded.
pub const LINE_LIMIT: usize = 1024 * 1024;

/// What a fresh or idle connection holds.
const SMALL: usize = 8 * 1024;
/// What is read at once from a client that has much to say.
const LARGE: usize = 64 * 1024;

/// A line grew past the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line too long")]
pub struct TooLong;

/// Bytes that have arrived and are not handed out yet.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the first line that was not handed out starts.
    start: usize,
    /// Up to where there is known to be no newline.
    searched: usize,
}

impl LineBuffer {
    /// Makes room and gives the buffer to append what arrives next.
    pub fn room(&mut self) -> &mut Vec<u8> {
        let filled = self.bytes.len() == self.bytes.capacity();
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > LARGE {
            self.bytes = Vec::new();
        }
        let wanted = if filled && self.bytes.capacity() > 0 { LARGE } else { SMALL };
        if self.bytes.capacity() - self.bytes.len() < wanted / 2 {
            self.bytes.reserve(wanted);
        }
        &mut self.bytes
    }

    /// The next complete line, if there is one.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, TooLong> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.bytes[self.searched..]) else {
                self.searched = self.bytes.len();
                if self.searched - self.start >= LINE_LIMIT {
                    return Err(TooLong);
                }
                return Ok(None);
            };
            let end = self.searched + found;
            let start = std::mem::replace(&mut self.start, end + 1);
            self.searched = end + 1;
            if end - start >= LINE_LIMIT {
                return Err(TooLong);
            }
            let line = without_return(start, end, &self.bytes);
            if !line.is_empty() {
                return Ok(Some(&self.bytes[line]));
            }
        }
    }

    /// What is left once the client will send no more and [`Self::next_line`] has nothing.
    pub fn last_line(&mut self) -> Option<&[u8]> {
        let line = without_return(self.start, self.bytes.len(), &self.bytes);
        self.start = self.bytes.len();
        self.searched = self.start;
        (!line.is_empty()).then(|| &self.bytes[line])
    }
}

fn without_return(start: usize, end: usize, bytes: &[u8]) -> std::ops::Range<usize> {
    let returned = end > start && bytes[end - 1] == b'\r';
    start..end - usize::from(returned)
}

/// Hands every line of `bytes` to `line`, as a connection that received them and then ended would.
pub fn each_line(bytes: &[u8], mut line: impl FnMut(&[u8])) -> Result<(), TooLong> {
    let mut buffer = LineBuffer::default();
    for chunk in bytes.chunks(LARGE) {
        buffer.room().extend_from_slice(chunk);
        while let Some(found) = buffer.next_line()? {
            line(found);
        }
    }
    if let Some(found) = buffer.last_line() {
        line(found);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8]) -> (Vec<Vec<u8>>, Result<(), TooLong>) {
        let mut found = Vec::new();
        let outcome = each_line(bytes, |line| found.push(line.to_vec()));
        (found, outcome)
    }

    #[test]
    fn ends_and_empties() {
        let (found, outcome) = lines(b"a\n\n\r\nb\r\n\r\r\n c \nlast\r");
        assert_eq!(outcome, Ok(()));
        let expected: [&[u8]; 5] = [b"a", b"b", b"\r", b" c ", b"last"];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_longest_line_is_served_and_one_byte_more_is_not() {
        let mut bytes = vec![b'x'; LINE_LIMIT - 1];
        let longest = bytes.clone();
        assert_eq!(lines(&bytes), (vec![longest.clone()], Ok(())));
        bytes.push(b'\n');
        bytes.extend_from_slice(b"next\n");
        assert_eq!(lines(&bytes), (vec![longest, b"next".to_vec()], Ok(())));
        let mut bytes = b"first\n".to_vec();
        bytes.resize(bytes.len() + LINE_LIMIT, b'x');
        assert_eq!(lines(&bytes), (vec![b"first".to_vec()], Err(TooLong)));
        bytes.extend_from_slice(b"\nnever\n");
        assert_eq!(lines(&bytes), (vec![b"first".to_vec()], Err(TooLong)));
    }

    #[test]
    fn memory_goes_back_after_a_long_line() {
        let mut buffer = LineBuffer::default();
        let mut line = vec![b'x'; LINE_LIMIT - 1];
        line.push(b'\n');
        for chunk in line.chunks(10_000) {
            buffer.room().extend_from_slice(chunk);
        }
        assert_eq!(buffer.next_line().unwrap().map(<[u8]>::len), Some(LINE_LIMIT - 1));
        assert_eq!(buffer.next_line(), Ok(None));
        assert!(buffer.room().capacity() <= LARGE);
    }

    proptest! {
        #[test]
        fn how_bytes_arrive_does_not_matter(
            text in "[ab\r\n]{0,200}",
            cuts in proptest::collection::vec(1usize..20, 1..40),
        ) {
            let mut buffer = LineBuffer::default();
            let mut found: Vec<Vec<u8>> = Vec::new();
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                rest = after;
                buffer.room().extend_from_slice(chunk);
                while let Some(line) = buffer.next_line().unwrap() {
                    found.push(line.to_vec());
                }
            }
            if let Some(line) = buffer.last_line() {
                found.push(line.to_vec());
            }
            let expected: Vec<Vec<u8>> = text
                .split('\n')
                .map(|line| line.strip_suffix('\r').unwrap_or(line).as_bytes().to_vec())
                .filter(|line| !line.is_empty())
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
