//! Sessions, and what doors keep with them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Duration;

use hostel_agents::{Hosting, Kind, Mode, Usage};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use crate::seals::{Ledger, Seal};
use crate::sessions::mail::MeshPolicy;
use crate::sessions::prompts;
use crate::sessions::rights::{self, Program, Provenance, Rights};
use crate::sessions::types::Standing;

/// A session as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub(crate) no: i64,
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) agent: String,
    pub(crate) kind: Kind,
    pub(crate) door: String,
    pub(crate) owner: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) mode: Mode,
    pub(crate) model: Option<String>,
    pub(crate) model_told: Option<String>,
    pub(crate) cli_session: Option<String>,
    pub(crate) hosting: Hosting,
    pub(crate) standing: Standing,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) approval_wait: Duration,
    pub(crate) created_ns: u64,
    pub(crate) active_ns: u64,
    pub(crate) last_seq: u64,
    pub(crate) usage: Usage,
    pub(crate) turns: u64,
    pub(crate) address: String,
    pub(crate) mesh: MeshPolicy,
    /// Since when messages are taken, milliseconds of wall clock.
    pub(crate) mesh_since: u64,
    pub(crate) provenance: Provenance,
    /// The seal that the row carries.
    pub(crate) seal: Vec<u8>,
}

fn standing_word(standing: Standing) -> &'static str {
    match standing {
        Standing::Live => "live",
        Standing::Archived => "archived",
        Standing::Killed => "killed",
    }
}

fn hosting_word(hosting: Hosting) -> &'static str {
    match hosting {
        Hosting::Warm => "warm",
        Hosting::PerMessage => "per-message",
    }
}

/// Variables as they are stored: name, `=`, value, each ended by a zero byte.
fn encode_env(env: &[(OsString, OsString)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in env {
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        bytes.push(0);
    }
    bytes
}

fn decode_env(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    entries
        .filter_map(|entry| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            let (name, value) = entry.split_at_checked(at)?;
            let value = value.get(1..).unwrap_or_default();
            Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
        })
        .collect()
}

const SESSION: &str = "SELECT no, id, name, agent, kind, door, owner, cwd, mode, model, model_told, cli_session, \
    hosting, standing, env, approval_wait, created_ns, active_ns, last_seq, usage, \
    (SELECT coalesce(max(turn), 0) FROM turns WHERE turns.session = sessions.no), coalesce(address, ''), mesh, \
    mesh_since, made_by, guard, seal FROM sessions";

fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let (text, maybe_text) = (|index| super::text(row, index), |index| super::maybe_text(row, index));
    let number = |index: usize| row.get::<_, i64>(index).map(|number| number as u64);
    Ok(SessionRow {
        no: row.get(0)?,
        id: text(1)?,
        name: maybe_text(2)?,
        agent: text(3)?,
        kind: Kind::named(&text(4)?).unwrap_or(Kind::Acp),
        door: text(5)?,
        owner: maybe_text(6)?,
        cwd: PathBuf::from(OsString::from_vec(row.get(7)?)),
        // A mode that cannot be read is the one that asks.
        mode: Mode::named(&text(8)?).unwrap_or(Mode::Ask),
        model: maybe_text(9)?,
        model_told: maybe_text(10)?,
        cli_session: maybe_text(11)?,
        hosting: if text(12)? == "warm" { Hosting::Warm } else { Hosting::PerMessage },
        standing: match text(13)?.as_str() {
            "live" => Standing::Live,
            "archived" => Standing::Archived,
            _ => Standing::Killed,
        },
        env: decode_env(&row.get::<_, Vec<u8>>(14)?),
        approval_wait: Duration::from_nanos(number(15)?),
        created_ns: number(16)?,
        active_ns: number(17)?,
        last_seq: number(18)?,
        usage: serde_json::from_str(&text(19)?).unwrap_or_default(),
        turns: number(20)?,
        address: text(21)?,
        // What cannot be read lets nothing in.
        mesh: MeshPolicy::named(&text(22)?).unwrap_or_default(),
        mesh_since: number(23)?,
        provenance: Provenance::read(maybe_text(24)?.as_deref(), maybe_text(25)?.as_deref()),
        seal: row.get(26)?,
    })
}

impl SessionRow {
    /// What it is and may do.
    pub(crate) fn rights(&self) -> Rights {
        let (made_by, guard) = self.provenance.words();
        Rights {
            no: self.no,
            id: self.id.clone(),
            door: self.door.clone(),
            program: Program {
                agent: self.agent.clone(),
                kind: self.kind.name().to_owned(),
                hosting: hosting_word(self.hosting).to_owned(),
                owner: self.owner.clone(),
                cwd: self.cwd.as_os_str().as_bytes().to_owned(),
                env: encode_env(&self.env),
                model: self.model.clone(),
                cli_session: self.cli_session.clone(),
            },
            mode: self.mode.name().to_owned(),
            mesh: self.mesh.word().to_owned(),
            made_by,
            guard,
        }
    }

    /// The row as far as it can be believed: with the rights that the house itself wrote, else with the least.
    pub(crate) fn believed(self, ledger: &Ledger) -> Self {
        let rights = self.rights();
        match ledger.get(rights.key()) == Some(rights.seal(ledger)) {
            true => self,
            false => self.with_least_rights(),
        }
    }

    /// The same for a session that is only looked at. The house forgets the seal of one that was killed, so that the row's
    /// own has to do.
    pub(crate) fn believed_to_read(self, ledger: &Ledger) -> Self {
        let rights = self.rights();
        let seal = rights.seal(ledger);
        let known = ledger.get(rights.key()).or_else(|| Seal::read(&self.seal));
        if known == Some(seal) { self } else { self.with_least_rights() }
    }

    fn with_least_rights(mut self) -> Self {
        (self.mode, self.mesh, self.provenance) = (Mode::Ask, MeshPolicy::Off, Provenance::least());
        // Nobody knows who has set them.
        (self.owner, self.model, self.cli_session, self.env) = (None, None, None, Vec::new());
        self
    }
}

/// Writes a new session; gives its number.
pub(crate) fn insert_session(
    transaction: &Transaction<'_>,
    row: &SessionRow,
    ledger: &Ledger,
) -> rusqlite::Result<i64> {
    let rights = row.rights();
    let seal = rights.seal(ledger);
    let no = transaction
        .prepare_cached(
            "INSERT INTO sessions (id, name, agent, kind, door, owner, cwd, mode, model, hosting, standing, env,
             approval_wait, created_ns, active_ns, mesh, mesh_since, made_by, guard, seal)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .insert(params![
            row.id,
            row.name,
            row.agent,
            row.kind.name(),
            row.door,
            row.owner,
            row.cwd.as_os_str().as_bytes(),
            row.mode.name(),
            row.model,
            hosting_word(row.hosting),
            standing_word(row.standing),
            rights.program.env,
            i64::try_from(row.approval_wait.as_nanos()).unwrap_or(i64::MAX),
            row.created_ns as i64,
            row.active_ns as i64,
            row.mesh.word(),
            row.mesh_since as i64,
            rights.made_by,
            rights.guard,
            seal.bytes(),
        ])?;
    ledger.set(rights::key(no), Some(seal));
    Ok(no)
}

/// Every session that takes prompts, oldest first.
pub(crate) fn live_sessions(connection: &Connection) -> rusqlite::Result<Vec<SessionRow>> {
    let mut statement = connection.prepare(&format!("{SESSION} WHERE standing = 'live' ORDER BY created_ns, no"))?;
    statement.query_map([], session)?.collect()
}

pub(crate) fn find_session(connection: &Connection, id: &str) -> rusqlite::Result<Option<SessionRow>> {
    connection.prepare_cached(&format!("{SESSION} WHERE id = ?"))?.query_row([id], session).optional()
}

pub(crate) fn session_by_no(connection: &Connection, no: i64) -> rusqlite::Result<Option<SessionRow>> {
    connection.prepare_cached(&format!("{SESSION} WHERE no = ?"))?.query_row([no], session).optional()
}

pub(crate) fn recent_sessions(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<SessionRow>> {
    let mut statement = connection.prepare_cached(&format!("{SESSION} ORDER BY active_ns DESC, no DESC LIMIT ?"))?;
    statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], session)?.collect()
}

/// How many there are, without those that were ended for good.
pub(crate) fn count_sessions(connection: &Connection) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM sessions WHERE standing <> 'killed'")?;
    statement.query_row([], |row| row.get::<_, i64>(0)).map(|count| count as u64)
}

/// Sessions that were closed before this moment.
pub(crate) fn closed_before(connection: &Connection, moment_ns: u64) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM sessions WHERE standing <> 'live' AND closed_ns < ? ORDER BY closed_ns LIMIT 1000",
    )?;
    statement.query_map([moment_ns as i64], |row| row.get(0))?.collect()
}

pub(crate) fn set_standing(
    transaction: &Transaction<'_>,
    session: i64,
    standing: Standing,
    now_ns: u64,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE sessions SET standing = ?, closed_ns = ? WHERE no = ?")?
        .execute(params![standing_word(standing), now_ns as i64, session])
        .map(drop)
}

/// Sets one column of a session, and the seal that covers it. `column` is a word of ours, never a caller's.
pub(crate) fn set_text(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    session: i64,
    column: &'static str,
    value: Option<&str>,
) -> rusqlite::Result<()> {
    let owned = || value.map(str::to_owned);
    match column {
        "owner" => return rights::change(transaction, ledger, session, |rights| rights.program.owner = owned()),
        "model" => return rights::change(transaction, ledger, session, |rights| rights.program.model = owned()),
        "cli_session" => {
            return rights::change(transaction, ledger, session, |rights| rights.program.cli_session = owned());
        }
        _ => {}
    }
    transaction
        .prepare_cached(&format!("UPDATE sessions SET {column} = ? WHERE no = ?"))?
        .execute(params![value, session])
        .map(drop)
}

/// Deletes some of the events of a session; returns whether that were all.
pub(crate) fn delete_events(transaction: &Transaction<'_>, session: i64, runs: usize) -> rusqlite::Result<bool> {
    let deleted = transaction
        .prepare_cached(
            "DELETE FROM events WHERE session = ?1 AND first_seq IN
             (SELECT first_seq FROM events WHERE session = ?1 ORDER BY first_seq LIMIT ?2)",
        )?
        .execute(params![session, runs as i64])?;
    Ok(deleted < runs)
}

pub(crate) fn delete_session(transaction: &Transaction<'_>, session: i64, ledger: &Ledger) -> rusqlite::Result<()> {
    rights::forget(ledger, session);
    let mut statement =
        transaction.prepare_cached("SELECT turn FROM turns WHERE session = ? AND state IN ('queued', 'running')")?;
    for turn in statement.query_map([session], |row| row.get::<_, i64>(0))? {
        prompts::forget(ledger, session, turn? as u64);
    }
    transaction.prepare_cached("DELETE FROM sessions WHERE no = ?")?.execute([session]).map(drop)
}

/// Sessions that have something left to do: turns that are open or untold, or a process that lives.
pub(crate) fn restless_sessions(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    // Each part has an index that holds nothing else: nothing of the past is looked at.
    let mut statement = connection.prepare(
        "SELECT session FROM turns WHERE state IN ('queued', 'running')
         UNION SELECT session FROM turns WHERE state = 'cancelled' AND told = 0
         UNION SELECT session FROM agent_processes WHERE state <> 'ended'",
    )?;
    statement.query_map([], |row| row.get(0))?.collect()
}

pub(crate) fn door_states(connection: &Connection) -> rusqlite::Result<Vec<(i64, String, String)>> {
    let mut statement = connection.prepare("SELECT session, door, state FROM door_state")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
}

/// What doors keep with one session.
pub(crate) fn door_states_of(connection: &Connection, session: i64) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached("SELECT door, state FROM door_state WHERE session = ?")?;
    statement.query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

pub(crate) fn set_door_state(
    transaction: &Transaction<'_>,
    session: i64,
    door: &str,
    state: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO door_state (session, door, state) VALUES (?, ?, ?)
             ON CONFLICT (session, door) DO UPDATE SET state = excluded.state",
        )?
        .execute(params![session, door, state])
        .map(drop)
}
