//! What the door tells the face around it while it works: lines for a terminal, nothing anybody needs.

use hostel_house::approvals::Approval;
use hostel_house::pipelines::Outcome;

/// Something that happened. Bytes are as the command printed them: whoever paints them makes them harmless first.
#[derive(Clone, Debug)]
pub enum Notice {
    /// A client of this session asked the door to end.
    Stopping {
        /// As it called itself.
        session: String,
    },
    /// A command runs that nobody was asked about, under the session's grant.
    Unasked {
        /// The request.
        approval: Box<Approval>,
    },
    /// A command is over; its answer is about to be sent.
    Over {
        /// The request.
        approval: Box<Approval>,
        /// How it ended, or why it did not.
        outcome: Result<Outcome, String>,
        /// The beginning of what the last stage printed.
        stdout: Head,
        /// The beginnings of what the stages wrote to their standard errors.
        stderr: Vec<Head>,
    },
}

/// The beginning of a stream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Head {
    /// A few lines, and no more than a few thousand bytes.
    pub bytes: Vec<u8>,
    /// There was more.
    pub is_cut: bool,
}

impl Head {
    /// Lines that are kept.
    pub const LINES: usize = 3;
    /// Bytes that are kept.
    pub const BYTES: usize = 2048;

    /// Takes the next piece of the stream. Says whether another one could still matter.
    pub(crate) fn take(&mut self, piece: &[u8]) -> bool {
        let mut lines = self.bytes.iter().filter(|byte| **byte == b'\n').count();
        for byte in piece {
            if lines >= Self::LINES || self.bytes.len() >= Self::BYTES {
                self.is_cut = true;
                return false;
            }
            lines += usize::from(*byte == b'\n');
            self.bytes.push(*byte);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pieces: &[&[u8]]) -> (String, bool) {
        let mut head = Head::default();
        for piece in pieces {
            if !head.take(piece) {
                break;
            }
        }
        (String::from_utf8(head.bytes).unwrap(), head.is_cut)
    }

    #[test]
    fn a_few_lines_and_a_few_bytes() {
        assert_eq!(head(&[b"a\nb", b"\nc\n"]), ("a\nb\nc\n".to_owned(), false));
        assert_eq!(head(&[b"a\nb\nc\nd"]), ("a\nb\nc\n".to_owned(), true));
        let (text, cut) = head(&[&[b'x'; 5000]]);
        assert_eq!((text.len(), cut), (Head::BYTES, true));
        assert_eq!(head(&[]), (String::new(), false));
    }
}
