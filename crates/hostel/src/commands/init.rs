//! `hostel up --foreground` as process 1 of a container.
//!
//! When process 1 ends, everything in its namespace does, so the daemon, which may die at any moment, must not be it.
//! This one starts the daemon, starts it again when it dies, reaps whatever is left to process 1, and closes the house
//! in order when it is told to stop. It holds nothing itself and never opens a socket.

use std::ffi::OsStr;
use std::process::Command;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::Pid;
use rustix::process::WaitOptions;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::time::Instant;

use super::Context;
use super::wait;
use crate::cli::Up;
use crate::error::CommandError;

/// The first pause before a daemon that died is started again; it doubles while the daemon keeps dying.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Whether this process is the first of its namespace.
pub(super) fn is_first() -> bool {
    std::process::id() == 1
}

pub(super) fn run(context: &Context<'_>, arguments: &Up) -> Result<ExitCode, CommandError> {
    let problem = |error: std::io::Error| CommandError::failure(format!("cannot look after the daemon: {error}"));
    let mut up: Vec<&OsStr> = vec!["up".as_ref(), "--foreground".as_ref()];
    for setting in &arguments.settings {
        up.extend([OsStr::new("--set"), setting.as_ref()]);
    }
    wait(async {
        let mut ended = signal(SignalKind::child()).map_err(problem)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(problem)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(problem)?;
        let mut stopping = false;
        let mut pause = FIRST_PAUSE;
        loop {
            let daemon = start(context, &up).map_err(problem)?;
            let began = Instant::now();
            let mut alive = true;
            let mut again = None;
            while alive || again.is_some_and(|at| Instant::now() < at) {
                let wake = again.unwrap_or_else(|| Instant::now() + LONGEST_PAUSE);
                tokio::select! {
                    _ = ended.recv() => {
                        if reap(daemon) {
                            alive = false;
                            if began.elapsed() > LONGEST_PAUSE {
                                pause = FIRST_PAUSE;
                            }
                            again = Some(Instant::now() + pause);
                            pause = (pause * 2).min(LONGEST_PAUSE);
                        }
                    }
                    _ = terminate.recv() => stop(context, &mut stopping).map_err(problem)?,
                    _ = interrupt.recv() => stop(context, &mut stopping).map_err(problem)?,
                    () = tokio::time::sleep_until(wake) => {}
                }
                if stopping && !alive {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    })
}

/// Closes the house through a process of its own, so that reaping goes on meanwhile.
fn stop(context: &Context<'_>, stopping: &mut bool) -> std::io::Result<()> {
    if !std::mem::replace(stopping, true) {
        start(context, &["down".as_ref()])?;
    }
    Ok(())
}

fn start(context: &Context<'_>, words: &[&OsStr]) -> std::io::Result<Pid> {
    let child = Command::new(std::env::current_exe()?).arg("--home").arg(&context.home).args(words).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| std::io::Error::other("a process without an id"))
}

/// Reaps everything that has ended; says whether the daemon was among it.
fn reap(daemon: Pid) -> bool {
    let mut found = false;
    while let Ok(Some((pid, _))) = rustix::process::wait(WaitOptions::NOHANG) {
        found |= pid == daemon;
    }
    found
}
