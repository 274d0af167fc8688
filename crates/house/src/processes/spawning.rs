//! Starting processes.
//!
//! Invariant: a process that was started is known, whatever becomes of the caller, of the link or of the answer.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use hostel_keeper::TAG_VARIABLE;
use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{OnFull, Spawn, Stage, StdinKind, feature};
use hostel_keeper::tree;

use super::label::Label;
use super::link::{Answer, Gone};
use super::process::{Process, Progress};
use super::{MAX_UNWANTED, ProcessId, Processes, RELINK_LIMIT, SpawnError, SpawnSpec};

/// Bytes of the command line that are kept for showing, here as in the keeper.
pub(super) const COMMAND_LIMIT: usize = 4096;

/// Why a process does not run that was asked for.
pub(super) enum NotStarted {
    /// The request does not fit a frame.
    TooLong,
    /// The keeper could not start it.
    Failed { stage: Stage, errno: i32, text: String },
    /// The keeper would not.
    Refused(String),
    /// There is no keeper to ask; if the request was on its way, nobody knows what became of it.
    Gone(Gone),
}

impl Processes {
    /// Starts a process. An older one of the same name loses it, and is ended, once the new one runs.
    ///
    /// Runs to its end even if the caller stops waiting: a process that was started is known.
    pub async fn spawn(&self, spec: SpawnSpec) -> Result<Arc<Process>, SpawnError> {
        let processes = self.clone();
        let started = hostel_tasks::spawn(async move { processes.spawn_now(spec).await });
        started.await.map_err(|error| SpawnError::Keeper(error.to_string()))?
    }

    async fn spawn_now(&self, mut spec: SpawnSpec) -> Result<Arc<Process>, SpawnError> {
        let id = match spec.id {
            Some(id) => id,
            None => ProcessId::random().map_err(|error| SpawnError::Keeper(error.to_string()))?,
        };
        let mut label = Label {
            name: spec.name.clone(),
            door: spec.door.clone(),
            program: spec.program.file_name().unwrap_or_default().to_string_lossy().chars().take(255).collect(),
            session: spec.session.clone(),
            asked_by: spec.asked_by.clone(),
            owned_input: spec.owned_input,
            guard: None,
        };
        // People are shown what was asked for, not the launcher.
        let command_line = spec.argv.clone();
        label.guard = self.confine(&mut spec).await?;
        if label.encode().len() > hostel_journal::MAX_LABEL {
            return Err(SpawnError::Limit("the process's name is too long".to_owned()));
        }
        let mut command =
            command_line.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ").into_bytes();
        // It is kept for as long as the process is known, and may hold a whole prompt.
        command.truncate(COMMAND_LIMIT);
        command.shrink_to_fit();
        let owner = self.owner_of(id, spec.owned_input).map_err(|error| SpawnError::Keeper(error.to_string()))?;
        let request = self.spawn_request(id, &label, spec, owner.clone())?;
        let process = Process::new(&self.house, id, label, command, Progress::START);
        if let Some(owner) = owner {
            process.owner.get_or_init(|| owner);
        }
        self.house.unwanted.lock().remove(&id);
        // Known before it is asked for: its first note may overtake the answer.
        self.house.registry.write().by_id.insert(id, Arc::clone(&process));
        let outcome = self.request_spawn(&process, &request).await;
        if let Err(error) = outcome {
            self.house.remove(&process);
            return Err(error);
        }
        let older = {
            let _turn = self.house.naming.lock();
            self.house.name(&process)
        };
        if let Some(older) = older.filter(|older| older.status().running) {
            hostel_tasks::spawn(async move { older.kill_tree().await });
        }
        Ok(process)
    }

    /// The token of a process's input, if it is to be owned. Without the house key it is a random one, which is lost with
    /// this daemon: the next one cannot go on talking to the process.
    pub(super) fn owner_of(&self, id: ProcessId, owned: bool) -> io::Result<Option<OwnerToken>> {
        if !owned || !self.house.keeper_can(feature::OWNED_INPUT) {
            return Ok(None);
        }
        self.house.owner_token(id).map_or_else(OwnerToken::random, Ok).map(Some)
    }

    fn spawn_request(
        &self,
        id: ProcessId,
        label: &Label,
        spec: SpawnSpec,
        owner: Option<OwnerToken>,
    ) -> Result<Spawn, SpawnError> {
        let options = &self.house.options;
        let tag = tree::tag_value(&self.house.tag(), id);
        let mut env: Vec<Vec<u8>> = Vec::with_capacity(spec.env.len() + 1);
        for (key, value) in spec.env {
            if key != TAG_VARIABLE {
                env.push([key.as_bytes(), b"=", value.as_bytes()].concat());
            }
        }
        env.push(format!("{TAG_VARIABLE}={tag}").into_bytes());
        let cwd = match spec.cwd {
            Some(cwd) if cwd.is_absolute() => cwd,
            // The keeper stands elsewhere: what is relative here must be absolute there.
            relative => {
                let here = std::env::current_dir();
                let here = here.map_err(|error| SpawnError::Chdir { errno: error.raw_os_error().unwrap_or(0) })?;
                relative.map_or_else(|| here.clone(), |cwd| here.join(cwd))
            }
        };
        Ok(Spawn {
            id,
            label: label.encode(),
            program: spec.program.into_os_string().as_bytes().to_vec(),
            argv: spec.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            env,
            cwd: cwd.into_os_string().as_bytes().to_vec(),
            umask: options.child_umask,
            nofile: options.child_nofile,
            stdin: if spec.socket_stdin { StdinKind::Socket } else { StdinKind::Pipe },
            quota: 0,
            on_full: if options.drop_oldest { OnFull::DropOldest } else { OnFull::Hold },
            terms: None,
            execute: None,
            owner,
        })
    }

    async fn request_spawn(&self, process: &Process, request: &Spawn) -> Result<(), SpawnError> {
        match self.ask_for(process, request, &[]).await {
            Ok(()) => Ok(()),
            Err(NotStarted::TooLong) => Err(SpawnError::Exec { errno: rustix::io::Errno::TOOBIG.raw_os_error() }),
            Err(NotStarted::Failed { stage: Stage::Chdir, errno, .. }) => Err(SpawnError::Chdir { errno }),
            Err(NotStarted::Failed { stage: Stage::Exec, errno, .. }) => Err(SpawnError::Exec { errno }),
            Err(NotStarted::Failed { stage: Stage::Limit, text, .. }) => Err(SpawnError::Limit(text)),
            Err(NotStarted::Failed { errno, .. }) => {
                Err(SpawnError::Keeper(io::Error::from_raw_os_error(errno).to_string()))
            }
            Err(NotStarted::Refused(text)) => Err(SpawnError::Keeper(text)),
            Err(NotStarted::Gone(Gone::Answerless)) => {
                // The caller hears that it failed. Should it run all the same, it ends as soon as the keeper can be asked.
                let mut unwanted = self.house.unwanted.lock();
                if unwanted.len() < MAX_UNWANTED {
                    unwanted.insert(process.id());
                }
                Err(SpawnError::Keeper(Gone::Answerless.to_string()))
            }
            Err(NotStarted::Gone(gone)) => Err(SpawnError::Keeper(gone.to_string())),
        }
    }

    /// Sends a request to start a process and waits until it runs.
    pub(super) async fn ask_for(
        &self,
        process: &Process,
        request: &Spawn,
        descriptors: &[Arc<OwnedFd>],
    ) -> Result<(), NotStarted> {
        if request.is_longer_than(hostel_keeper::proto::MAX_FRAME_BYTES) {
            return Err(NotStarted::TooLong);
        }
        let mut relinked = self.house.relinked.subscribe();
        let asked = async {
            let ticket = self.house.submit_spawn(descriptors, |corr, out| request.encode(corr, out)).await?;
            ticket.answer().await
        };
        let answer = match asked.await {
            Ok(answer) => answer,
            Err(gone) => {
                // Nobody knows whether it was started, but the same keeper will, once there is a link again.
                if gone == Gone::Answerless {
                    tokio::time::timeout(RELINK_LIMIT, relinked.changed()).await.ok();
                }
                let started = process.started.get().is_some();
                return if started { Ok(()) } else { Err(NotStarted::Gone(gone)) };
            }
        };
        match answer {
            Answer::Spawned { pid, start_ns } => {
                process.started.get_or_init(|| (pid, start_ns));
                Ok(())
            }
            Answer::Failed { stage, errno, text } => Err(NotStarted::Failed { stage, errno, text }),
            Answer::Refused(text) => Err(NotStarted::Refused(text)),
            other => Err(NotStarted::Refused(format!("unexpected answer {other:?}"))),
        }
    }
}
