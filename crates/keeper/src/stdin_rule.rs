//! The rule that makes input resumable: what part of an offered chunk is new.
//!
//! A pure function, so that it can be tested over every case; the caller applies its verdict in
//! one step with the queue.

use crate::proto::Outcome;

/// The verdict on a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What to answer.
    pub outcome: Outcome,
    /// How many leading bytes of the chunk had been accepted before.
    pub skip: usize,
    /// The high-water mark afterwards.
    pub applied: u64,
}

/// Judges a chunk of `len` bytes at `offset` (`None` appends) against the high-water mark
/// `applied`, with `room` bytes left in the queue. An empty queue takes any chunk, so that a chunk
/// larger than the limit cannot be refused for ever.
pub fn judge(applied: u64, offset: Option<u64>, len: usize, room: usize, queue_is_empty: bool) -> Verdict {
    let offset = offset.unwrap_or(applied);
    let refuse = |outcome| Verdict { outcome, skip: len, applied };
    if offset > applied {
        return refuse(Outcome::Gap);
    }
    let behind = applied - offset;
    if behind >= len as u64 {
        // An empty chunk exactly at the mark is an ordinary success, not a repetition.
        return refuse(if behind == 0 { Outcome::Accepted } else { Outcome::Duplicate });
    }
    let skip = behind as usize;
    let fresh = len - skip;
    if fresh > room && !queue_is_empty {
        return refuse(Outcome::Full);
    }
    match applied.checked_add(fresh as u64) {
        Some(applied) => Verdict { outcome: Outcome::Accepted, skip, applied },
        // Only a damaged state could have counted this far.
        None => refuse(Outcome::Full),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(applied: u64, offset: Option<u64>, len: usize) -> (Outcome, usize, u64) {
        let verdict = judge(applied, offset, len, 1 << 20, false);
        (verdict.outcome, verdict.skip, verdict.applied)
    }

    #[test]
    fn every_position_of_a_chunk_against_the_mark() {
        assert_eq!(judged(10, None, 5), (Outcome::Accepted, 0, 15));
        assert_eq!(judged(10, Some(10), 5), (Outcome::Accepted, 0, 15));
        assert_eq!(judged(10, Some(11), 5), (Outcome::Gap, 5, 10));
        assert_eq!(judged(10, Some(11), 0), (Outcome::Gap, 0, 10));
        assert_eq!(judged(10, Some(5), 5), (Outcome::Duplicate, 5, 10));
        assert_eq!(judged(10, Some(4), 5), (Outcome::Duplicate, 5, 10));
        assert_eq!(judged(10, Some(6), 5), (Outcome::Accepted, 4, 11));
        assert_eq!(judged(10, Some(10), 0), (Outcome::Accepted, 0, 10));
        assert_eq!(judged(10, Some(9), 0), (Outcome::Duplicate, 0, 10));
        assert_eq!(judged(u64::MAX - 1, Some(u64::MAX), 9), (Outcome::Gap, 9, u64::MAX - 1));
    }

    #[test]
    fn a_full_queue_refuses_and_an_empty_one_never_does() {
        assert_eq!(judge(0, None, 6, 5, false).outcome, Outcome::Full);
        assert_eq!(judge(0, None, 6, 5, false).applied, 0);
        assert_eq!(judge(0, None, 6, 5, true).applied, 6);
        assert_eq!(judge(4, Some(0), 6, 2, false).applied, 6);
    }
}
