//! The `PATH` a person has in a terminal, asked once from the login shell.
//!
//! A daemon started over SSH has a bare `PATH`, so tools that profiles add would be missing. The
//! answer goes into children's environment only, never into the daemon's own. The shell runs in a
//! process group of its own for at most four seconds; one that takes longer is killed and what it
//! printed is not believed. Agents can write the profiles that it reads, so it gets the guard that
//! agents usually have.
//!
//! Whatever goes wrong here, spawning works: with the daemon's own `PATH`.

use super::log::Log;
use super::lookup::is_executable;
use hostel_guard::{Guards, Layers, Request};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What stands before the value in the shell's output, which profiles may add anything to.
const SENTINEL: &str = "___CLAUDE_SSH_PATH_EXTRACT___";
const TIME_LIMIT: Duration = Duration::from_secs(4);
/// The most output that is looked at.
const OUTPUT_LIMIT: u64 = 1024 * 1024;
/// How much of useless output is logged.
const QUOTE_LIMIT: usize = 200;

/// The answer, or the wait for it.
#[derive(Debug, Clone)]
pub(crate) struct LoginShell(watch::Receiver<Answer>);

#[derive(Debug, Clone)]
enum Answer {
    Awaited,
    Known(Option<OsString>),
}

impl LoginShell {
    /// An answer that is there at once: the daemon's own `PATH` serves.
    pub(crate) fn not_asked() -> Self {
        Self(watch::channel(Answer::Known(None)).1)
    }

    /// Starts asking, on a thread of its own.
    pub(crate) fn ask(
        environment: Vec<(OsString, OsString)>,
        helper: Vec<OsString>,
        guards: Arc<Guards>,
        log: Log,
    ) -> Self {
        let (tell, answer) = watch::channel(Answer::Awaited);
        let asking = std::thread::Builder::new().name("login-shell".to_owned()).spawn(move || {
            let shell = choose_shell(&environment);
            let path = extract(&shell, &environment, &helper, &guards, TIME_LIMIT, &log);
            // Nobody may be left to tell.
            tell.send(Answer::Known(path)).ok();
        });
        match asking {
            Ok(_) => Self(answer),
            Err(_) => Self::not_asked(),
        }
    }

    /// The login shell's `PATH`, once it is known; none if the shell would not say.
    pub(crate) async fn path(&self) -> Option<OsString> {
        let mut answer = self.0.clone();
        let known = answer.wait_for(|answer| matches!(answer, Answer::Known(_)));
        match known.await.as_deref() {
            Ok(Answer::Known(path)) => path.clone(),
            _ => None,
        }
    }
}

/// `$SHELL` if it can be run, else the first of the usual ones that can.
fn choose_shell(environment: &[(OsString, OsString)]) -> PathBuf {
    let own = environment.iter().find(|(name, _)| name == "SHELL").map(|(_, value)| PathBuf::from(value));
    let usual = ["/bin/zsh", "/bin/bash", "/bin/sh"].map(PathBuf::from);
    own.into_iter()
        .chain(usual)
        .find(|shell| shell.metadata().is_ok_and(|metadata| metadata.is_file()) && is_executable(shell))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

fn extract(
    shell: &Path,
    environment: &[(OsString, OsString)],
    helper: &[OsString],
    guards: &Guards,
    limit: Duration,
    log: &Log,
) -> Option<OsString> {
    const FAILED: &str = "[shellenv] Failed to extract PATH from login shell";
    let asked = guarded(request(shell, environment), guards).and_then(|request| run(request, helper, limit));
    match asked {
        Err(error) => {
            log.warn(format_args!("{FAILED}: {error}"));
            None
        }
        Ok(Run { status: None, .. }) => {
            let shell = shell.display();
            log.warn(format_args!("{FAILED}: shell PATH extraction timed out ({shell})"));
            None
        }
        Ok(Run { status: Some(status), output }) => {
            if !status.success() {
                log.warn(format_args!(
                    "[shellenv] Shell command exited with error (may still have PATH): {}",
                    status_text(status)
                ));
            }
            let Some(path) = path_in(&output) else {
                let quoted = quote(&output);
                log.warn(format_args!("{FAILED}: PATH sentinel not found in shell output: {quoted}"));
                return None;
            };
            log.info(format_args!("[shellenv] Extracted shell PATH ({} chars)", path.len()));
            Some(path)
        }
    }
}

struct Run {
    /// None when the time was up.
    status: Option<ExitStatus>,
    output: Vec<u8>,
}

/// The shell, which prints its path.
fn request(shell: &Path, environment: &[(OsString, OsString)]) -> Request {
    let ask = format!("/bin/sh -c 'printf \"%s%s\\n\" {SENTINEL} \"$PATH\"'");
    let quiet = ["DISABLE_AUTO_UPDATE", "ZSH_DISABLE_COMPFIX"].map(|name| (name.into(), "true".into()));
    Request {
        program: shell.to_owned(),
        argv: vec![shell.into(), "-l".into(), "-i".into(), "-c".into(), ask.into()],
        environment: environment.iter().cloned().chain(quiet).collect(),
        shown: Vec::new(),
    }
}

/// The request with the usual guard of agents around it, as far as the machine allows.
fn guarded(request: Request, guards: &Guards) -> io::Result<Request> {
    let guard = guards.usual();
    let layers = guards.layers(guard, Layers::default()).map_err(io::Error::other)?;
    if layers.view {
        guards.notice(hostel_peer::houses::running());
    }
    guards.wrap_with_own_path(request, guard, layers).map_err(io::Error::other)
}

fn run(request: Request, helper: &[OsString], limit: Duration) -> io::Result<Run> {
    // The first argument is the name of the program, which the kernel takes from the words themselves here.
    let own = std::iter::once(request.program.into_os_string()).chain(request.argv.into_iter().skip(1));
    let mut words = helper.iter().cloned().chain(own);
    let (mut reader, writer) = io::pipe()?;
    let mut command = Command::new(words.next().unwrap_or_default());
    command
        .args(words)
        .env_clear()
        .envs(request.environment)
        // The daemon's own directory may be one that a guard hides.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    // Profiles can be written by whoever runs inside the house, and may leave programs behind.
    hostel_peer::marks::mark_children_of(&mut command);
    let mut child = command.spawn()?;
    // The command holds the pipe's other end; as long as it lives there is no end of output.
    drop(command);
    let outcome = follow(&mut child, &mut reader, limit);
    // The leader is not reaped yet unless it ended by itself, so the number is still its own.
    if !matches!(outcome, Ok(Run { status: Some(_), .. })) {
        if let Some(leader) = leader(&child) {
            kill_process_group(leader, Signal::KILL).ok();
        }
        child.wait()?;
    }
    outcome
}

/// Collects output until the shell ends or the time is up.
fn follow(child: &mut Child, reader: &mut PipeReader, limit: Duration) -> io::Result<Run> {
    let pid = leader(child).ok_or(io::ErrorKind::NotFound)?;
    let ended = pidfd_open(pid, PidfdFlags::empty())?;
    rustix::io::ioctl_fionbio(&*reader, true)?;
    let deadline = Instant::now() + limit;
    let mut output = Vec::new();
    let mut open = true;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Run { status: None, output });
        }
        let mut waited = [PollFd::new(&ended, PollFlags::IN), PollFd::new(&*reader, PollFlags::IN)];
        let watched = if open { &mut waited[..] } else { &mut waited[..1] };
        match poll(watched, Some(&left.try_into().map_err(io::Error::other)?)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let over = !waited[0].revents().is_empty();
        open = drain(reader, &mut output)?;
        if over {
            return Ok(Run { status: Some(child.wait()?), output });
        }
    }
}

/// Reads what is there; false once there will be no more.
fn drain(reader: &mut PipeReader, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut part = [0; 4096];
    loop {
        match reader.read(&mut part) {
            Ok(0) => return Ok(false),
            Ok(count) if (output.len() as u64) < OUTPUT_LIMIT => output.extend_from_slice(&part[..count]),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn leader(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// What follows the sentinel on the first line that has it; nothing if that is empty.
fn path_in(output: &[u8]) -> Option<OsString> {
    let found = memchr::memmem::find(output, SENTINEL.as_bytes())? + SENTINEL.len();
    let line = output[found..].split(|byte| *byte == b'\n').next()?;
    let path = line.trim_ascii();
    (!path.is_empty()).then(|| OsString::from_vec(path.to_vec()))
}

fn quote(output: &[u8]) -> String {
    let text = OsStr::from_bytes(output).to_string_lossy();
    match text.char_indices().nth(QUOTE_LIMIT) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

fn status_text(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("signal: {}", signal.unwrap_or(0)),
    }
}

/// Turns this process into `words`, so that it ends when its parent does. For the program a
/// [`super::settings::LoginPath::Ask`] helper names; returns only if that failed.
///
/// The parent's thread that started this process must live as long as the command may.
pub fn become_command(words: &[OsString]) -> io::Error {
    let parent = rustix::process::getppid();
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // A parent that died before the line above will never be noticed.
    if rustix::process::getppid() != parent {
        return io::ErrorKind::NotFound.into();
    }
    match words.split_first() {
        Some((program, arguments)) => Command::new(program).args(arguments).exec(),
        None => io::ErrorKind::InvalidInput.into(),
    }
}

#[cfg(test)]
#[path = "shellenv_tests.rs"]
mod tests;
