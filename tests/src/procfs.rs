//! What `/proc` says about a process: alive or not, whose child, in which group and session.
//!
//! A pid alone is no identity: [`Identity`] adds the start time, so that a test never signals a
//! process that merely inherited the number.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// The fields of `/proc/PID/stat` the tests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R`, `S`, `Z`, …
    pub state: u8,
    /// The parent's pid.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// The session.
    pub session: i32,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

/// A process that cannot be mistaken for a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The pid.
    pub pid: i32,
    start: u64,
}

impl Identity {
    /// The process that has this pid now, if any.
    pub fn of(pid: i32) -> Option<Self> {
        stat(pid).map(|found| Self { pid, start: found.start })
    }

    /// Whether this very process still runs (a zombie does not).
    pub fn alive(self) -> bool {
        stat(self.pid).is_some_and(|now| now.start == self.start && !matches!(now.state, b'Z' | b'X'))
    }

    /// Sends a signal if this very process still runs.
    pub fn signal(self, signal: Signal) {
        if self.alive()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // It may have ended since the look: that is the outcome the caller wants anyway.
            kill_process(pid, signal).ok();
        }
    }

    /// Stops it with `SIGSTOP` and waits until each of its threads stands still; `SIGCONT` has it go on.
    ///
    /// # Panics
    /// If it does not stop.
    pub fn freeze(self) {
        self.signal(Signal::STOP);
        wait::eventually(&format!("process {} to stand still", self.pid), || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
            let mut states = threads.filter_map(|thread| {
                let text = fs::read_to_string(thread.path().join("stat")).ok()?;
                let (_, rest) = text.rsplit_once(") ")?;
                rest.bytes().next()
            });
            states.all(|state| matches!(state, b'T' | b'Z' | b'X'))
        });
    }

    /// Waits until it runs no more.
    ///
    /// # Panics
    /// If it still runs after `limit`.
    pub fn wait_gone(self, limit: Duration) {
        let ended = wait::process_end(self, limit);
        assert!(ended, "waited {:?} in vain for the end of {}", wait::scaled(limit), describe(self.pid));
    }
}

/// `/proc/PID/stat`, unless the process is gone.
pub fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command stands in parentheses and may itself contain blanks and parentheses.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Whether a process of this pid runs (a zombie does not).
pub fn alive(pid: i32) -> bool {
    stat(pid).is_some_and(|found| !matches!(found.state, b'Z' | b'X'))
}

/// Every process below `root`, by the parent links of this moment, `root` not included.
pub fn descendants(root: i32) -> Vec<Identity> {
    descendants_of([root])
}

/// Every process below one of several, which are not included.
pub fn descendants_of(roots: impl IntoIterator<Item = i32>) -> Vec<Identity> {
    let mut below: BTreeMap<i32, Vec<Identity>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(found) = stat(pid) {
            below.entry(found.parent).or_default().push(Identity { pid, start: found.start });
        }
    }
    let mut found = Vec::new();
    let mut open: Vec<i32> = roots.into_iter().collect();
    while let Some(parent) = open.pop() {
        for child in below.get(&parent).into_iter().flatten() {
            found.push(*child);
            open.push(child.pid);
        }
    }
    found
}

/// The environment a process was started with.
pub fn environment(pid: i32) -> BTreeMap<OsString, OsString> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|pair| {
            let cut = pair.iter().position(|byte| *byte == b'=')?;
            Some((OsString::from_vec(pair[..cut].to_vec()), OsString::from_vec(pair[cut + 1..].to_vec())))
        })
        .collect()
}

/// A process and what it is doing, for the message of a failure.
pub fn describe(pid: i32) -> String {
    let Some(found) = stat(pid) else { return format!("process {pid}, which is gone") };
    let waits = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    format!("process {pid} ({}) in state {} at {waits:?}", command_line(pid), char::from(found.state))
}

/// The command line, blank-separated.
pub fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// What a link under `/proc/PID/` points to: `cwd`, `fd/0`, …
pub fn link(pid: i32, name: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/{name}")).ok()
}

/// What the descriptors of a process point to; nothing where the kernel hides them from this user.
///
/// hostel's daemon and keeper are not dumpable, so only root may look.
pub fn descriptors(pid: i32) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).collect())
}

/// Resident memory in bytes, 0 for a process that is gone.
pub fn resident(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}
