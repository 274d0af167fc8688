//! What the house decided, told apart from what somebody wrote into its database.
//!
//! Every process of the user can write to `state.db`. So a row counts only if the house itself wrote it, and only in its
//! newest version. Two things make that certain:
//!
//! - A **seal** is a keyed digest of everything in a row that matters. The key comes from the house key, which lives in
//!   the memory of the keeper and of a daemon that the keeper recognises. Nobody else can make a seal.
//! - The **ledger** remembers the seal of every row that can still have an effect. An old row with a seal of its own is not
//!   in the ledger, so it cannot be put back. A digest of the whole ledger, the **anchor**, lies with the keeper, so a
//!   daemon that starts after a crash can tell whether the database is the one that the last daemon left.
//!
//! Guarantees: nobody is told of a write before the anchor with it lies with the keeper, and a write whose anchor cannot be
//! put there is taken back. A database that is one commit ahead of the anchor, or none, is accepted; any other is not.
//!
//! This module knows no table but by a number. What a row's seal covers is the business of whoever owns the row.

mod anchor;
mod head;
mod ledger;
mod seal;
mod vault;

pub use hostel_keeper::key::HouseKey;
pub use vault::{KeyChanges, MemoryVault, Recalled, Vault, VaultError};

pub(crate) use anchor::Anchor;
pub(crate) use head::{AuditHead, SegmentKey};
pub(crate) use ledger::{Kept, Ledger};
pub(crate) use seal::{RowKey, Seal, Table};
