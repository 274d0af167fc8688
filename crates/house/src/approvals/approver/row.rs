//! The digest that is in force, as the house itself has stored it.
//!
//! The row is written before the file is replaced, and keeps the digest of before until the file is in its place. So a
//! daemon that was killed in between can tell a change that was not finished from a file that somebody else has replaced.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::super::audit::approver::Proof;
use super::super::audit::signatures::ApproverKey;
use crate::seals::{Ledger, RowKey, Seal, Table};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::approvals) struct ApproverRow {
    /// The digest; none if there is no passphrase.
    pub(in crate::approvals) digest: Option<String>,
    /// The one before it, while the file may still hold that one. The same as `digest` once the file is in its place.
    pub(in crate::approvals) previous: Option<String>,
    /// The digest is in doubt, because the key that proved it is lost: the passphrase has to fit to this as well.
    pub(in crate::approvals) doubt: Option<Proof>,
    /// What signs the next change in the audit; none before this version has seen the passphrase.
    pub(in crate::approvals) key: Option<ApproverKey>,
}

impl ApproverRow {
    /// A digest that the file holds already, or that there is none and no file.
    pub(in crate::approvals) fn finished(digest: Option<String>, key: Option<ApproverKey>) -> Self {
        ApproverRow { previous: digest.clone(), digest, doubt: None, key }
    }

    /// Likewise, in doubt.
    pub(in crate::approvals) fn doubted(
        digest: Option<String>,
        doubt: Option<Proof>,
        key: Option<ApproverKey>,
    ) -> Self {
        ApproverRow { doubt, ..ApproverRow::finished(digest, key) }
    }

    /// A digest that a passphrase has to fit to together with what the audit proves.
    pub(in crate::approvals) fn proved(digest: Option<String>, proof: Option<Proof>) -> Self {
        let key = proof.as_ref().and_then(Proof::key).cloned();
        ApproverRow::doubted(digest, proof, key)
    }
}

/// The place of the row in the ledger.
pub(in crate::approvals) fn key() -> RowKey {
    RowKey::only(Table::Approver)
}

/// The row as it stands on disk; none if there is none.
pub(in crate::approvals) fn load(connection: &Connection) -> rusqlite::Result<Option<ApproverRow>> {
    let mut statement = connection.prepare_cached("SELECT digest, previous, doubt, key FROM approver")?;
    let found = statement.query_row([], |row| {
        // A text that cannot be read is a digest that fits no passphrase.
        let text = |index| row.get::<_, Option<String>>(index).unwrap_or_else(|_| Some(String::new()));
        let doubt = text(2).as_deref().and_then(Proof::from_text);
        let key = text(3).as_deref().and_then(ApproverKey::from_text);
        Ok(ApproverRow { digest: text(0), previous: text(1), doubt, key })
    });
    found.optional()
}

/// The seal of a row. The digest of before is not covered: all it can lead to is that the file is written again.
pub(in crate::approvals) fn seal_of(ledger: &Ledger, row: &ApproverRow) -> Seal {
    let (doubt, key) = (row.doubt.as_ref().map(Proof::text), row.key.as_ref().map(ApproverKey::text));
    ledger.seal(Table::Approver, |encoder| {
        encoder.maybe(row.digest.as_deref().map(str::as_bytes)).maybe(doubt.as_ref().map(String::as_bytes));
        // A row of an earlier version has no key, and the seal of then.
        if let Some(key) = &key {
            encoder.text(key);
        }
    })
}

/// Writes the row.
pub(in crate::approvals) fn save(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    row: &ApproverRow,
) -> rusqlite::Result<()> {
    let seal = seal_of(ledger, row);
    let (doubt, signer) = (row.doubt.as_ref().map(Proof::text), row.key.as_ref().map(ApproverKey::text));
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO approver (one, digest, previous, doubt, key, seal) VALUES (1, ?, ?, ?, ?, ?)",
        )?
        .execute(params![row.digest, row.previous, doubt, signer, seal.bytes()])?;
    ledger.set(key(), Some(seal));
    Ok(())
}
