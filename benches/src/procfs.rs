//! What /proc tells of a process: memory, CPU time, and which processes belong to a house.
//!
//! Only reads. Files that this user may not read (a process can hide its maps) make a figure
//! absent, never wrong.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use memchr::memmem;
use rustix::time::ClockId;
use rustix::time::clock_gettime;

/// Resident memory of one or more processes, in bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    /// Shared pages counted in parts; absent when a process hides its maps from this user.
    pub(crate) proportional: Option<u64>,
    /// The same of the pages that hold no file: what the processes keep for themselves.
    pub(crate) private: Option<u64>,
}

/// CPU seconds of one or more processes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) seconds: f64,
    /// Of the children that ended and were waited for.
    pub(crate) reaped_seconds: f64,
}

fn process_file(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// Whether the process runs; one that ended and was not waited for does not.
pub(crate) fn is_running(pid: u32) -> bool {
    fs::read_to_string(process_file(pid, "stat"))
        .ok()
        .and_then(|stat| Some(after_name(&stat)?.starts_with('Z')))
        .is_some_and(|zombie| !zombie)
}

/// Whether the process has ended and its parent has taken notice.
pub(crate) fn is_reaped(pid: u32) -> bool {
    !process_file(pid, "stat").exists()
}

/// Waits until `condition` holds; false when it did not within `limit`.
pub(crate) fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !condition() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    true
}

/// The fields of a stat line that follow the name, which may itself hold spaces and parentheses.
fn after_name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(')')?.1.trim_start())
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(process_file(pid, "stat")).ok()?;
    after_name(&stat)?.split(' ').nth(1)?.parse().ok()
}

/// CPU time of one process, in steps of a clock tick (10 ms).
pub(crate) fn cpu(pid: u32) -> Result<Cpu> {
    let stat = fs::read_to_string(process_file(pid, "stat"))
        .with_context(|| format!("reading the CPU time of process {pid}"))?;
    let fields: Vec<&str> = after_name(&stat).unwrap_or_default().split(' ').collect();
    let tick = rustix::param::clock_ticks_per_second() as f64;
    let seconds = |first: usize| -> f64 {
        (first..first + 2).filter_map(|field| fields.get(field)?.parse::<f64>().ok()).sum::<f64>() / tick
    };
    Ok(Cpu { seconds: seconds(11), reaped_seconds: seconds(13) })
}

/// CPU time of several processes together.
pub(crate) fn cpu_of(pids: &[u32]) -> Result<Cpu> {
    let mut sum = Cpu::default();
    // A launcher that has ended between the two looks cost nothing that is to be measured.
    for one in pids.iter().filter_map(|pid| cpu(*pid).ok()) {
        sum.seconds += one.seconds;
        sum.reaped_seconds += one.reaped_seconds;
    }
    Ok(sum)
}

/// CPU time of this process, to the nanosecond.
pub(crate) fn own_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Memory of several processes together.
pub(crate) fn memory_of(pids: &[u32]) -> Result<Memory> {
    let mut sum = Memory { proportional: Some(0), private: Some(0), ..Memory::default() };
    for pid in pids {
        let status = fs::read_to_string(process_file(*pid, "status"))
            .with_context(|| format!("reading the memory of process {pid}"))?;
        sum.resident += kib_field(&status, "VmRSS:").context("no VmRSS")?;
        sum.peak += kib_field(&status, "VmHWM:").context("no VmHWM")?;
        let rollup = fs::read_to_string(process_file(*pid, "smaps_rollup")).unwrap_or_default();
        let add = |sum: Option<u64>, field| sum.zip(kib_field(&rollup, field)).map(|(sum, one)| sum + one);
        sum.proportional = add(sum.proportional, "Pss:");
        sum.private = add(sum.private, "Pss_Anon:");
    }
    Ok(sum)
}

fn kib_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line[name.len()..].trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// The processes of `program` that hold or name something inside `dir`: a daemon and its keeper.
///
/// Children of the benches are left out, since the draining client names the socket as well.
pub(crate) fn belonging_to(dir: &Path, program: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| parent(*pid) != Some(std::process::id()) && is_running(*pid))
        .filter(|pid| belongs(*pid, dir, program))
        .collect();
    found.sort_unstable();
    found
}

fn belongs(pid: u32, dir: &Path, program: &Path) -> bool {
    // A process that hides itself from this user still shows its command line.
    if let Ok(executable) = fs::read_link(process_file(pid, "exe")) {
        let executable = executable.as_os_str().as_bytes();
        let executable = executable.strip_suffix(b" (deleted)").unwrap_or(executable);
        if executable != program.as_os_str().as_bytes() {
            return false;
        }
    }
    let needle = dir.as_os_str().as_bytes();
    let mentions =
        |name| fs::read(process_file(pid, name)).is_ok_and(|content| memmem::find(&content, needle).is_some());
    mentions("cmdline")
        || mentions("environ")
        || fs::read_dir(process_file(pid, "fd")).is_ok_and(|entries| {
            entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).any(|target| target.starts_with(dir))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_runs() {
        let me = std::process::id();
        let memory = memory_of(&[me]).unwrap();
        assert!(memory.resident > 100_000 && memory.peak >= memory.resident / 2);
        assert!(is_running(me) && !is_reaped(me));
        assert!(cpu(me).unwrap().seconds >= 0.0);
    }

    #[test]
    fn a_zombie_does_not_run_and_is_not_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        assert!(wait_until(Duration::from_secs(10), || !is_running(pid)));
        assert!(!is_reaped(pid));
        child.wait().unwrap();
        assert!(is_reaped(pid));
    }
}
