//! What a session may do without asking: its mode, and whether messages from meshes become prompts. And who inside the
//! house made it: to them it belongs, and it has no weaker guard than they had.
//!
//! Everybody who can write `state.db` could raise a mode there, take a session for their own, or take its guard away. So all
//! of it is sealed, and a session whose row does not carry the seal that the house knows gets the least rights there are.

use hostel_agents::Mode;
use hostel_guard::Confinement;
use rusqlite::{Connection, Transaction, params};
use serde_json::json;

use super::mail::MeshPolicy;
use crate::processes::{Origin, ProcessId};
use crate::seals::{Ledger, RowKey, Seal, Table};

/// The door whose contract fixes the mode.
const CODECAST: &str = "codecast";

/// Where a session comes from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Provenance {
    /// Who asked for it, where that was a process inside the house. Nobody inside owns a session of which that is unknown.
    pub(crate) made_by: Option<Origin>,
    /// The guard that its processes have at least; none where somebody outside made it.
    pub(crate) guard: Option<Confinement>,
}

impl Provenance {
    /// That of a session of which nothing can be believed: nobody's inside, and guarded.
    pub(crate) fn least() -> Self {
        Provenance { made_by: None, guard: Some(Confinement::of_unknown_insider()) }
    }

    /// As it is stored.
    pub(crate) fn words(&self) -> (Option<String>, Option<String>) {
        let guard = self.guard.as_ref().and_then(|guard| serde_json::to_string(guard).ok());
        (self.made_by.as_ref().map(Origin::to_string), guard)
    }

    /// From how it is stored. What cannot be read is nobody's inside, and guarded.
    pub(crate) fn read(made_by: Option<&str>, guard: Option<&str>) -> Self {
        Provenance {
            made_by: made_by.and_then(|text| text.parse().ok()),
            guard: guard.map(|text| serde_json::from_str(text).unwrap_or_else(|_| Confinement::of_unknown_insider())),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rights {
    pub(crate) no: i64,
    pub(crate) id: String,
    pub(crate) door: String,
    pub(crate) mode: String,
    pub(crate) mesh: String,
    pub(crate) made_by: Option<String>,
    pub(crate) guard: Option<String>,
}

impl Rights {
    pub(crate) fn new(no: i64, id: &str, door: &str, mode: Mode, mesh: MeshPolicy, from: &Provenance) -> Self {
        let (mode, mesh) = (mode.name().to_owned(), mesh.word().to_owned());
        let (made_by, guard) = from.words();
        Rights { no, id: id.to_owned(), door: door.to_owned(), mode, mesh, made_by, guard }
    }

    /// The place of a session in the ledger.
    pub(crate) fn key(&self) -> RowKey {
        key(self.no)
    }

    pub(crate) fn seal(&self, ledger: &Ledger) -> Seal {
        ledger.seal(Table::Session, |encoder| {
            encoder.text(&self.id).text(&self.door).text(&self.mode).text(&self.mesh);
            encoder.maybe(self.made_by.as_deref().map(str::as_bytes)).maybe(self.guard.as_deref().map(str::as_bytes));
        })
    }

    /// What the audit has of rights that nobody gave.
    pub(crate) fn body(&self) -> serde_json::Value {
        let mut body = json!({"what": "session", "session": self.id, "mode": self.mode, "mesh": self.mesh});
        if let Some(made_by) = &self.made_by {
            body["made_by"] = json!(made_by);
        }
        body
    }

    /// The least rights there are.
    pub(crate) fn least(&self) -> Self {
        Rights::new(self.no, &self.id, &self.door, Mode::Ask, MeshPolicy::Off, &Provenance::least())
    }

    /// What is left of rights that nobody can prove any more. The contract of the codecast door fixes the mode of its
    /// sessions. Nobody inside owns the session any more; a guard that it had to have may be the one thing that was not
    /// made up, so that it stays, without its grants.
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
        let found = Provenance::read(self.made_by.as_deref(), self.guard.as_deref());
        let is_of_insider = self.made_by.is_some() || self.guard.is_some();
        let guard = is_of_insider.then(|| {
            let least = Confinement::of_unknown_insider();
            found.guard.map_or_else(|| least.clone(), |kept| kept.at_least(&least))
        });
        Rights::new(self.no, &self.id, &self.door, mode, mesh, &Provenance { made_by: None, guard })
    }

    /// Writes them down. Part of the write that changes them.
    pub(crate) fn write(&self, transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
        let seal = self.seal(ledger);
        transaction
            .prepare_cached("UPDATE sessions SET mode = ?, mesh = ?, made_by = ?, guard = ?, seal = ? WHERE no = ?")?
            .execute(params![self.mode, self.mesh, self.made_by, self.guard, seal.bytes(), self.no])?;
        ledger.set(self.key(), Some(seal));
        Ok(())
    }
}

fn key(no: i64) -> RowKey {
    RowKey { table: Table::Session, no: no as u64 }
}

/// The rights of every session that may be used again, as they were found.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Vec<Rights>> {
    let mut statement = connection
        .prepare_cached("SELECT no, id, door, mode, mesh, made_by, guard FROM sessions WHERE standing <> 'killed'")?;
    let found = statement.query_map([], |row| {
        Ok(Rights {
            no: row.get(0)?,
            id: row.get(1)?,
            door: row.get(2)?,
            mode: row.get(3)?,
            mesh: row.get(4)?,
            made_by: row.get(5)?,
            guard: row.get(6)?,
        })
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
    use hostel_guard::{Guard, Layers, Setting};

    use super::*;

    #[test]
    fn after_a_lost_key_rights_beyond_asking_are_gone_but_for_a_contract() {
        let of = |door: &str, mode, mesh| Rights::new(1, "s", door, mode, mesh, &Provenance::default());
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

    fn made(by: Option<&str>, guard: Option<Confinement>) -> Rights {
        let from = Provenance { made_by: by.map(|id| Origin::Session(id.to_owned())), guard };
        Rights::new(1, "s", "native", Mode::Ask, MeshPolicy::Off, &from)
    }

    #[test]
    fn after_a_lost_key_a_session_is_nobodys_inside_and_keeps_its_guard() {
        let granted = Guard { grants: ["docker".to_owned()].into(), setting: Setting::Strict };
        let kept = Confinement { guard: granted, layers: Layers::FULL };
        let stricter = Confinement { guard: Guard { setting: Setting::Strict, ..Guard::default() }, ..kept.clone() };
        let guarded = made(None, Some(Confinement::of_unknown_insider()));
        assert_eq!(made(Some("a"), Some(kept.clone())).after_lost_key(), made(None, Some(stricter)));
        assert_eq!(made(Some("a"), None).after_lost_key(), guarded, "somebody may have taken the guard away");
        assert_eq!(made(Some("a"), Some(Confinement::none())).after_lost_key(), guarded);
        assert_eq!(made(None, None).after_lost_key(), made(None, None), "somebody outside made it");
        let odd = Rights { guard: Some("{}".to_owned()), made_by: Some("me".to_owned()), ..made(None, None) };
        assert_eq!(odd.after_lost_key(), guarded);
        assert_eq!(made(Some("a"), Some(kept)).least(), guarded);
    }

    #[test]
    fn where_a_session_comes_from_is_read_back_and_what_is_unreadable_widens_nothing() {
        for from in [
            Provenance::default(),
            Provenance { made_by: Some(Origin::Session("a".to_owned())), guard: Some(Confinement::none()) },
            Provenance::least(),
        ] {
            let (made_by, guard) = from.words();
            assert_eq!(Provenance::read(made_by.as_deref(), guard.as_deref()), from);
        }
        assert_eq!(Provenance::read(Some("nobody"), Some("off")), Provenance::least());
    }
}
