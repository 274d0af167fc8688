//! What agents ask: requests about tools, made by the sessions of this house.
//!
//! Invariant: the same question of the same process is one request, however often the journal is read; its answer is found
//! again after a restart. A process that ends wants to know nothing any more, and that is part of the write that ends it.

use std::path::PathBuf;
use std::time::Duration;

use hostel_agents::Raw;
use hostel_syncpoint::points;
use rusqlite::{OptionalExtension as _, Transaction, params};
use serde_json::json;

use super::asking::{Draft, blank, decided};
use super::audit::{self, Event, Line};
use super::decide::ANSWERED_ELSEWHERE;
use super::loading::{CHANGED, deny};
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
                // What was agreed to there may be something else than what is asked here.
                Some(approval) if approvals.is_authentic(&approval) && approval.digest == draft.approval.digest => {
                    Ok((approval, false, None))
                }
                // Nobody knows what was asked and answered there: it is asked anew.
                Some(mut approval) => {
                    approvals.set_aside(transaction, &mut approval)?;
                    approvals.write(transaction, draft).map(|new| (new, true, Some(approval)))
                }
                None => approvals.write(transaction, draft).map(|approval| (approval, true, None)),
            }
        };
        let (approval, new, replaced) = self.inner.store.write(points::QUESTION_ASKED, work).await?;
        if let Some(replaced) = replaced {
            self.inner.table.lock().settled(&replaced);
            self.tell();
        }
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
        let verdict = rules::judge(&self.policy().rules, facts);
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
        approval.stored.session = Some(session);
        Draft::new(approval, text, verdict)
    }

    /// A row that somebody has put in the place of a question, or changed, stands in nobody's way any more.
    fn set_aside(&self, transaction: &Transaction<'_>, approval: &mut Approval) -> rusqlite::Result<()> {
        let ledger = &self.inner.ledger;
        let found = approval.state.word();
        deny(approval, CHANGED, now_ns());
        approval.process = None;
        rows::detach(transaction, approval)?;
        rows::close(transaction, ledger, approval)?;
        let body = json!({"what": "approval", "found": found});
        let lines = [Line { event: Event::Tampered, approval: &approval.id, body }, decided(approval)];
        audit::append(transaction, ledger, &lines)?;
        ledger.report(format!("an agent's question was changed in state.db ({}); it is asked again", approval.id));
        Ok(())
    }

    /// Whoever asked no longer wants to know.
    pub(crate) async fn withdraw(&self, no: u64) -> Result<(), StoreError> {
        self.withdraw_because(no, "the agent does not ask any more").await
    }

    /// The agent does not ask any more, and nobody of this house has answered it: somebody else may have.
    pub(crate) async fn answered_elsewhere(&self, no: u64) -> Result<(), StoreError> {
        self.withdraw_because(no, ANSWERED_ELSEWHERE).await
    }

    async fn withdraw_because(&self, no: u64, why: &str) -> Result<(), StoreError> {
        let waiting = self.inner.table.lock().by_no(no).cloned();
        match waiting {
            Some(approval) => self.end(&approval, State::Withdrawn, why).await.map(drop),
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
        self.all_authentic(self.inner.store.read(work).await?).await
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
        self.all_authentic(self.inner.store.read(work).await?).await
    }

    /// A process is gone: it wants to know nothing any more, and answers cannot reach it. Part of the write that says so;
    /// [`Approvals::withdrawn`] follows it.
    pub(crate) fn withdraw_all(&self, transaction: &Transaction<'_>, process: ProcessId) -> rusqlite::Result<()> {
        let ledger = &self.inner.ledger;
        let open: Vec<Approval> = transaction
            .prepare_cached(&rows::select("WHERE approvals.process = ? AND approvals.open = 1 ORDER BY approvals.no"))?
            .query_map([process.0], rows::from_row)?
            .collect::<rusqlite::Result<_>>()?;
        let mut gone = Vec::new();
        for mut approval in open {
            if approval.state == State::Pending {
                (approval.state, approval.decided_ns) = (State::Withdrawn, now_ns());
                gone.push(approval.id.clone());
            }
            rows::close(transaction, ledger, &mut approval)?;
        }
        let line = |id| Line { event: Event::Withdrawn, approval: id, body: json!({"why": "the agent has ended"}) };
        let lines: Vec<Line<'_>> = gone.iter().map(|id| line(id.as_str())).collect();
        if lines.is_empty() { Ok(()) } else { audit::append(transaction, ledger, &lines) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Glob;
    use super::super::rules::{Action, Rule};
    use super::super::testing::inbox;
    use super::*;

    fn question(process: ProcessId, request: &str) -> Question {
        Question {
            session: 3,
            session_id: "s-1".to_owned(),
            door: "native".to_owned(),
            agent: "claude".to_owned(),
            cwd: PathBuf::from("/work"),
            turn: 4,
            process,
            request: request.to_owned(),
            seq: 99,
            tool: "Bash".to_owned(),
            input: Raw::null(),
            summary: "ls".to_owned(),
            wait: Duration::from_secs(60),
        }
    }

    #[tokio::test]
    async fn a_question_is_stored_as_it_was_asked_and_rules_know_whose_it_is() {
        let only = |name: &str, session: &str, cwd: &str| Rule {
            name: name.to_owned(),
            action: Action::Allow,
            requester: Some(Glob::new("claude").unwrap()),
            session: Some(Glob::new(session).unwrap()),
            cwd: Some(Glob::new(cwd).unwrap()),
            tool: Some(Glob::new("Bash").unwrap()),
            argv: None,
            env: None,
            privileged: None,
        };
        let rules =
            vec![only("other", "other", "/work"), only("elsewhere", "s-1", "/home"), only("this", "s-1", "/work")];
        let (_directory, approvals) = inbox(|options| options.rules = rules).await;
        let question = question(ProcessId([7; 16]), "r-1");
        let Draft { approval, text, verdict, .. } = approvals.draft_question(question.clone()).unwrap();
        let session = approval.stored.session;
        assert_eq!((session, verdict.action, verdict.rule.as_str()), (Some(3), Action::Allow, "this"));
        let subject = Subject::Tool { tool: "Bash".to_owned(), input: Raw::null() };
        assert_eq!((&approval.subject, approval.kind, Some(text.clone())), (&subject, Kind::Tool, subject.text()));
        assert_eq!(approval.digest, digest_of(&text));
        assert_eq!((approval.session.as_str(), approval.turn, approval.seq), ("s-1", 4, 99));
        assert_eq!((approval.process, approval.told_id()), (Some(ProcessId([7; 16])), "r-1"));
        assert_eq!((approval.tool.as_str(), approval.summary.as_str()), ("Bash", "ls"));
        assert_eq!(approval.expires_ns - approval.created_ns, 60_000_000_000);
        let asker = Requester {
            door: "native".to_owned(),
            session: "s-1".to_owned(),
            client: "claude".to_owned(),
            ..Requester::default()
        };
        assert_eq!(approval.requester, asker);
        let endless = approvals.draft_question(Question { wait: Duration::MAX, ..question }).unwrap();
        assert_eq!(endless.approval.expires_ns, u64::MAX);
    }

    #[tokio::test]
    async fn an_answer_to_something_else_under_the_same_number_is_none() {
        let (_directory, approvals) = inbox(|_| {}).await;
        let session = "INSERT INTO sessions (no, id, agent, kind, door, cwd, mode, hosting, standing, env, approval_wait,
            created_ns, active_ns) VALUES (3, 's-1', 'claude', 'claude', 'native', x'', 'ask', 'warm', 'live', x'', 0, 0, 0)";
        let work = move |transaction: &Transaction<'_>| transaction.execute(session, []).map(drop);
        approvals.inner.store.write(points::QUESTION_ASKED, work).await.unwrap();
        let honest = question(ProcessId([7; 16]), "r-1");
        let first = approvals.ask(honest.clone()).await.unwrap();
        // Read again, it is the same question.
        assert_eq!(approvals.ask(honest.clone()).await.unwrap().id, first.id);
        let settled = approvals.inner.table.lock().hear(&first.id).unwrap();
        let other = Question { tool: "Write".to_owned(), ..honest };
        let second = approvals.ask(other.clone()).await.unwrap();
        assert!(second.id != first.id && second.state == State::Pending, "{second:?}");
        assert_eq!(approvals.pending().iter().map(|found| found.no).collect::<Vec<_>>(), [second.no]);
        assert_eq!(approvals.these(vec![first.no]).await.unwrap()[0].state, State::Denied);
        assert_eq!(settled.borrow().as_ref().map(|approval| approval.state), Some(State::Denied));
        assert_eq!(approvals.ask(other).await.unwrap().id, second.id);
        let records = approvals.audit().show(0, 100).await.unwrap();
        assert_eq!(records.iter().filter(|record| record.kind == "tampered").count(), 1, "{records:?}");
    }

    #[tokio::test]
    async fn a_process_that_ends_wants_to_know_nothing_any_more() {
        let (_directory, approvals) = inbox(|_| {}).await;
        let ask = async |process: u8, request: &str| {
            let mut draft = approvals.draft_question(question(ProcessId([process; 16]), request)).unwrap();
            // There is no session here.
            draft.approval.stored.session = None;
            let writing = approvals.clone();
            let asked = approvals
                .inner
                .store
                .write(points::QUESTION_ASKED, move |transaction| writing.write(transaction, draft))
                .await
                .unwrap();
            approvals.inner.table.lock().enter(asked.clone());
            asked
        };
        let [one, other, third] = [ask(1, "a").await, ask(1, "b").await, ask(2, "a").await];
        let states = async || {
            let numbers = vec![one.no, other.no, third.no, 4711];
            approvals.these(numbers).await.unwrap().iter().map(|found| found.state).collect::<Vec<_>>()
        };
        let waiting = || approvals.pending().iter().map(|found| found.no).collect::<Vec<_>>();
        approvals.withdraw(other.no).await.unwrap();
        assert_eq!(states().await, [State::Pending, State::Withdrawn, State::Pending]);
        assert_eq!(waiting(), [one.no, third.no]);
        let of_process = approvals.of_process(ProcessId([1; 16])).await.unwrap();
        assert_eq!(of_process.iter().map(|found| found.no).collect::<Vec<_>>(), [one.no, other.no]);
        let changes = *approvals.changed().borrow();
        approvals
            .inner
            .store
            .write(points::APPROVAL_SETTLED, {
                let approvals = approvals.clone();
                move |transaction| approvals.withdraw_all(transaction, ProcessId([1; 16]))
            })
            .await
            .unwrap();
        approvals.withdrawn(ProcessId([1; 16]));
        assert_eq!(states().await, [State::Withdrawn, State::Withdrawn, State::Pending]);
        assert_eq!((waiting(), *approvals.changed().borrow()), (vec![third.no], changes + 1));
        let records = approvals.audit().show(0, 100).await.unwrap();
        let told: Vec<_> = records.iter().filter(|record| record.kind == "withdrawn").collect();
        assert_eq!(told.iter().map(|record| record.approval.as_str()).collect::<Vec<_>>(), [&other.id, &one.id]);
        assert_eq!(told[1].body["why"], json!("the agent has ended"));
        // Nothing of it waits any more.
        approvals.withdrawn(ProcessId([1; 16]));
        assert_eq!(*approvals.changed().borrow(), changes + 1);
    }
}
