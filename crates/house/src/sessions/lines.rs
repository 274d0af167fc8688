//! Lines out of frames of output, with the place of each in the journal.
//!
//! Invariant: never more than the limit is held for one line; a longer one is passed over to its end and counted.

/// A place in a journal: after this frame, and so many bytes into the next one of standard output.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Place {
    /// Frames up to this one are done with.
    pub(crate) seq: u64,
    /// Bytes of the next frame that are done with.
    pub(crate) skip: u64,
}

/// What splitting found.
pub(crate) enum Found<'a> {
    /// A line, without its newline.
    Line(&'a [u8]),
    /// The end of a line that was too long, with its length.
    TooLong(u64),
}

/// Puts lines together.
pub(crate) struct Lines {
    limit: usize,
    partial: Vec<u8>,
    /// Bytes of a line that is too long, so far.
    skipped: u64,
    /// Where the line begins that is being put together.
    begin: Place,
    /// Bytes of the first frame that had been taken before.
    resume_skip: u64,
}

impl Lines {
    pub(crate) fn new(limit: usize, from: Place) -> Self {
        Self { limit, partial: Vec::new(), skipped: 0, begin: from, resume_skip: from.skip }
    }

    /// Where the next line begins: everything before has been handed out.
    pub(crate) fn place(&self) -> Place {
        self.begin
    }

    /// Takes one frame and hands out the lines that end in it, one after the other, until `take` says stop; then
    /// returns how many bytes were used. Call again with the same frame and that offset to go on.
    pub(crate) fn frame(
        &mut self,
        seq: u64,
        data: &[u8],
        from: usize,
        mut take: impl FnMut(Found<'_>, Place) -> bool,
    ) -> usize {
        // The first frame after a checkpoint is one that was read in part before.
        let mut at = from.max(usize::try_from(std::mem::take(&mut self.resume_skip)).unwrap_or(usize::MAX));
        while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(end) = memchr::memchr(b'\n', rest) else {
                self.keep(rest);
                return data.len();
            };
            let piece = rest.get(..end).unwrap_or_default();
            at += end + 1;
            self.begin = Place { seq: seq - 1, skip: at as u64 };
            let go_on = if self.skipped > 0 || self.partial.len() + piece.len() > self.limit {
                let length = self.skipped + (self.partial.len() + piece.len()) as u64;
                self.skipped = 0;
                self.partial = Vec::new();
                take(Found::TooLong(length), self.begin)
            } else if self.partial.is_empty() {
                take(Found::Line(piece), self.begin)
            } else {
                self.partial.extend_from_slice(piece);
                let line = std::mem::take(&mut self.partial);
                let go_on = take(Found::Line(&line), self.begin);
                // A huge line's memory is given back.
                if line.capacity() <= 256 * 1024 {
                    self.partial = line;
                    self.partial.clear();
                }
                go_on
            };
            if !go_on {
                return at;
            }
        }
        data.len()
    }

    fn keep(&mut self, rest: &[u8]) {
        if self.skipped > 0 || self.partial.len() + rest.len() > self.limit {
            self.skipped += (self.partial.len() + rest.len()) as u64;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(rest);
        }
    }

    /// The last line, if it had no newline.
    pub(crate) fn last(&mut self) -> Option<Vec<u8>> {
        (!self.partial.is_empty()).then(|| std::mem::take(&mut self.partial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(frames: &[&str], limit: usize) -> (Vec<String>, Place, Option<Vec<u8>>) {
        let mut lines = Lines::new(limit, Place::default());
        let mut found = Vec::new();
        for (seq, frame) in (1..).zip(frames) {
            lines.frame(seq, frame.as_bytes(), 0, |line, _| {
                found.push(match line {
                    Found::Line(line) => String::from_utf8_lossy(line).into_owned(),
                    Found::TooLong(length) => format!("<{length}>"),
                });
                true
            });
        }
        let place = lines.place();
        (found, place, lines.last())
    }

    #[test]
    fn lines_across_frames_with_their_places() {
        let (found, place, last) = split(&["one\ntw", "o\n\nthr", "ee"], 100);
        assert_eq!(found, ["one", "two", ""]);
        assert_eq!(place, Place { seq: 1, skip: 3 });
        assert_eq!(last.as_deref(), Some(&b"three"[..]));
    }

    #[test]
    fn a_line_over_the_limit_is_counted_and_the_next_is_whole() {
        let (found, _, last) = split(&["abcdef", "ghi\nok\n", "123456"], 5);
        assert_eq!(found, ["<9>", "ok"]);
        assert_eq!(last, None);
    }

    #[test]
    fn reading_goes_on_in_the_middle_of_a_frame() {
        let mut lines = Lines::new(100, Place::default());
        let data = b"a\nb\nc\n";
        let mut first = Vec::new();
        let used = lines.frame(7, data, 0, |line, _| {
            if let Found::Line(line) = line {
                first.push(line.to_vec());
            }
            first.len() < 2
        });
        assert_eq!((used, lines.place()), (4, Place { seq: 6, skip: 4 }));
        let mut later = Lines::new(100, lines.place());
        let mut rest = Vec::new();
        later.frame(7, data, 0, |line, _| {
            if let Found::Line(line) = line {
                rest.push(line.to_vec());
            }
            true
        });
        assert_eq!(rest, [b"c".to_vec()]);
    }
}
