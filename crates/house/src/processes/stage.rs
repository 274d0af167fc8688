//! Starting a stage of a pipeline, or finding one that was started before.
//!
//! Invariant: a stage is started once. Whoever asks for a known one again gets it or hears that it is not there; only
//! [`Processes::spawn_stage`] starts anything, and nobody calls it for what may have been started before.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_keeper::lease;
use hostel_keeper::proto::{Execute, OnFull, Pin, PipelineTerms, Spawn, Stage, StdinKind, feature};
use hostel_keeper::tree;

use super::label::Label;
use super::link::Gone;
use super::process::{Process, Progress};
use super::spawning::{COMMAND_LIMIT, NotStarted};
use super::{ProcessId, Processes};

/// A stage to start.
#[derive(Debug)]
pub(crate) struct StageSpec {
    /// Its identity: asking again for the same one starts nothing twice.
    pub(crate) id: ProcessId,
    /// The name it will be known by.
    pub(crate) name: String,
    /// The door it came in by.
    pub(crate) door: String,
    /// The file to execute.
    pub(crate) program: PathBuf,
    /// Which file that must be.
    pub(crate) pin: Option<Pin>,
    /// The open file to execute instead of the one that the path leads to by then, and how. The pin is not looked at then.
    pub(crate) execute: Option<(Arc<OwnedFd>, Execute)>,
    /// Files whose leases are held until it runs.
    pub(crate) leased: Vec<OwnedFd>,
    /// Its standard input, if that is neither empty nor the output of another stage.
    pub(crate) stdin: Option<Arc<OwnedFd>>,
    /// Its arguments, the first being its own name.
    pub(crate) argv: Vec<OsString>,
    /// Its whole environment; nothing is added.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Its working directory, absolute.
    pub(crate) cwd: PathBuf,
    /// Its file mode mask.
    pub(crate) umask: u32,
    /// The stage whose output it reads; nothing to read if none.
    pub(crate) stdin_from: Option<ProcessId>,
    /// Its output is another stage's input.
    pub(crate) holds_stdout: bool,
    /// It has a cgroup of its own, where there are any.
    pub(crate) own_cgroup: bool,
    /// Bytes of each stream that are kept.
    pub(crate) keep_bytes: u64,
    /// How long somebody else may hold its pipes after its end.
    pub(crate) drain: Duration,
}

/// Why a stage does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StageError {
    /// It cannot be started.
    CannotStart { errno: i32 },
    /// Its file is another one.
    Changed,
    /// Somebody began to write to its file, or to that of its interpreter.
    BeingWritten,
    /// The keeper is older than this program and cannot do it.
    OldKeeper,
    /// A limit is reached, or the keeper would not; nothing was started.
    Refused(String),
    /// It is not known, and was not to be started.
    Unknown,
    /// The keeper went away in the middle: nobody knows whether it was started.
    Lost(String),
}

impl From<NotStarted> for StageError {
    fn from(error: NotStarted) -> Self {
        match error {
            NotStarted::TooLong => Self::CannotStart { errno: rustix::io::Errno::TOOBIG.raw_os_error() },
            NotStarted::Failed { stage: Stage::Changed, .. } => Self::Changed,
            NotStarted::Failed { stage: Stage::Unknown, .. } => Self::Unknown,
            NotStarted::Failed { stage: Stage::Exec | Stage::Chdir, errno, .. } => Self::CannotStart { errno },
            NotStarted::Failed { stage: Stage::Setup, errno, text } if text.is_empty() => {
                Self::Refused(io::Error::from_raw_os_error(errno).to_string())
            }
            NotStarted::Failed { stage: Stage::Setup | Stage::Limit, text, .. } => Self::Refused(text),
            NotStarted::Refused(text) => Self::Refused(text),
            NotStarted::Gone(Gone::Answerless) => Self::Lost(Gone::Answerless.to_string()),
            NotStarted::Gone(gone) => Self::Refused(gone.to_string()),
        }
    }
}

impl Processes {
    /// Whether the keeper knows pipelines; one that was started by an older program does not.
    pub fn knows_pipelines(&self) -> bool {
        self.house.keeper_can(feature::PIPELINES)
    }

    /// Whether the keeper can execute an open file; one that was started by an older program cannot.
    pub fn executes_descriptors(&self) -> bool {
        self.house.keeper_can(feature::DESCRIPTORS)
    }

    /// When the keeper was started (its upgrades not counted), nanoseconds of wall clock.
    pub(crate) fn keeper_since_ns(&self) -> u64 {
        self.house.welcome.read().since_ns
    }

    /// The keeper's process.
    pub(crate) fn keeper_pid(&self) -> u32 {
        self.house.welcome.read().pid
    }

    /// Starts a stage. The caller must not stop waiting: what was started would not be known.
    pub(crate) async fn spawn_stage(&self, mut spec: StageSpec) -> Result<Arc<Process>, StageError> {
        let carries = spec.execute.is_some() || spec.stdin.is_some();
        if !self.knows_pipelines() || carries && !self.executes_descriptors() {
            return Err(StageError::OldKeeper);
        }
        let label = Label {
            name: spec.name.clone(),
            door: spec.door.clone(),
            program: spec.program.file_name().unwrap_or_default().to_string_lossy().chars().take(255).collect(),
            owned_input: true,
            // What a person agreed to runs outside, without a guard.
            ..Label::default()
        };
        if label.encode().len() > hostel_journal::MAX_LABEL {
            return Err(StageError::Refused("the process's name is too long".to_owned()));
        }
        let id = spec.id;
        let owner = self.owner_of(id, true).map_err(|error| StageError::Refused(error.to_string()))?;
        let mut files =
            spec.execute.iter().filter(|(_, execute)| *execute == Execute::Leased).map(|(file, _)| file.as_fd());
        if !files.all(lease::is_intact) || !spec.leased.iter().all(lease::is_intact) {
            return Err(StageError::BeingWritten);
        }
        let leases = self.house.keeper_can(feature::LEASES);
        let execute = spec.execute.as_ref().map(|(_, execute)| match execute {
            // A keeper that does not look at the lease executes the same open file.
            Execute::Leased if !leases => Execute::Program,
            execute => *execute,
        });
        let program = spec.execute.iter().map(|(file, _)| file);
        let descriptors: Vec<Arc<OwnedFd>> = program.chain(&spec.stdin).map(Arc::clone).collect();
        // Held until it runs, or cannot.
        let _leased = std::mem::take(&mut spec.leased);
        let request = Spawn { execute, owner: owner.clone(), ..self.stage_request(&label, spec) };
        let mut command = request.argv.join(&b' ');
        command.truncate(COMMAND_LIMIT);
        command.shrink_to_fit();
        let process = Process::new(&self.house, id, label, command, Progress::START);
        if let Some(owner) = owner {
            process.owner.get_or_init(|| owner);
        }
        // Known before it is asked for: its first note may overtake the answer.
        self.house.registry.write().by_id.insert(id, Arc::clone(&process));
        if let Err(error) = self.ask_for(&process, &request, &descriptors).await {
            self.house.remove(&process);
            return Err(error.into());
        }
        let _turn = self.house.naming.lock();
        self.house.name(&process);
        Ok(process)
    }

    /// A stage that was asked for before, by this daemon or another: it is known from its journal or by the keeper, which
    /// may still be starting it.
    pub(crate) async fn join_stage(&self, id: ProcessId) -> Result<Arc<Process>, StageError> {
        let process = self.house.find(id).ok_or(StageError::Unknown)?;
        if !process.is_running() {
            return Ok(process);
        }
        match self.ask_for(&process, &question_about(id), &[]).await {
            Ok(()) => Ok(process),
            // It may have ended, and been declared lost, with the keeper that knew it.
            Err(_) if !process.is_running() => Ok(process),
            Err(error) => {
                self.house.remove(&process);
                Err(error.into())
            }
        }
    }

    fn stage_request(&self, label: &Label, spec: StageSpec) -> Spawn {
        let options = &self.house.options;
        let pair = |(key, value): &(OsString, OsString)| [key.as_bytes(), b"=", value.as_bytes()].concat();
        Spawn {
            id: spec.id,
            label: label.encode(),
            program: spec.program.into_os_string().as_bytes().to_vec(),
            argv: spec.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            env: spec.env.iter().map(pair).collect(),
            cwd: spec.cwd.into_os_string().as_bytes().to_vec(),
            umask: spec.umask,
            nofile: options.child_nofile,
            stdin: match (spec.stdin_from, &spec.stdin) {
                (Some(_), _) => StdinKind::From,
                (None, Some(_)) => StdinKind::Descriptor,
                (None, None) => StdinKind::Null,
            },
            quota: 0,
            // What is kept is bounded already; none of it may be lost.
            on_full: OnFull::Hold,
            terms: Some(PipelineTerms {
                stdin_from: spec.stdin_from,
                holds_stdout: spec.holds_stdout,
                own_cgroup: spec.own_cgroup,
                keep_bytes: spec.keep_bytes,
                drain_ms: spec.drain.as_millis() as u64,
                limit_tag: tree::limit_tag(&self.house.tag(), spec.id),
                pin: spec.pin,
                only_if_known: false,
            }),
            execute: None,
            owner: None,
        }
    }
}

/// Asks whether a process runs, or why it does not, and starts nothing. The answer comes once its exec has worked or failed.
pub(super) fn question_about(id: ProcessId) -> Spawn {
    Spawn {
        id,
        label: Vec::new(),
        program: Vec::new(),
        argv: Vec::new(),
        env: Vec::new(),
        cwd: Vec::new(),
        umask: 0,
        nofile: 0,
        stdin: StdinKind::Null,
        quota: 0,
        on_full: OnFull::Hold,
        terms: Some(PipelineTerms { only_if_known: true, ..PipelineTerms::default() }),
        execute: None,
        owner: None,
    }
}
