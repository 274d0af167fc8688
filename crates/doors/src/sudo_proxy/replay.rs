//! Ids that were used.
//!
//! Invariant: looking and remembering are one step, so that of any number of requests with one id exactly one is taken.
//! An id is remembered for longer than a request with it can stay fresh. Only digests are kept, and no more than a
//! bound: when it is reached nothing new is taken, because forgetting early would let something in twice.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;
use sha2::Digest as _;
use sha2::Sha256;

/// Half of a SHA-256: enough that no two ids meet by accident or by work.
type Mark = [u8; 16];

/// What became of an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Seen {
    /// It is new, and used from now on.
    First,
    /// It was used before.
    Again,
    /// Too many are remembered.
    Full,
}

/// The memory. Its clock does not follow the wall's.
#[derive(Debug)]
pub(crate) struct Replay {
    kept: Duration,
    limit: usize,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    marks: HashSet<Mark>,
    /// When each may be forgotten, soonest first.
    order: VecDeque<(Instant, Mark)>,
}

impl Replay {
    /// Remembers ids for `kept`, at most `limit` of them.
    pub(crate) fn new(kept: Duration, limit: usize) -> Self {
        Replay { kept, limit: limit.max(1), memory: Mutex::default() }
    }

    /// Uses an id.
    pub(crate) fn take(&self, id: &str, now: Instant) -> Seen {
        self.remember(id, Duration::ZERO, now)
    }

    /// Uses an id that was used `ago` already, before this process was there. Oldest first, and before any other.
    pub(crate) fn take_back(&self, id: &str, ago: Duration, now: Instant) {
        if ago < self.kept {
            self.remember(id, ago, now);
        }
    }

    fn remember(&self, id: &str, ago: Duration, now: Instant) -> Seen {
        let mark = mark(id);
        let mut memory = self.memory.lock();
        while let Some((_, old)) = memory.order.pop_front_if(|(until, _)| *until <= now) {
            memory.marks.remove(&old);
        }
        if memory.marks.contains(&mark) {
            return Seen::Again;
        }
        if memory.marks.len() >= self.limit {
            return Seen::Full;
        }
        memory.marks.insert(mark);
        memory.order.push_back((now + self.kept.saturating_sub(ago), mark));
        // A burst's memory goes back once it is over.
        let (used, held) = (memory.marks.len() * 8 + 1024, memory.marks.capacity());
        if used < held {
            memory.marks.shrink_to(used / 4);
            memory.order.shrink_to(used / 4);
        }
        Seen::First
    }
}

fn mark(id: &str) -> Mark {
    let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    let mut mark = Mark::default();
    mark.copy_from_slice(&digest[..16]);
    mark
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const KEPT: Duration = Duration::from_secs(150);

    #[test]
    fn an_id_is_used_once_until_it_is_forgotten() {
        let (replay, start) = (Replay::new(KEPT, 10), Instant::now());
        let take = |id: &str, after: Duration| replay.take(id, start + after);
        assert_eq!(
            ["a", "a", "A", ""].map(|id| take(id, Duration::ZERO)),
            [Seen::First, Seen::Again, Seen::First, Seen::First]
        );
        assert_eq!(take("a", KEPT - Duration::from_millis(1)), Seen::Again);
        assert_eq!([take("a", KEPT), take("a", KEPT)], [Seen::First, Seen::Again]);
    }

    #[test]
    fn nothing_is_forgotten_for_want_of_room() {
        let (replay, start) = (Replay::new(KEPT, 2), Instant::now());
        assert_eq!(
            ["a", "b", "c", "a"].map(|id| replay.take(id, start)),
            [Seen::First, Seen::First, Seen::Full, Seen::Again]
        );
        assert_eq!(replay.take("c", start + KEPT), Seen::First);
    }

    #[test]
    fn what_was_used_before_a_restart_counts_from_then() {
        let (replay, start) = (Replay::new(KEPT, 10), Instant::now());
        for (id, ago) in [("old", 150), ("older", 100), ("newer", 10)] {
            replay.take_back(id, Duration::from_secs(ago), start);
        }
        assert_eq!(["old", "older", "newer"].map(|id| replay.take(id, start)), [Seen::First, Seen::Again, Seen::Again]);
        let later = start + Duration::from_secs(50);
        assert_eq!([replay.take("older", later), replay.take("newer", later)], [Seen::First, Seen::Again]);
    }

    #[test]
    fn of_many_at_once_one_is_first() {
        let replay = Arc::new(Replay::new(KEPT, 1000));
        let firsts: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| {
                    let replay = Arc::clone(&replay);
                    scope.spawn(move || {
                        (0..200)
                            .filter(|number| replay.take(&number.to_string(), Instant::now()) == Seen::First)
                            .count()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(firsts, 200);
    }
}
