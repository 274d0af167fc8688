//! One run of a hook: a process group of its own, what it is told, what it prints, and its end.
//!
//! Invariant: it ends. What is left of its group when its first process ends, or when its time is up, is ended with it;
//! until then that process is not waited for, so its number cannot have become somebody else's. What it prints beyond
//! its limit is read and thrown away, so that it never waits for us. It inherits nothing but what is listed here.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::leftovers;
use super::sandbox::{Confined, LONGEST_REPORT, Report};

/// How long a hook may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// How long what is still in the pipes may take to come out once everybody is gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a run needs.
pub(super) struct Task<'a> {
    pub(super) confined: Confined,
    pub(super) environment: Vec<(&'static str, OsString)>,
    pub(super) directory: &'a Path,
    pub(super) stdin: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) most_output: usize,
    /// Whether all of the group is asked to end when its time is up, not just its first process.
    pub(super) whole_group: bool,
    /// What everything it started has in its environment.
    pub(super) marks: [String; 2],
    /// Called as soon as its first process has ended, or was ended.
    pub(super) over: &'a (dyn Fn() + Send + Sync),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    /// It was not started.
    Failed(String),
}

impl Exit {
    /// As the audit has it.
    pub(super) fn code(&self) -> i32 {
        match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => 128 + signal,
            Self::TimedOut | Self::Failed(_) => -1,
        }
    }
}

/// What became of it.
pub(super) struct Ran {
    pub(super) exit: Exit,
    pub(super) took: Duration,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// What it printed in all.
    pub(super) stdout_bytes: u64,
    pub(super) stderr_bytes: u64,
    pub(super) overflow: bool,
    pub(super) unenforced: Vec<String>,
}

impl Ran {
    pub(super) fn failed(reason: String) -> Self {
        Self {
            exit: Exit::Failed(reason),
            took: Duration::ZERO,
            stdout: Vec::new(),
            stderr: Vec::new(),
            stdout_bytes: 0,
            stderr_bytes: 0,
            overflow: false,
            unenforced: Vec::new(),
        }
    }
}

/// Runs a hook to its end.
pub(super) async fn run(task: Task<'_>) -> Ran {
    let scratch = task.confined.scratch.clone();
    if let Some(scratch) = &scratch
        && let Err(error) = make_scratch(scratch)
    {
        return Ran::failed(format!("cannot make `{}`: {error}", scratch.display()));
    }
    let ran = match start(&task) {
        Ok(running) => running.finish(task).await,
        Err(error) => Ran::failed(format!("cannot start it: {error}")),
    };
    if let Some(scratch) = scratch {
        // May be large; nobody else waits for it.
        hostel_tasks::spawn_blocking(move || std::fs::remove_dir_all(scratch)).await.ok();
    }
    ran
}

/// A fresh directory of the user's own: `/tmp` is everybody's, so what is there already is not trusted.
fn make_scratch(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    let make = || std::fs::DirBuilder::new().mode(0o700).create(path);
    match make() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Of a run that a killed daemon did not see to the end.
            let found = path.symlink_metadata()?;
            if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
                return Err(error);
            }
            std::fs::remove_dir_all(path)?;
            make()
        }
        made => made,
    }
}

/// A hook that runs.
struct Running {
    leader: Leader,
    began: Instant,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

fn start(task: &Task<'_>) -> io::Result<Running> {
    let Some((program, words)) = task.confined.command.split_first() else {
        return Err(io::Error::other("there is nothing to start"));
    };
    let mut command = Command::new(program);
    command.args(words).env_clear().current_dir(task.directory).process_group(0);
    for (name, value) in &task.environment {
        command.env(name, value);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let leader = Leader::new(child)?;
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err(io::Error::other("it has no pipes")) };
    Ok(Running {
        leader,
        began,
        stdin: pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?,
        stdout: pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?,
        stderr: pipe::Receiver::from_owned_fd(OwnedFd::from(stderr))?,
    })
}

impl Running {
    async fn finish(self, task: Task<'_>) -> Ran {
        let Running { mut leader, began, mut stdin, stdout, stderr } = self;
        let reports = task.confined.reports;
        let out = Captured::new(task.most_output);
        let err = Captured::new(task.most_output + if reports { LONGEST_REPORT } else { 0 });
        let ended = {
            let telling = async {
                // Who does not read what it is told has a reason.
                stdin.write_all(&task.stdin).await.ok();
                drop(stdin);
            };
            let talking = async { tokio::join!(telling, drain(stdout, &out), drain(stderr, &err)) };
            tokio::pin!(talking);
            let mut silent = false;
            let ended = loop {
                tokio::select! {
                    biased;
                    () = leader.ended() => break true,
                    () = tokio::time::sleep_until(began + task.timeout) => break false,
                    _ = &mut talking, if !silent => silent = true,
                }
            };
            if !ended {
                leader.ask_to_end(task.whole_group);
                let asked = Instant::now();
                loop {
                    tokio::select! {
                        biased;
                        () = leader.ended() => break,
                        () = tokio::time::sleep_until(asked + GRACE) => break,
                        _ = &mut talking, if !silent => silent = true,
                    }
                }
            }
            leader.kill(ended || task.whole_group);
            (task.over)();
            if !ended && task.whole_group {
                // Those who left the group too: its time is up for all of them.
                let marks = task.marks.clone();
                hostel_tasks::spawn_blocking(move || leftovers::kill_marked(&marks)).await.ok();
            }
            if !silent {
                tokio::time::timeout(LAST_WORDS, &mut talking).await.ok();
            }
            ended
        };
        let took = began.elapsed();
        let status = leader.reap().await;
        let (out, mut err) = (out.take(), err.take());
        let mut exit = match (ended, status) {
            (false, _) => Exit::TimedOut,
            (true, Ok(status)) => status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or(0)), Exit::Code),
            (true, Err(error)) => Exit::Failed(format!("cannot see how it ended: {error}")),
        };
        let mut unenforced: Vec<String> = task.confined.unenforced.iter().map(|reason| (*reason).to_owned()).collect();
        if reports {
            let before = err.kept.len();
            match Report::take(&mut err.kept) {
                Some(report) => {
                    err.bytes = err.bytes.saturating_sub((before - err.kept.len()) as u64);
                    unenforced.extend(report.unenforced);
                    if let Some(reason) = report.failed {
                        exit = Exit::Failed(reason);
                    }
                }
                None if ended => exit = Exit::Failed("its launcher said nothing".to_owned()),
                None => {}
            }
            err.kept.truncate(task.most_output);
        }
        Ran {
            exit,
            took,
            overflow: out.bytes > task.most_output as u64 || err.bytes > task.most_output as u64,
            stdout: out.kept,
            stderr: err.kept,
            stdout_bytes: out.bytes,
            stderr_bytes: err.bytes,
            unenforced,
        }
    }
}

/// The first process of a hook. It is ended when this is dropped.
struct Leader {
    /// Gone once it was waited for, or left to somebody who does.
    child: Option<Child>,
    group: Pid,
    /// Becomes readable when it ends, and leaves it to be reaped.
    watch: AsyncFd<OwnedFd>,
}

impl Leader {
    fn new(child: Child) -> io::Result<Self> {
        let mut child = child;
        let opened = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no pid"));
        let opened = opened.and_then(|group| {
            let fd = pidfd_open(group, PidfdFlags::NONBLOCK)?;
            // Deprecated for kinds of `T` that may close their descriptor early; an `OwnedFd` does not.
            #[allow(deprecated)]
            let watch = AsyncFd::with_interest(fd, Interest::READABLE)?;
            Ok((group, watch))
        });
        match opened {
            Ok((group, watch)) => Ok(Self { child: Some(child), group, watch }),
            Err(error) => {
                child.kill().ok();
                leave(child);
                Err(error)
            }
        }
    }

    /// Waits until it has ended; it is not reaped by that.
    async fn ended(&self) {
        // An error would mean that the runtime is gone.
        self.watch.readable().await.map(drop).unwrap_or_default();
    }

    fn ask_to_end(&self, group: bool) {
        if group {
            kill_process_group(self.group, Signal::TERM).ok();
        } else {
            kill_process(self.group, Signal::TERM).ok();
        }
    }

    fn kill(&self, group: bool) {
        if group {
            kill_process_group(self.group, Signal::KILL).ok();
        }
        kill_process(self.group, Signal::KILL).ok();
    }

    /// Gives its number back.
    async fn reap(&mut self) -> io::Result<ExitStatus> {
        let ended = tokio::time::timeout(GRACE, self.ended()).await;
        let Some(mut child) = self.child.take() else { return Err(io::ErrorKind::NotFound.into()) };
        match ended {
            Ok(()) => child.wait(),
            // Held by the kernel, on a disk that does not answer: nobody can end it now.
            Err(_) => {
                leave(child);
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            self.kill(true);
            leave(child);
        }
    }
}

/// Leaves a process that was killed to a thread of its own, which waits as long as the kernel holds it: nobody else does.
fn leave(mut child: Child) {
    if matches!(child.try_wait(), Ok(None)) {
        // Without a thread it stays a number in the table until the daemon ends.
        std::thread::Builder::new().name("hook-reaper".to_owned()).spawn(move || child.wait()).ok();
    }
}

/// What was printed: the beginning, and how much it was.
struct Captured(Arc<Mutex<Printed>>, usize);

#[derive(Default)]
struct Printed {
    kept: Vec<u8>,
    bytes: u64,
}

impl Captured {
    fn new(most: usize) -> Self {
        Self(Arc::default(), most)
    }

    fn add(&self, some: &[u8]) {
        let mut printed = self.0.lock();
        printed.bytes += some.len() as u64;
        let room = self.1.saturating_sub(printed.kept.len());
        printed.kept.extend_from_slice(&some[..some.len().min(room)]);
    }

    fn take(&self) -> Printed {
        std::mem::take(&mut self.0.lock())
    }
}

/// Reads to the end, whatever is kept of it.
async fn drain(mut from: pipe::Receiver, into: &Captured) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => into.add(&buffer[..count]),
        }
    }
}
