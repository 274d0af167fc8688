//! Carrying out one pipeline: look at the files again, start the stages, wait, kill in time, put it on record.
//!
//! Invariant: nothing is started before every file is the one that was shown, no stage is started once it is to be
//! killed, and the outcome is on record before the keeper may forget what ran: whoever comes after a crash finds one or
//! the other.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::outcome::{End, Outcome, StageEnd};
use super::output;
use super::password::{Attendance, PasswordDesk, PasswordPipe, Prompt};
use super::plan::{Pipeline, Privilege, UMASK};
use super::run::{Inner, Live};
use super::verify::{self, Difference, Ready};
use super::wrap::{self, CommandLine, Ways};
use crate::approvals::Approval;
use crate::processes::{Process, StageError, StageSpec};
use crate::sessions::now_ns;
use crate::store::StoreError;

/// How long somebody else may hold a stage's pipes after its end.
const DRAIN: Duration = Duration::from_millis(250);
/// How long killed stages may take to end; after that the answer does not wait for them.
const LAST_BREATH: Duration = Duration::from_secs(5);
/// Bytes of a program's name that the kernel keeps.
const COMM_BYTES: usize = 15;
/// Longer than anything runs.
const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
/// Pauses, in seconds, before an outcome that the disk did not take is written again.
const RECORD_PAUSES: [u64; 5] = [1, 5, 30, 60, 60];

const OLD_KEEPER: &str = "the running keeper is older than this program and cannot run commands; bring it up to date \
                          with `hostel keeper upgrade`";
const OTHER_KEEPER: &str = "the keeper that would have started it is gone, and with it the knowledge whether it did; it \
                            is not started again";

/// The whole life of one: from the order to the day its journals go.
pub(super) async fn conduct(inner: Arc<Inner>, live: Arc<Live>) {
    inner.processes.spare(live.order.runs.iter().copied());
    let outcome = {
        let _broken = IsTold(&live);
        Arc::new(Conductor { inner: &inner, live: &live }.carry_out().await)
    };
    live.ended.send_replace(Some(Arc::clone(&outcome)));
    // Only once it is on record may the keeper forget it: otherwise nobody would know that it ran.
    if record(&inner, &live.order.approval, &outcome).await {
        look_after(inner, live).await;
    }
}

/// Whoever waits for a pipeline hears of it, even if the one who carries it out breaks. What runs then is found by the
/// next daemon: nothing is on record.
struct IsTold<'a>(&'a Live);

impl Drop for IsTold<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.ended.send_replace(Some(Arc::new(Outcome::lost("whoever carried it out broke"))));
        }
    }
}

/// Puts an outcome on record, and says whether it is. A disk that does not take it is asked again, for a while.
async fn record(inner: &Inner, approval: &str, outcome: &Outcome) -> bool {
    for pause in RECORD_PAUSES {
        // Whoever waited for it has been told: it is written together with what somebody waits for.
        let recorded = match inner.approvals.note_outcome(approval, outcome).await {
            Ok(ticket) => ticket.done().await,
            Err(error) => Err(error),
        };
        match recorded {
            Ok(()) => return true,
            // The daemon is ending: the next one will find what there is.
            Err(StoreError::Closed) => return false,
            Err(_) => tokio::time::sleep(Duration::from_secs(pause)).await,
        }
    }
    false
}

/// Waits until nobody needs the output of an ended pipeline, and lets it go.
pub(super) async fn look_after(inner: Arc<Inner>, live: Arc<Live>) {
    let is_of_use = live.ended.borrow().as_ref().is_some_and(|outcome| outcome.end == End::Finished);
    if is_of_use {
        let mut discarded = live.discarded.subscribe();
        while tokio::time::timeout(inner.limits.unclaimed, discarded.wait_for(|discarded| *discarded)).await.is_err()
            && is_held(&live)
        {}
    }
    inner.leave(&live);
    for id in &live.order.runs {
        // One that could not be killed is not forgotten: it is seen, and goes by the rule of retention once it ended.
        inner.processes.forget(*id).await;
    }
}

/// Whether anybody but the list of pipelines and whoever looks after it still has it.
fn is_held(live: &Arc<Live>) -> bool {
    Arc::strong_count(live) > 2
}

/// Ends what an approval started, with nobody to conduct it, and puts that on record.
pub(super) async fn abandon(inner: &Inner, approval: &Approval, why: &str) -> Outcome {
    let outcome = end_unheard(inner, approval, why).await;
    if record(inner, &approval.id, &outcome).await {
        for id in &approval.runs {
            inner.processes.forget(*id).await;
        }
    }
    outcome
}

async fn end_unheard(inner: &Inner, approval: &Approval, why: &str) -> Outcome {
    // By its name as well: where nobody can prove any more which processes were chosen, no others are ended.
    let is_stage = |process: &Arc<Process>| is_stage_of(process, &approval.id);
    let known: Vec<_> = approval.runs.iter().filter_map(|id| inner.processes.by_id(*id)).filter(is_stage).collect();
    if known.is_empty() {
        return match inner.is_same_keeper(approval) {
            true => Outcome::not_run(why),
            false => Outcome::lost(OTHER_KEEPER),
        };
    }
    let all_ended = known.len() == approval.runs.len() && known.iter().all(|process| !process.is_running());
    let (end, unkillable) = match all_ended {
        // It had ended by itself; only nobody was told.
        true => (End::Finished, Vec::new()),
        false => (End::Killed { why: why.to_owned() }, kill_all(&known).await),
    };
    summary(&known, end, unkillable, inner.limits.output).await
}

/// Whether a process was started as a stage of this approval, by its name.
pub(super) fn is_stage_of(process: &Process, approval: &str) -> bool {
    process.name().strip_prefix(approval).is_some_and(|rest| rest.starts_with('-'))
}

struct Conductor<'a> {
    inner: &'a Inner,
    live: &'a Arc<Live>,
}

impl Conductor<'_> {
    async fn carry_out(&self) -> Outcome {
        if !self.inner.processes.knows_pipelines() {
            return Outcome::not_run(OLD_KEEPER);
        }
        let known = match self.join().await {
            Ok(known) => known,
            Err(end) => return self.stopped(end).await,
        };
        if known == self.live.order.runs.len() {
            return self.wait(None).await;
        }
        match self.begin(known).await {
            Ok(password) => self.wait(password).await,
            Err(end) => self.stopped(end).await,
        }
    }

    /// Looks at the files, puts the start on record and starts what does not run yet.
    async fn begin(&self, known: usize) -> Result<Option<PasswordEnd>, End> {
        let order = &self.live.order;
        if !order.may_start {
            return Err(End::Lost { why: OTHER_KEEPER.to_owned() });
        }
        let prepared = self.prepare(known).await?;
        if let Some(why) = self.killed() {
            return Err(stopped_after(known, why));
        }
        if !order.is_recorded {
            // In line to be written before anything that follows; what is not written then, the keeper knows.
            let noted = self.inner.approvals.note_started(&order.approval).await;
            noted.map_err(|error| End::NotRun { why: error.to_string() })?;
        }
        self.start(known, prepared).await
    }

    /// Looks at every file again and makes the command lines; where that takes a disk, where waiting for one does no harm.
    async fn prepare(&self, known: usize) -> Result<Prepared, End> {
        let order = &self.live.order;
        if order.pipeline.privilege == Privilege::None {
            let stages = &order.pipeline.stages[known..];
            let ready: Option<Vec<_>> = stages.iter().map(verify::verify_at_once).collect();
            if let Some(ready) = ready {
                return Ok(Prepared {
                    lines: command_lines(&order.pipeline, known, ready, None, None),
                    password: None,
                });
            }
        }
        let (live, ways) = (Arc::clone(self.live), self.inner.ways.read().clone());
        let keeper = self.inner.processes.keeper_pid();
        let prepared = hostel_tasks::spawn_blocking(move || {
            prepare(&live.order.pipeline, live.order.is_confirmed, known, &ways, keeper)
        });
        prepared.await.unwrap_or_else(|error| Err(End::NotRun { why: error.to_string() }))
    }

    /// Why it is to be killed, if it is.
    fn killed(&self) -> Option<String> {
        self.live.kill.borrow().clone()
    }

    /// Finds the stages that were started before; returns how many, from the first on.
    async fn join(&self) -> Result<usize, End> {
        let order = &self.live.order;
        for (stage, id) in order.runs.iter().enumerate() {
            if self.inner.processes.by_id(*id).is_none() {
                return Ok(stage);
            }
            match self.inner.processes.join_stage(*id).await {
                Ok(process) => self.live.add(process),
                Err(StageError::CannotStart { errno }) => return Err(End::CannotStart { stage, errno }),
                Err(_) => return Err(End::Lost { why: OTHER_KEEPER.to_owned() }),
            }
        }
        Ok(order.runs.len())
    }

    /// Starts the stages that are missing, each once the one before it runs.
    async fn start(&self, known: usize, prepared: Prepared) -> Result<Option<PasswordEnd>, End> {
        let (order, deadline) = (&self.live.order, self.deadline());
        let (mut password, mut input) = (None, None);
        if let Some((desk, pipe)) = prepared.password {
            let PasswordPipe { prompt, reader, writer } = pipe;
            let file = prepared.lines.first().and_then(|(line, _)| line.program.file_name());
            let sudo = file.unwrap_or_default().to_string_lossy().chars().take(COMM_BYTES).collect();
            (password, input) = (Some(PasswordEnd { sudo, desk, prompt, writer }), Some(reader));
        }
        for (stage, (line, ready)) in (known..).zip(prepared.lines) {
            if let Some(why) = self.killed() {
                return Err(End::Killed { why });
            }
            let id = order.runs[stage];
            let spec = StageSpec {
                id,
                name: format!("{}-{}", order.approval, stage + 1),
                door: order.door.clone(),
                program: line.program,
                pin: line.is_the_file.then_some(ready.pin),
                execute: ready.execute.filter(|_| line.is_the_file),
                leased: ready.leased,
                stdin: input.take().map(Arc::new),
                argv: line.argv,
                env: line.env,
                cwd: order.pipeline.cwd.clone(),
                umask: UMASK,
                stdin_from: stage.checked_sub(1).map(|before| order.runs[before]),
                holds_stdout: stage + 1 < order.runs.len(),
                // Where signals may not reach, the cgroup does.
                own_cgroup: order.pipeline.privilege.is_privileged(),
                // One byte more than is shown: it tells that there was more.
                keep_bytes: self.inner.limits.output.saturating_add(1),
                drain: DRAIN,
            };
            let mut starting = std::pin::pin!(self.inner.processes.spawn_stage(spec));
            let started = tokio::select! {
                biased;
                started = &mut starting => started,
                // A program on a file system that does not answer: the keeper knows it, and can kill it.
                () = tokio::time::sleep_until(deadline) => {
                    if let Some(process) = self.inner.processes.by_id(id) {
                        process.kill_tree().await;
                    }
                    tokio::time::timeout(LAST_BREATH, starting).await.ok();
                    return Err(self.timed_out());
                }
            };
            match started {
                Ok(process) => self.live.add(process),
                Err(error) => return Err(end_of(error, stage)),
            }
        }
        Ok(password)
    }

    /// Answers sudo when it asks for its password.
    async fn attend(&self, process: &Arc<Process>, password: PasswordEnd) {
        let order = &self.live.order;
        let attendance = Attendance {
            process,
            sudo: &password.sudo,
            prompt: &password.prompt,
            desk: &password.desk,
            approval: &order.approval,
            pipeline: &order.pipeline,
            is_confirmed: order.is_confirmed,
        };
        attendance.serve(password.writer).await;
    }

    /// Waits for every stage, for the time limit and for whoever wants it killed.
    async fn wait(&self, password: Option<PasswordEnd>) -> Outcome {
        let mut kill = self.live.kill.subscribe();
        let processes = self.live.processes.borrow().clone();
        let deadline = self.deadline();
        let exits = async {
            for process in &processes {
                let mut progress = process.progress.subscribe();
                progress.wait_for(|progress| progress.exit.is_some()).await.ok();
            }
        };
        let attended = async {
            if let (Some(password), Some(process)) = (password, processes.first()) {
                self.attend(process, password).await;
            }
            std::future::pending::<()>().await;
        };
        let killed = async { kill.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()) };
        let cut_short = tokio::select! {
            biased;
            () = exits => None,
            () = attended => None,
            why = killed => Some(End::Killed { why: why.unwrap_or_default() }),
            () = tokio::time::sleep_until(deadline) => Some(self.timed_out()),
        };
        match cut_short {
            Some(end) => self.stopped(end).await,
            None => {
                let lost = processes.iter().any(|process| process.progress.borrow().exit.is_some_and(|exit| exit.lost));
                let end = match lost {
                    true => End::Lost { why: "the keeper that held it died".to_owned() },
                    false => End::Finished,
                };
                summary(&processes, end, Vec::new(), self.inner.limits.output).await
            }
        }
    }

    /// Ends what was started, and says how it ended.
    async fn stopped(&self, end: End) -> Outcome {
        let processes = self.live.processes.borrow().clone();
        if processes.is_empty() {
            return Outcome::without_stages(end);
        }
        // An earlier daemon has started some of it.
        let end = match end {
            End::NotRun { why } => stopped_after(processes.len(), why),
            end => end,
        };
        let unkillable = kill_all(&processes).await;
        summary(&processes, end, unkillable, self.inner.limits.output).await
    }

    fn timed_out(&self) -> End {
        End::TimedOut { secs: self.inner.limits.time.as_secs() }
    }

    /// When its time is up, counted from the start of its first stage, whoever started it.
    fn deadline(&self) -> Instant {
        let limit = self.inner.limits.time;
        let started = self.live.processes.borrow().first().map(|process| process.started_ns());
        let used = started.map_or(0, |started| now_ns().saturating_sub(started));
        let left = limit.saturating_sub(Duration::from_nanos(used));
        let now = Instant::now();
        // A limit beyond every clock is none.
        now.checked_add(left).unwrap_or(now + FOREVER)
    }
}

/// The end of what is stopped when so many of its stages were started.
fn stopped_after(stages: usize, why: String) -> End {
    match stages {
        0 => End::NotRun { why },
        _ => End::Killed { why },
    }
}

fn end_of(error: StageError, stage: usize) -> End {
    match error {
        StageError::CannotStart { errno } => End::CannotStart { stage, errno },
        StageError::Changed => End::Changed { stage, what: "its file changed in the last instant".to_owned() },
        StageError::BeingWritten => End::Changed {
            stage,
            what: "another process began to write to its file, or to its interpreter's".to_owned(),
        },
        StageError::OldKeeper => End::NotRun { why: OLD_KEEPER.to_owned() },
        StageError::Refused(why) => stopped_after(stage, why),
        StageError::Unknown => End::Lost { why: OTHER_KEEPER.to_owned() },
        StageError::Lost(why) => End::Lost { why },
    }
}

/// What is to be started.
struct Prepared {
    lines: Vec<(CommandLine, Ready)>,
    /// If sudo may ask for a password: where that is asked for, and sudo's input.
    password: Option<(PasswordDesk, PasswordPipe)>,
}

/// Our side of a sudo that may ask for its password.
struct PasswordEnd {
    /// The name of sudo's file, as far as the kernel keeps it.
    sudo: String,
    desk: PasswordDesk,
    prompt: Prompt,
    writer: OwnedFd,
}

fn prepare(pipeline: &Pipeline, is_confirmed: bool, known: usize, ways: &Ways, keeper: u32) -> Result<Prepared, End> {
    let looked = |(stage, command): (usize, &super::plan::Stage)| -> Result<Ready, End> {
        let verified = match pipeline.privilege.is_privileged() {
            true => verify::verify_privileged(command, is_confirmed),
            false => verify::verify(command),
        };
        verified.map_err(|difference| match difference {
            Difference::Missing(errno) => End::CannotStart { stage, errno },
            Difference::Changed(what) => End::Changed { stage, what },
            Difference::Unconfirmed(why) => End::NotRun { why },
        })
    };
    let ready: Vec<_> = pipeline.stages.iter().enumerate().skip(known).map(looked).collect::<Result<_, _>>()?;
    let wrapper = wrap::wrapper(pipeline.privilege, ways, keeper).map_err(|why| End::NotRun { why })?;
    // sudo reads a password where the command reads its input, so only a command that reads from no other can have one.
    let is_alone = pipeline.privilege == Privilege::Sudo && pipeline.stages.len() == 1;
    let password = match ways.passwords.clone().filter(|_| is_alone) {
        Some(desk) => Some((desk, PasswordPipe::new().map_err(|error| End::NotRun { why: error.to_string() })?)),
        None => None,
    };
    let prompt = password.as_ref().map(|(_, pipe)| &pipe.prompt);
    let lines = command_lines(pipeline, known, ready, wrapper.as_deref(), prompt);
    Ok(Prepared { lines, password })
}

fn command_lines(
    pipeline: &Pipeline,
    known: usize,
    ready: Vec<Ready>,
    wrapper: Option<&std::path::Path>,
    prompt: Option<&Prompt>,
) -> Vec<(CommandLine, Ready)> {
    let stages = pipeline.stages.iter().skip(known).zip(ready);
    let lines = stages.map(|(stage, ready)| (wrap::command_line(pipeline, stage, &ready.path, wrapper, prompt), ready));
    lines.collect()
}

/// Kills the trees of these stages and waits a moment for their ends. Returns what could not be killed.
async fn kill_all(processes: &[Arc<Process>]) -> Vec<u32> {
    let mut left = Vec::new();
    // All of them at once, before any time is spent on looking for those that left.
    for process in processes {
        process.signal_group(Signal::KILL).await;
    }
    for process in processes {
        left.extend(process.kill_tree().await.into_iter().map(|member| member.pid));
    }
    left.sort_unstable();
    left.dedup();
    let deadline = Instant::now() + LAST_BREATH;
    for process in processes.iter().filter(|process| !left.contains(&process.pid())) {
        let mut progress = process.progress.subscribe();
        tokio::time::timeout_at(deadline, progress.wait_for(|progress| progress.exit.is_some())).await.ok();
    }
    left
}

async fn summary(processes: &[Arc<Process>], end: End, unkillable: Vec<u32>, limit: u64) -> Outcome {
    let mut stages = Vec::with_capacity(processes.len());
    let mut stdout_truncated = false;
    for process in processes {
        let kept = output::kept(process, limit);
        let exit = process.progress.borrow().exit;
        stdout_truncated = kept.out > limit;
        stages.push(StageEnd {
            exit_code: exit.map_or(-1, |exit| exit.code),
            signal: exit.map(|exit| exit.signal).filter(|signal| *signal != 0),
            stderr_truncated: kept.err > limit,
        });
    }
    let started_ns = processes.first().map_or(0, |process| process.started_ns());
    Outcome { end, stages, stdout_truncated, unkillable, started_ns, ended_ns: now_ns() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_before_anything_runs_was_not_run() {
        let why = || "no".to_owned();
        for (error, stage, end) in [
            (StageError::Refused(why()), 0, End::NotRun { why: why() }),
            (StageError::Refused(why()), 1, End::Killed { why: why() }),
            (StageError::CannotStart { errno: 13 }, 2, End::CannotStart { stage: 2, errno: 13 }),
            (StageError::OldKeeper, 0, End::NotRun { why: OLD_KEEPER.to_owned() }),
            (StageError::Unknown, 1, End::Lost { why: OTHER_KEEPER.to_owned() }),
            (StageError::Lost(why()), 0, End::Lost { why: why() }),
        ] {
            assert_eq!(end_of(error, stage), end);
        }
    }
}
