//! What waits and what is under way, in memory, lane by lane: the database says the same, and is asked only for content.
//!
//! Invariant: within a lane nothing is handed out before what came earlier, and what comes back goes to its old place.
//! Whatever is pending in the database is here; something here that the database does not have is dropped when it
//! is claimed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rows::Content;
use super::types::Lane;
use hostel_wire::frames::Priority;

/// Nothing waits longer than this for its next try: a clock that was set back must not stop a lane for hours.
pub(super) const LONGEST_WAIT_MS: u64 = 5 * 60 * 1000;

fn wait(not_before: u64, now: u64) -> u64 {
    Some(not_before.saturating_sub(now)).filter(|wait| *wait <= LONGEST_WAIT_MS).unwrap_or(0)
}

/// Contents of rows that wait which are kept at hand: as many as may be under way at once, and their bytes.
const AT_HAND: usize = 256;
const AT_HAND_BYTES: usize = 1 << 20;

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
    /// By number.
    inflight: BTreeMap<i64, Flight>,
    /// When the first that waits may be tried; it speaks for all behind it.
    not_before: u64,
}

/// A row under way.
#[derive(Debug, Clone, Copy)]
struct Flight {
    claim: u64,
    /// Who claimed it.
    by: u64,
    entry: Entry,
    /// The database may not say yet that it is under way.
    ahead: bool,
}

/// A claim of a row, as it is remembered while the queue is read again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    number: u64,
    by: u64,
    /// The database may not say yet that the row is under way.
    pub(super) ahead: bool,
}

/// All lanes that have something.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lanes: HashMap<Arc<Lane>, LaneState>,
    /// The first that waits of each lane: urgent ones first, then by age.
    heads: BTreeMap<(Priority, i64), Arc<Lane>>,
    /// Which lane a row under way belongs to.
    flights: HashMap<i64, Arc<Lane>>,
    /// What rows that wait say, for those that were accepted a moment ago.
    contents: HashMap<i64, Content>,
    content_bytes: usize,
    /// Rows that were accepted and are not on disk yet.
    unsettled: HashSet<i64>,
    waiting: u64,
    last_no: i64,
    last_claim: u64,
    /// Somebody wanted to go on in a lane that is another's as long as it has something under way.
    turned_away: AtomicBool,
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

    /// Puts a row in its place among those of its lane, which is given back.
    pub(super) fn put(&mut self, lane: Lane, entry: Entry) -> Arc<Lane> {
        let known = self.lanes.get_key_value(&lane).map(|(lane, _)| Arc::clone(lane));
        let lane = known.unwrap_or_else(|| Arc::new(lane));
        self.place(&lane, entry);
        lane
    }

    fn place(&mut self, lane: &Arc<Lane>, entry: Entry) {
        let state = self.lanes.entry(Arc::clone(lane)).or_default();
        // What is new goes to the end, and need not look for it.
        let at = match state.waiting.back() {
            Some(last) if last.no >= entry.no => state.waiting.partition_point(|other| other.no < entry.no),
            _ => state.waiting.len(),
        };
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

    /// A row that has its place is not on disk yet.
    pub(super) fn unsettled(&mut self, no: i64) {
        self.unsettled.insert(no);
    }

    /// The disk refused a row that had its place.
    pub(super) fn refused(&mut self, lane: &Lane, no: i64) {
        self.unsettled.remove(&no);
        self.take(lane, no);
    }

    /// Whether a row is not on disk yet; then there will be a sign when it is.
    pub(super) fn is_unsettled(&self, no: i64) -> bool {
        self.unsettled.contains(&no)
    }

    /// A row is on disk: what it says is kept at hand, if it waits.
    pub(super) fn settled(&mut self, lane: &Lane, no: i64, content: Content) {
        self.unsettled.remove(&no);
        let waits = |state: &LaneState| state.waiting.binary_search_by_key(&no, |entry| entry.no).is_ok();
        if self.contents.len() < AT_HAND && self.lanes.get(lane).is_some_and(waits) {
            self.keep(no, content);
        }
    }

    /// Keeps what a row says at hand, if there is room.
    pub(super) fn keep(&mut self, no: i64, content: Content) {
        let bytes = content.bytes();
        if self.contents.len() < AT_HAND && self.content_bytes + bytes <= AT_HAND_BYTES {
            self.content_bytes += bytes;
            self.contents.insert(no, content);
        }
    }

    /// Takes what a row says that is about to leave its place.
    pub(super) fn at_hand(&mut self, no: i64) -> Option<Content> {
        let content = self.contents.remove(&no)?;
        self.content_bytes -= content.bytes();
        Some(content)
    }

    /// The next row to be tried after `after` among the heads, in lanes that are due and allowed. It stays where it is.
    /// What is under way of a lane is under way with one alone: two connections keep no order between them.
    pub(super) fn ready(
        &self,
        by: u64,
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
                if state.inflight.first_key_value().is_none_or(|(_, flight)| flight.by == by) {
                    return Some((Arc::clone(lane), *entry));
                }
                self.turned_away.store(true, Ordering::Relaxed);
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
        self.at_hand(no);
        Some(entry)
    }

    /// Whether somebody was turned away since the last time.
    pub(super) fn has_turned_away(&self) -> bool {
        self.turned_away.swap(false, Ordering::Relaxed)
    }

    /// A row that was taken is under way; the claim that was made of it. `ahead`: the database hears of it later.
    pub(super) fn fly(&mut self, by: u64, lane: &Arc<Lane>, entry: Entry, ahead: bool) -> u64 {
        self.last_claim += 1;
        let state = self.lanes.entry(Arc::clone(lane)).or_default();
        state.inflight.insert(entry.no, Flight { claim: self.last_claim, by, entry, ahead });
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
        let flight = self.lanes.get_mut(&lane)?.inflight.remove(&no)?;
        self.drop_if_empty(&lane);
        Some((lane, flight.entry))
    }

    fn drop_if_empty(&mut self, lane: &Arc<Lane>) {
        if self.lanes.get(lane).is_some_and(|state| state.waiting.is_empty() && state.inflight.is_empty()) {
            self.lanes.remove(lane);
        }
    }

    /// Whether this claim of a row is the one that is under way.
    pub(super) fn flies(&self, no: i64, claim: u64) -> bool {
        let state = self.flights.get(&no).and_then(|lane| self.lanes.get(lane));
        state.and_then(|state| state.inflight.get(&no)).is_some_and(|flight| flight.claim == claim)
    }

    /// What is known of a row under way.
    pub(super) fn flight(&self, no: i64) -> Option<Entry> {
        let state = self.flights.get(&no).and_then(|lane| self.lanes.get(lane))?;
        state.inflight.get(&no).map(|flight| flight.entry)
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
    pub(super) fn clear(&mut self) -> HashMap<i64, Claim> {
        let flights = self.lanes.values().flat_map(|state| state.inflight.iter());
        let claim = |flight: &Flight| Claim { number: flight.claim, by: flight.by, ahead: flight.ahead };
        let claims = flights.map(|(no, flight)| (*no, claim(flight))).collect();
        *self = Self { last_no: self.last_no, last_claim: self.last_claim, ..Self::default() };
        claims
    }

    /// A row is under way with the claim it had.
    pub(super) fn fly_again(&mut self, lane: Lane, entry: Entry, claim: Claim) {
        let known = self.lanes.get_key_value(&lane).map(|(lane, _)| Arc::clone(lane));
        let lane = known.unwrap_or_else(|| Arc::new(lane));
        let flight = Flight { claim: claim.number, by: claim.by, entry, ahead: claim.ahead };
        self.lanes.entry(Arc::clone(&lane)).or_default().inflight.insert(entry.no, flight);
        self.flights.insert(entry.no, lane);
    }
}
