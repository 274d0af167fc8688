//! Lines that are a function of a seed: what a chatting child prints, and what a client must see.
//!
//! Child and client make the same lines from the same seed, so a stream of any length can be checked as
//! it comes, without keeping it.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use crate::random::Random;

/// An endless sequence of numbered lines.
#[derive(Debug, Clone)]
pub struct Lines {
    name: String,
    random: Random,
    number: u64,
    large: bool,
}

impl Lines {
    /// What a child of this seed prints on one stream (`out` or `err`).
    pub fn new(name: &str, seed: u64) -> Self {
        let salt = name.bytes().fold(0_u64, |sum, byte| sum * 257 + u64::from(byte));
        Self { name: name.to_owned(), random: Random::new(seed ^ salt), number: 0, large: true }
    }

    /// The same without the lines that are larger than a frame.
    pub fn small(name: &str, seed: u64) -> Self {
        Self { large: false, ..Self::new(name, seed) }
    }

    /// Appends the next line and gives the pause its speaker takes after it.
    pub fn append_next(&mut self, text: &mut Vec<u8>) -> Duration {
        self.number += 1;
        text.extend_from_slice(format!("{} {:08} ", self.name, self.number).as_bytes());
        // Mostly short lines, now and then more than a frame.
        let long = self.random.below(200) == 0 && self.large;
        let padding = self.random.below(if long { 70_000 } else { 120 });
        text.extend((0..padding).map(|place| b'a' + (place % 26) as u8));
        text.push(b'\n');
        Duration::from_micros(self.random.below(8000))
    }
}

/// Compares a stream with the lines it must consist of.
#[derive(Debug, Clone)]
pub struct Checker {
    lines: Lines,
    expected: Vec<u8>,
    /// How many bytes were right so far.
    pub bytes: u64,
}

impl Checker {
    /// A stream that must consist of these lines.
    pub fn new(lines: Lines) -> Self {
        Self { lines, expected: Vec::new(), bytes: 0 }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// Where and how they differ from what must come.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        while self.expected.len() < bytes.len() {
            self.lines.append_next(&mut self.expected);
        }
        if self.expected[..bytes.len()] == *bytes {
            self.expected.drain(..bytes.len());
            self.bytes += bytes.len() as u64;
            return Ok(());
        }
        let place = self.expected.iter().zip(bytes).position(|(one, other)| one != other).unwrap_or(0);
        let show = |text: &[u8]| String::from_utf8_lossy(&text[place..text.len().min(place + 60)]).into_owned();
        Err(format!(
            "stream {:?} differs at byte {}: expected {:?}, got {:?}",
            self.lines.name,
            self.bytes + place as u64,
            show(&self.expected),
            show(bytes)
        ))
    }

    /// Checks a whole file and gives its length.
    ///
    /// # Errors
    /// If it cannot be read or differs.
    pub fn take_file(mut self, path: &Path) -> Result<u64, String> {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut reader = BufReader::new(file);
        let mut chunk = vec![0_u8; 65536];
        loop {
            let count = reader.read(&mut chunk).map_err(|error| format!("{}: {error}", path.display()))?;
            if count == 0 {
                return Ok(self.bytes);
            }
            self.take(&chunk[..count])?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_right_in_any_pieces_and_wrong_after_one_byte() {
        let mut text = Vec::new();
        let mut lines = Lines::new("out", 5);
        for _ in 0..1000 {
            lines.append_next(&mut text);
        }
        let mut checker = Checker::new(Lines::new("out", 5));
        for piece in text.chunks(777) {
            checker.take(piece).expect("the same seed gives the same lines");
        }
        assert_eq!(checker.bytes, text.len() as u64);
        let mut checker = Checker::new(Lines::new("out", 5));
        text[4321] ^= 1;
        let reason = checker.take(&text).expect_err("a changed byte is seen");
        assert!(reason.contains("byte 4321"), "{reason}");
        assert!(Checker::new(Lines::new("err", 5)).take(&text[..100]).is_err());
    }
}
