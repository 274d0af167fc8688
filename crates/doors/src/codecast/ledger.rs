//! What of a session's events a client has not had. Pure; its text is kept with the session.
//!
//! Invariant: a number is in here until an event was handed to a client that is not known to have lost it. Ranges are
//! sorted, disjoint and not empty. When there are too many of them the gaps between are closed: an event may come
//! twice, none gets lost.

use std::fmt::Write as _;

/// Ranges that are kept apart.
const MOST_RANGES: usize = 64;
/// Of the first form. A text of another form is not understood.
const FORM: &str = "1";

/// Events after the first number, up to and including the second.
pub(super) type Range = (u64, u64);

/// What is owed to a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Ledger {
    /// The client did not vanish, or has said since that it is back.
    pub(super) connected: bool,
    ranges: Vec<Range>,
    /// Everything after this number is owed too, whatever is still to come.
    tail: Option<u64>,
    /// Where the last stream began.
    pub(super) begun: u64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { connected: true, ranges: Vec::new(), tail: None, begun: 0 }
    }
}

impl Ledger {
    /// From here on everything is owed, unless it is already.
    pub(super) fn open(&mut self, after: u64) -> bool {
        let opened = self.tail.is_none();
        self.tail.get_or_insert(after);
        opened
    }

    /// Takes back what is owed from here on.
    pub(super) fn forget_tail(&mut self) {
        self.tail = None;
    }

    /// What comes after `at` is somebody else's concern; what came before is owed as ever.
    pub(super) fn close(&mut self, at: u64) {
        if let Some(tail) = self.tail.take() {
            self.owe((tail, at));
        }
    }

    /// Owes the events of a range.
    pub(super) fn owe(&mut self, range: Range) {
        if range.0 >= range.1 {
            return;
        }
        self.ranges.push(range);
        self.ranges.sort_unstable();
        let mut merged: Vec<Range> = Vec::with_capacity(self.ranges.len());
        for range in self.ranges.drain(..) {
            match merged.last_mut() {
                Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
                _ => merged.push(range),
            }
        }
        while merged.len() > MOST_RANGES {
            let narrowest = (1..merged.len()).min_by_key(|at| merged[*at].0 - merged[at - 1].1).unwrap_or(1);
            let later = merged.remove(narrowest);
            merged[narrowest - 1].1 = later.1;
        }
        self.ranges = merged;
    }

    /// The events of a range were handed over.
    pub(super) fn paid(&mut self, range: Range) {
        if range.0 >= range.1 {
            return;
        }
        let mut kept = Vec::with_capacity(self.ranges.len());
        for (from, to) in self.ranges.drain(..) {
            kept.extend([(from, to.min(range.0)), (from.max(range.1), to)].into_iter().filter(|(from, to)| from < to));
        }
        self.ranges = kept;
        if let Some(tail) = &mut self.tail
            && *tail >= range.0
        {
            *tail = (*tail).max(range.1);
        }
    }

    /// Everything that is owed when the last event has this number, in order.
    pub(super) fn owed(&self, last: u64) -> Vec<Range> {
        let mut owed = self.ranges.clone();
        owed.extend(self.tail.filter(|tail| *tail < last).map(|tail| (tail, last)));
        owed
    }

    /// How many events that are.
    pub(super) fn count(&self, last: u64) -> u64 {
        self.owed(last).iter().map(|(from, to)| to - from).sum()
    }

    /// Whether anything is owed beyond what is there already.
    pub(super) fn is_open(&self) -> bool {
        self.tail.is_some()
    }

    /// The text to keep. `following` is how far a client has had the events of a stream that is still open: should
    /// this be read again, that client has lost its daemon.
    pub(super) fn to_text(&self, following: Option<u64>) -> String {
        let connected = self.connected && following.is_none();
        let mut text = format!("{FORM} {} {}", u8::from(connected), self.begun);
        for (from, to) in &self.ranges {
            // Writing to a String cannot fail.
            write!(text, " {from}-{to}").ok();
        }
        if let Some(tail) = following.or(self.tail) {
            write!(text, " {tail}-").ok();
        }
        text
    }

    /// Reads such a text.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        if words.next() != Some(FORM) {
            return None;
        }
        let connected = words.next()? == "1";
        let begun = words.next()?.parse().ok()?;
        let mut ledger = Self { connected, ranges: Vec::new(), tail: None, begun };
        for word in words {
            let (from, to) = word.split_once('-')?;
            let from = from.parse().ok()?;
            match to {
                "" => ledger.tail = Some(from),
                to => ledger.owe((from, to.parse().ok()?)),
            }
        }
        Some(ledger)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_client_that_vanishes_and_comes_back() {
        let mut ledger = Ledger::default();
        assert!(ledger.open(10));
        assert!(!ledger.open(20), "what is owed stays owed");
        assert_eq!(ledger.owed(15), [(10, 15)]);
        ledger.paid((10, 15));
        assert_eq!(ledger.owed(15), []);
        assert_eq!(ledger.count(18), 3);
        ledger.close(17);
        assert_eq!(ledger.owed(30), [(15, 17)]);
        assert!(!ledger.is_open());
    }

    #[test]
    fn the_text_says_it_all() {
        let mut ledger = Ledger { connected: false, begun: 7, ..Ledger::default() };
        ledger.owe((3, 5));
        ledger.owe((8, 9));
        ledger.open(12);
        assert_eq!(ledger.to_text(None), "1 0 7 3-5 8-9 12-");
        assert_eq!(Ledger::from_text(&ledger.to_text(None)).unwrap(), ledger);
        // A stream that is open when this is read again has lost its client.
        let text = Ledger { begun: 4, ..Ledger::default() }.to_text(Some(20));
        let again = Ledger::from_text(&text).unwrap();
        assert_eq!((again.connected, again.owed(25)), (false, vec![(20, 25)]));
        for text in ["", "2 1 0", "1", "1 1", "1 1 x", "1 1 0 5", "1 1 0 a-b", "1 1 0 -5"] {
            assert_eq!(Ledger::from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn many_ranges_grow_together() {
        let mut ledger = Ledger::default();
        for at in 0..10_000 {
            ledger.owe((at * 10, at * 10 + 1));
        }
        assert_eq!(ledger.ranges.len(), MOST_RANGES);
        assert!(ledger.to_text(None).len() < 4096);
        assert_eq!(ledger.owed(0).first().unwrap().0, 0);
        assert_eq!(ledger.owed(0).last().unwrap().1, 99_991);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Owe(u64, u64),
        Paid(u64, u64),
        Open(u64),
        Close(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u64..60, 0_u64..60).prop_map(|(from, to)| Step::Owe(from, to)),
            (0_u64..60, 0_u64..60).prop_map(|(from, to)| Step::Paid(from.min(to), from.max(to))),
            (0_u64..60).prop_map(Step::Open),
            (0_u64..60).prop_map(Step::Close),
        ]
    }

    proptest! {
        #[test]
        fn it_counts_like_a_set(steps in proptest::collection::vec(step(), 0..40)) {
            const LAST: u64 = 60;
            let mut ledger = Ledger::default();
            let (mut set, mut tail) = (BTreeSet::new(), None);
            for step in steps {
                match step {
                    Step::Owe(from, to) => {
                        ledger.owe((from, to));
                        set.extend(from + 1..=to);
                    }
                    Step::Paid(from, to) => {
                        ledger.paid((from, to));
                        if from == to {
                            continue;
                        }
                        set.retain(|at| *at <= from || *at > to);
                        tail = tail.map(|tail: u64| if tail >= from { tail.max(to) } else { tail });
                    }
                    Step::Open(at) => {
                        ledger.open(at);
                        tail.get_or_insert(at);
                    }
                    Step::Close(at) => {
                        ledger.close(at);
                        if let Some(tail) = tail.take() {
                            set.extend(tail + 1..=at);
                        }
                    }
                }
                let again = Ledger::from_text(&ledger.to_text(None)).unwrap();
                prop_assert_eq!(&again, &ledger);
                let mut expected = set.clone();
                if let Some(tail) = tail {
                    expected.extend(tail + 1..=LAST);
                }
                let owed: BTreeSet<u64> = ledger.owed(LAST).into_iter().flat_map(|(from, to)| from + 1..=to).collect();
                prop_assert_eq!(owed, expected);
            }
        }
    }
}
