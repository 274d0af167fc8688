//! What agents ask of people: one noun, one state machine, kept on disk.
//!
//! Invariant: pending → approved | denied | expired | withdrawn, each transition once and on disk before anybody acts
//! on it. A question that nobody answers in time is refused. A restart of the daemon changes nothing: the clock of a
//! question runs on.
//!
//! It carries no decision out. Whoever asked (a session) hears that something changed and looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Decision, Raw};
use parking_lot::Mutex;
use rusqlite::{OptionalExtension as _, Row, Transaction, params};
use tokio::sync::watch;

use crate::processes::ProcessId;
use crate::sessions::now_ns;
use crate::store::{Store, StoreError};

/// Where a question stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Nobody has answered.
    Pending,
    /// Somebody agreed.
    Approved,
    /// Somebody refused.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// Whoever asked no longer wants to know.
    Withdrawn,
}

impl State {
    const ALL: [State; 5] = [State::Pending, State::Approved, State::Denied, State::Expired, State::Withdrawn];

    /// The word for it on the wire and on disk.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Approved => "approved",
            State::Denied => "denied",
            State::Expired => "expired",
            State::Withdrawn => "withdrawn",
        }
    }
}

/// One question.
#[derive(Clone, Debug)]
pub struct Approval {
    /// Its number in this house.
    pub(crate) no: u64,
    /// Its id.
    pub id: String,
    /// The session that asks.
    pub session: String,
    /// The turn it is about.
    pub turn: u64,
    /// The tool.
    pub tool: String,
    /// What the tool would get.
    pub input: Raw,
    /// One line for people.
    pub summary: String,
    /// Where it stands.
    pub state: State,
    /// Nanoseconds of wall clock.
    pub created_ns: u64,
    /// When it is refused by itself.
    pub expires_ns: u64,
    /// When it was settled; 0 before.
    pub decided_ns: u64,
    /// The answer.
    pub decision: Option<Decision>,
    /// Who answered, in words.
    pub decider: String,
    /// The process that asks.
    pub(crate) process: Option<ProcessId>,
    /// The agent's own id of the question.
    pub(crate) request: String,
    /// The number of the event that asked.
    pub(crate) seq: u64,
}

/// A question to be asked.
#[derive(Clone)]
pub(crate) struct Question {
    /// The session's row.
    pub(crate) session: i64,
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

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such question.
    #[error("there is no approval `{0}`")]
    NotFound(String),
    /// It was settled before.
    #[error("this approval is {} already", .0.word())]
    Settled(State),
    /// The disk did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The questions of a house. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// What is pending, by number: oldest first.
    pending: Mutex<BTreeMap<u64, Approval>>,
    changed: watch::Sender<u64>,
}

const COLUMNS: &str = "approvals.no, approvals.id, sessions.id, approvals.turn, approvals.tool, approvals.input, \
    approvals.summary, approvals.state, approvals.created_ns, approvals.expires_ns, approvals.decided_ns, \
    approvals.decision, approvals.decider, approvals.request, approvals.seq, approvals.process";

fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS} FROM approvals JOIN sessions ON sessions.no = approvals.session {rest}")
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let word: String = row.get(7)?;
    let decision: Option<String> = row.get(11)?;
    let input: String = row.get(5)?;
    Ok(Approval {
        no: row.get::<_, i64>(0)? as u64,
        id: row.get(1)?,
        session: row.get(2)?,
        turn: row.get::<_, i64>(3)? as u64,
        tool: row.get(4)?,
        input: serde_json::from_str(&input).unwrap_or_else(|_| Raw::null()),
        summary: row.get(6)?,
        // What cannot be read is nothing anybody agreed to.
        state: State::ALL.into_iter().find(|state| state.word() == word).unwrap_or(State::Denied),
        created_ns: row.get::<_, i64>(8)? as u64,
        expires_ns: row.get::<_, i64>(9)? as u64,
        decided_ns: row.get::<_, i64>(10)? as u64,
        decision: decision.and_then(|text| serde_json::from_str(&text).ok()),
        decider: row.get(12)?,
        request: row.get(13)?,
        seq: row.get::<_, i64>(14)? as u64,
        process: row.get::<_, Option<[u8; 16]>>(15)?.map(ProcessId),
    })
}

impl Approvals {
    /// Loads what is pending and lets it expire in its time.
    pub async fn open(store: Store) -> Result<Self, StoreError> {
        let pending = store
            .read(|connection| {
                let mut statement = connection.prepare(&select("WHERE approvals.state = 'pending'"))?;
                let rows = statement.query_map([], from_row)?;
                rows.map(|row| row.map(|approval| (approval.no, approval)))
                    .collect::<rusqlite::Result<BTreeMap<_, _>>>()
            })
            .await?;
        let inner = Arc::new(Inner { store, pending: Mutex::new(pending), changed: watch::Sender::new(0) });
        tokio::spawn(expire(Arc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// What waits for an answer, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Approval> {
        self.inner.pending.lock().values().cloned().collect()
    }

    /// When a question that waits for an answer is refused by itself, nanoseconds of wall clock.
    #[must_use]
    pub fn expires_ns(&self, id: &str) -> Option<u64> {
        self.inner.pending.lock().values().find(|approval| approval.id == id).map(|approval| approval.expires_ns)
    }

    /// Counts changes.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Everything that was ever asked, newest first.
    pub async fn list(&self, limit: usize) -> Result<Vec<Approval>, StoreError> {
        let work = move |connection: &rusqlite::Connection| {
            let mut statement = connection.prepare(&select("ORDER BY approvals.no DESC LIMIT ?"))?;
            statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], from_row)?.collect()
        };
        self.inner.store.read(work).await
    }

    /// One question, settled or not.
    pub async fn get(&self, id: &str) -> Result<Option<Approval>, StoreError> {
        let id = id.to_owned();
        let work = move |connection: &rusqlite::Connection| {
            connection.prepare_cached(&select("WHERE approvals.id = ?"))?.query_row([id], from_row).optional()
        };
        self.inner.store.read(work).await
    }

    /// Settles a question. Exactly one of several that race succeeds. Counts even if the caller stops waiting.
    pub async fn decide(&self, id: &str, decision: Decision, decider: &str) -> Result<Approval, DecideError> {
        let (approvals, id, decider) = (self.clone(), id.to_owned(), decider.to_owned());
        let decided = tokio::spawn(async move { approvals.decide_now(&id, decision, &decider).await });
        decided.await.unwrap_or(Err(DecideError::Store(StoreError::Closed)))
    }

    async fn decide_now(&self, id: &str, decision: Decision, decider: &str) -> Result<Approval, DecideError> {
        let state = match &decision {
            Decision::AllowOnce | Decision::AllowAlways | Decision::Answers(_) => State::Approved,
            Decision::Reject(_) | Decision::RejectWithEdit(_) => State::Denied,
        };
        let no = self.inner.pending.lock().values().find(|approval| approval.id == id).map(|approval| approval.no);
        let settled = match no {
            Some(no) => self.settle(no, state, Some(decision), decider).await?,
            None => None,
        };
        match settled {
            Some(approval) => Ok(approval),
            None => match self.get(id).await? {
                Some(approval) => Err(DecideError::Settled(approval.state)),
                None => Err(DecideError::NotFound(id.to_owned())),
            },
        }
    }

    /// Asks a question, or finds the one that was asked before: by the process that asks, its own id of it, and the
    /// event.
    pub(crate) async fn ask(&self, question: Question) -> Result<Approval, StoreError> {
        let (approval, new) = self.inner.store.write(move |transaction| ask(transaction, &question)).await?;
        // One that was there before is pending here as well, unless it is being settled at this moment.
        if new {
            self.inner.pending.lock().insert(approval.no, approval.clone());
            self.tell();
        }
        Ok(approval)
    }

    /// Whoever asked no longer wants to know.
    pub(crate) async fn withdraw(&self, no: u64) -> Result<(), StoreError> {
        self.settle(no, State::Withdrawn, None, "").await.map(drop)
    }

    /// The process that asked is gone, and that is on disk: what it asked is not pending any more.
    pub(crate) fn withdrawn(&self, process: ProcessId) {
        let mut pending = self.inner.pending.lock();
        let before = pending.len();
        pending.retain(|_, approval| approval.process != Some(process));
        let changed = pending.len() != before;
        drop(pending);
        if changed {
            self.tell();
        }
    }

    /// The questions of a process, by number.
    pub(crate) async fn of_process(&self, process: ProcessId) -> Result<Vec<Approval>, StoreError> {
        let work = move |connection: &rusqlite::Connection| {
            let mut statement =
                connection.prepare_cached(&select("WHERE approvals.process = ? ORDER BY approvals.no"))?;
            statement.query_map([process.0], from_row)?.collect()
        };
        self.inner.store.read(work).await
    }

    /// These questions, as far as they are there.
    pub(crate) async fn these(&self, numbers: Vec<u64>) -> Result<Vec<Approval>, StoreError> {
        let work = move |connection: &rusqlite::Connection| {
            let mut statement = connection.prepare_cached(&select("WHERE approvals.no = ?"))?;
            let mut found = Vec::with_capacity(numbers.len());
            for no in numbers {
                found.extend(statement.query_row([no as i64], from_row).optional()?);
            }
            Ok(found)
        };
        self.inner.store.read(work).await
    }

    async fn settle(
        &self,
        no: u64,
        state: State,
        decision: Option<Decision>,
        decider: &str,
    ) -> Result<Option<Approval>, StoreError> {
        let text = decision.as_ref().and_then(|decision| serde_json::to_string(decision).ok());
        let decider = decider.to_owned();
        let now = now_ns();
        let work = move |transaction: &Transaction<'_>| {
            let changed = transaction
                .prepare_cached(
                    "UPDATE approvals SET state = ?, decision = ?, decider = ?, decided_ns = ?
                     WHERE no = ? AND state = 'pending'",
                )?
                .execute(params![state.word(), text, decider, now as i64, no as i64])?;
            match changed {
                0 => Ok(None),
                _ => transaction
                    .prepare_cached(&select("WHERE approvals.no = ?"))?
                    .query_row([no as i64], from_row)
                    .optional(),
            }
        };
        let settled = self.inner.store.write(work).await?;
        self.inner.pending.lock().remove(&no);
        self.tell();
        Ok(settled)
    }

    fn tell(&self) {
        self.inner.changed.send_modify(|count| *count += 1);
    }
}

/// A process is gone: it wants to know nothing any more. Part of the write that says so; [`Approvals::withdrawn`]
/// follows it.
pub(crate) fn withdraw_all(transaction: &Transaction<'_>, process: ProcessId) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE approvals SET state = 'withdrawn', decided_ns = ? WHERE process = ? AND state = 'pending'",
        )?
        .execute(params![now_ns() as i64, process.0])
        .map(drop)
}

/// The question as it is stored, and whether it was not before.
fn ask(transaction: &Transaction<'_>, question: &Question) -> rusqlite::Result<(Approval, bool)> {
    let now = now_ns();
    let wait = u64::try_from(question.wait.as_nanos()).unwrap_or(u64::MAX);
    let made = transaction
        .prepare_cached(
            "INSERT INTO approvals (id, kind, session, turn, process, request, seq, tool, input, summary, state,
             created_ns, expires_ns) VALUES (?, 'agent_tool', ?, ?, ?, ?, ?, ?, ?, ?, 'pending', ?, ?)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            uuid::Uuid::new_v4().to_string(),
            question.session,
            question.turn as i64,
            question.process.0,
            question.request,
            question.seq as i64,
            question.tool,
            question.input.get(),
            question.summary,
            now as i64,
            i64::try_from(now.saturating_add(wait)).unwrap_or(i64::MAX),
        ])?;
    let approval = transaction
        .prepare_cached(&select("WHERE approvals.process = ? AND approvals.request = ? AND approvals.seq = ?"))?
        .query_row(params![question.process.0, question.request, question.seq as i64], from_row)?;
    Ok((approval, made > 0))
}

/// Refuses what nobody answered in time, as long as there is somebody to ask.
async fn expire(inner: std::sync::Weak<Inner>) {
    /// The clock of the wall may be set: look again at least this often.
    const LONGEST: Duration = Duration::from_secs(30);
    loop {
        let Some(held) = inner.upgrade() else { return };
        let approvals = Approvals { inner: held };
        let mut changed = approvals.changed();
        let now = now_ns();
        let pending: Vec<(u64, u64)> =
            approvals.inner.pending.lock().values().map(|approval| (approval.no, approval.expires_ns)).collect();
        for (late, _) in pending.iter().filter(|(_, expires_ns)| *expires_ns <= now) {
            // A disk that does not take it now will be asked again.
            approvals.settle(*late, State::Expired, None, "").await.ok();
        }
        let next = pending.iter().map(|(_, expires_ns)| expires_ns.saturating_sub(now)).filter(|wait| *wait > 0).min();
        let wait = next.map_or(LONGEST, Duration::from_nanos).min(LONGEST);
        drop(approvals);
        tokio::time::timeout(wait, changed.changed()).await.ok();
    }
}
