//! Making a request: written down, judged by rules and grants, recorded, all in one write.
//!
//! Invariant: a request that rules or grants decide is never pending, not even for an instant, and one that they do not
//! decide is never judged by them again. Whoever leaves while its request is being written withdraws it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hostel_agents::{Decision, Raw};
use hostel_syncpoint::points;
use rusqlite::Transaction;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::audit::{self, Event, Line};
use super::grants::Use;
use super::rules::{self, Action, Facts, Verdict};
use super::types::{Approval, Kind, Life, NewRequest, RequestError, RunState, State, Stored, Subject, digest_of};
use super::{Approvals, changeable, cut, grants, rows, session_grant};
use crate::pipelines::{End, Outcome, Pipeline, hex_of};
use crate::processes::ProcessId;
use crate::sessions::now_ns;
use crate::store::StoreError;

/// How long a request may wait to be shown.
const LONGEST_UNSHOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// The most of a command's words, or of a text, that is kept forever.
const MOST_WORDS: usize = 4096;

/// A request that is about to be written.
pub(super) struct Draft {
    pub(super) approval: Approval,
    /// The subject's bytes.
    pub(super) text: String,
    /// What rules say.
    pub(super) verdict: Verdict,
    /// Chosen now, should it be approved.
    runs: Vec<ProcessId>,
}

impl Approvals {
    /// Makes a request. It is on disk when this returns, and may be approved or denied already, by a rule or a grant.
    pub async fn request(&self, new: NewRequest) -> Result<Approval, RequestError> {
        let draft = self.draft(new)?;
        self.reserve()?;
        let (answer, answered) = oneshot::channel();
        let approvals = self.clone();
        hostel_tasks::spawn(async move {
            let written = approvals.write_request(draft).await;
            if let Err(Ok(approval)) = answer.send(written) {
                approvals.left(&approval).await;
            }
        });
        match answered.await {
            Ok(written) => Ok(written?),
            Err(_) => Err(StoreError::Closed.into()),
        }
    }

    fn draft(&self, new: NewRequest) -> Result<Draft, RequestError> {
        let NewRequest { subject, requester, summary, reason, life, connection } = new;
        let text = subject.text().unwrap_or_default();
        let told = [&text, &summary, &reason, &requester.session, &requester.host, &requester.client];
        let (size, limit) = (told.map(String::len).iter().sum(), self.inner.options.max_size);
        if size > limit {
            return Err(RequestError::TooLarge { size, limit });
        }
        let verdict = rules::judge(&self.policy().rules, Facts::of(&subject, &requester));
        let (tool, input) = match &subject {
            Subject::Tool { tool, input } => (tool.clone(), input.clone()),
            _ => (subject.kind().word().to_owned(), Raw::null()),
        };
        let request = connection.as_ref().map(|connection| connection.request_id.clone()).unwrap_or_default();
        let mut approval = Approval {
            requester,
            summary,
            reason,
            digest: digest_of(&text),
            connection,
            request,
            ..blank(tool, input, subject)
        };
        self.start_clock(&mut approval, life);
        Draft::new(approval, text, verdict).map_err(RequestError::Store)
    }

    /// Whether its clock runs from now on or waits for a face.
    fn start_clock(&self, approval: &mut Approval, life: Life) {
        let now = approval.created_ns;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (wait, life) = match life {
            Life::FromShown(life) if self.inner.faces.load(Ordering::Acquire) > 0 => (LONGEST_UNSHOWN, nanos(life)),
            Life::Fixed(wait) | Life::FromShown(wait) => (wait, 0),
        };
        approval.expires_ns = now.saturating_add(nanos(wait));
        approval.life_ns = life;
    }

    /// Keeps a place for a request that is about to be written.
    pub(super) fn reserve(&self) -> Result<(), RequestError> {
        let most = self.inner.options.max_pending;
        let mut table = self.inner.table.lock();
        if table.len() + table.reserved >= most {
            return Err(RequestError::Full(most));
        }
        table.reserved += 1;
        Ok(())
    }

    async fn write_request(&self, draft: Draft) -> Result<Approval, StoreError> {
        let approvals = self.clone();
        let written = self
            .inner
            .store
            .write(points::APPROVAL_REQUESTED, move |transaction| approvals.write(transaction, draft))
            .await;
        let mut table = self.inner.table.lock();
        table.reserved = table.reserved.saturating_sub(1);
        let approval = written?;
        match approval.state {
            State::Pending => {
                table.enter(approval.clone());
                drop(table);
                self.tell();
            }
            _ => {
                drop(table);
                self.remember(&approval);
            }
        }
        if is_time_to_tidy(self.inner.made.fetch_add(1, Ordering::Relaxed)) {
            self.inner.clocks.notify_one();
        }
        Ok(approval)
    }

    /// The one write: what became of it at once, the request, the record.
    pub(super) fn write(&self, transaction: &Transaction<'_>, draft: Draft) -> rusqlite::Result<Approval> {
        let Draft { mut approval, text, verdict, runs } = draft;
        let ledger = &self.inner.ledger;
        self.judge(transaction, &mut approval, &verdict, runs)?;
        rows::insert(transaction, ledger, &mut approval, &text)?;
        let requested = Line { event: Event::Requested, approval: &approval.id, body: who_asks(&approval) };
        match approval.state {
            State::Pending => audit::append(transaction, ledger, &[requested])?,
            _ => audit::append(transaction, ledger, &[requested, decided(&approval)])?,
        }
        Ok(approval)
    }

    fn judge(
        &self,
        transaction: &Transaction<'_>,
        approval: &mut Approval,
        verdict: &Verdict,
        runs: Vec<ProcessId>,
    ) -> rusqlite::Result<()> {
        let granted = match verdict.action {
            Action::Deny => {
                approval.state = State::Denied;
                approval.decision = Some(Decision::Reject(format!("the rule `{}` refuses it", verdict.rule)));
                approval.rule.clone_from(&verdict.rule);
                approval.decider = format!("rule {}", verdict.rule);
                approval.decided_ns = now_ns();
                return Ok(());
            }
            Action::Allow => Some((verdict.rule.clone(), format!("rule {}", verdict.rule))),
            Action::Ask => self.take_grant(transaction, approval)?.map(|name| (name.clone(), name)),
        };
        if let Some((rule, decider)) = granted {
            approval.rule = rule;
            approval.decider = decider;
            approval.decision = Some(Decision::AllowOnce);
            self.approve(approval, runs);
        }
        Ok(())
    }

    /// It is approved: from now on it may be carried out, by these processes and no others.
    pub(super) fn approve(&self, approval: &mut Approval, runs: Vec<ProcessId>) {
        approval.state = State::Approved;
        approval.decided_ns = now_ns();
        if !runs.is_empty() {
            approval.runs = runs;
            approval.keeper = self.inner.options.household.keeper();
            approval.run = RunState::Due;
        }
    }

    /// The grant that covers a request, used once.
    fn take_grant(&self, transaction: &Transaction<'_>, approval: &Approval) -> rusqlite::Result<Option<String>> {
        if self.inner.session_grant.covers(approval) {
            return Ok(Some(session_grant::NAME.to_owned()));
        }
        let now = now_ns();
        let ledger = &self.inner.ledger;
        let mut open = self.inner.grants.lock();
        open.retain(|grant| grant.expires_ns > now);
        let mut changed = Vec::new();
        let mut used = None;
        for grant in open.iter().filter(|grant| grant.covers(approval, now)) {
            match grants::take(transaction, ledger, grant.no, now)? {
                Use::Used => {
                    used = Some(grant.name());
                    break;
                }
                Use::Over => {}
                Use::Changed => changed.push(grant.no),
            }
        }
        open.retain(|grant| !changed.contains(&grant.no));
        drop(open);
        for no in changed {
            grants::close(transaction, ledger, no, now)?;
            let body = json!({"what": "grant", "grant": no});
            audit::append(transaction, ledger, &[Line { event: Event::Tampered, approval: "", body }])?;
            ledger.report(format!("grant {no} was changed in state.db; it is taken back"));
        }
        Ok(used)
    }

    /// Whoever asked was gone before it could be told.
    async fn left(&self, approval: &Approval) {
        const WHY: &str = "whoever asked left before it was made";
        match approval.state {
            State::Pending => drop(self.withdraw_request(&approval.id, WHY).await),
            State::Approved if approval.run == RunState::Due => {
                drop(self.record_outcome(&approval.id, &not_run(WHY)).await);
            }
            _ => {}
        }
    }
}

/// An outcome that says that nothing was started.
pub(super) fn not_run(why: &str) -> Outcome {
    Outcome {
        end: End::NotRun { why: why.to_owned() },
        stages: Vec::new(),
        stdout_truncated: false,
        unkillable: Vec::new(),
        started_ns: 0,
        ended_ns: now_ns(),
    }
}

impl Draft {
    pub(super) fn new(approval: Approval, text: String, verdict: Verdict) -> Result<Draft, StoreError> {
        let runs = choose_runs(&approval.subject)?;
        Ok(Draft { approval, text, verdict, runs })
    }
}

/// An id for the process of each stage.
pub(super) fn choose_runs(subject: &Subject) -> Result<Vec<ProcessId>, StoreError> {
    let stages = subject.pipeline().map_or(0, |pipeline| pipeline.stages.len());
    let chosen: std::io::Result<Vec<ProcessId>> = (0..stages).map(|_| ProcessId::random()).collect();
    chosen.map_err(|error| StoreError::Busy(format!("there are no random numbers: {error}")))
}

/// A request of now that waits.
pub(super) fn blank(tool: String, input: Raw, subject: Subject) -> Approval {
    Approval {
        no: 0,
        id: uuid::Uuid::new_v4().to_string(),
        session: String::new(),
        turn: 0,
        tool,
        input,
        summary: String::new(),
        state: State::Pending,
        created_ns: now_ns(),
        expires_ns: 0,
        decided_ns: 0,
        decision: None,
        decider: String::new(),
        kind: subject.kind(),
        subject,
        requester: super::Requester::default(),
        reason: String::new(),
        rule: String::new(),
        shown_ns: 0,
        runs: Vec::new(),
        keeper: None,
        run: RunState::None,
        outcome: None,
        digest: [0; 32],
        life_ns: 0,
        connection: None,
        process: None,
        request: String::new(),
        seq: 0,
        stored: Stored::default(),
    }
}

/// What is recorded of a request: who asks for what, and the digest of the whole. Values of the environment are not.
fn who_asks(approval: &Approval) -> Value {
    let requester = &approval.requester;
    let mut body = json!({
        "kind": approval.kind.word(),
        "digest": hex_of(&approval.digest),
        "door": requester.door,
        "session": cut(&requester.session, 256),
        "host": cut(&requester.host, 256),
        "client": cut(&requester.client, 256),
    });
    if let Some(peer) = &requester.peer {
        body["pid"] = json!(peer.pid);
        body["program"] = json!(peer.program);
    }
    match &approval.subject {
        Subject::Tool { tool, .. } => {
            body["tool"] = json!(cut(tool, 256));
            body["summary"] = json!(cut(&approval.summary, MOST_WORDS));
        }
        Subject::Pipeline(pipeline) => {
            body["argv"] = words(pipeline);
            body["cwd"] = json!(pipeline.cwd);
        }
        Subject::Question { text, .. } => body["question"] = json!(cut(text, MOST_WORDS)),
        Subject::Letter { letter, .. } => {
            body["mesh"] = json!(cut(&letter.mesh, 256));
            body["sender"] = json!(cut(&letter.sender, 256));
            body["message"] = json!(cut(&letter.message, 256));
            body["verified"] = json!(letter.verified);
            body["summary"] = json!(cut(&approval.summary, MOST_WORDS));
        }
    }
    if !approval.reason.is_empty() {
        body["reason"] = json!(cut(&approval.reason, 1024));
    }
    body
}

/// The words of every stage, as far as there is room for them.
fn words(pipeline: &Pipeline) -> Value {
    let mut room = MOST_WORDS;
    let mut stages = Vec::new();
    for stage in &pipeline.stages {
        let mut kept = Vec::new();
        for word in &stage.argv {
            if word.len() + 4 > room {
                kept.push(json!(format!("{}…", cut(word, room))));
                stages.push(Value::Array(kept));
                return Value::Array(stages);
            }
            room -= word.len() + 4;
            kept.push(json!(word));
        }
        stages.push(Value::Array(kept));
    }
    Value::Array(stages)
}

/// What is recorded of a decision.
pub(super) fn decided(approval: &Approval) -> Line<'_> {
    let word = match &approval.decision {
        Some(Decision::AllowOnce) => "allow_once",
        Some(Decision::AllowChangeable) => "allow_changeable",
        Some(Decision::AllowAlways) => "allow_always",
        Some(Decision::Answers(_)) => "answers",
        Some(Decision::Reject(_)) => "reject",
        Some(Decision::RejectWithEdit(_)) => "reject_with_edit",
        None => "none",
    };
    let mut body = json!({
        "state": approval.state.word(),
        "decision": word,
        "decider": cut(&approval.decider, 256),
        "digest": hex_of(&approval.digest),
    });
    if !approval.rule.is_empty() {
        body["rule"] = json!(approval.rule);
    }
    if approval.kind == Kind::Privileged {
        body["privileged"] = json!(true);
    }
    if approval.decision == Some(Decision::AllowChangeable) {
        // What exactly was confirmed.
        body["changeable"] = json!(cut(&changeable::code_of(&approval.subject).join("; "), MOST_WORDS));
    }
    Line { event: Event::Decided, approval: &approval.id, body }
}

/// New requests between two looks at whether there are more settled ones than are kept.
const TIDY_EVERY: usize = 256;

/// Whether it is time for such a look, after so many requests before this one.
fn is_time_to_tidy(made_before: usize) -> bool {
    made_before % TIDY_EVERY == TIDY_EVERY - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipelines::{Privilege, Resolved, Stage};

    #[test]
    fn one_request_in_so_many_has_settled_ones_looked_at() {
        let times: Vec<usize> = (0..1024).filter(|made| is_time_to_tidy(*made)).collect();
        assert_eq!(times, [255, 511, 767, 1023]);
    }

    #[tokio::test]
    async fn a_request_may_be_as_large_as_a_request_may_be() {
        let new = |reason: &str| NewRequest {
            subject: Subject::Question { text: "?".to_owned(), details: String::new() },
            requester: crate::approvals::Requester {
                session: "session".to_owned(),
                host: "host".to_owned(),
                client: "client".to_owned(),
                ..Default::default()
            },
            summary: "summary".to_owned(),
            reason: reason.to_owned(),
            life: Life::Fixed(Duration::from_secs(1)),
            connection: None,
        };
        let most = new("").subject.text().unwrap().len() + "session host client summary reason".len() - 4;
        let (_directory, approvals) = crate::approvals::testing::inbox(|options| options.max_size = most).await;
        approvals.draft(new("reason")).unwrap();
        let Err(RequestError::TooLarge { size, limit }) = approvals.draft(new("reasons")) else {
            panic!("it was taken");
        };
        assert_eq!((size, limit), (most + 1, most));
    }

    #[tokio::test]
    async fn a_place_that_is_kept_is_nobody_elses() {
        let (_directory, approvals) = crate::approvals::testing::inbox(|options| options.max_pending = 2).await;
        assert!(approvals.reserve().is_ok() && approvals.reserve().is_ok());
        assert!(matches!(approvals.reserve(), Err(RequestError::Full(2))));
    }

    #[test]
    fn a_reason_is_recorded_where_there_is_one() {
        let asked = |reason: &str| {
            let subject = Subject::Question { text: "?".to_owned(), details: String::new() };
            who_asks(&Approval { reason: reason.to_owned(), ..blank(String::new(), Raw::null(), subject) })
        };
        assert_eq!((asked("because")["reason"].clone(), asked("").get("reason")), (json!("because"), None));
        assert_eq!((asked("")["kind"].clone(), asked("")["question"].clone()), (json!("question"), json!("?")));
    }

    #[test]
    fn a_decision_is_recorded_in_words_and_says_what_root_does() {
        let recorded = |decision: Option<Decision>, privilege| {
            let (stages, env, cwd) = (Vec::new(), Vec::new(), "/".into());
            let pipeline = Pipeline { stages, env, cwd, privilege, forward_agent: false };
            let blank = blank(String::new(), Raw::null(), Subject::Pipeline(pipeline));
            let approval = Approval { decision, state: State::Approved, ..blank };
            decided(&approval).body
        };
        let plain = recorded(Some(Decision::AllowOnce), Privilege::None);
        assert_eq!((&plain["decision"], &plain["state"]), (&json!("allow_once"), &json!("approved")));
        assert_eq!((plain.get("privileged"), plain.get("rule")), (None, None));
        assert_eq!(recorded(Some(Decision::AllowOnce), Privilege::Sudo)["privileged"], json!(true));
        for (decision, word) in [
            (Some(Decision::AllowAlways), "allow_always"),
            (Some(Decision::Answers(Vec::new())), "answers"),
            (Some(Decision::Reject(String::new())), "reject"),
            (None, "none"),
        ] {
            assert_eq!(recorded(decision, Privilege::None)["decision"], json!(word));
        }
    }

    #[test]
    fn of_many_words_as_many_are_recorded_as_there_is_room_for() {
        let told = |stages: &[&[&str]]| {
            let stage = |words: &&[&str]| {
                let file = Resolved::Missing { errno: 2, text: String::new() };
                Stage::new(words.iter().map(|word| (*word).to_owned()).collect(), file)
            };
            words(&Pipeline {
                stages: stages.iter().map(stage).collect(),
                env: Vec::new(),
                cwd: "/".into(),
                privilege: Privilege::None,
                forward_agent: false,
            })
        };
        assert_eq!(told(&[&["a", "b"], &[], &["c"]]), json!([["a", "b"], [], ["c"]]));
        // Each word takes four bytes more than it has.
        let (half, rest) = ("x".repeat(MOST_WORDS / 2 - 4), "y".repeat(MOST_WORDS / 2 - 4));
        assert_eq!(told(&[&[&half], &[&rest]]), json!([[half], [rest]]));
        let more = format!("{rest}z");
        assert_eq!(told(&[&[&half], &[&more, "last"], &["never"]]), json!([[half], [format!("{more}…")]]));
        let long = "w".repeat(2 * MOST_WORDS);
        assert_eq!(told(&[&["a", &long]]), json!([["a", format!("{}…", &long[..MOST_WORDS - 5])]]));
    }
}
