//! What waits and what is under way, in memory, lane by lane: the database says the same, and is asked only for content.
//!
//! Invariant: within a lane nothing is handed out before what came earlier, and what comes back goes to its old place.
//! Whatever is pending in the database is here; something here that the database does not have is dropped when it
//! is claimed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::types::Lane;
use hostel_wire::frames::Priority;

/// Nothing waits longer than this for its next try: a clock that was set back must not stop a lane for hours.
pub(super) const LONGEST_WAIT_MS: u64 = 5 * 60 * 1000;

fn wait(not_before: u64, now: u64) -> u64 {
    Some(not_before.saturating_sub(now)).filter(|wait| *wait <= LONGEST_WAIT_MS).unwrap_or(0)
}

/// What must be known of a row to put it in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) no: i64,
    pub(super) enqueued_at: u64,
    pub(super) expires_at: u64,
    pub(super) attempts: u32,
    pub(super) bytes: u32,
}

#[derive(Debug, Default)]
struct LaneState {
    waiting: VecDeque<Entry>,
    /// By number, each with its claim.
    inflight: BTreeMap<i64, (u64, Entry)>,
    /// When the first that waits may be tried; it speaks for all behind it.
    not_before: u64,
}

/// All lanes that have something.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: HashMap<Arc<Lane>, LaneState>,
    /// The first that waits of each lane: urgent ones first, then by age.
    heads: BTreeMap<(Priority, i64), Arc<Lane>>,
    /// Which lane a row under way belongs to.
    flights: HashMap<i64, Arc<Lane>>,
    waiting: u64,
    last_no: i64,
    last_claim: u64,
}

impl Queue {
    /// A number for a new row; never given twice in a process.
    pub(super) fn next_no(&mut self) -> i64 {
        self.last_no += 1;
        self.last_no
    }

    /// The database has numbers up to this.
    pub(super) fn numbers_from(&mut self, last: i64) {
        self.last_no = self.last_no.max(last);
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(super) fn inflight(&self) -> u64 {
        self.flights.len() as u64
    }

    pub(super) fn rows(&self) -> u64 {
        self.waiting + self.inflight()
    }

    /// When the oldest that waits was taken.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.lanes.values().filter_map(|state| state.waiting.front()).map(|entry| entry.enqueued_at).min()
    }

    /// When something that waits can be tried; the past if that is now.
    pub(super) fn next_due(&self, now: u64) -> Option<u64> {
        let waiting = self.lanes.values().filter(|state| !state.waiting.is_empty());
        waiting.map(|state| if wait(state.not_before, now) == 0 { 0 } else { state.not_before }).min()
    }

    /// Puts a row in its place among those of its lane.
    pub(super) fn put(&mut self, lane: Lane, entry: Entry) {
        match self.lanes.get_key_value(&lane) {
            Some((lane, _)) => {
                let lane = Arc::clone(lane);
                self.place(&lane, entry);
            }
            None => self.place(&Arc::new(lane), entry),
        }
    }

    fn place(&mut self, lane: &Arc<Lane>, entry: Entry) {
        let state = self.lanes.entry(Arc::clone(lane)).or_default();
        let at = state.waiting.partition_point(|other| other.no < entry.no);
        if state.waiting.get(at).is_some_and(|other| other.no == entry.no) {
            return;
        }
        if at == 0 {
            if let Some(first) = state.waiting.front() {
                self.heads.remove(&(lane.priority, first.no));
            }
            self.heads.insert((lane.priority, entry.no), Arc::clone(lane));
        }
        state.waiting.insert(at, entry);
        self.waiting += 1;
    }

    /// The next row to be tried after `after` among the heads, in lanes that are due and allowed. It stays where it is.
    pub(super) fn ready(
        &self,
        after: &mut Option<(Priority, i64)>,
        now: u64,
        allow: impl Fn(&Lane) -> bool,
    ) -> Option<(Arc<Lane>, Entry)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        for (key, lane) in self.heads.range((from, Unbounded)) {
            let Some(state) = self.lanes.get(lane) else { continue };
            if wait(state.not_before, now) == 0
                && allow(lane)
                && let Some(entry) = state.waiting.front()
            {
                return Some((Arc::clone(lane), *entry));
            }
            *after = Some(*key);
        }
        None
    }

    /// Takes a row that waits out of its lane.
    pub(super) fn take(&mut self, lane: &Lane, no: i64) -> Option<Entry> {
        let (lane, state) = self.lanes.get_key_value(lane)?;
        let lane = Arc::clone(lane);
        let at = state.waiting.partition_point(|other| other.no < no);
        if state.waiting.get(at).is_none_or(|entry| entry.no != no) {
            return None;
        }
        let state = self.lanes.get_mut(&lane)?;
        let entry = state.waiting.remove(at)?;
        self.waiting -= 1;
        if at == 0 {
            // The wait was for the one that was first.
            state.not_before = 0;
            self.heads.remove(&(lane.priority, no));
            if let Some(first) = state.waiting.front() {
                self.heads.insert((lane.priority, first.no), Arc::clone(&lane));
            }
        }
        self.drop_if_empty(&lane);
        Some(entry)
    }

    /// A row that was taken is under way; the claim that was made of it.
    pub(super) fn fly(&mut self, lane: &Arc<Lane>, entry: Entry) -> u64 {
        self.last_claim += 1;
        let state = self.lanes.entry(Arc::clone(lane)).or_default();
        state.inflight.insert(entry.no, (self.last_claim, entry));
        self.flights.insert(entry.no, Arc::clone(lane));
        self.last_claim
    }

    /// A row is settled, wherever it was.
    pub(super) fn settle(&mut self, no: i64) {
        if self.land(no).is_none() {
            let waits = |state: &LaneState| state.waiting.binary_search_by_key(&no, |entry| entry.no).is_ok();
            let lane = self.lanes.iter().find(|(_, state)| waits(state)).map(|(lane, _)| Arc::clone(lane));
            if let Some(lane) = lane {
                self.take(&lane, no);
            }
        }
    }

    /// Takes a row out of what is under way.
    fn land(&mut self, no: i64) -> Option<(Arc<Lane>, Entry)> {
        let lane = self.flights.remove(&no)?;
        let (_, entry) = self.lanes.get_mut(&lane)?.inflight.remove(&no)?;
        self.drop_if_empty(&lane);
        Some((lane, entry))
    }

    fn drop_if_empty(&mut self, lane: &Arc<Lane>) {
        if self.lanes.get(lane).is_some_and(|state| state.waiting.is_empty() && state.inflight.is_empty()) {
            self.lanes.remove(lane);
        }
    }

    /// Whether this claim of a row is the one that is under way.
    pub(super) fn flies(&self, no: i64, claim: u64) -> bool {
        let state = self.flights.get(&no).and_then(|lane| self.lanes.get(lane));
        state.and_then(|state| state.inflight.get(&no)).is_some_and(|(current, _)| *current == claim)
    }

    /// What is known of a row under way.
    pub(super) fn flight(&self, no: i64) -> Option<Entry> {
        let state = self.flights.get(&no).and_then(|lane| self.lanes.get(lane))?;
        state.inflight.get(&no).map(|(_, entry)| *entry)
    }

    /// Whether an earlier row of its lane waits.
    pub(super) fn is_behind(&self, no: i64) -> bool {
        let state = self.flights.get(&no).and_then(|lane| self.lanes.get(lane));
        state.and_then(|state| state.waiting.front()).is_some_and(|first| first.no < no)
    }

    /// Rows of the same lane that are under way and came later.
    pub(super) fn later(&self, no: i64) -> Vec<i64> {
        let Some(state) = self.flights.get(&no).and_then(|lane| self.lanes.get(lane)) else { return Vec::new() };
        state.inflight.range(no + 1..).map(|(no, _)| *no).collect()
    }

    /// A row under way waits again, in its old place; with `not_before` it holds up its lane until then.
    pub(super) fn back(&mut self, no: i64, attempts: u32, not_before: Option<u64>) {
        let Some((lane, mut entry)) = self.land(no) else { return };
        entry.attempts = attempts;
        self.place(&lane, entry);
        if let (Some(not_before), Some(state)) = (not_before, self.lanes.get_mut(&lane))
            && state.waiting.front().is_some_and(|first| first.no == no)
        {
            state.not_before = not_before;
        }
    }

    /// All that is under way, latest first: that is the order in which they find their old places fastest.
    pub(super) fn flying(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.flights.keys().copied().collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all
    }

    /// The first that waits of a lane is not to be tried before then.
    pub(super) fn hold(&mut self, lane: &Lane, no: i64, not_before: u64) {
        if let Some(state) = self.lanes.get_mut(lane)
            && state.waiting.front().is_some_and(|first| first.no == no)
        {
            state.not_before = not_before;
        }
    }

    /// Forgets what waits and what is under way, not the numbers.
    pub(super) fn clear(&mut self) -> HashMap<i64, u64> {
        let claims = self.lanes.values().flat_map(|state| state.inflight.iter());
        let claims = claims.map(|(no, (claim, _))| (*no, *claim)).collect();
        *self = Self { last_no: self.last_no, last_claim: self.last_claim, ..Self::default() };
        claims
    }

    /// A row that the database has as under way is under way with the claim it had.
    pub(super) fn fly_again(&mut self, lane: Lane, entry: Entry, claim: u64) {
        let known = self.lanes.get_key_value(&lane).map(|(lane, _)| Arc::clone(lane));
        let lane = known.unwrap_or_else(|| Arc::new(lane));
        self.lanes.entry(Arc::clone(&lane)).or_default().inflight.insert(entry.no, (claim, entry));
        self.flights.insert(entry.no, lane);
    }
}
