//! The seal of a row, and how the parts of a row are encoded for it.
//!
//! Guarantees: each part is written with its length, so nothing can move from one part into the next. Seals of different
//! tables are never equal, whatever the rows hold.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use hostel_keeper::key::{HouseKey, Key};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// The tables whose rows have seals. Numbers are never reused.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Table {
    /// What is asked of people.
    Approval,
    /// Answers given in advance.
    Grant,
    /// What sessions are and may do.
    Session,
    /// Wrong passphrases.
    Lockout,
    /// The digest of the approver's passphrase.
    Approver,
    /// The settings about consent that are in force.
    Policy,
    /// The processes of sessions, and how far they have come. Not in the ledger: see `sessions::rows`.
    Process,
    /// Prompts that were taken and are not answered.
    Prompt,
}

impl Table {
    /// Tables of the ledger, in the order in which the anchor has them.
    pub(super) const KEPT: [Table; 7] =
        [Table::Approval, Table::Grant, Table::Session, Table::Lockout, Table::Approver, Table::Policy, Table::Prompt];

    fn number(self) -> u8 {
        match self {
            Table::Approval => 1,
            Table::Grant => 2,
            Table::Session => 3,
            Table::Lockout => 4,
            Table::Approver => 5,
            Table::Policy => 6,
            Table::Process => 7,
            Table::Prompt => 8,
        }
    }

    /// Sums that the anchor has of this table: a change of one row makes only the rows of one sum doubtful.
    pub(super) fn buckets(self) -> usize {
        match self {
            Table::Approval => 32,
            Table::Grant => 8,
            Table::Session | Table::Prompt => 16,
            Table::Lockout | Table::Approver | Table::Policy => 1,
            Table::Process => 0,
        }
    }
}

/// A row of the ledger.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct RowKey {
    pub(crate) table: Table,
    pub(crate) no: u64,
}

impl RowKey {
    /// The row of a table that has only one.
    pub(crate) fn only(table: Table) -> Self {
        RowKey { table, no: 1 }
    }
}

/// A keyed digest of a row.
#[derive(Clone, Copy)]
pub(crate) struct Seal([u8; 32]);

impl Seal {
    /// As it is stored.
    pub(crate) fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// From where it is stored; none if that is no seal.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Seal)
    }
}

impl PartialEq for Seal {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Seal {}

impl fmt::Debug for Seal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Seal({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// What makes seals. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sealer {
    rows: Hmac<Sha256>,
    sums: Hmac<Sha256>,
}

impl Sealer {
    pub(super) fn new(key: &HouseKey) -> Self {
        Sealer { rows: begin(&key.derive("seals of rows")), sums: begin(&key.derive("sums of seals")) }
    }

    pub(super) fn seal(&self, table: Table, encode: impl FnOnce(&mut Encoder)) -> Seal {
        let mut encoder = Encoder(self.rows.clone());
        encoder.0.update(&[table.number()]);
        encode(&mut encoder);
        Seal(encoder.0.finalize().into_bytes().into())
    }

    /// What a row adds to its sum. Not stored anywhere, so nobody can look for rows whose sums are equal.
    pub(super) fn share(&self, row: RowKey, seal: Seal) -> u128 {
        let mut mac = self.sums.clone();
        mac.update(&[row.table.number()]);
        mac.update(&row.no.to_le_bytes());
        mac.update(&seal.0);
        let digest: [u8; 32] = mac.finalize().into_bytes().into();
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        u128::from_le_bytes(half)
    }
}

/// A keyed digest that is about to be made.
fn begin(key: &Key) -> Hmac<Sha256> {
    // A key of any length is taken, so there is no error to speak of.
    Hmac::new_from_slice(key.as_bytes()).unwrap_or_else(|_| Hmac::new(&Default::default()))
}

/// Takes the parts of a row, one after the other.
pub(crate) struct Encoder(Hmac<Sha256>);

impl Encoder {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(&mut self, number: i64) -> &mut Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Something that may be absent, which is not the same as empty.
    pub(crate) fn maybe(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.number(1).bytes(bytes),
            None => self.number(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(&HouseKey::from_bytes(&[1; 32]))
    }

    #[test]
    fn nothing_moves_from_one_part_into_the_next() {
        let seal = |parts: &[&str]| {
            sealer().seal(Table::Grant, |encoder| {
                for part in parts {
                    encoder.text(part);
                }
            })
        };
        let different = [seal(&["ab", "c"]), seal(&["a", "bc"]), seal(&["abc"]), seal(&["abc", ""]), seal(&[])];
        for (at, one) in different.iter().enumerate() {
            assert!(different.iter().skip(at + 1).all(|other| other != one), "{at}");
        }
        assert_eq!(seal(&["ab", "c"]), seal(&["ab", "c"]));
        let absent = sealer().seal(Table::Grant, |encoder| {
            encoder.maybe(None);
        });
        assert_ne!(
            absent,
            sealer().seal(Table::Grant, |encoder| {
                encoder.maybe(Some(b""));
            })
        );
    }

    #[test]
    fn a_seal_belongs_to_its_table_and_a_share_to_its_row() {
        let of = |table| {
            sealer().seal(table, |encoder| {
                encoder.text("x");
            })
        };
        assert_ne!(of(Table::Grant), of(Table::Approval));
        let share = |table, no| sealer().share(RowKey { table, no }, of(Table::Grant));
        assert_ne!(share(Table::Grant, 1), share(Table::Grant, 2));
        assert_ne!(share(Table::Grant, 1), share(Table::Approval, 1));
        let other = Sealer::new(&HouseKey::from_bytes(&[2; 32]));
        assert_ne!(
            other.seal(Table::Grant, |encoder| {
                encoder.text("x");
            }),
            of(Table::Grant)
        );
    }
}
