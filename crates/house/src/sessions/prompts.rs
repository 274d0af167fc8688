//! Prompts that were taken and are not answered: what proves that the house itself took them.
//!
//! Everybody who can write `state.db` could put a prompt there, change one that waits, or have one given twice. So each row
//! of a turn that waits or runs has a seal and a place in the ledger, from the write that takes the prompt to the one that
//! ends its turn.
//!
//! Guarantees: a prompt whose row does not carry the seal that the house knows is never given to an agent; its turn ends as
//! failed. One that carries a seal of the house, and of which nobody can prove that it is the newest, is given by a turn
//! that asks before it writes, whatever the mode of its session is. So is every prompt that waited when the key was lost.
//!
//! What of this happens at a start is decided in `approvals::loading`.

use rusqlite::{Connection, Row, Transaction, params};
use sha2::{Digest as _, Sha256};

use super::types::Cause;
use crate::processes::ProcessId;
use crate::seals::{Ledger, RowKey, Seal, Table};

/// What the seal of a prompt covers beside its place and how far it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof {
    /// Of the prompt and its door.
    digest: [u8; 32],
    /// Nobody can prove any more that the house took it.
    pub(crate) unproved: bool,
}

impl Proof {
    pub(crate) fn of(prompt: &str, door: &str, unproved: bool) -> Self {
        Self::of_bytes(prompt.as_bytes(), door.as_bytes(), unproved)
    }

    fn of_bytes(prompt: &[u8], door: &[u8], unproved: bool) -> Self {
        let mut digest = Sha256::new();
        for part in [door, prompt] {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        Proof { digest: digest.finalize().into(), unproved }
    }
}

/// The row of a turn that waits or runs, without its words.
#[derive(Clone, Debug)]
pub(crate) struct PromptRow {
    pub(crate) session: i64,
    pub(crate) turn: u64,
    pub(crate) proof: Proof,
    /// The process that serves it; none while it waits.
    pub(crate) process: Option<ProcessId>,
    pub(crate) running: bool,
    /// The number of its first event: numbers by which the agent's questions are found again follow from there.
    pub(crate) first_seq: u64,
}

/// The columns of [`read`].
const PROMPT: &str = "SELECT session, turn, prompt, door, state, process, unproved, seal, first_seq FROM turns";

/// A row of [`PROMPT`], and the seal that it carries.
fn read(row: &Row<'_>) -> rusqlite::Result<(PromptRow, Option<Seal>)> {
    // What somebody else has written need not be text.
    let (prompt, door) = (row.get_ref(2)?.as_bytes()?, row.get_ref(3)?.as_bytes()?);
    let unproved = row.get::<_, i64>(6)? != 0;
    let found = PromptRow {
        session: row.get(0)?,
        turn: row.get::<_, i64>(1)? as u64,
        proof: Proof::of_bytes(prompt, door, unproved),
        process: row.get_ref(5)?.as_blob().ok().and_then(|id| id.try_into().ok()).map(ProcessId),
        running: row.get_ref(4)?.as_bytes()? == b"running",
        first_seq: row.get::<_, i64>(8)? as u64,
    };
    Ok((found, row.get_ref(7)?.as_blob().ok().and_then(Seal::read)))
}

/// The rows of all turns that wait or run, each with the seal that it carries.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Vec<(PromptRow, Option<Seal>)>> {
    let mut statement = connection.prepare_cached(&format!("{PROMPT} WHERE state IN ('queued', 'running')"))?;
    statement.query_map([], read)?.collect()
}

/// The place of a prompt in the ledger. Neighbours in one queue are in different buckets.
pub(crate) fn key(session: i64, turn: u64) -> RowKey {
    RowKey { table: Table::Prompt, no: (session as u64) << 32 | turn.wrapping_add(session as u64) & 0xffff_ffff }
}

impl PromptRow {
    pub(crate) fn key(&self) -> RowKey {
        key(self.session, self.turn)
    }

    pub(crate) fn seal(&self, ledger: &Ledger) -> Seal {
        ledger.seal(Table::Prompt, |encoder| {
            encoder.number(self.session).number(self.turn as i64).bytes(&self.proof.digest);
            encoder.number(i64::from(self.running)).number(i64::from(self.proof.unproved));
            encoder.number(self.first_seq as i64).maybe(self.process.as_ref().map(|process| &process.0[..]));
        })
    }

    /// Whether this is what the house wrote last.
    pub(crate) fn is_ours(&self, ledger: &Ledger) -> bool {
        ledger.get(self.key()) == Some(self.seal(ledger))
    }

    /// Seals the row as it is. Part of the write that makes it so.
    pub(crate) fn write(&self, transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
        let seal = self.seal(ledger);
        transaction
            .prepare_cached("UPDATE turns SET seal = ?, unproved = ? WHERE session = ? AND turn = ?")?
            .execute(params![seal.bytes(), self.proof.unproved, self.session, self.turn as i64])?;
        ledger.set(self.key(), Some(seal));
        Ok(())
    }

    /// Nobody can prove any more that the house took the prompt: if it waits, its turn is to ask before it writes.
    pub(crate) fn doubt(&mut self, transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
        self.proof.unproved |= !self.running;
        self.write(transaction, ledger)
    }

    /// The row is not the house's own: it is never given to an agent. Its session tells of its end.
    pub(crate) fn strike(&self, transaction: &Transaction<'_>, ledger: &Ledger, now_ns: u64) -> rusqlite::Result<()> {
        transaction
            .prepare_cached(
                "UPDATE turns SET state = 'cancelled', cause = ?, told = 0, ended_ns = ? WHERE session = ? AND turn = ?",
            )?
            .execute(params![Cause::Tampered.word(), now_ns as i64, self.session, self.turn as i64])?;
        forget(ledger, self.session, self.turn);
        Ok(())
    }

    /// What the audit has of a prompt that nobody took.
    pub(crate) fn body(&self) -> serde_json::Value {
        serde_json::json!({"what": "prompt", "session_no": self.session, "turn": self.turn})
    }
}

/// What people hear of a prompt that somebody else has written.
pub(crate) fn report() -> String {
    "a prompt that waits was changed in state.db, or put there; it is not given to an agent".to_owned()
}

/// The turn waits and runs no more. Part of the write that says so.
pub(crate) fn forget(ledger: &Ledger, session: i64, turn: u64) {
    let key = key(session, turn);
    if ledger.get(key).is_some() {
        ledger.set(key, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_prompt_at_one_door() {
        let different = [
            Proof::of("ab", "c", false),
            Proof::of("a", "bc", false),
            Proof::of("c", "ab", false),
            Proof::of("", "abc", false),
        ];
        for (at, one) in different.iter().enumerate() {
            assert!(different.iter().skip(at + 1).all(|other| other.digest != one.digest), "{at}");
        }
        assert_eq!(Proof::of("ab", "c", true).digest, different[0].digest);
    }

    #[test]
    fn no_two_turns_have_one_place() {
        let keys: std::collections::HashSet<u64> =
            (1..50).flat_map(|session| (1..50).map(move |turn| key(session, turn).no)).collect();
        assert_eq!(keys.len(), 49 * 49);
    }
}
