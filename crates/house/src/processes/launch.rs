//! Finding the keeper of a house, or starting one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostel_keeper::{OUTSIDE_LIMIT_OPTION, SOCKET_NAME, SUBCOMMAND};
use hostel_peer::marks;

use super::KeeperOptions;

/// The keeper's socket of a run directory.
pub(crate) fn socket(run_dir: &Path) -> PathBuf {
    run_dir.join(SOCKET_NAME)
}

/// Starts a keeper and waits until it is ready. That another one was faster is not an error: the
/// lock decides, and there is one to talk to.
pub(crate) fn start(options: &KeeperOptions) -> io::Result<()> {
    let mut command = Command::new(&options.program);
    command.arg(SUBCOMMAND).arg("--run-dir").arg(&options.run_dir).arg("--journal-dir").arg(&options.journal_dir);
    command.arg(OUTSIDE_LIMIT_OPTION).arg(marks::lowest_outside().to_string());
    if let Some(root) = &options.cgroup_root {
        command.arg("--cgroup-root").arg(root);
    }
    // Nothing of ours: no environment (it may hold a token) and no terminal.
    command.env_clear();
    hostel_syncpoint::pass_on(&mut command);
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() || text.contains("another keeper is alive") {
        return Ok(());
    }
    Err(io::Error::other(if text.is_empty() { format!("the keeper ended with {}", output.status) } else { text }))
}
