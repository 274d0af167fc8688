//! The ledger: the seal of every row that can still have an effect, and the end of the audit.
//!
//! Guarantees: it changes only on the writing thread, together with the database, and follows every rollback. While others
//! read it, it may be one commit ahead of what they can see of the database; whoever finds a difference looks again on the
//! writing thread before calling it tampering.
//!
//! Before a commit the vault is told what the ledger will be, and after the commit that it is so. Between the two a crash
//! may have left either; before and after only one of them is accepted.
//!
//! Where to look next: what is done about rows that differ is decided by those who own them.

use std::collections::HashMap;
use std::sync::Arc;

use hostel_store::Witness;
use hostel_syncpoint::points;
use parking_lot::{Mutex, RwLock};
use rusqlite::Transaction;
use tokio::sync::Notify;

use super::HouseKey;
use super::anchor::{Anchor, Deposit};
use super::head::{AuditHead, SegmentKey};
use super::seal::{Encoder, RowKey, Seal, Sealer, Table};
use super::vault::{Vault, VaultError};

/// Writes the signature of the records from the first of a segment to the last of the audit.
pub(crate) type WriteSignature = fn(&Transaction<'_>, u64, AuditHead, &[u8; 64]) -> rusqlite::Result<()>;

/// Reports that wait to be told at most.
const MAX_REPORTS: usize = 100;

/// What the vault says of a database that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nothing: the key is new, so nothing that was found proves anything.
    Nothing,
    /// The anchor that the database should have.
    Anchor(Box<Anchor>),
}

/// See the module.
pub(crate) struct Ledger {
    state: Mutex<State>,
    vault: RwLock<Arc<dyn Vault>>,
    deposit: Option<Deposit>,
    write_signature: WriteSignature,
    /// What people have to hear of and nobody has told them yet.
    reports: Mutex<Vec<String>>,
    /// Rung when somebody else has written to the database, or there is a report.
    alarm: Arc<Notify>,
}

struct State {
    key_id: [u8; 8],
    sealer: Sealer,
    signer: SegmentKey,
    rows: HashMap<RowKey, Seal>,
    now: Anchor,
    /// What the vault holds for certain.
    confirmed: Option<Anchor>,
    /// The first record of this key's segment of the audit.
    segment: Option<u64>,
    /// What was changed since the last commit, with what was there before.
    undo: Vec<Undo>,
    /// Entries of the state that this one has replaced since the last commit.
    undo_before: usize,
    /// The vault holds nothing of this state yet.
    is_new: bool,
    /// SQLite's count of the changes that others made.
    version: Option<i64>,
    foreign: bool,
}

enum Undo {
    Row(RowKey, Option<Seal>),
    Head(AuditHead),
    Segment(Option<u64>),
    Rekeyed(Box<State>),
}

impl State {
    fn new(key: &HouseKey) -> Self {
        State {
            key_id: key.id(),
            sealer: Sealer::new(key),
            signer: SegmentKey::new(key),
            rows: HashMap::new(),
            now: Anchor::EMPTY,
            confirmed: None,
            segment: None,
            undo: Vec::new(),
            undo_before: 0,
            is_new: true,
            version: None,
            foreign: false,
        }
    }

    fn put(&mut self, row: RowKey, seal: Option<Seal>) -> Option<Seal> {
        let before = match seal {
            Some(seal) => self.rows.insert(row, seal),
            None => self.rows.remove(&row),
        };
        if let Some(before) = before {
            self.now.take(row, self.sealer.share(row, before));
        }
        if let Some(seal) = seal {
            self.now.add(row, self.sealer.share(row, seal));
        }
        before
    }

    fn go_back(&mut self, mark: usize) {
        while self.undo_before + self.undo.len() > mark {
            match self.undo.pop() {
                Some(Undo::Row(row, before)) => drop(self.put(row, before)),
                Some(Undo::Head(head)) => self.now.head = head,
                Some(Undo::Segment(segment)) => self.segment = segment,
                Some(Undo::Rekeyed(before)) => *self = *before,
                None => return,
            }
        }
    }

    /// The segments that got records since the last commit: the first record, the last one, and the key that signs them.
    /// Several writes are committed together, so records may have been added under the key of before as well.
    fn unsigned(&self) -> Vec<(u64, AuditHead, SegmentKey)> {
        let mut found = Vec::new();
        let mut state = Some(self);
        while let Some(current) = state {
            let appended = current.undo.iter().any(|undo| matches!(undo, Undo::Head(_)));
            if let Some(first) = current.segment.filter(|_| appended) {
                found.push((first, current.now.head, current.signer.clone()));
            }
            state = current.undo.iter().find_map(|undo| match undo {
                Undo::Rekeyed(before) => Some(&**before),
                _ => None,
            });
        }
        found
    }

    fn has_changed(&self) -> bool {
        self.is_new || !self.undo.is_empty()
    }
}

impl Ledger {
    /// An empty ledger under this key. `recalled` is what the vault remembers.
    pub(crate) fn new(
        vault: Arc<dyn Vault>,
        key: &HouseKey,
        recalled: Option<&[u8]>,
        write_signature: WriteSignature,
        alarm: Arc<Notify>,
    ) -> Self {
        let deposit = recalled.and_then(Deposit::decode).filter(|deposit| deposit.key_id == key.id());
        let (state, vault) = (Mutex::new(State::new(key)), RwLock::new(vault));
        Ledger { state, vault, deposit, write_signature, reports: Mutex::default(), alarm }
    }

    /// Tells one key from another.
    pub(crate) fn key_id(&self) -> [u8; 8] {
        self.state.lock().key_id
    }

    /// The seal of a row with these parts.
    pub(crate) fn seal(&self, table: Table, encode: impl FnOnce(&mut Encoder)) -> Seal {
        let sealer = self.state.lock().sealer.clone();
        sealer.seal(table, encode)
    }

    /// The seal that a row has, if it can still have an effect.
    pub(crate) fn get(&self, row: RowKey) -> Option<Seal> {
        self.state.lock().rows.get(&row).copied()
    }

    /// The rows of a table that can still have an effect.
    pub(crate) fn rows_of(&self, table: Table) -> Vec<(u64, Seal)> {
        let state = self.state.lock();
        state.rows.iter().filter(|(row, _)| row.table == table).map(|(row, seal)| (row.no, *seal)).collect()
    }

    /// A row has this seal from now on, or can have no effect any more. Part of the write that says so.
    pub(crate) fn set(&self, row: RowKey, seal: Option<Seal>) {
        let mut state = self.state.lock();
        let before = state.put(row, seal);
        state.undo.push(Undo::Row(row, before));
    }

    /// The last record of the audit.
    pub(crate) fn head(&self) -> AuditHead {
        self.state.lock().now.head
    }

    /// The audit has another last record. Part of the write that says so.
    pub(crate) fn set_head(&self, head: AuditHead) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.now.head, head);
        state.undo.push(Undo::Head(before));
    }

    /// The first record that is signed with this key; none if there is none.
    pub(crate) fn segment(&self) -> Option<u64> {
        self.state.lock().segment
    }

    /// The records from this one on are signed with this key. Part of the write that says so.
    pub(crate) fn set_segment(&self, first: u64) {
        let mut state = self.state.lock();
        let before = state.segment.replace(first);
        state.undo.push(Undo::Segment(before));
    }

    /// The key that verifies this segment.
    pub(crate) fn segment_key(&self) -> [u8; 32] {
        self.state.lock().signer.public()
    }

    /// The anchor that a ledger with these rows would have.
    pub(crate) fn measure(&self, rows: impl IntoIterator<Item = (RowKey, Seal)>, head: AuditHead) -> Anchor {
        let sealer = self.state.lock().sealer.clone();
        let mut anchor = Anchor { head, ..Anchor::EMPTY };
        for (row, seal) in rows {
            anchor.add(row, sealer.share(row, seal));
        }
        anchor
    }

    /// What a database should be that was found like this. Where a crash has left two possibilities and neither is met,
    /// it is the nearer one.
    pub(crate) fn expected(&self, found: &Anchor) -> Kept {
        let Some(Deposit { confirmed, intended, .. }) = &self.deposit else { return Kept::Nothing };
        let nearer = match (confirmed, intended) {
            (Some(confirmed), Some(intended)) if found.differences(intended) < found.differences(confirmed) => intended,
            (Some(confirmed), _) => confirmed,
            // Nothing was ever committed, unless it was this.
            (None, Some(intended)) if found == intended => intended,
            (None, _) => return Kept::Nothing,
        };
        let mut state = self.state.lock();
        // Until the next commit the database is what it was: a crash before that finds it as this one did.
        state.confirmed = Some(nearer.clone());
        Kept::Anchor(Box::new(nearer.clone()))
    }

    /// Begins anew under another key, with nothing known, as part of a write. The caller enters every row again.
    pub(crate) fn rekey(&self, key: &HouseKey, vault: Arc<dyn Vault>) {
        *self.vault.write() = vault;
        let mut state = self.state.lock();
        let mut fresh = State::new(key);
        fresh.version = state.version;
        fresh.now.head = state.now.head;
        fresh.undo_before = state.undo_before + state.undo.len();
        let before = std::mem::replace(&mut *state, fresh);
        state.undo.push(Undo::Rekeyed(Box::new(before)));
    }

    /// Whether somebody else has written to the database since this was last asked.
    pub(crate) fn take_foreign(&self) -> bool {
        std::mem::take(&mut self.state.lock().foreign)
    }

    /// What somebody else has written could not be looked at yet.
    pub(crate) fn set_foreign(&self) {
        self.state.lock().foreign = true;
    }

    /// Something that people have to hear of. May be called inside a write.
    pub(crate) fn report(&self, what: String) {
        let mut reports = self.reports.lock();
        if reports.len() < MAX_REPORTS {
            reports.push(what);
        }
        self.alarm.notify_one();
    }

    pub(crate) fn take_reports(&self) -> Vec<String> {
        std::mem::take(&mut self.reports.lock())
    }

    fn deposit(&self, deposit: &Deposit) -> Result<(), String> {
        let vault = Arc::clone(&self.vault.read());
        match vault.put(&deposit.encode()) {
            // Without a keeper there is no key to come back to: what is in memory is all there is.
            Ok(()) | Err(VaultError::Gone) => Ok(()),
            Err(error @ VaultError::Stuck(_)) => Err(error.to_string()),
        }
    }
}

impl Witness for Ledger {
    fn begin(&self, transaction: &Transaction<'_>) {
        let version = transaction
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, i64>(0)))
            .ok();
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.version, version);
        if before.is_some() && before != version {
            state.foreign = true;
            self.alarm.notify_one();
        }
    }

    fn mark(&self) -> usize {
        let state = self.state.lock();
        state.undo_before + state.undo.len()
    }

    fn go_back(&self, mark: usize) {
        self.state.lock().go_back(mark);
    }

    fn prepare(&self, transaction: &Transaction<'_>) -> Result<(), String> {
        let (unsigned, deposit) = {
            let state = self.state.lock();
            if !state.has_changed() {
                return Ok(());
            }
            let (key_id, confirmed) = (state.key_id, state.confirmed.clone());
            (state.unsigned(), Deposit { key_id, confirmed, intended: Some(state.now.clone()) })
        };
        for (first, head, signer) in unsigned {
            let written = (self.write_signature)(transaction, first, head, &signer.sign(first, head));
            written.map_err(|error| error.to_string())?;
        }
        self.deposit(&deposit)?;
        points::ANCHOR_INTENDED.reach();
        Ok(())
    }

    fn settled(&self, committed: bool) {
        let deposit = {
            let mut state = self.state.lock();
            if !committed {
                return state.go_back(0);
            }
            if !state.has_changed() {
                return;
            }
            state.undo.clear();
            (state.undo_before, state.is_new) = (0, false);
            state.confirmed = Some(state.now.clone());
            Deposit { key_id: state.key_id, confirmed: state.confirmed.clone(), intended: None }
        };
        points::ANCHOR_COMMITTED.reach();
        // If it cannot be said now, a crash finds both possibilities. The next write says it, or is refused.
        self.deposit(&deposit).ok();
        points::ANCHOR_CONFIRMED.reach();
    }
}

#[cfg(test)]
mod tests {
    use super::super::vault::MemoryVault;
    use super::*;

    fn row(no: u64) -> RowKey {
        RowKey { table: Table::Grant, no }
    }

    fn ledger(vault: &MemoryVault) -> Ledger {
        let recalled = futures(vault.recall());
        let key = vault.key().unwrap();
        Ledger::new(Arc::new(vault.clone()), &key, recalled.as_deref(), |_, _, _, _| Ok(()), Arc::default())
    }

    /// The vault of these tests answers at once.
    fn futures(recalled: super::super::vault::Recalled<'_>) -> Option<Vec<u8>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(recalled).unwrap()
    }

    fn seal(ledger: &Ledger, text: &str) -> Seal {
        ledger.seal(Table::Grant, |encoder| {
            encoder.text(text);
        })
    }

    /// A group of writes.
    fn commit(ledger: &Ledger, committed: bool, work: impl FnOnce()) {
        let mut database = rusqlite::Connection::open_in_memory().unwrap();
        let transaction = database.transaction().unwrap();
        ledger.begin(&transaction);
        work();
        ledger.prepare(&transaction).unwrap();
        ledger.settled(committed);
    }

    #[test]
    fn a_write_that_is_taken_back_leaves_the_ledger_as_it_was() {
        let vault = MemoryVault::new().unwrap();
        let ledger = ledger(&vault);
        let (one, other) = (seal(&ledger, "one"), seal(&ledger, "other"));
        commit(&ledger, true, || ledger.set(row(1), Some(one)));
        let known = ledger.state.lock().now.clone();
        commit(&ledger, false, || {
            ledger.set(row(1), Some(other));
            ledger.set_head(AuditHead { no: 3, digest: [1; 32] });
            ledger.set_segment(3);
            ledger.set(row(2), Some(one));
        });
        assert_eq!((ledger.get(row(1)), ledger.get(row(2)), ledger.segment()), (Some(one), None, None));
        assert_eq!(ledger.state.lock().now, known);
        // One of several.
        commit(&ledger, true, || {
            ledger.set(row(2), Some(other));
            let mark = ledger.mark();
            ledger.set(row(1), None);
            ledger.go_back(mark);
        });
        assert_eq!((ledger.get(row(1)), ledger.get(row(2))), (Some(one), Some(other)));
        let measured = ledger.measure([(row(1), one), (row(2), other)], AuditHead::NONE);
        assert_eq!(ledger.state.lock().now, measured);
    }

    /// Notes in the database which records were signed.
    fn note_signature(
        transaction: &Transaction<'_>,
        first: u64,
        head: AuditHead,
        signature: &[u8; 64],
    ) -> rusqlite::Result<()> {
        transaction.execute_batch("CREATE TABLE IF NOT EXISTS signed (first, last, signature)")?;
        let row = rusqlite::params![first as i64, head.no as i64, signature];
        transaction.execute("INSERT INTO signed VALUES (?, ?, ?)", row).map(drop)
    }

    #[test]
    fn records_before_a_new_key_are_signed_with_the_old_one_though_both_are_committed_together() {
        let vault = MemoryVault::new().unwrap();
        let key = vault.key().unwrap();
        let ledger = Ledger::new(Arc::new(vault.clone()), &key, None, note_signature, Arc::default());
        let (old, other) = (ledger.segment_key(), HouseKey::random().unwrap());
        let head = |no: u64| AuditHead { no, digest: [no as u8; 32] };
        let mut database = rusqlite::Connection::open_in_memory().unwrap();
        let transaction = database.transaction().unwrap();
        ledger.begin(&transaction);
        ledger.set_head(head(4));
        ledger.set_segment(1);
        ledger.rekey(&other, Arc::new(vault.clone()));
        ledger.set_head(head(5));
        ledger.set_segment(5);
        ledger.prepare(&transaction).unwrap();
        ledger.settled(true);
        let mut found = transaction.prepare("SELECT first, last, signature FROM signed ORDER BY first").unwrap();
        let rows = found.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get(2)?)));
        let signed: Vec<(i64, i64, [u8; 64])> = rows.unwrap().map(Result::unwrap).collect();
        assert_eq!(signed.iter().map(|(first, last, _)| (*first, *last)).collect::<Vec<_>>(), [(1, 4), (5, 5)]);
        assert!(SegmentKey::verifies(&old, 1, head(4), &signed[0].2));
        assert!(SegmentKey::verifies(&ledger.segment_key(), 5, head(5), &signed[1].2));
        assert!(ledger.state.lock().unsigned().is_empty());
    }

    #[test]
    fn what_a_crash_leaves_is_expected_and_nothing_older() {
        let vault = MemoryVault::new().unwrap();
        let first = ledger(&vault);
        assert_eq!(first.expected(&Anchor::EMPTY), Kept::Nothing);
        let seals: Vec<Seal> = ["a", "b", "c"].iter().map(|text| seal(&first, text)).collect();
        let of = |count: usize| {
            let rows = seals.iter().take(count).enumerate().map(|(at, seal)| (row(at as u64), *seal));
            first.measure(rows, AuditHead::NONE)
        };
        commit(&first, true, || first.set(row(0), Some(seals[0])));
        commit(&first, true, || first.set(row(1), Some(seals[1])));
        // The third commit was announced; whether it happened nobody knows.
        let mut database = rusqlite::Connection::open_in_memory().unwrap();
        first.set(row(2), Some(seals[2]));
        first.prepare(&database.transaction().unwrap()).unwrap();
        let after = ledger(&vault);
        for count in [2, 3] {
            assert_eq!(after.expected(&of(count)), Kept::Anchor(Box::new(of(count))));
        }
        let Kept::Anchor(expected) = after.expected(&of(1)) else { panic!("nothing is expected") };
        assert_ne!(*expected, of(1));
        // Known to have happened: what was before is not accepted any more.
        first.settled(true);
        let Kept::Anchor(expected) = ledger(&vault).expected(&of(2)) else { panic!("nothing is expected") };
        assert_eq!(*expected, of(3));
        vault.lose().unwrap();
        assert_eq!(ledger(&vault).expected(&of(3)), Kept::Nothing);
    }

    #[test]
    fn another_key_begins_anew_and_can_be_taken_back() {
        let vault = MemoryVault::new().unwrap();
        let ledger = ledger(&vault);
        let one = seal(&ledger, "one");
        commit(&ledger, true, || ledger.set(row(1), Some(one)));
        let (before, other) = (ledger.key_id(), HouseKey::random().unwrap());
        commit(&ledger, false, || {
            ledger.set(row(7), Some(one));
            ledger.rekey(&other, Arc::new(vault.clone()));
            ledger.set(row(1), Some(seal(&ledger, "one")));
        });
        assert_eq!((ledger.key_id(), ledger.get(row(1)), ledger.get(row(7))), (before, Some(one), None));
        commit(&ledger, true, || {
            let mark = ledger.mark();
            ledger.rekey(&other, Arc::new(vault.clone()));
            ledger.go_back(mark);
            assert_eq!(ledger.key_id(), before);
            ledger.rekey(&other, Arc::new(vault.clone()));
            let again = seal(&ledger, "one");
            ledger.set(row(1), Some(again));
        });
        assert_eq!(ledger.key_id(), other.id());
        assert_ne!(ledger.get(row(1)), Some(one));
        assert_eq!(ledger.mark(), 0);
    }
}
