//! What a session may do without asking: its mode, and whether messages from meshes become prompts.
//!
//! Everybody who can write `state.db` could raise a mode there. So the two are sealed, and a session whose row does not
//! carry the seal that the house knows gets the least rights there are.

use hostel_agents::Mode;
use rusqlite::{Connection, Transaction, params};

use super::mail::MeshPolicy;
use crate::processes::ProcessId;
use crate::seals::{Ledger, RowKey, Seal, Table};

/// The door whose contract fixes the mode.
const CODECAST: &str = "codecast";

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rights {
    pub(crate) no: i64,
    pub(crate) id: String,
    pub(crate) door: String,
    pub(crate) mode: String,
    pub(crate) mesh: String,
}

impl Rights {
    pub(crate) fn new(no: i64, id: &str, door: &str, mode: Mode, mesh: MeshPolicy) -> Self {
        let (mode, mesh) = (mode.name().to_owned(), mesh.word().to_owned());
        Rights { no, id: id.to_owned(), door: door.to_owned(), mode, mesh }
    }

    /// The place of a session in the ledger.
    pub(crate) fn key(&self) -> RowKey {
        key(self.no)
    }

    pub(crate) fn seal(&self, ledger: &Ledger) -> Seal {
        ledger.seal(Table::Session, |encoder| {
            encoder.text(&self.id).text(&self.door).text(&self.mode).text(&self.mesh);
        })
    }

    /// The least rights there are.
    pub(crate) fn least(&self) -> Self {
        Rights::new(self.no, &self.id, &self.door, Mode::Ask, MeshPolicy::Off)
    }

    /// What is left of rights that nobody can prove any more. The contract of the codecast door fixes the mode of its
    /// sessions.
    pub(crate) fn after_lost_key(&self) -> Self {
        let mode = match Mode::named(&self.mode) {
            Some(mode @ (Mode::Plan | Mode::Ask)) => mode,
            Some(mode) if self.door == CODECAST => mode,
            _ => Mode::Ask,
        };
        let mesh = match MeshPolicy::named(&self.mesh) {
            Some(MeshPolicy::Ask | MeshPolicy::On) => MeshPolicy::Ask,
            _ => MeshPolicy::Off,
        };
        Rights::new(self.no, &self.id, &self.door, mode, mesh)
    }

    /// Writes them down. Part of the write that changes them.
    pub(crate) fn write(&self, transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
        let seal = self.seal(ledger);
        transaction
            .prepare_cached("UPDATE sessions SET mode = ?, mesh = ?, seal = ? WHERE no = ?")?
            .execute(params![self.mode, self.mesh, seal.bytes(), self.no])?;
        ledger.set(self.key(), Some(seal));
        Ok(())
    }
}

fn key(no: i64) -> RowKey {
    RowKey { table: Table::Session, no: no as u64 }
}

/// The rights of every session that may be used again, as they were found.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Vec<Rights>> {
    let mut statement =
        connection.prepare_cached("SELECT no, id, door, mode, mesh FROM sessions WHERE standing <> 'killed'")?;
    let found = statement.query_map([], |row| {
        Ok(Rights { no: row.get(0)?, id: row.get(1)?, door: row.get(2)?, mode: row.get(3)?, mesh: row.get(4)? })
    })?;
    found.collect()
}

/// A session is never used again. Part of the write that says so.
pub(crate) fn forget(ledger: &Ledger, no: i64) {
    ledger.set(key(no), None);
}

/// Seals how the processes that run were started, where nobody can prove it any more: a keeper without a key may hold them
/// still. Those that were not started yet are never started.
pub(crate) fn adopt_processes(transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
    let found: Vec<([u8; 16], i64, String)> = transaction
        .prepare_cached("SELECT id, session, setup FROM agent_processes WHERE state = 'live'")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (id, session, setup) in found {
        let seal = setup_seal(ledger, ProcessId(id), session, &setup);
        transaction
            .prepare_cached("UPDATE agent_processes SET seal = ? WHERE id = ?")?
            .execute(params![seal.bytes(), id])?;
    }
    Ok(())
}

/// The seal of how a process is to be started. The row is never changed, so the ledger need not know it.
pub(crate) fn setup_seal(ledger: &Ledger, id: ProcessId, session: i64, setup: &str) -> Seal {
    ledger.seal(Table::Process, |encoder| {
        encoder.bytes(&id.0).number(session).text(setup);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_lost_key_rights_beyond_asking_are_gone_but_for_a_contract() {
        let of = |door: &str, mode, mesh| Rights::new(1, "s", door, mode, mesh);
        for (found, left) in [
            (of("native", Mode::Auto, MeshPolicy::On), of("native", Mode::Ask, MeshPolicy::Ask)),
            (of("native", Mode::Code, MeshPolicy::Ask), of("native", Mode::Ask, MeshPolicy::Ask)),
            (of("native", Mode::Plan, MeshPolicy::Off), of("native", Mode::Plan, MeshPolicy::Off)),
            (of("native", Mode::Ask, MeshPolicy::Off), of("native", Mode::Ask, MeshPolicy::Off)),
            (of("codecast", Mode::Auto, MeshPolicy::On), of("codecast", Mode::Auto, MeshPolicy::Ask)),
        ] {
            assert_eq!(found.after_lost_key(), left);
        }
        let odd = Rights {
            mode: "everything".to_owned(),
            mesh: "yes".to_owned(),
            ..of("native", Mode::Ask, MeshPolicy::Off)
        };
        assert_eq!(odd.after_lost_key(), of("native", Mode::Ask, MeshPolicy::Off));
    }
}
