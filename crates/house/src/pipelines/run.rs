//! Running an approved pipeline, once: who asks, who waits, and what they get.
//!
//! Invariant: for one approval there is at most one conductor in this daemon, and one that has ended is never begun
//! again. What an earlier daemon may have begun is only joined, unless the very keeper that would know it does not. Nothing
//! is carried out that the house itself has not decided: what is handed in is compared with what the house remembers.
//!
//! How a pipeline is carried out is [`super::conduct`]'s business; this is the counter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Decision;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::conduct;
use super::outcome::{End, Outcome};
use super::output::Output;
use super::password::PasswordDesk;
use super::plan::{MOST_STAGES, Pipeline, Privilege};
use super::verify::{self, Difference};
use super::wrap::Ways;
use crate::approvals::{Approval, Approvals, RunState, State};
use crate::processes::{Process, ProcessId, Processes, Stream};

/// Approvals whose end is remembered, so that a late caller cannot begin them again.
const REMEMBERED: usize = 16 * 1024;

const ALREADY: &str = "it was carried out already";
const NOT_DECIDED: &str = "what stands on disk of it is not what the house decided";
const UNPROVED: &str = "it is over, and nothing proves any more what came of it";

/// What a pipeline may use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PipelineLimits {
    /// How long it may take, counted from its start, restarts of the daemon included.
    pub time: Duration,
    /// Bytes that are kept of the last stage's output and of each stage's errors.
    pub output: u64,
    /// How long the output of one that has ended is kept for somebody who does not come. Who reads it takes the time it
    /// takes.
    pub unclaimed: Duration,
}

impl Default for PipelineLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(300), output: 16 * 1024 * 1024, unclaimed: Duration::from_secs(60) }
    }
}

/// Why there is no result.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A stage could not be started; those before it were killed.
    #[error("stage {stage} cannot be started: {}", std::io::Error::from_raw_os_error(*errno))]
    CannotStart {
        /// Which one, from 0.
        stage: usize,
        /// The kernel's reason.
        errno: i32,
    },
    /// It took too long and was killed.
    #[error("it took longer than {secs} s and was killed")]
    TimedOut {
        /// The limit.
        secs: u64,
    },
    /// A file is not the one that was shown; nothing was started.
    #[error("it was not run: {what}")]
    Changed {
        /// Which stage's, from 0.
        stage: usize,
        /// What is different.
        what: String,
    },
    /// It was killed.
    #[error("it was killed: {0}")]
    Killed(String),
    /// It was never started.
    #[error("it was not run: {0}")]
    NotRun(String),
    /// What became of it cannot be known any more; it is not started again.
    #[error("it is not known what became of it: {0}")]
    Lost(String),
    /// Its output cannot be read.
    #[error("its output cannot be read: {0}")]
    Output(String),
}

impl RunError {
    /// What an outcome means to somebody who waits for a result.
    pub(super) fn of(end: &End) -> Result<(), Self> {
        Err(match end {
            End::Finished => return Ok(()),
            End::CannotStart { stage, errno } => Self::CannotStart { stage: *stage, errno: *errno },
            End::TimedOut { secs } => Self::TimedOut { secs: *secs },
            End::Changed { stage, what } => Self::Changed { stage: *stage, what: what.clone() },
            End::Killed { why } => Self::Killed(why.clone()),
            End::NotRun { why } => Self::NotRun(why.clone()),
            End::Lost { why } => Self::Lost(why.clone()),
        })
    }
}

/// The pipelines of a house. Cheap to clone.
#[derive(Clone)]
pub struct Pipelines {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) processes: Processes,
    pub(super) approvals: Approvals,
    pub(super) limits: PipelineLimits,
    pub(super) ways: RwLock<Ways>,
    live: Mutex<HashMap<String, Arc<Live>>>,
    ended: Mutex<Ended>,
}

/// Approvals that were carried out: at least the newest [`REMEMBERED`], and less than twice as many.
#[derive(Default)]
struct Ended {
    newer: HashSet<ProcessId>,
    older: HashSet<ProcessId>,
}

impl Ended {
    fn contains(&self, first: ProcessId) -> bool {
        self.older.contains(&first) || self.newer.contains(&first)
    }

    /// Remembers one; `false` if it was there before.
    fn add(&mut self, first: ProcessId) -> bool {
        if self.older.contains(&first) || !self.newer.insert(first) {
            return false;
        }
        if self.newer.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.newer);
        }
        true
    }
}

/// What is to be carried out: the part of an approval that matters here.
pub(super) struct Order {
    pub(super) approval: String,
    pub(super) door: String,
    pub(super) pipeline: Pipeline,
    /// The approver has confirmed that others can change what runs as root.
    pub(super) is_confirmed: bool,
    pub(super) runs: Vec<ProcessId>,
    /// Nothing of it can have been started yet, or the keeper would know.
    pub(super) may_start: bool,
    /// Its start is on record.
    pub(super) is_recorded: bool,
}

/// One pipeline that is being carried out, or was and is not discarded yet.
pub(super) struct Live {
    pub(super) order: Order,
    /// The stages that were started, in order.
    pub(super) processes: watch::Sender<Vec<Arc<Process>>>,
    /// Why it is to be killed.
    pub(super) kill: watch::Sender<Option<String>>,
    pub(super) ended: watch::Sender<Option<Arc<Outcome>>>,
    /// Nobody needs its output any more.
    pub(super) discarded: watch::Sender<bool>,
}

impl Pipelines {
    /// The pipelines that these approvals allow. What was approved and is not known to be over is kept from the rule of
    /// retention first: a run that the keeper has forgotten looks like one that never was, and would be started again.
    pub async fn open(
        processes: Processes,
        approvals: Approvals,
        limits: PipelineLimits,
    ) -> Result<Self, crate::store::StoreError> {
        for approval in approvals.unfinished() {
            processes.spare(approval.runs.iter().copied());
            // A command that ended its daemon at once: nobody wrote down that it was started.
            let stages = || approval.runs.iter().filter_map(|id| processes.by_id(*id));
            if approval.run == RunState::Due && stages().any(|process| conduct::is_stage_of(&process, &approval.id)) {
                approvals.record_found_started(&approval.id).await?;
            }
        }
        let inner = Inner {
            processes,
            approvals,
            limits,
            ways: RwLock::default(),
            live: Mutex::default(),
            ended: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Where sudo's password is asked for from now on. Without such a place sudo fails where it needs a password.
    pub fn set_password_desk(&self, passwords: Option<PasswordDesk>) {
        self.inner.ways.write().passwords = passwords;
    }

    /// Other programs than the `sudo` and `pkexec` of the execution path.
    pub fn set_programs(&self, sudo: Option<std::path::PathBuf>, pkexec: Option<std::path::PathBuf>) {
        let mut ways = self.inner.ways.write();
        (ways.sudo, ways.pkexec) = (sudo, pkexec);
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> PipelineLimits {
        self.inner.limits
    }

    /// Carries out an approved pipeline, or joins in where that is being done. It goes on whatever becomes of the caller.
    pub async fn run(&self, approval: &Approval) -> Result<Run, RunError> {
        if let Some(live) = self.inner.live.lock().get(&approval.id) {
            return Ok(Run { live: Arc::clone(live), limits: self.inner.limits });
        }
        let known = self.inner.approvals.as_decided(approval);
        let approval = known.as_ref().unwrap_or(approval);
        // What has an outcome is not begun again in any case; its output may still be there.
        if approval.outcome.is_none() && self.inner.was_begun(&approval.runs) {
            return Err(RunError::NotRun(ALREADY.to_owned()));
        }
        let order = self.inner.order(approval)?;
        if let Some(outcome) = &approval.outcome {
            return self.look_back(order, outcome);
        }
        let live = {
            let mut all = self.inner.live.lock();
            // Somebody may have been faster since the look above.
            if let Some(live) = all.get(&approval.id) {
                return Ok(Run { live: Arc::clone(live), limits: self.inner.limits });
            }
            if !self.inner.begin(&order.runs) {
                return Err(RunError::NotRun(ALREADY.to_owned()));
            }
            let live = Arc::new(Live::new(order, None));
            all.insert(approval.id.clone(), Arc::clone(&live));
            live
        };
        hostel_tasks::spawn(conduct::conduct(Arc::clone(&self.inner), Arc::clone(&live)));
        Ok(Run { live, limits: self.inner.limits })
    }

    /// Looks once more whether the files of an approval are those that were shown; says what is different.
    pub async fn look_again(&self, approval: &Approval) -> Result<(), String> {
        let Some(pipeline) = approval.subject.pipeline().cloned() else { return Ok(()) };
        look_again(pipeline, is_confirmed(approval)).await
    }

    /// Ends what an approval started, if it did and nobody is there for it any more, and puts on record what became of
    /// it: a restart of the daemon may have cut it off from whoever asked.
    pub async fn abandon(&self, approval: &Approval, why: &str) -> Outcome {
        if let Some(outcome) = &approval.outcome {
            return outcome.clone();
        }
        let live = {
            let all = self.inner.live.lock();
            // Whoever comes from now on does not begin it any more.
            self.inner.begin(&approval.runs);
            all.get(&approval.id).cloned()
        };
        if let Some(live) = live {
            let run = Run { live, limits: self.inner.limits };
            run.kill(why);
            let outcome = run.live.outcome().await;
            run.discard();
            return (*outcome).clone();
        }
        conduct::abandon(&self.inner, approval, why).await
    }

    /// One that was over before this daemon began: its output may still be there.
    fn look_back(&self, order: Order, outcome: &Outcome) -> Result<Run, RunError> {
        RunError::of(&outcome.end)?;
        let found: Option<Vec<_>> = order.runs.iter().map(|id| self.inner.processes.by_id(*id)).collect();
        let Some(processes) = found.filter(|all| all.iter().all(|process| !process.status().running)) else {
            return Err(RunError::Lost("it has ended, and its output is not kept any more".to_owned()));
        };
        let live = Arc::new(Live::new(order, Some(Arc::new(outcome.clone()))));
        live.processes.send_replace(processes);
        self.inner.live.lock().insert(live.order.approval.clone(), Arc::clone(&live));
        hostel_tasks::spawn(conduct::look_after(Arc::clone(&self.inner), Arc::clone(&live)));
        Ok(Run { live, limits: self.inner.limits })
    }
}

/// Whether the approver has confirmed that others can change what runs as root.
fn is_confirmed(approval: &Approval) -> bool {
    approval.decision == Some(Decision::AllowChangeable)
}

/// Looks at the files of a pipeline again; says what is different. Between the start of `sudo` and that of the command
/// itself there is time to type a password.
pub(super) async fn look_again(pipeline: Pipeline, is_confirmed: bool) -> Result<(), String> {
    let look = move || {
        pipeline.stages.iter().try_for_each(|stage| match pipeline.privilege.is_privileged() {
            true => verify::verify_privileged(stage, is_confirmed).map(drop),
            false => verify::verify(stage).map(drop),
        })
    };
    match hostel_tasks::spawn_blocking(look).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Difference::Changed(what) | Difference::Unconfirmed(what))) => Err(what),
        Ok(Err(Difference::Missing(errno))) => Err(std::io::Error::from_raw_os_error(errno).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Why so many stages, for which so many processes were chosen, are not run.
fn unfit(stages: usize, runs: usize) -> Option<String> {
    if stages == 0 || stages != runs {
        return Some("its stages do not match what was approved".to_owned());
    }
    (stages > MOST_STAGES).then(|| format!("a pipeline may have {MOST_STAGES} stages"))
}

impl Inner {
    fn order(&self, approval: &Approval) -> Result<Order, RunError> {
        let not_run = |why: &str| RunError::NotRun(why.to_owned());
        if approval.state != State::Approved {
            return Err(RunError::NotRun(format!("it is {}", approval.state.word())));
        }
        // A decision counts because the house made it, not because a row says so.
        if !self.approvals.vouches_for(approval) {
            return Err(match approval.outcome {
                // With the key of before went the proof of how it ended. That it was not run would be a guess.
                Some(_) => RunError::Lost(UNPROVED.to_owned()),
                None => not_run(NOT_DECIDED),
            });
        }
        let pipeline = approval.subject.pipeline().ok_or_else(|| not_run("it is no pipeline"))?;
        if let Some(why) = unfit(pipeline.stages.len(), approval.runs.len()) {
            return Err(RunError::NotRun(why));
        }
        Ok(Order {
            approval: approval.id.clone(),
            door: approval.requester.door.clone(),
            pipeline: pipeline.clone(),
            is_confirmed: is_confirmed(approval),
            runs: approval.runs.clone(),
            may_start: self.is_same_keeper(approval),
            is_recorded: approval.run != RunState::Due,
        })
    }

    /// Whether the keeper is the one that was there when it was approved: what that one does not know, it never started.
    pub(super) fn is_same_keeper(&self, approval: &Approval) -> bool {
        let current = (self.processes.keeper_pid(), self.processes.keeper_since_ns());
        approval.keeper.is_some_and(|keeper| (keeper.pid, keeper.since_ns) == current)
    }

    /// Remembers that an approval is being carried out, or never will be; `false` if that was so before.
    fn begin(&self, runs: &[ProcessId]) -> bool {
        let Some(first) = runs.first() else { return false };
        self.ended.lock().add(*first)
    }

    fn was_begun(&self, runs: &[ProcessId]) -> bool {
        runs.first().is_some_and(|first| self.ended.lock().contains(*first))
    }

    /// It needs no looking after any more.
    pub(super) fn leave(&self, live: &Live) {
        self.live.lock().remove(&live.order.approval);
    }
}

impl Live {
    fn new(order: Order, outcome: Option<Arc<Outcome>>) -> Self {
        Self {
            order,
            processes: watch::Sender::default(),
            kill: watch::Sender::new(None),
            ended: watch::Sender::new(outcome),
            discarded: watch::Sender::new(false),
        }
    }

    /// A stage, once it is started; none if it will not be.
    pub(super) async fn started(&self, stage: usize) -> Option<Arc<Process>> {
        let mut processes = self.processes.subscribe();
        let started = processes.wait_for(|processes| processes.len() > stage);
        tokio::select! {
            biased;
            started = started => started.ok()?.get(stage).cloned(),
            _ = self.outcome() => self.processes.borrow().get(stage).cloned(),
        }
    }

    /// Whether its only command is sudo, which may have printed a prompt.
    pub(super) fn may_ask_for_password(&self) -> bool {
        self.order.pipeline.privilege == Privilege::Sudo && self.order.pipeline.stages.len() == 1
    }

    /// Another stage runs.
    pub(super) fn add(&self, process: Arc<Process>) {
        self.processes.send_modify(|processes| processes.push(process));
    }

    async fn outcome(&self) -> Arc<Outcome> {
        let mut ended = self.ended.subscribe();
        let outcome = ended.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        // The sender is ours: it cannot be gone.
        outcome.unwrap_or_else(|| Arc::new(Outcome::lost("nobody waits for it")))
    }
}

/// A pipeline on its way. Whoever holds one may wait, read and kill; all of them see the same.
#[derive(Clone)]
pub struct Run {
    live: Arc<Live>,
    limits: PipelineLimits,
}

impl Run {
    /// Waits until it is over.
    pub async fn finished(&mut self) -> Result<Outcome, RunError> {
        let outcome = self.live.outcome().await;
        RunError::of(&outcome.end).map(|()| (*outcome).clone())
    }

    /// How it ended, well or not, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.live.ended.borrow().as_deref().cloned()
    }

    /// What the last stage printed, from the beginning, as far as it is kept.
    #[must_use]
    pub fn stdout(&self) -> Output {
        let last = self.live.order.runs.len().saturating_sub(1);
        Output::of(&self.live, last, Stream::Out, self.limits.output)
    }

    /// What a stage wrote to its standard error.
    #[must_use]
    pub fn stderr(&self, stage: usize) -> Output {
        Output::of(&self.live, stage, Stream::Err, self.limits.output)
    }

    /// Kills everything it started; the first reason given counts. Returns at once: [`Run::finished`] tells when it is
    /// done.
    pub fn kill(&self, why: &str) {
        self.live.kill.send_if_modified(|reason| {
            let first = reason.is_none();
            if first {
                *reason = Some(why.to_owned());
            }
            first
        });
    }

    /// Nobody needs its output any more: once it is over and that is on record, its journals go.
    pub fn discard(self) {
        self.live.discarded.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_out_is_remembered_and_that_is_bounded() {
        let id = |number: usize| ProcessId((number as u128).to_be_bytes());
        let mut ended = Ended::default();
        for number in 0..2 * REMEMBERED {
            assert!(ended.add(id(number)) && !ended.add(id(number)));
            assert!(!ended.add(id(number.saturating_sub(REMEMBERED - 1))), "{number}");
            assert!(ended.newer.len() + ended.older.len() < 2 * REMEMBERED);
        }
    }

    #[test]
    fn what_was_approved_has_as_many_stages_as_processes_and_not_too_many() {
        for (stages, runs, told) in [
            (1, 1, None),
            (MOST_STAGES, MOST_STAGES, None),
            (0, 0, Some("its stages do not match what was approved")),
            (0, 1, Some("its stages do not match what was approved")),
            (2, 1, Some("its stages do not match what was approved")),
            (1, 2, Some("its stages do not match what was approved")),
            (MOST_STAGES + 1, MOST_STAGES + 1, Some("a pipeline may have 64 stages")),
        ] {
            assert_eq!(unfit(stages, runs).as_deref(), told, "{stages} {runs}");
        }
    }
}
