//! Whether there is room to write: quotas, and the free space that must remain.
//!
//! The keeper checks by itself because the daemon may be dead while a child fills the disk. It
//! looks every so many bytes, not at every write; a disk that fills up faster says ENOSPC, and the
//! pump holds the child for that too.

use std::io;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::child::Store;
use super::{PumpChild, Setting};
use crate::proto::{Held, Limits, OnFull};

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;
/// All journals together, unless the daemon says otherwise.
const TOTAL_QUOTA: u64 = 10 * GIB;
/// One journal, unless a spawn or the daemon says otherwise.
const PROCESS_QUOTA: u64 = TOTAL_QUOTA / 4;
/// Bytes between two looks at the file system.
const LOOK_EVERY: u64 = 64 * MIB;

/// Time between two looks on behalf of held children.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Quotas and what is used of them.
#[derive(Debug)]
pub(crate) struct Pressure {
    total_quota: u64,
    process_quota: u64,
    floor: u64,
    total: u64,
    since_look: u64,
    looked_at: Instant,
    verdict: Held,
}

/// The state that an error of the disk puts a process in.
pub(crate) fn reason(error: &io::Error) -> Held {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => Held::Disk,
        _ => Held::Error,
    }
}

impl Pressure {
    /// Looks at the journal directory and begins to count.
    pub(crate) fn new(setting: &Setting) -> Self {
        let mut pressure = Self {
            total_quota: TOTAL_QUOTA,
            process_quota: PROCESS_QUOTA,
            floor: default_floor(setting),
            total: 0,
            since_look: 0,
            looked_at: Instant::now(),
            verdict: Held::No,
        };
        pressure.look_again(setting);
        pressure
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { total_quota: self.total_quota, process_quota: self.process_quota, floor: self.floor }
    }

    pub(crate) fn set(&mut self, limits: Limits) {
        for (mine, theirs) in [
            (&mut self.total_quota, limits.total_quota),
            (&mut self.process_quota, limits.process_quota),
            (&mut self.floor, limits.floor),
        ] {
            if theirs != 0 {
                *mine = theirs;
            }
        }
        // The next write looks for itself.
        self.since_look = u64::MAX;
    }

    pub(crate) fn grew(&mut self, bytes: usize) {
        self.total += bytes as u64;
        self.since_look = self.since_look.saturating_add(bytes as u64);
    }

    pub(crate) fn forgotten(&mut self, bytes: u64) {
        self.total = self.total.saturating_sub(bytes);
    }

    /// Whether this child may not write now, and why. A child that gives up its oldest output does
    /// so here. What is left of a process that has ended is written whatever the quota says: only a disk that
    /// refuses it keeps the process from being over.
    pub(crate) fn refuse(&mut self, child: &mut PumpChild, setting: &Setting) -> Option<Held> {
        if child.is_writing_last_words() {
            return None;
        }
        if self.since_look >= LOOK_EVERY.min(self.total_quota / 64).max(64 * 1024) {
            self.look_again(setting);
        }
        let quota = if child.quota == 0 { self.process_quota } else { child.quota };
        let used = child.store_bytes();
        let over_own = used >= quota.saturating_add(dropped(child));
        if !over_own && self.verdict == Held::No {
            return None;
        }
        if child.on_full == OnFull::DropOldest {
            let dropped = child.writer(setting).and_then(|writer| writer.drop_oldest((quota / 8).max(MIB)));
            if dropped.is_ok_and(|bytes| bytes > 0) {
                self.look_again(setting);
                return None;
            }
        }
        Some(if over_own { Held::Quota } else { self.verdict })
    }

    /// Asks the file system, unless it was asked a moment ago.
    pub(crate) fn look_if_due(&mut self, setting: &Setting) {
        if self.looked_at.elapsed() >= LOOK_AGAIN {
            self.look_again(setting);
        }
    }

    /// Asks the file system.
    pub(crate) fn look_again(&mut self, setting: &Setting) {
        self.since_look = 0;
        self.looked_at = Instant::now();
        let free =
            rustix::fs::fstatvfs(&setting.journal).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        if let Ok(files) = hostel_journal::scan(setting.journal.as_fd()) {
            self.total = files.iter().map(|file| file.bytes_on_disk).sum();
        }
        self.verdict = if free < self.floor {
            Held::Disk
        } else if self.total >= self.total_quota {
            Held::Quota
        } else {
            Held::No
        };
    }
}

fn dropped(child: &PumpChild) -> u64 {
    let first_block = match &child.store {
        Store::None => 0,
        Store::Open(writer) => writer.position().first_block,
        Store::Closed(position) => position.first_block,
    };
    first_block * hostel_journal::BLOCK_BYTES
}

/// What must stay free: a gigabyte, or the twentieth part of a small file system.
fn default_floor(setting: &Setting) -> u64 {
    rustix::fs::fstatvfs(&setting.journal).map_or(0, |stat| GIB.min(stat.f_blocks.saturating_mul(stat.f_frsize) / 20))
}
