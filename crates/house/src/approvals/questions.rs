//! What agents ask: requests about tools, made by the sessions of this house.
//!
//! Invariant: the same question of the same process is one request, however often the journal is read; its answer is found
//! again after a restart. A process that ends wants to know nothing any more, and that is part of the write that ends it.

use std::path::PathBuf;
use std::time::Duration;

use hostel_agents::Raw;
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::json;

use super::asking::{Draft, blank};
use super::audit::{self, Event, Line};
use super::rules::{self, Facts};
use super::types::{Approval, Kind, Requester, State, Subject, digest_of};
use super::{Approvals, rows};
use crate::processes::ProcessId;
use crate::sessions::now_ns;
use crate::store::StoreError;

/// A question to be asked.
#[derive(Clone)]
pub(crate) struct Question {
    /// The session's row.
    pub(crate) session: i64,
    pub(crate) session_id: String,
    pub(crate) door: String,
    pub(crate) agent: String,
    pub(crate) cwd: PathBuf,
    pub(crate) turn: u64,
    pub(crate) process: ProcessId,
    pub(crate) request: String,
    /// The number of the event that asks: the same whenever the journal is read again.
    pub(crate) seq: u64,
    pub(crate) tool: String,
    pub(crate) input: Raw,
    pub(crate) summary: String,
    pub(crate) wait: Duration,
}

impl Approvals {
    /// Asks a question, or finds the one that was asked before: by the process that asks, its own id of it, and the event.
    /// A rule or a grant may have answered it.
    pub(crate) async fn ask(&self, question: Question) -> Result<Approval, StoreError> {
        let draft = self.draft_question(question)?;
        let approvals = self.clone();
        let work = move |transaction: &Transaction<'_>| {
            let Approval { process, request, seq, .. } = &draft.approval;
            let asked = transaction
                .prepare_cached(&rows::select(
                    "WHERE approvals.process = ? AND approvals.request = ? AND approvals.seq = ?",
                ))?
                .query_row(params![process.map(|process| process.0), request, *seq as i64], rows::from_row)
                .optional()?;
            match asked {
                Some(approval) => Ok((approval, false)),
                None => approvals.write(transaction, draft).map(|approval| (approval, true)),
            }
        };
        let (approval, new) = self.inner.store.write(work).await?;
        // One that was there before is pending here as well, unless it is being settled at this moment.
        if new && approval.state == State::Pending {
            self.inner.table.lock().enter(approval.clone());
            self.tell();
        }
        Ok(approval)
    }

    fn draft_question(&self, question: Question) -> Result<Draft, StoreError> {
        let Question { session, session_id, door, agent, cwd, tool, input, .. } = question;
        let subject = Subject::Tool { tool: tool.clone(), input: input.clone() };
        let requester = Requester { door, session: session_id.clone(), client: agent, ..Requester::default() };
        let facts = Facts { kind: Kind::Tool, subject: &subject, requester: &requester, cwd: Some(&cwd) };
        let verdict = rules::judge(&self.inner.options.rules, facts);
        let text = subject.text().unwrap_or_default();
        let wait = u64::try_from(question.wait.as_nanos()).unwrap_or(u64::MAX);
        let mut approval = Approval {
            session: session_id,
            turn: question.turn,
            summary: question.summary,
            requester,
            digest: digest_of(&text),
            process: Some(question.process),
            request: question.request,
            seq: question.seq,
            ..blank(tool, input, subject)
        };
        approval.expires_ns = approval.created_ns.saturating_add(wait);
        Draft::new(approval, Some(session), text, verdict)
    }

    /// Whoever asked no longer wants to know.
    pub(crate) async fn withdraw(&self, no: u64) -> Result<(), StoreError> {
        let waiting = self.inner.table.lock().pending().find(|approval| approval.no == no).cloned();
        match waiting {
            Some(approval) => self.end(&approval, State::Withdrawn, "the agent does not ask any more").await.map(drop),
            None => Ok(()),
        }
    }

    /// The process that asked is gone, and that is on disk: what it asked is not pending any more.
    pub(crate) fn withdrawn(&self, process: ProcessId) {
        if self.inner.table.lock().remove(|approval| approval.process == Some(process)) {
            self.tell();
        }
    }

    /// The questions of a process, by number.
    pub(crate) async fn of_process(&self, process: ProcessId) -> Result<Vec<Approval>, StoreError> {
        let work = move |database: &rusqlite::Connection| {
            let mut statement =
                database.prepare_cached(&rows::select("WHERE approvals.process = ? ORDER BY approvals.no"))?;
            statement.query_map([process.0], rows::from_row)?.collect()
        };
        self.inner.store.read(work).await
    }

    /// These questions, as far as they are there.
    pub(crate) async fn these(&self, numbers: Vec<u64>) -> Result<Vec<Approval>, StoreError> {
        let work = move |database: &rusqlite::Connection| {
            let mut found = Vec::with_capacity(numbers.len());
            for no in numbers {
                found.extend(rows::by_no(database, no)?);
            }
            Ok(found)
        };
        self.inner.store.read(work).await
    }
}

/// A process is gone: it wants to know nothing any more. Part of the write that says so; [`Approvals::withdrawn`]
/// follows it.
pub(crate) fn withdraw_all(transaction: &Transaction<'_>, process: ProcessId) -> rusqlite::Result<()> {
    let gone: Vec<String> = transaction
        .prepare_cached(
            "UPDATE approvals SET state = 'withdrawn', decided_ns = ? WHERE process = ? AND state = 'pending'
             RETURNING id",
        )?
        .query_map(params![now_ns() as i64, process.0], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let line = |id| Line { event: Event::Withdrawn, approval: id, body: json!({"why": "the agent has ended"}) };
    let lines: Vec<Line<'_>> = gone.iter().map(|id| line(id.as_str())).collect();
    if lines.is_empty() { Ok(()) } else { audit::append(transaction, &lines) }
}
