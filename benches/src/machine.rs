//! The facts about a machine that a figure needs beside it: no name, no path, no address.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use anyhow::Result;

/// What the figures were taken on.
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    pub(crate) file_system: &'static str,
    /// Runnable processes in the minute before: above zero, others were using the machine.
    pub(crate) load: f64,
    pub(crate) date: String,
}

impl Machine {
    /// Looks around; `dir` is where the journals will be.
    pub(crate) fn describe(dir: &Path) -> Result<Machine> {
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib: u64 = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok())
            .unwrap_or_default();
        let date = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output().context("asking for the date")?;
        Ok(Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (memory_kib + (1 << 19)) >> 20,
            kernel: kernel(),
            file_system: file_system(dir),
            load: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|load| load.split(' ').next()?.parse().ok())
                .unwrap_or_default(),
            date: String::from_utf8_lossy(&date.stdout).trim().to_owned(),
        })
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        format!(
            "{} cores, {} GiB of memory, {}, journals on {}, load {:.1} at the start",
            self.cores, self.memory_gib, self.kernel, self.file_system, self.load
        )
    }
}

/// System and version; what a builder hung on to the version says nothing to others.
fn kernel() -> String {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let version: String =
        release.chars().take_while(|character| character.is_ascii_digit() || *character == '.').collect();
    format!("{} {version}", name.sysname().to_string_lossy())
}

fn file_system(dir: &Path) -> &'static str {
    match rustix::fs::statfs(dir).map(|found| found.f_type) {
        Ok(0xEF53) => "ext4",
        Ok(0x5846_5342) => "xfs",
        Ok(0x9123_683E) => "btrfs",
        Ok(0x0102_1994) => "tmpfs (memory, not a disk)",
        Ok(0x794C_7630) => "overlayfs",
        Ok(0x2FC1_2FC1) => "zfs",
        Ok(0x6969) => "nfs",
        _ => "another file system",
    }
}

/// Bytes free for this user where `dir` is.
pub(crate) fn free_bytes(dir: &Path) -> Result<u64> {
    let found = rustix::fs::statvfs(dir).context("asking for free space")?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
