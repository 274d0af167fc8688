//! Entry points for fuzz targets: everything here is a pure function of a stranger's bytes.
//!
//! They return what was produced so that a target can check it; they never check by themselves.

use super::lines::{Found, Lines, Place};

/// A place in a journal: so many frames are done with, and so many bytes of the next one of standard output.
pub type At = (u64, u64);

/// A line of an agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Line {
    /// Without its newline.
    Whole(Vec<u8>),
    /// Too long to be read; its length.
    TooLong(u64),
}

/// Puts the lines of `frames` together, each with the place behind it, beginning at `from`. Before each line that
/// `pauses` says, reading pauses as it does at the end of a turn. Also gives the place to go on from and the
/// last line, if it had no newline.
pub fn lines(
    frames: &[(u64, &[u8])],
    limit: usize,
    from: At,
    pauses: impl Fn(usize) -> bool,
) -> (Vec<(Line, At)>, At, Option<Vec<u8>>) {
    let mut lines = Lines::new(limit, Place { seq: from.0, skip: from.1 });
    let mut found = Vec::new();
    for (seq, data) in frames {
        let mut at = 0;
        while at < data.len() {
            at = lines.frame(*seq, data, at, |line, place| {
                let line = match line {
                    Found::Line(line) => Line::Whole(line.to_vec()),
                    Found::TooLong(length) => Line::TooLong(length),
                };
                found.push((line, (place.seq, place.skip)));
                !pauses(found.len())
            });
        }
    }
    let place = lines.place();
    (found, (place.seq, place.skip), lines.last())
}
