//! The anchor: a digest of the ledger and of the audit's end, small enough to be sent with every commit.
//!
//! A sum for each bucket of rows instead of one for all: a single row that somebody changed makes only the few rows of its
//! bucket doubtful.
//!
//! Guarantees: what was encoded is decoded as it was; anything else is refused.

use super::head::AuditHead;
use super::seal::{RowKey, Table};

/// The layout of the bytes. What another version has left is not read: it counts as a lost key.
const VERSION: u8 = 2;

/// All sums of all tables.
const SUMS: usize = 75;

/// Bytes of one encoded anchor.
const BYTES: usize = SUMS * 16 + 8 + 32;

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Anchor {
    pub(super) sums: [u128; SUMS],
    pub(super) head: AuditHead,
}

/// The place of the sum that a row is part of.
fn place(row: RowKey) -> usize {
    let before: usize = Table::KEPT.iter().take_while(|table| **table != row.table).map(|table| table.buckets()).sum();
    before + (row.no % row.table.buckets().max(1) as u64) as usize
}

impl Anchor {
    /// Of an empty ledger.
    pub(crate) const EMPTY: Anchor = Anchor { sums: [0; SUMS], head: AuditHead::NONE };

    /// The end of the audit.
    pub(crate) fn head(&self) -> AuditHead {
        self.head
    }

    pub(super) fn add(&mut self, row: RowKey, share: u128) {
        let sum = &mut self.sums[place(row)];
        *sum = sum.wrapping_add(share);
    }

    pub(super) fn take(&mut self, row: RowKey, share: u128) {
        let sum = &mut self.sums[place(row)];
        *sum = sum.wrapping_sub(share);
    }

    /// Whether the rows of the bucket in which `row` is are those of the other anchor.
    pub(crate) fn agrees_about(&self, row: RowKey, other: &Anchor) -> bool {
        self.sums[place(row)] == other.sums[place(row)]
    }

    /// Whether all rows of a table are those of the other anchor.
    pub(crate) fn agrees_on(&self, table: Table, other: &Anchor) -> bool {
        (0..table.buckets() as u64).all(|no| self.agrees_about(RowKey { table, no }, other))
    }

    /// In how many sums two anchors differ; the end of the audit counts as one.
    pub(super) fn differences(&self, other: &Anchor) -> usize {
        let sums = self.sums.iter().zip(&other.sums).filter(|(one, other)| one != other).count();
        sums + usize::from(self.head != other.head)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        for sum in &self.sums {
            out.extend_from_slice(&sum.to_le_bytes());
        }
        out.extend_from_slice(&self.head.no.to_le_bytes());
        out.extend_from_slice(&self.head.digest);
    }

    fn decode(bytes: &[u8]) -> Option<Anchor> {
        let (sums, head) = bytes.split_at_checked(SUMS * 16)?;
        let mut anchor = Anchor::EMPTY;
        for (sum, bytes) in anchor.sums.iter_mut().zip(sums.as_chunks::<16>().0) {
            *sum = u128::from_le_bytes(*bytes);
        }
        let (no, digest) = head.split_first_chunk::<8>()?;
        anchor.head = AuditHead { no: u64::from_le_bytes(*no), digest: digest.try_into().ok()? };
        Some(anchor)
    }
}

/// What lies in the vault: the anchor of the last commit that is certain, and that of one that may have happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Deposit {
    /// The key under which the sums were made: those of another one say nothing.
    pub(super) key_id: [u8; 8],
    /// None while nothing was ever committed under this key.
    pub(super) confirmed: Option<Anchor>,
    pub(super) intended: Option<Anchor>,
}

impl Deposit {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(10 + 2 * BYTES);
        out.push(VERSION);
        out.extend_from_slice(&self.key_id);
        out.push(u8::from(self.confirmed.is_some()) | u8::from(self.intended.is_some()) << 1);
        for anchor in [&self.confirmed, &self.intended].into_iter().flatten() {
            anchor.encode(&mut out);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Deposit> {
        let (key_id, rest) = bytes.strip_prefix(&[VERSION])?.split_first_chunk::<8>()?;
        let [flags @ 0..=3, rest @ ..] = rest else { return None };
        let mut anchors = rest.chunks(BYTES).map(Anchor::decode);
        let mut next = |there: bool| if there { anchors.next()?.map(Some) } else { Some(None) };
        let deposit = Deposit { key_id: *key_id, confirmed: next(flags & 1 != 0)?, intended: next(flags & 2 != 0)? };
        anchors.next().is_none().then_some(deposit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_place_and_tables_share_none() {
        let sums: usize = Table::KEPT.iter().map(|table| table.buckets()).sum();
        assert_eq!(sums, SUMS);
        let mut places = std::collections::HashSet::new();
        for table in Table::KEPT {
            let of_table: std::collections::HashSet<usize> = (0..100).map(|no| place(RowKey { table, no })).collect();
            assert_eq!(of_table.len(), table.buckets());
            assert!(of_table.iter().all(|place| *place < SUMS && places.insert(*place)));
        }
    }

    #[test]
    fn what_is_added_and_taken_away_leaves_nothing_behind() {
        let (one, other) = (RowKey { table: Table::Grant, no: 1 }, RowKey { table: Table::Grant, no: 2 });
        let mut anchor = Anchor::EMPTY;
        anchor.add(one, u128::MAX);
        anchor.add(one, 7);
        assert!(!anchor.agrees_about(one, &Anchor::EMPTY) && anchor.agrees_about(other, &Anchor::EMPTY));
        assert!(!anchor.agrees_on(Table::Grant, &Anchor::EMPTY) && anchor.agrees_on(Table::Session, &Anchor::EMPTY));
        assert_eq!(anchor.differences(&Anchor::EMPTY), 1);
        anchor.take(one, u128::MAX);
        anchor.take(one, 7);
        assert_eq!(anchor, Anchor::EMPTY);
    }

    #[test]
    fn a_deposit_is_read_back_and_other_bytes_are_none() {
        let mut anchor = Anchor { head: AuditHead { no: 9, digest: [3; 32] }, ..Anchor::EMPTY };
        anchor.add(RowKey::only(Table::Policy), 5);
        for (confirmed, intended) in [
            (None, None),
            (Some(anchor.clone()), None),
            (None, Some(anchor.clone())),
            (Some(Anchor::EMPTY), Some(anchor)),
        ] {
            let deposit = Deposit { key_id: [4; 8], confirmed, intended };
            let bytes = deposit.encode();
            assert!(bytes.len() <= 4096);
            assert_eq!(Deposit::decode(&bytes), Some(deposit));
            assert_eq!(Deposit::decode(&bytes[..bytes.len() - 1]), None);
            assert_eq!(Deposit::decode(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Deposit::decode(&[]), None);
        assert_eq!(Deposit::decode(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Deposit::decode(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 4]), None);
    }
}
