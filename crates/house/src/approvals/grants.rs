//! Answers given in advance: "allow this for this session for ten minutes".
//!
//! Invariant: a grant is used up inside the write that stores what it allows, so that it never allows more than it says.
//! It covers one asker and either the very same bytes or one wording of a command under the same conditions; it never
//! covers what root does unless whoever gave it said so in as many words.
//!
//! It refuses nothing: a rule that denies comes first.

use std::time::Duration;

use rusqlite::{Connection as Database, OptionalExtension as _, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::changeable;
use super::glob::Glob;
use super::rules::{self, Action};
use super::types::{Approval, Kind, Subject, digest_of};
use crate::pipelines::{Pipeline, hex_of};
use crate::seals::{Ledger, RowKey, Seal, Table};

/// The longest life of a grant.
pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Grants that may be open at once.
pub(super) const MOST: usize = 1000;

/// For whom a grant is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Whatever comes in by the same door under the same name of a session.
    Session,
    /// The same tree of processes; where that is not known, the same session.
    Requester,
}

/// What a grant is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Covered {
    /// The very same bytes.
    Exact,
    /// Commands whose words fit these patterns, each in its place, with the same environment and place.
    Argv(Vec<Glob>),
}

/// What whoever decides wants to allow beyond the request itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrantTerms {
    /// For whom.
    pub scope: Scope,
    /// For what.
    pub covered: Covered,
    /// For how long.
    pub lasts: Duration,
    /// How often; any number of times if none.
    pub count: Option<u32>,
    /// It is about what root does, and that is meant.
    pub privileged: bool,
}

/// A grant.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Its number.
    pub no: u64,
    /// The request whose answer it was.
    pub approval: String,
    /// Who gave it, in words.
    pub decider: String,
    /// What it covers.
    pub terms: Terms,
    /// How often it may still be used; any number of times if none.
    pub uses_left: Option<u64>,
    /// How often it was used.
    pub used: u64,
    /// When it was given.
    pub created_ns: u64,
    /// When it ends.
    pub expires_ns: u64,
    /// When it was taken back; 0 if it was not.
    pub revoked_ns: u64,
    /// The terms as they stand in the row: the seal is made of these bytes.
    pub(super) terms_text: String,
}

/// What a grant covers, exactly.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Terms {
    /// For whom, as it was said.
    pub scope: Scope,
    /// The door.
    pub door: String,
    /// The session, as told.
    pub session: String,
    /// The top of the asker's tree, where that counts: its process id and start time.
    pub root: Option<(u32, u64)>,
    /// The digest of the subject, or of its conditions if there are patterns.
    pub digest: String,
    /// Patterns of a command's words.
    pub argv: Option<Vec<Glob>>,
    /// Whether what root does is covered.
    pub privileged: bool,
}

impl GrantTerms {
    /// What they come to for this request; what is wrong with them, in words.
    pub(super) fn fix(&self, approval: &Approval) -> Result<Terms, String> {
        if self.lasts.is_zero() || self.lasts > LONGEST {
            return Err(format!("a grant lasts from a second to {} hours", LONGEST.as_secs() / 3600));
        }
        if self.count == Some(0) {
            return Err("a grant that may be used 0 times is none".to_owned());
        }
        match approval.kind {
            Kind::Question => return Err("a question is answered once".to_owned()),
            Kind::Letter => return Err("a message is answered once; the session's policy answers for all".to_owned()),
            Kind::Privileged if !self.privileged => {
                return Err("a grant for what root does has to say so (`privileged`)".to_owned());
            }
            _ => {}
        }
        let requester = &approval.requester;
        let root = match (self.scope, &requester.peer) {
            (Scope::Requester, Some(peer)) => Some((peer.root_pid, peer.root_started)),
            _ => None,
        };
        if root.is_none() && requester.session.is_empty() {
            return Err("whoever asks has named no session to give a grant to".to_owned());
        }
        let (digest, argv) = match &self.covered {
            Covered::Exact => (hex_of(&approval.digest), None),
            Covered::Argv(patterns) => {
                let Some(pipeline) = approval.subject.pipeline() else {
                    return Err("only commands have words".to_owned());
                };
                let named = patterns.first().is_some_and(Glob::is_literal);
                let covered = |stage| rules::fits_words(patterns, stage, Action::Allow).is_ok();
                if !named {
                    return Err("the first word of a grant names the program".to_owned());
                }
                if !pipeline.stages.iter().all(covered) {
                    return Err("the grant does not cover the request it would answer".to_owned());
                }
                (conditions(pipeline), Some(patterns.clone()))
            }
        };
        Ok(Terms {
            scope: self.scope,
            door: requester.door.clone(),
            session: requester.session.clone(),
            root,
            digest,
            argv,
            privileged: approval.kind == Kind::Privileged,
        })
    }
}

/// Everything about a pipeline that is not the words of its commands, as a digest.
fn conditions(pipeline: &Pipeline) -> String {
    let text = serde_json::to_string(&(&pipeline.env, &pipeline.cwd, pipeline.privilege, pipeline.forward_agent));
    hex_of(&digest_of(&text.unwrap_or_default()))
}

impl Grant {
    /// Whether it covers a request, whatever its count.
    pub(super) fn covers(&self, approval: &Approval, now_ns: u64) -> bool {
        let Terms { door, session, root, digest, argv, privileged, .. } = &self.terms;
        let requester = &approval.requester;
        if self.revoked_ns != 0 || self.expires_ns <= now_ns || (approval.kind == Kind::Privileged) != *privileged {
            return false;
        }
        if !changeable::code_of(&approval.subject).is_empty() {
            return false;
        }
        let asker = match (root, &requester.peer) {
            (Some(root), Some(peer)) => *root == (peer.root_pid, peer.root_started),
            (Some(_), None) => false,
            (None, _) => *session == requester.session && !session.is_empty(),
        };
        if !asker || *door != requester.door {
            return false;
        }
        match (argv, &approval.subject) {
            (None, _) => *digest == hex_of(&approval.digest),
            (Some(patterns), Subject::Pipeline(pipeline)) => {
                *digest == conditions(pipeline)
                    && !pipeline.stages.is_empty()
                    && pipeline.stages.iter().all(|stage| rules::fits_words(patterns, stage, Action::Allow).is_ok())
            }
            (Some(_), _) => false,
        }
    }

    /// Its name where a rule's name would stand.
    pub(super) fn name(&self) -> String {
        format!("grant {}", self.no)
    }
}

const COLUMNS: &str = "no, approval, decider, terms, uses_left, used, created_ns, expires_ns, revoked_ns";

/// A grant as it was found; none where its row cannot be read, which covers nothing.
fn from_row(row: &Row<'_>) -> rusqlite::Result<(u64, Option<Grant>)> {
    Ok((row.get::<_, i64>(0)? as u64, read(row).ok().flatten()))
}

fn read(row: &Row<'_>) -> rusqlite::Result<Option<Grant>> {
    let number = |index| row.get::<_, i64>(index).map(|number| number as u64);
    let (no, terms_text): (u64, String) = (number(0)?, row.get(3)?);
    let Ok(terms) = serde_json::from_str(&terms_text) else { return Ok(None) };
    let grant = Grant {
        no,
        approval: row.get(1)?,
        decider: row.get(2)?,
        terms,
        uses_left: row.get::<_, Option<i64>>(4)?.map(|left| left as u64),
        used: number(5)?,
        created_ns: number(6)?,
        expires_ns: number(7)?,
        revoked_ns: number(8)?,
        terms_text,
    };
    Ok(Some(grant))
}

/// The grants that can be used, as they were found.
pub(super) fn open(database: &Database) -> rusqlite::Result<Vec<(u64, Option<Grant>)>> {
    let mut statement = database.prepare_cached(&format!("SELECT {COLUMNS} FROM grants WHERE open = 1 ORDER BY no"))?;
    statement.query_map([], from_row)?.collect()
}

/// One grant as it was found.
pub(super) fn by_no(database: &Database, no: u64) -> rusqlite::Result<Option<Grant>> {
    let mut statement = database.prepare_cached(&format!("SELECT {COLUMNS} FROM grants WHERE no = ?"))?;
    Ok(statement.query_row([no as i64], from_row).optional()?.and_then(|(_, grant)| grant))
}

/// The place of a grant in the ledger.
pub(super) fn key(no: u64) -> RowKey {
    RowKey { table: Table::Grant, no }
}

/// The seal of a grant as it stands in `grant`.
pub(super) fn seal_of(ledger: &Ledger, grant: &Grant) -> Seal {
    ledger.seal(Table::Grant, |encoder| {
        encoder
            .text(&grant.approval)
            .text(&grant.decider)
            .text(&grant.terms_text)
            .maybe(grant.uses_left.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice))
            .number(grant.used as i64)
            .number(grant.created_ns as i64)
            .number(grant.expires_ns as i64)
            .number(grant.revoked_ns as i64);
    })
}

/// Writes a new grant and gives it its number.
pub(super) fn insert(transaction: &Transaction<'_>, ledger: &Ledger, grant: &mut Grant) -> rusqlite::Result<()> {
    grant.terms_text = serde_json::to_string(&grant.terms).unwrap_or_default();
    let seal = seal_of(ledger, grant);
    transaction
        .prepare_cached(
            "INSERT INTO grants (approval, decider, terms, uses_left, created_ns, expires_ns, open, seal)
             VALUES (?, ?, ?, ?, ?, ?, 1, ?)",
        )?
        .execute(params![
            grant.approval,
            grant.decider,
            grant.terms_text,
            grant.uses_left.map(|left| left as i64),
            grant.created_ns as i64,
            grant.expires_ns as i64,
            seal.bytes(),
        ])?;
    grant.no = transaction.last_insert_rowid() as u64;
    ledger.set(key(grant.no), Some(seal));
    Ok(())
}

/// What became of an attempt to use a grant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Use {
    Used,
    /// It is over, used up or taken back.
    Over,
    /// Its row is not the one that the house wrote.
    Changed,
}

/// Uses a grant once, if it may be used.
pub(super) fn take(transaction: &Transaction<'_>, ledger: &Ledger, no: u64, now_ns: u64) -> rusqlite::Result<Use> {
    let Some(known) = ledger.get(key(no)) else { return Ok(Use::Over) };
    let Some(mut grant) = by_no(transaction, no)?.filter(|grant| seal_of(ledger, grant) == known) else {
        return Ok(Use::Changed);
    };
    if grant.revoked_ns != 0 || grant.expires_ns <= now_ns || grant.uses_left == Some(0) {
        return Ok(Use::Over);
    }
    grant.used += 1;
    grant.uses_left = grant.uses_left.map(|left| left - 1);
    let is_open = grant.uses_left != Some(0);
    write(transaction, ledger, &grant, is_open)?;
    Ok(Use::Used)
}

/// Takes a grant back. Says whether it was there to be taken back. A row that somebody has changed is taken back as well.
pub(super) fn revoke(transaction: &Transaction<'_>, ledger: &Ledger, no: u64, now_ns: u64) -> rusqlite::Result<bool> {
    if ledger.get(key(no)).is_none() {
        return Ok(false);
    }
    close(transaction, ledger, no, now_ns)?;
    Ok(true)
}

/// A grant covers nothing any more.
pub(super) fn close(transaction: &Transaction<'_>, ledger: &Ledger, no: u64, now_ns: u64) -> rusqlite::Result<()> {
    match by_no(transaction, no)? {
        Some(mut grant) => {
            grant.revoked_ns = if grant.revoked_ns == 0 { now_ns } else { grant.revoked_ns };
            write(transaction, ledger, &grant, false)
        }
        None => {
            // Terms that cannot be read; or there is no row at all.
            transaction.prepare_cached("UPDATE grants SET open = 0 WHERE no = ?")?.execute([no as i64])?;
            ledger.set(key(no), None);
            Ok(())
        }
    }
}

/// Grants whose time is over need not be remembered.
pub(super) fn close_expired(transaction: &Transaction<'_>, ledger: &Ledger, now_ns: u64) -> rusqlite::Result<()> {
    for (no, grant) in open(transaction)? {
        if let Some(grant) = grant.filter(|grant| grant.expires_ns <= now_ns && ledger.get(key(no)).is_some()) {
            write(transaction, ledger, &grant, false)?;
        }
    }
    Ok(())
}

fn write(transaction: &Transaction<'_>, ledger: &Ledger, grant: &Grant, is_open: bool) -> rusqlite::Result<()> {
    let seal = seal_of(ledger, grant);
    transaction
        .prepare_cached("UPDATE grants SET uses_left = ?, used = ?, revoked_ns = ?, open = ?, seal = ? WHERE no = ?")?
        .execute(params![
            grant.uses_left.map(|left| left as i64),
            grant.used as i64,
            grant.revoked_ns as i64,
            is_open,
            seal.bytes(),
            grant.no as i64,
        ])?;
    ledger.set(key(grant.no), is_open.then_some(seal));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Requester;
    use super::super::asking::blank;
    use super::*;
    use crate::sessions::Letter;

    fn asked(subject: Subject) -> Approval {
        let requester = Requester { door: "door".to_owned(), session: "s".to_owned(), ..Requester::default() };
        let text = subject.text().unwrap();
        Approval { requester, digest: digest_of(&text), ..blank(String::new(), hostel_agents::Raw::null(), subject) }
    }

    fn tool(name: &str) -> Approval {
        asked(Subject::Tool { tool: name.to_owned(), input: hostel_agents::Raw::null() })
    }

    const TERMS: GrantTerms = GrantTerms {
        scope: Scope::Session,
        covered: Covered::Exact,
        lasts: Duration::from_secs(60),
        count: None,
        privileged: false,
    };

    #[test]
    fn what_is_answered_once_gets_no_grant() {
        TERMS.fix(&tool("Bash")).unwrap();
        let question = asked(Subject::Question { text: "?".to_owned(), details: String::new() });
        assert_eq!(TERMS.fix(&question), Err("a question is answered once".to_owned()));
        let letter = Letter {
            mesh_id: String::new(),
            mesh: String::new(),
            sender: String::new(),
            from: String::new(),
            from_key: String::new(),
            message: String::new(),
            reply_to: None,
            text: String::new(),
            verified: true,
        };
        let letter = asked(Subject::Letter { session: String::new(), name: String::new(), letter });
        let refused = TERMS.fix(&letter).unwrap_err();
        assert_eq!(refused, "a message is answered once; the session's policy answers for all");
    }

    #[test]
    fn a_grant_lasts_no_longer_than_a_grant_may() {
        for (lasts, taken) in [
            (Duration::ZERO, false),
            (Duration::from_nanos(1), true),
            (LONGEST, true),
            (LONGEST + Duration::from_nanos(1), false),
        ] {
            assert_eq!(GrantTerms { lasts, ..TERMS }.fix(&tool("Bash")).is_ok(), taken, "{lasts:?}");
        }
        let told = GrantTerms { lasts: Duration::ZERO, ..TERMS }.fix(&tool("Bash")).unwrap_err();
        assert_eq!(told, "a grant lasts from a second to 24 hours");
        assert!(GrantTerms { count: Some(1), ..TERMS }.fix(&tool("Bash")).is_ok());
        assert!(GrantTerms { count: Some(0), ..TERMS }.fix(&tool("Bash")).is_err());
    }

    #[test]
    fn a_grant_covers_nothing_once_it_is_over_or_was_taken_back() {
        let grant = Grant {
            no: 1,
            approval: String::new(),
            decider: String::new(),
            terms: TERMS.fix(&tool("Bash")).unwrap(),
            uses_left: None,
            used: 0,
            created_ns: 0,
            expires_ns: 100,
            revoked_ns: 0,
            terms_text: String::new(),
        };
        assert!(grant.covers(&tool("Bash"), 99));
        assert!(!grant.covers(&tool("Bash"), 100), "it is over");
        assert!(!grant.covers(&tool("Edit"), 99), "something else");
        assert!(!Grant { revoked_ns: 5, ..grant.clone() }.covers(&tool("Bash"), 99), "it was taken back");
        assert!(!Grant { revoked_ns: 5, ..grant.clone() }.covers(&tool("Bash"), 100));
        let nobody = Requester { door: "door".to_owned(), ..Requester::default() };
        assert!(!grant.covers(&Approval { requester: nobody, ..tool("Bash") }, 99));
    }
}
