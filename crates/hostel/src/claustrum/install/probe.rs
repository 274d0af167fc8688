//! Trying programs: does a command-line program answer `--version`, and which C library does this machine have.
//!
//! Every trial has a time limit, nothing to read, and a process group that is killed with everything in it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

const LDD_LIMIT: Duration = Duration::from_secs(5);
const LDD_OUTPUT_LIMIT: u64 = 64 * 1024;
const LOADER_DIRECTORY: &str = "/lib";
/// A file that was just written can be held open for an instant by a process another thread is about to start.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);
const ETXTBSY: i32 = 26;

/// True when `program --version` succeeds in time.
pub(super) async fn runs(program: &Path, limit: Duration) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let Some(mut trial) = start(&mut command).await else {
        return false;
    };
    matches!(timeout(limit, trial.child.wait()).await, Ok(Ok(status)) if status.success())
}

/// The C library of this machine: `musl` or `glibc`.
pub(super) async fn libc() -> &'static str {
    libc_by(Path::new(LOADER_DIRECTORY), Path::new("ldd")).await
}

/// The loader's file is the surest sign; only without one is `ldd` asked.
pub(super) async fn libc_by(loader_directory: &Path, ldd: &Path) -> &'static str {
    if has_musl_loader(loader_directory) {
        return "musl";
    }
    let mut command = Command::new(ldd);
    command.arg("--version").stdout(Stdio::piped()).stderr(Stdio::piped());
    let Some(mut trial) = start(&mut command).await else {
        return "glibc";
    };
    let (Some(stdout), Some(stderr)) = (trial.child.stdout.take(), trial.child.stderr.take()) else {
        return "glibc";
    };
    let mut printed = (Vec::new(), Vec::new());
    let reading = async {
        let mut stdout = stdout.take(LDD_OUTPUT_LIMIT);
        let mut stderr = stderr.take(LDD_OUTPUT_LIMIT);
        tokio::join!(stdout.read_to_end(&mut printed.0), stderr.read_to_end(&mut printed.1))
    };
    // Whatever was printed in time counts; an `ldd` that says nothing useful leaves the common answer.
    drop(timeout(LDD_LIMIT, reading).await);
    let mentions_musl = |text: &[u8]| text.to_ascii_lowercase().windows(4).any(|word| word == b"musl");
    if mentions_musl(&printed.0) || mentions_musl(&printed.1) { "musl" } else { "glibc" }
}

fn has_musl_loader(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with("ld-musl-") && name.contains(".so."))
    })
}

/// A program on trial; its group is killed when the trial ends, unless it has already been reaped.
struct Trial {
    child: Child,
}

impl Drop for Trial {
    fn drop(&mut self) {
        let leader = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(leader) = leader {
            // It may have ended by itself in the meantime.
            kill_process_group(leader, Signal::KILL).ok();
        }
    }
}

async fn start(command: &mut Command) -> Option<Trial> {
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true).env_remove("CLAUDE_RPC_TOKEN");
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Ok(child) => return Some(Trial { child }),
            Err(error) if error.raw_os_error() == Some(ETXTBSY) => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(_) => return None,
        }
    }
    None
}
