//! A daemon or broker that runs in the foreground as a child of the test: to start, to kill and to start again.
//!
//! What it prints is kept in files, over all its starts. When it goes out of scope it is asked to end and then made to;
//! the end of what it printed is shown if the test failed.

use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::procfs::Identity;
use crate::wait::{self, Outcome};

/// How long a process may take to end in good order before it is killed, when its test is over.
pub(crate) const END_GRACE: Duration = Duration::from_secs(10);

/// A process of a test.
#[derive(Debug)]
pub struct Process {
    name: String,
    out: PathBuf,
    err: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// A process that was not started yet. Its output goes to two files that start with this path.
    pub fn new(name: &str, output: PathBuf) -> Self {
        let with = |ending: &str| {
            let mut path = output.clone().into_os_string();
            path.push(ending);
            PathBuf::from(path)
        };
        Self { name: name.to_owned(), out: with(".out"), err: with(".err"), child: None }
    }

    /// Starts a command.
    ///
    /// # Panics
    /// If it runs already or cannot be started.
    pub fn start(&mut self, mut command: Command) {
        command.stdout(append(&self.out));
        self.start_with_stdout(command);
    }

    /// Starts a command whose standard output was set.
    ///
    /// # Panics
    /// If it runs already or cannot be started.
    pub fn start_with_stdout(&mut self, mut command: Command) {
        assert!(self.child.is_none(), "{} is started already", self.name);
        command.stderr(append(&self.err));
        let child = command.spawn();
        self.child =
            Some(child.unwrap_or_else(|error| panic!("{} cannot be started: {error}: {command:?}", self.name)));
    }

    /// Waits until the probe holds, or fails at once if the process ends before that.
    ///
    /// # Panics
    /// If the process ends or the condition never holds.
    pub fn wait_ready<P: Outcome>(&mut self, mut probe: impl FnMut() -> P) -> P::Found {
        let what = format!("{} to be ready", self.name);
        wait::eventually(&what, || {
            if let Some(status) = self.child_mut().try_wait().expect("our own child can be waited for") {
                panic!("{} ended with {status}; it printed:\n{}", self.name, self.printed());
            }
            let printed = || format!("what it printed:\n{}", wait::last_lines(&self.printed()));
            probe().outcome().map_err(|observed| observed.unwrap_or_else(printed))
        })
    }

    fn child_mut(&mut self) -> &mut Child {
        self.child.as_mut().expect("the process was started")
    }

    /// Whether it was started and not yet waited for.
    pub fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// Its process id.
    ///
    /// # Panics
    /// If it was not started.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap_or_else(|| panic!("{} was not started", self.name)).id()
    }

    /// The running process.
    ///
    /// # Panics
    /// If it does not run.
    pub fn identity(&self) -> Identity {
        Identity::of(self.pid().cast_signed()).unwrap_or_else(|| panic!("{} does not run", self.name))
    }

    /// Kills it with SIGKILL and waits until it is gone.
    ///
    /// # Panics
    /// If it was not started.
    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap_or_else(|| panic!("{} was not started", self.name));
        child.kill().expect("our own child can be killed");
        child.wait().expect("our own child can be reaped");
    }

    /// Sends SIGTERM and waits for the end.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(&mut self) -> ExitStatus {
        self.identity().signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// If it does not end.
    pub fn ended(&mut self) -> ExitStatus {
        self.ended_within(wait::LIMIT)
    }

    /// As [`Process::ended`] with another limit.
    ///
    /// # Panics
    /// If it does not end within the scaled limit.
    pub fn ended_within(&mut self, limit: Duration) -> ExitStatus {
        let mut child = self.child.take().unwrap_or_else(|| panic!("{} was not started", self.name));
        wait::end_within(&mut child, limit, &self.name)
    }

    /// Everything it printed, over all its starts.
    pub fn printed(&self) -> String {
        let read = |path: &PathBuf| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        read(&self.out) + &read(&self.err)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            if let Some(process) = Identity::of(child.id().cast_signed()) {
                process.signal(Signal::TERM);
            }
            // Whether a stop works is for the tests to say; here it only must be over.
            if wait::try_end_of(&mut child, END_GRACE).is_none() {
                child.kill().ok();
                child.wait().ok();
            }
        }
        if thread::panicking() {
            show_log(&format!("what {} printed", self.name), &self.printed());
        }
    }
}

/// Shows the end of a log of a test that failed.
pub fn show_log(what: &str, log: &str) {
    if !log.is_empty() {
        eprintln!("---- last lines of {what}\n{}\n----", wait::last_lines(log));
    }
}

/// Runs a command to its end and gives what it printed.
///
/// # Panics
/// If it cannot be started or does not end.
pub fn run(mut command: Command) -> std::process::Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let shown = format!("{command:?}");
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {shown}: {error}"));
    let mut read_out = child.stdout.take().expect("stdout is a pipe");
    let mut read_err = child.stderr.take().expect("stderr is a pipe");
    let out = thread::spawn(move || read_all(&mut read_out));
    let err = thread::spawn(move || read_all(&mut read_err));
    let status = wait::end_of(&mut child, &shown);
    // A daemon that inherited the pipes would hold these threads: that is a finding, not a wait.
    let finished = wait::attempt(Duration::from_secs(20), || out.is_finished() && err.is_finished());
    assert!(finished.is_some(), "{shown} ended, but something it started still holds its stdout or stderr");
    std::process::Output {
        status,
        stdout: out.join().expect("the reader does not panic"),
        stderr: err.join().expect("the reader does not panic"),
    }
}

fn read_all(source: &mut impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes).expect("a pipe can be read");
    bytes
}

fn append(path: &PathBuf) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
