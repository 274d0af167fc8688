//! Running the `git` program: bounded in time, output and number, with nobody to answer a prompt.
//!
//! No run executes a program that a repository names: `hardening` says how that is prevented. A run is sealed unless its
//! command needs another git.
//!
//! Every run is a process group of its own. When the time is up, the output too large, or the caller gone (its
//! future dropped), the whole group is killed while its leader is still ours to name. Running out of time is an
//! error of its own kind and never looks like an answer of git.
//!
//! A daemon that is killed outright can not clean up: its git then ends by itself, at the latest when it writes to
//! the closed pipe. Programs that git detached from its group (its own background maintenance) are left alone.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use hostel_guard::OwnPrograms;

use super::hardening::{self, NO_OVERRIDES, Overrides};
use super::program::{self, Identity, Program};
use crate::processes::program::own;
use crate::workspace::{errno_of, errno_text};

/// What is kept of a diagnostic stream; the rest is read and dropped.
const DIAGNOSTIC_LIMIT: usize = 64 * 1024;
/// How long a background process of git may hold the output open after git itself ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// How long a killed git may take to disappear before it is left to the runtime.
const REAP_LIMIT: Duration = Duration::from_secs(5);
const READ_BUFFER: usize = 32 * 1024;
const ENOENT: i32 = 2;

/// Bounds of every git run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for one run, waiting for a free place included.
    pub time: Duration,
    /// Bytes of output of one run.
    pub output: usize,
    /// Runs at the same time; more wait.
    pub concurrent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), output: 64 * 1024 * 1024, concurrent: 16 }
    }
}

/// Why git gave no answer, or a failing one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    /// The program could not be started.
    #[error("{}", start_text(.program, *.errno))]
    Start {
        /// The program that was tried.
        program: PathBuf,
        /// The kernel's error number.
        errno: i32,
    },
    /// The time was up; git was killed and its answer is unknown.
    #[error("git timed out after {}s", .limit.as_secs_f64())]
    TimedOut {
        /// The limit that was hit.
        limit: Duration,
    },
    /// Too many runs were waiting for too long.
    #[error("git is busy: no free place within {}s", .limit.as_secs_f64())]
    Busy {
        /// The limit that was hit.
        limit: Duration,
    },
    /// The output was larger than allowed; git was killed.
    #[error("git output exceeds {limit} bytes")]
    OutputTooLarge {
        /// The limit that was hit.
        limit: usize,
    },
    /// The repository's configuration names too many programs to switch them off one by one.
    #[error("git configuration names more than {limit} filters and hooks")]
    TooManyPrograms {
        /// The limit that was hit.
        limit: usize,
    },
    /// Talking to the process failed.
    #[error("git: {}", errno_text(*.errno))]
    Io {
        /// The kernel's error number.
        errno: i32,
    },
    /// Git ran and reported failure.
    #[error("exit status {code}")]
    Failed {
        /// Git's exit code.
        code: i32,
    },
    /// Git was ended by a signal that was not ours.
    #[error("signal: {signal}")]
    Signalled {
        /// The signal's number.
        signal: i32,
    },
}

impl GitError {
    /// True when git itself said no, as opposed to not having been able to say anything.
    pub fn is_verdict(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// True when there is no git on this machine.
    pub fn is_not_installed(&self) -> bool {
        matches!(self, Self::Start { errno: ENOENT, .. })
    }
}

fn start_text(program: &Path, errno: i32) -> String {
    if errno == ENOENT {
        let name = crate::workspace::paths::quoted(program.as_os_str());
        return format!("exec: {name}: executable file not found in $PATH");
    }
    format!("fork/exec {}: {}", program.display(), errno_text(errno))
}

/// A way to run git: which program, within which bounds.
#[derive(Debug, Clone)]
pub struct Git {
    pub(super) program: PathBuf,
    /// Where `program` is looked for if it is a name.
    from: OwnPrograms,
    pub(super) limits: Limits,
    hidden: Vec<OsString>,
    places: Arc<Semaphore>,
    /// What the last look at the program found.
    found: Arc<Mutex<Option<(Identity, Program)>>>,
}

/// One command of git.
pub(super) struct Call<'a> {
    pub(super) directory: &'a Path,
    pub(super) arguments: Vec<OsString>,
    pub(super) streams: Streams,
    pub(super) overrides: &'a Overrides,
    /// The command needs to start another git, so it cannot be sealed.
    pub(super) starts_git: bool,
}

impl<'a> Call<'a> {
    /// A command that needs nothing but git itself.
    pub(super) fn new<A: AsRef<OsStr>>(directory: &'a Path, arguments: &[A], streams: Streams) -> Self {
        let arguments = arguments.iter().map(|argument| argument.as_ref().to_owned()).collect();
        Self { directory, arguments, streams, overrides: &NO_OVERRIDES, starts_git: false }
    }
}

/// What a finished run left behind.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) status: ExitStatus,
    pub(super) text: Vec<u8>,
}

impl Output {
    /// The output when git succeeded, its failure otherwise.
    pub(super) fn success(self) -> Result<Vec<u8>, GitError> {
        use std::os::unix::process::ExitStatusExt;
        match (self.status.code(), self.status.signal()) {
            (Some(0), _) => Ok(self.text),
            (Some(code), _) => Err(GitError::Failed { code }),
            (None, signal) => Err(GitError::Signalled { signal: signal.unwrap_or(0) }),
        }
    }
}

/// Which of git's streams make up the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    /// Standard output alone; a warning must never look like an answer.
    Answer,
    /// Both in the order written, for texts that a person reads.
    Everything,
}

impl Git {
    /// Runs the `git` of the system; the one of the search path where the system has none.
    pub fn new(limits: Limits) -> Self {
        Self::with_program(PathBuf::from("git"), limits)
    }

    /// Looks for `git` here.
    #[must_use]
    pub fn from(mut self, from: OwnPrograms) -> Self {
        self.from = from;
        self
    }

    /// The file to run; the name if there is no such file. Looks at files.
    fn file(&self) -> PathBuf {
        let name = self.program.to_str().filter(|name| !name.contains('/'));
        let found = name.and_then(|name| own(name, self.from, std::env::var_os("PATH").as_deref()));
        found.map_or_else(|| self.program.clone(), |found| found.file)
    }

    /// Runs the given program instead of `git`.
    pub fn with_program(program: PathBuf, limits: Limits) -> Self {
        let places = Arc::new(Semaphore::new(limits.concurrent.max(1)));
        Self { program, from: OwnPrograms::default(), limits, hidden: Vec::new(), places, found: Arc::default() }
    }

    /// Keeps an environment variable of the daemon from git.
    #[must_use]
    pub fn hiding(mut self, variable: impl Into<OsString>) -> Self {
        self.hidden.push(variable.into());
        self
    }

    /// Runs `git -C directory arguments…` to its end.
    pub(super) async fn run<A: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: &[A],
        streams: Streams,
    ) -> Result<Output, GitError> {
        self.carry_out(&Call::new(directory, arguments, streams)).await
    }

    /// Runs one command to its end.
    pub(super) async fn carry_out(&self, call: &Call<'_>) -> Result<Output, GitError> {
        let deadline = Instant::now() + self.limits.time;
        let Ok(Ok(place)) = timeout_at(deadline, self.places.acquire()).await else {
            return Err(GitError::Busy { limit: self.limits.time });
        };
        let program = self.program_until(deadline).await?;
        let sealed = program.sealable.as_deref().filter(|_| !call.starts_git);
        let outcome = self.start(call, sealed)?.finish_until(deadline, self.limits).await;
        drop(place);
        outcome
    }

    /// Whether git runs sealed: the kernel refuses it every other program.
    pub async fn is_sealed(&self) -> bool {
        self.program().await.is_ok_and(|program| program.sealable.is_some())
    }

    /// What is known of the program, after trying it out if need be.
    pub(super) async fn program(&self) -> Result<Program, GitError> {
        self.program_until(Instant::now() + self.limits.time).await
    }

    async fn program_until(&self, deadline: Instant) -> Result<Program, GitError> {
        let Ok(mut found) = timeout_at(deadline, self.found.lock()).await else {
            return Err(GitError::TimedOut { limit: self.limits.time });
        };
        let Some((path, identity)) = program::candidate(&self.file(), std::env::var_os("PATH").as_deref()) else {
            return Ok(Program::UNSEALED);
        };
        if let Some((_, program)) = found.as_ref().filter(|(known, _)| *known == identity) {
            return Ok(program.clone());
        }
        let call = Call::new(Path::new("/"), &["--version"], Streams::Answer);
        let answer = match self.start(&call, Some(&path)) {
            Ok(run) => run.finish_until(deadline, self.limits).await.and_then(Output::success),
            Err(error) => Err(error),
        };
        let program = match answer {
            Ok(answer) => Program::sealed(path, &answer),
            Err(GitError::TimedOut { limit }) => return Err(GitError::TimedOut { limit }),
            Err(_) => Program::UNSEALED,
        };
        *found = Some((identity, program.clone()));
        Ok(program)
    }

    fn start(&self, call: &Call<'_>, sealed: Option<&Path>) -> Result<Run, GitError> {
        let mut command = Command::new(self.file());
        command.arg("-C").arg(call.directory).args(hardening::settings()).args(&call.arguments);
        command.env_clear().envs(hardening::environment(&self.hidden, call.overrides));
        command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        // A git that cannot be sealed may yet run something, and whatever that is must not decide for the owner.
        hostel_peer::marks::mark_children_of(command.as_std_mut());

        let failed = |error: io::Error| GitError::Start { program: self.program.clone(), errno: errno_of(&error) };
        let (answer, diagnostics) = output_pipes(&mut command, call.streams).map_err(failed)?;
        if let Some(path) = sealed {
            hostel_keeper::confine::seal(command.as_std_mut(), path).map_err(failed)?;
        }
        let child = command.spawn().map_err(failed)?;
        Ok(Run { group: Group { child }, answer, diagnostics })
    }
}

/// Connects the command's streams and returns our ends: the output, and the stream that is only drained.
fn output_pipes(command: &mut Command, streams: Streams) -> io::Result<(pipe::Receiver, Option<pipe::Receiver>)> {
    let (reader, writer) = io::pipe()?;
    let answer = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let diagnostics = match streams {
        Streams::Everything => {
            command.stderr(writer.try_clone()?);
            None
        }
        Streams::Answer => {
            let (reader, writer) = io::pipe()?;
            command.stderr(writer);
            Some(pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?)
        }
    };
    command.stdout(writer);
    Ok((answer, diagnostics))
}

/// One run in progress.
struct Run {
    group: Group,
    answer: pipe::Receiver,
    diagnostics: Option<pipe::Receiver>,
}

impl Run {
    /// Follows the run to its end. When that does not come in time, or fails, nothing of the run is left afterwards.
    async fn finish_until(mut self, deadline: Instant, limits: Limits) -> Result<Output, GitError> {
        let outcome = match timeout_at(deadline, self.finish(limits.output)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(GitError::TimedOut { limit: limits.time }),
        };
        if outcome.is_err() {
            self.group.end().await;
        }
        outcome
    }

    async fn finish(&mut self, limit: usize) -> Result<Output, GitError> {
        let Self { group, answer, diagnostics } = self;
        let mut text = Vec::new();
        let mut noise = Vec::new();
        let status = {
            let reading = async {
                tokio::try_join!(collect(answer, &mut text, limit, false), async {
                    match diagnostics {
                        Some(stream) => collect(stream, &mut noise, DIAGNOSTIC_LIMIT, true).await,
                        None => Ok(()),
                    }
                })
            };
            tokio::pin!(reading);
            tokio::select! {
                read = &mut reading => {
                    read?;
                    group.wait().await?
                }
                status = group.wait() => {
                    let status = status?;
                    // Whatever git wrote is in the pipe by now; only a process it left behind can hold it open.
                    if let Ok(read) = timeout(DRAIN_LIMIT, &mut reading).await {
                        read?;
                    }
                    status
                }
            }
        };
        Ok(Output { status, text })
    }
}

/// Reads a stream to its end. Beyond the limit it fails, or reads on without keeping when `drop_rest` is set.
async fn collect<R: AsyncRead + Unpin>(
    stream: &mut R,
    into: &mut Vec<u8>,
    limit: usize,
    drop_rest: bool,
) -> Result<(), GitError> {
    let mut part = vec![0; READ_BUFFER];
    loop {
        let count = stream.read(&mut part).await.map_err(|error| io_failure(&error))?;
        if count == 0 {
            return Ok(());
        }
        let room = limit.saturating_sub(into.len());
        if count > room && !drop_rest {
            return Err(GitError::OutputTooLarge { limit });
        }
        into.extend_from_slice(&part[..count.min(room)]);
    }
}

/// The process group of one run; killed when dropped unless its leader has been reaped.
struct Group {
    child: Child,
}

impl Group {
    async fn wait(&mut self) -> Result<ExitStatus, GitError> {
        self.child.wait().await.map_err(|error| io_failure(&error))
    }

    /// Kills the group and waits for its leader, so that nothing of it runs when the caller is told.
    async fn end(&mut self) {
        self.kill();
        // A leader stuck in the kernel stays with the runtime, which reaps it whenever it comes free.
        drop(timeout(REAP_LIMIT, self.child.wait()).await);
    }

    fn kill(&self) {
        // The number is only known while the leader is not reaped, and until then it can not belong to another group.
        let leader = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            // It may have ended in the meantime; then there is nothing left to do.
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

fn io_failure(error: &io::Error) -> GitError {
    GitError::Io { errno: errno_of(error) }
}
