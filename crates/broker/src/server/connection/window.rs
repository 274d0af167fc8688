//! What was sent to a reader and is not yet known to be stored by it.
//!
//! Invariant: everything up to `scan` that concerns the reader was sent, in order; what was sent before its turn is
//! remembered until its turn comes, and then skipped. The low-water mark never passes an entry that was sent and not
//! acknowledged, whatever the reader claims.
//!
//! Pure bookkeeping: it sends nothing and reads nothing.

use std::collections::{BTreeMap, BTreeSet};

/// The window of a connection.
#[derive(Debug)]
pub(crate) struct Window {
    most: usize,
    most_bytes: usize,
    /// Sent and not acknowledged.
    sent: BTreeMap<u64, Sent>,
    bytes: usize,
    /// Everything up to here was looked at in its turn.
    scan: u64,
    /// Sent before their turn, all above `scan`.
    ahead: BTreeSet<u64>,
    /// The last entry that was sent in its turn.
    last_sent: u64,
    /// What the reader would still have after a power cut, for readers that say so.
    synced: Option<u64>,
}

/// An entry on its way.
#[derive(Debug)]
struct Sent {
    bytes: usize,
    /// Its ids, for readers that acknowledge by them.
    ids: Option<(String, String)>,
}

impl Window {
    /// A window of so many entries or bytes, for a reader that has everything up to `from`.
    pub(crate) fn new(most: usize, most_bytes: usize, from: u64) -> Self {
        let (most, most_bytes) = (most.max(1), most_bytes.max(1));
        Self {
            most,
            most_bytes,
            sent: BTreeMap::new(),
            bytes: 0,
            scan: from,
            ahead: BTreeSet::new(),
            last_sent: 0,
            synced: None,
        }
    }

    /// Whether the reader says what of its inbox would survive a power cut.
    pub(crate) fn says_synced(self, says: bool) -> Self {
        Self { synced: says.then_some(0), ..self }
    }

    /// Whether another entry may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.sent.len() < self.most && self.bytes < self.most_bytes
    }

    /// Everything up to here was looked at in its turn.
    pub(crate) fn scan(&self) -> u64 {
        self.scan
    }

    /// How many were sent before their turn, which has not come yet.
    pub(crate) fn ahead(&self) -> usize {
        self.ahead.len()
    }

    /// Entries on their way.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// An entry's turn has come: it is passed now. Says whether it was sent before.
    pub(crate) fn pass(&mut self, seq: u64) -> bool {
        self.scan = self.scan.max(seq);
        self.ahead.remove(&seq)
    }

    /// An entry is sent; `early`: before its turn. Ids are kept for readers that acknowledge by them.
    pub(crate) fn send(&mut self, seq: u64, bytes: usize, early: bool, ids: Option<(String, String)>) {
        if early && seq > self.scan {
            self.ahead.insert(seq);
        }
        self.last_sent = self.last_sent.max(seq);
        self.bytes += bytes;
        if let Some(before) = self.sent.insert(seq, Sent { bytes, ids }) {
            self.bytes -= before.bytes;
        }
    }

    /// Whether an entry was sent before its turn.
    pub(crate) fn was_sent(&self, seq: u64) -> bool {
        self.ahead.contains(&seq)
    }

    /// The reader has stored everything up to `seq`, and those of `above`. Says how many that were.
    pub(crate) fn acknowledge(&mut self, seq: Option<u64>, above: &[u64]) -> usize {
        let before = self.sent.len();
        if let Some(seq) = seq {
            // A reader that claims more than it was sent has what it was sent.
            let rest = self.sent.split_off(&seq.min(self.scan).saturating_add(1));
            let gone = std::mem::replace(&mut self.sent, rest);
            self.bytes -= gone.values().map(|sent| sent.bytes).sum::<usize>();
        }
        for seq in above {
            self.remove(*seq);
        }
        before - self.sent.len()
    }

    /// As the first protocol does it: by the broker's id or the sender's.
    pub(crate) fn acknowledge_id(&mut self, broker_id: Option<&str>, client_id: Option<&str>) -> usize {
        let found = self.sent.iter().find(|(_, sent)| {
            sent.ids.as_ref().is_some_and(|(id, client)| match broker_id {
                Some(broker_id) => id == broker_id,
                None => client_id.is_some_and(|client_id| client == client_id),
            })
        });
        let Some(seq) = found.map(|(seq, _)| *seq) else { return 0 };
        self.remove(seq);
        1
    }

    /// Everything up to here is stored by the reader, or does not concern it.
    pub(crate) fn low(&self) -> u64 {
        match self.sent.first_key_value() {
            Some((first, _)) if *first <= self.scan => first - 1,
            _ => self.scan,
        }
    }

    /// The reader would still have everything up to `seq` after a power cut. What it claims never shrinks.
    pub(crate) fn note_synced(&mut self, seq: u64) {
        if let Some(synced) = &mut self.synced {
            *synced = seq.max(*synced);
        }
    }

    /// As [`low`](Self::low), but of what a reader that says so would still have after a power cut.
    pub(crate) fn durable(&self) -> u64 {
        match self.synced {
            Some(synced) if synced < self.last_sent => self.low().min(synced),
            _ => self.low(),
        }
    }

    fn remove(&mut self, seq: u64) {
        if let Some(sent) = self.sent.remove(&seq) {
            self.bytes -= sent.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_power_cut_could_take_back_is_not_counted_as_stored() {
        let mut window = Window::new(10, 1000, 10).says_synced(true);
        window.pass(12);
        assert_eq!(window.durable(), 12, "nothing was sent");
        window.send(13, 10, false, None);
        window.pass(13);
        window.acknowledge(Some(13), &[]);
        assert_eq!((window.low(), window.durable()), (13, 0));
        window.note_synced(13);
        window.pass(20);
        assert_eq!((window.low(), window.durable()), (20, 20));
        window.send(21, 10, false, None);
        window.pass(21);
        window.acknowledge(Some(21), &[]);
        window.note_synced(5);
        assert_eq!((window.low(), window.durable()), (21, 13));
        // An older daemon says nothing of that.
        let mut window = Window::new(10, 1000, 10);
        window.send(11, 10, false, None);
        window.pass(11);
        window.acknowledge(Some(11), &[]);
        assert_eq!(window.durable(), 11);
    }

    #[test]
    fn it_closes_by_count_and_by_bytes_and_opens_with_acks() {
        let mut window = Window::new(2, 100, 10);
        window.send(11, 10, false, None);
        window.pass(11);
        assert!(window.has_room());
        window.send(14, 10, false, None);
        window.pass(14);
        assert!(!window.has_room());
        assert_eq!(window.low(), 10);
        assert_eq!(window.acknowledge(Some(11), &[]), 1);
        assert_eq!(window.low(), 13, "what is between does not concern the reader");
        assert!(window.has_room());
        window.send(15, 200, false, None);
        window.pass(15);
        assert!(!window.has_room());
        window.acknowledge(Some(u64::MAX), &[]);
        assert!(window.has_room());
        assert_eq!((window.low(), window.bytes), (15, 0));
    }

    #[test]
    fn urgent_ones_come_early_and_once() {
        let mut window = Window::new(10, 100, 0);
        window.send(5, 1, true, None);
        assert_eq!(window.low(), 0, "an early one moves no mark");
        // Claiming it by number alone takes nothing: the mark was not reached.
        assert_eq!(window.acknowledge(Some(5), &[]), 0);
        assert_eq!(window.acknowledge(None, &[5]), 1);
        for seq in 1..=4 {
            assert!(!window.pass(seq));
            window.send(seq, 1, false, None);
        }
        assert!(window.was_sent(5));
        assert!(window.pass(5), "its turn comes, and it is skipped");
        assert_eq!(window.low(), 0);
        window.acknowledge(Some(4), &[]);
        assert_eq!((window.low(), window.ahead()), (5, 0));
    }

    #[test]
    fn the_first_protocol_acknowledges_by_id() {
        let mut window = Window::new(10, 100, 0);
        for seq in 1..=3 {
            window.pass(seq);
            window.send(seq, 1, false, Some((format!("b{seq}"), format!("c{seq}"))));
        }
        assert_eq!(window.acknowledge_id(Some("b2"), Some("c1")), 1);
        assert_eq!(window.low(), 0);
        assert_eq!(window.acknowledge_id(None, Some("c1")), 1);
        assert_eq!(window.low(), 2);
        assert_eq!(window.acknowledge_id(Some("nobody's"), None), 0);
        assert_eq!(window.acknowledge_id(Some("b3"), None), 1);
        assert_eq!(window.low(), 3);
    }

    proptest! {
        /// Whatever a reader claims, the mark never passes what it was sent and did not name.
        #[test]
        fn the_mark_is_honest(claims in prop::collection::vec((any::<bool>(), 0u64..40), 0..60)) {
            let mut window = Window::new(1000, 100_000, 0);
            let mut acked = BTreeSet::new();
            let mut next = 1;
            for (cumulative, seq) in claims {
                window.send(next, 7, false, None);
                window.pass(next);
                next += 1;
                if cumulative {
                    window.acknowledge(Some(seq), &[]);
                    acked.extend(1..=seq.min(next - 1));
                } else {
                    window.acknowledge(None, &[seq]);
                    if seq < next { acked.insert(seq); }
                }
                let first = (1..next).find(|seq| !acked.contains(seq)).unwrap_or(next);
                prop_assert_eq!(window.low(), first - 1);
                prop_assert_eq!(window.bytes, 7 * window.len());
            }
        }
    }
}
