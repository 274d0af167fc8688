//! What was handed to a connection, until it is known whether it arrived.
//!
//! An answer is settled when its client shows that it has read it (by the next request) or when the connection ends.
//! [`Trail`] remembers which event stands where in a stream, as far back as a client may be behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_house::insiders::Rights;
use parking_lot::Mutex;

use super::ledger::Range;
use super::link::{Link, Ticket};
use super::wire::{Ending, Layers, Line};

/// Places that are remembered for one stream.
const MOST_MARKS: usize = 4096;
/// How long an answer is given to leave our own buffers before they are looked at, and looked at again.
const LEAVING: Duration = Duration::from_millis(500);
/// Answers of one connection that are not settled yet. Only a connection with many at once has more than a few.
const MOST_PARCELS: usize = 64;

/// Which event stands where in a stream. Pure.
#[derive(Debug)]
pub(super) struct Trail {
    /// The last event that was certainly read, or the last before the stream.
    had: u64,
    handed: u64,
    /// After so many bytes, this event was complete.
    marks: VecDeque<(u64, u64)>,
}

impl Trail {
    pub(super) fn new(before: u64) -> Self {
        Self { had: before, handed: 0, marks: VecDeque::new() }
    }

    /// More was handed over; the last event in it has this number.
    pub(super) fn hand(&mut self, bytes: usize, seq: u64) {
        self.handed += bytes as u64;
        self.marks.push_back((self.handed, seq));
        if self.marks.len() > MOST_MARKS {
            // Every second place of the older half: a little more may be repeated, nothing is lost.
            let mut at = 0;
            self.marks.retain(|_| {
                at += 1;
                at > MOST_MARKS / 2 || at % 2 == 0
            });
        }
    }

    /// The last event that is complete when the last `missing` bytes are not there.
    pub(super) fn at(&self, missing: u64) -> u64 {
        let there = self.handed.saturating_sub(missing);
        let complete = self.marks.partition_point(|(bytes, _)| *bytes <= there);
        complete.checked_sub(1).and_then(|at| self.marks.get(at)).map_or(self.had, |(_, seq)| *seq)
    }

    /// All but the last `missing` bytes were read.
    pub(super) fn read(&mut self, missing: u64) {
        self.had = self.at(missing);
        let there = self.handed.saturating_sub(missing);
        while self.marks.front().is_some_and(|(bytes, _)| *bytes <= there) {
            self.marks.pop_front();
        }
    }
}

/// An answer that may not have arrived.
pub(super) enum Parcel {
    /// Events of a session as they came.
    Stream {
        link: Arc<Link>,
        ticket: Ticket,
        trail: Trail,
        /// The last event, if the stream came to its end.
        end: Option<u64>,
    },
    /// Events that were owed.
    Owed { link: Arc<Link>, answer: u64, ranges: Vec<Range> },
}

impl Parcel {
    /// None of it was sent.
    pub(super) fn take_back(self) {
        self.settle(Ending { unsent: u64::MAX, ..Ending::FINE }, 0);
    }

    fn settle(self, ending: Ending, behind: u64) {
        match self {
            Parcel::Stream { link, ticket, trail, end: None } => {
                link.lost(&ticket, trail.at(ending.missing(behind, false)));
                link.left(ticket.stream);
            }
            Parcel::Stream { link, ticket, trail, end: Some(end) } => {
                let had = trail.at(ending.missing(behind, true));
                if had < end {
                    link.owe(&[(had, end)]);
                }
                link.left(ticket.stream);
            }
            Parcel::Owed { link, answer, ranges } => {
                if ending.missing(behind, true) > 0 {
                    link.owe(&ranges);
                }
                link.left(answer);
            }
        }
    }

    /// A complete answer, by its session's client and its number there.
    fn complete(&self) -> Option<(Arc<Link>, u64)> {
        match self {
            Parcel::Stream { end: None, .. } => None,
            Parcel::Stream { link, ticket, .. } => Some((Arc::clone(link), ticket.stream)),
            Parcel::Owed { link, answer, .. } => Some((Arc::clone(link), *answer)),
        }
    }
}

/// One connection and what was handed to it.
pub(super) struct Connection {
    pub(super) line: Arc<Line>,
    pub(super) layers: Layers,
    /// How far a client may be behind in reading, at most.
    pub(super) behind: u64,
    /// What the client may do, which is less for a process inside the house.
    pub(super) rights: Rights,
    parcels: Mutex<Parcels>,
}

#[derive(Default)]
struct Parcels {
    waiting: VecDeque<Parcel>,
    ending: Option<Ending>,
}

impl Connection {
    pub(super) fn new(line: Arc<Line>, layers: Layers, behind: u64, rights: Rights) -> Arc<Self> {
        Arc::new(Self { line, layers, behind, rights, parcels: Mutex::default() })
    }

    /// The next request has come: a client that asks one thing at a time has read the answers before.
    pub(super) fn next_request(&self) {
        if self.layers != Layers::Multiplexed {
            let read = std::mem::take(&mut self.parcels.lock().waiting);
            for parcel in read {
                parcel.settle(Ending::FINE, 0);
            }
        }
    }

    /// An answer was handed over, or as much of it as was wanted.
    pub(super) fn hand_in(&self, parcel: Parcel) {
        let unfinished = matches!(parcel, Parcel::Stream { end: None, .. });
        let mut parcels = self.parcels.lock();
        let ending = match parcels.ending {
            // One stream of many was given up; how much of it arrived nobody knows.
            None if unfinished && self.layers == Layers::Multiplexed => {
                Some(Ending { unsent: 0, hidden: self.line.held_back(self.layers), read: false })
            }
            ending => ending,
        };
        match ending {
            Some(ending) => {
                drop(parcels);
                parcel.settle(ending, self.behind);
            }
            None => {
                if let Some((link, answer)) = parcel.complete() {
                    watch_it_leave(&self.line, link, answer);
                }
                parcels.waiting.push_back(parcel);
                let oldest = if parcels.waiting.len() > MOST_PARCELS { parcels.waiting.pop_front() } else { None };
                drop(parcels);
                if let Some(oldest) = oldest {
                    oldest.settle(Ending::FINE, 0);
                }
            }
        }
    }

    /// The connection is over.
    pub(super) fn end(&self) {
        let mut parcels = self.parcels.lock();
        if parcels.ending.is_some() {
            return;
        }
        let ending = self.line.ending(self.layers);
        parcels.ending = Some(ending);
        let waiting = std::mem::take(&mut parcels.waiting);
        drop(parcels);
        for parcel in waiting {
            parcel.settle(ending, self.behind);
        }
    }
}

/// Notes when the kernel has taken an answer whole: from then on it is delivered even if this process is killed. A
/// connection that has ended by then has settled it.
fn watch_it_leave(line: &Arc<Line>, link: Arc<Link>, answer: u64) {
    let line = Arc::downgrade(line);
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(LEAVING).await;
                match line.upgrade() {
                    None => return,
                    Some(line) if line.known_held_back() == 0 => return link.left(answer),
                    Some(_) => {}
                }
            }
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Parcel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Parcel::Stream { ticket, end, .. } => {
                let until = ticket.until.load(Ordering::Relaxed);
                formatter.debug_struct("Stream").field("until", &until).field("end", end).finish_non_exhaustive()
            }
            Parcel::Owed { ranges, .. } => formatter.debug_tuple("Owed").field(ranges).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_event_counts_when_all_of_it_is_there() {
        let mut trail = Trail::new(10);
        assert_eq!(trail.at(0), 10);
        trail.hand(100, 11);
        trail.hand(100, 15);
        assert_eq!(trail.at(0), 15);
        assert_eq!(trail.at(1), 11);
        assert_eq!(trail.at(100), 11);
        assert_eq!(trail.at(101), 10);
        assert_eq!(trail.at(u64::MAX), 10);
        trail.read(50);
        assert_eq!((trail.at(u64::MAX), trail.at(0)), (11, 15));
        trail.read(0);
        assert_eq!(trail.at(u64::MAX), 15);
    }

    proptest! {
        #[test]
        fn never_more_than_was_there(frames in proptest::collection::vec(1_usize..50, 1..9000), missing in 0_u64..500_000) {
            let mut trail = Trail::new(0);
            let mut ends = vec![0_u64];
            for (at, bytes) in frames.iter().enumerate() {
                trail.hand(*bytes, at as u64 + 1);
                ends.push(ends[at] + *bytes as u64);
            }
            let there = ends[frames.len()].saturating_sub(missing);
            let at = trail.at(missing);
            prop_assert!(ends[usize::try_from(at).unwrap_or(0)] <= there);
            prop_assert!(trail.marks.len() <= MOST_MARKS);
            if missing == 0 {
                prop_assert_eq!(at, frames.len() as u64);
            }
        }
    }
}
