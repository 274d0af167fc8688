//! What a session may do without asking: its mode, and whether messages from meshes become prompts. Who inside the house made
//! it: to them it belongs, and it has no weaker guard than they had. And what its processes are: the agent, its directory and
//! variables, its model and its conversation.
//!
//! Everybody who can write `state.db` could raise a mode there, take a session for their own, take its guard away, or have
//! its next process do something else. So all of it is sealed. A session whose row does not carry the seal that the house
//! knows gets the least rights there are. If that is found at a start, the session is closed as well: it starts nothing
//! until somebody opens it again.

use hostel_agents::Mode;
use hostel_guard::Confinement;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use serde_json::json;

use super::mail::MeshPolicy;
use super::rows::{maybe_text, text};
use crate::processes::Origin;
use crate::seals::{Ledger, RowKey, Seal, Table};

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

/// What the processes of a session are, as it is stored.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Program {
    pub(crate) agent: String,
    pub(crate) kind: String,
    pub(crate) hosting: String,
    pub(crate) owner: Option<String>,
    pub(crate) cwd: Vec<u8>,
    pub(crate) env: Vec<u8>,
    pub(crate) model: Option<String>,
    pub(crate) cli_session: Option<String>,
}

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rights {
    pub(crate) no: i64,
    pub(crate) id: String,
    pub(crate) door: String,
    pub(crate) program: Program,
    pub(crate) mode: String,
    pub(crate) mesh: String,
    pub(crate) made_by: Option<String>,
    pub(crate) guard: Option<String>,
}

impl Rights {
    /// The place of a session in the ledger.
    pub(crate) fn key(&self) -> RowKey {
        key(self.no)
    }

    pub(crate) fn seal(&self, ledger: &Ledger) -> Seal {
        ledger.seal(Table::Session, |encoder| {
            let Program { agent, kind, hosting, owner, cwd, env, model, cli_session } = &self.program;
            encoder.text(&self.id).text(&self.door).text(&self.mode).text(&self.mesh);
            encoder.text(agent).text(kind).text(hosting).bytes(cwd).bytes(env);
            for maybe in [&self.made_by, &self.guard, owner, model, cli_session] {
                encoder.maybe(maybe.as_deref().map(str::as_bytes));
            }
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

    fn with(&self, mode: Mode, mesh: MeshPolicy, from: &Provenance) -> Self {
        let (made_by, guard) = from.words();
        Rights { mode: mode.name().to_owned(), mesh: mesh.word().to_owned(), made_by, guard, ..self.clone() }
    }

    /// The least rights there are.
    pub(crate) fn least(&self) -> Self {
        self.with(Mode::Ask, MeshPolicy::Off, &Provenance::least())
    }

    /// Those of a session whose row somebody else has written: also without what nobody would see in a list. Part of a write,
    /// which closes the session.
    pub(crate) fn close_changed(
        &self,
        transaction: &Transaction<'_>,
        ledger: &Ledger,
        now_ns: u64,
    ) -> rusqlite::Result<()> {
        let mut left = self.least();
        let Program { owner, env, model, cli_session, .. } = &mut left.program;
        (*owner, *env, *model, *cli_session) = (None, Vec::new(), None, None);
        left.write(transaction, ledger)?;
        transaction
            .prepare_cached(
                "UPDATE sessions SET standing = 'archived', closed_ns = ? WHERE no = ? AND standing = 'live'",
            )?
            .execute(params![now_ns as i64, self.no])
            .map(drop)
    }

    /// Whether the row carries the seal of what it holds.
    pub(crate) fn is_sealed(&self, connection: &Connection, ledger: &Ledger) -> rusqlite::Result<bool> {
        let carried = connection
            .prepare_cached("SELECT seal FROM sessions WHERE no = ?")?
            .query_row([self.no], |row| Ok(row.get_ref(0)?.as_blob().ok().and_then(Seal::read)))?;
        Ok(carried == Some(self.seal(ledger)))
    }

    /// What is left of rights that nobody can prove any more: no session does more than ask, whatever door its row names.
    /// Nobody inside owns the session any more; a guard that it had to have may be the one thing that was not
    /// made up, so that it stays, without its grants.
    pub(crate) fn after_lost_key(&self) -> Self {
        let mode = match Mode::named(&self.mode) {
            Some(mode @ (Mode::Plan | Mode::Ask)) => mode,
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
        self.with(mode, mesh, &Provenance { made_by: None, guard })
    }

    /// Writes them down. Part of the write that changes them.
    pub(crate) fn write(&self, transaction: &Transaction<'_>, ledger: &Ledger) -> rusqlite::Result<()> {
        let seal = self.seal(ledger);
        let Program { owner, env, model, cli_session, .. } = &self.program;
        transaction
            .prepare_cached(
                "UPDATE sessions SET mode = ?, mesh = ?, made_by = ?, guard = ?, owner = ?, env = ?, model = ?,
                 cli_session = ?, seal = ? WHERE no = ?",
            )?
            .execute(params![
                self.mode,
                self.mesh,
                self.made_by,
                self.guard,
                owner,
                env,
                model,
                cli_session,
                seal.bytes(),
                self.no
            ])?;
        ledger.set(self.key(), Some(seal));
        Ok(())
    }
}

/// The place of a session in the ledger.
pub(crate) fn key(no: i64) -> RowKey {
    RowKey { table: Table::Session, no: no as u64 }
}

/// The columns of [`read`].
const RIGHTS: &str = "SELECT no, id, door, mode, mesh, made_by, guard, agent, kind, hosting, owner, cwd, env, model, \
    cli_session FROM sessions";

fn read(row: &Row<'_>) -> rusqlite::Result<Rights> {
    Ok(Rights {
        no: row.get(0)?,
        id: text(row, 1)?,
        door: text(row, 2)?,
        mode: text(row, 3)?,
        mesh: text(row, 4)?,
        made_by: maybe_text(row, 5)?,
        guard: maybe_text(row, 6)?,
        program: Program {
            agent: text(row, 7)?,
            kind: text(row, 8)?,
            hosting: text(row, 9)?,
            owner: maybe_text(row, 10)?,
            cwd: row.get(11)?,
            env: row.get(12)?,
            model: maybe_text(row, 13)?,
            cli_session: maybe_text(row, 14)?,
        },
    })
}

/// The rights of every session that may be used again, as they were found.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Vec<Rights>> {
    let mut statement = connection.prepare_cached(&format!("{RIGHTS} WHERE standing <> 'killed'"))?;
    statement.query_map([], read)?.collect()
}

/// Changes a session, and its seal with it. Part of the write that changes it. A row that somebody else has changed stays as
/// it is: the next start takes it for what it is.
pub(crate) fn change(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    no: i64,
    set: impl FnOnce(&mut Rights),
) -> rusqlite::Result<()> {
    let found = transaction.prepare_cached(&format!("{RIGHTS} WHERE no = ?"))?.query_row([no], read).optional()?;
    let Some(mut rights) = found else { return Ok(()) };
    if ledger.get(rights.key()) != Some(rights.seal(ledger)) {
        return Ok(());
    }
    set(&mut rights);
    rights.write(transaction, ledger)
}

/// A session is never used again. Part of the write that says so.
pub(crate) fn forget(ledger: &Ledger, no: i64) {
    ledger.set(key(no), None);
}

#[cfg(test)]
mod tests {
    use hostel_guard::{Guard, Layers, Setting};

    use super::*;

    fn of(door: &str, mode: Mode, mesh: MeshPolicy, from: &Provenance) -> Rights {
        let program = Program { agent: "echo".to_owned(), env: b"A=1\0".to_vec(), ..Program::default() };
        let nothing = Rights {
            no: 1,
            id: "s".to_owned(),
            door: door.to_owned(),
            program,
            mode: String::new(),
            mesh: String::new(),
            made_by: None,
            guard: None,
        };
        nothing.with(mode, mesh, from)
    }

    #[test]
    fn every_column_is_sealed() {
        let ledger = crate::seals::Ledger::new(
            std::sync::Arc::new(crate::seals::MemoryVault::new().unwrap()),
            &crate::seals::HouseKey::from_bytes(&[1; 32]),
            None,
            |_, _, _, _| Ok(()),
            std::sync::Arc::default(),
        );
        let plain = made(None, None);
        let text = || Some("x".to_owned());
        let changes: [fn(&mut Rights, Option<String>); 12] = [
            |rights, _| rights.mode = "auto".to_owned(),
            |rights, _| rights.mesh = "on".to_owned(),
            |rights, text| rights.made_by = text,
            |rights, text| rights.guard = text,
            |rights, _| rights.program.agent = "claude".to_owned(),
            |rights, _| rights.program.kind = "claude".to_owned(),
            |rights, _| rights.program.hosting = "warm".to_owned(),
            |rights, text| rights.program.owner = text,
            |rights, _| rights.program.cwd = b"/elsewhere".to_vec(),
            |rights, _| rights.program.env = b"A=2\0".to_vec(),
            |rights, text| rights.program.model = text,
            |rights, text| rights.program.cli_session = text,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = plain.clone();
            change(&mut changed, text());
            assert_ne!(changed.seal(&ledger), plain.seal(&ledger), "{number}");
        }
        let other = |change: fn(&mut Program)| {
            let mut changed = plain.clone();
            change(&mut changed.program);
            changed.seal(&ledger)
        };
        let owner = other(|program| program.owner = Some("x".to_owned()));
        let model = other(|program| program.model = Some("x".to_owned()));
        assert_ne!(owner, model, "nothing moves from one column to the next");
    }

    #[test]
    fn after_a_lost_key_rights_beyond_asking_are_gone() {
        let of = |door: &str, mode, mesh| of(door, mode, mesh, &Provenance::default());
        for (found, left) in [
            (of("native", Mode::Auto, MeshPolicy::On), of("native", Mode::Ask, MeshPolicy::Ask)),
            (of("native", Mode::Code, MeshPolicy::Ask), of("native", Mode::Ask, MeshPolicy::Ask)),
            (of("native", Mode::Plan, MeshPolicy::Off), of("native", Mode::Plan, MeshPolicy::Off)),
            (of("native", Mode::Ask, MeshPolicy::Off), of("native", Mode::Ask, MeshPolicy::Off)),
            (of("codecast", Mode::Auto, MeshPolicy::On), of("codecast", Mode::Ask, MeshPolicy::Ask)),
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
        of("native", Mode::Ask, MeshPolicy::Off, &from)
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
