//! A cgroup per hosted process, where the host lets us: the exact answer to "what did it start?".
//!
//! Used only on the unified hierarchy and only when our own directory is writable. Where it is not
//! (most hosts without delegation), the tag and the parents of [`crate::tree`] stand in. Nothing
//! here fails a spawn: a cgroup that cannot be made is one that is not used.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use hostel_journal::ProcessId;

/// The directory below which every hosted process has a cgroup of its own.
#[derive(Debug, Clone)]
pub struct Cgroups {
    root: PathBuf,
}

impl Cgroups {
    /// Finds out whether cgroups can be used. `asked` overrides the search (a setting, and the way
    /// the tests use a hierarchy of their own).
    pub fn probe(asked: Option<&Path>, house_tag: &str) -> Option<Self> {
        let base = match asked {
            Some(path) => path.to_owned(),
            None => own_directory()?,
        };
        let root = base.join(format!("hostel-{house_tag}"));
        let cgroups = Self { root };
        // An earlier keeper that was killed has left its own behind.
        cgroups.sweep();
        fs::create_dir_all(&cgroups.root).or_else(ignore_existing).ok()?;
        // A directory that can be made but not joined (no delegation) would fail every child.
        let trial = cgroups.root.join("trial");
        let joined = fs::create_dir(&trial).or_else(ignore_existing).is_ok()
            && rustix::fs::access(trial.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_ok()
            && rustix::fs::access(base.join("cgroup.procs"), rustix::fs::Access::WRITE_OK).is_ok();
        drop(fs::remove_dir(&trial));
        if joined {
            Some(cgroups)
        } else {
            drop(fs::remove_dir(&cgroups.root));
            None
        }
    }

    /// Cgroups at a known place, for a reader that was told where they are.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where they are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn directory(&self, id: ProcessId) -> PathBuf {
        self.root.join(id.to_string())
    }

    /// Makes the cgroup of a process and opens its directory, into which the child is born.
    pub(crate) fn prepare(&self, id: ProcessId) -> Option<OwnedFd> {
        let directory = self.directory(id);
        fs::create_dir(&directory).ok()?;
        fs::File::open(directory).ok().map(OwnedFd::from)
    }

    /// The processes in it now.
    pub fn members(&self, id: ProcessId) -> Vec<u32> {
        let text = fs::read_to_string(self.directory(id).join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).collect()
    }

    /// Limits memory (bytes) and processor time (hundredths of a core) of one process and all it starts. `false` where
    /// the kernel does not lend us those controllers.
    pub fn limit(&self, id: ProcessId, memory: Option<u64>, cpu_percent: Option<u32>) -> bool {
        // Already done, forbidden, or done now: the writes below tell.
        fs::write(self.root.join("cgroup.subtree_control"), "+memory +cpu").ok();
        let directory = self.directory(id);
        let set = |file: &str, value: String| fs::write(directory.join(file), value).is_ok();
        let memory = memory.is_none_or(|bytes| set("memory.max", bytes.to_string()));
        let cpu = cpu_percent.is_none_or(|percent| set("cpu.max", format!("{} 100000", u64::from(percent) * 1000)));
        memory && cpu
    }

    /// Kills all of it at once. `false` where the kernel does not know `cgroup.kill`.
    pub fn kill(&self, id: ProcessId) -> bool {
        fs::write(self.directory(id).join("cgroup.kill"), "1").is_ok()
    }

    /// Removes every cgroup that nothing lives in any more, and the directory that holds them.
    pub(crate) fn sweep(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            drop(fs::remove_dir(entry.path()));
        }
        drop(fs::remove_dir(&self.root));
    }

    /// Removes the cgroup of an ended process; it stays while something lives in it.
    pub fn remove(&self, id: ProcessId) {
        drop(fs::remove_dir(self.directory(id)));
    }
}

fn ignore_existing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}

/// Our own place in the unified hierarchy: its mount point and the `0::` line.
fn own_directory() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    locate(&mounts, &memberships)
}

fn locate(mounts: &str, memberships: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ');
        let root = fields.nth(3)?;
        let point = fields.next()?;
        (after.starts_with("cgroup2 ") && root == "/").then_some(point)
    })?;
    let place = memberships.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(mount).join(place.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_hierarchy_is_found_and_nothing_else() {
        let v2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
        assert_eq!(locate(v2, "0::/user.slice/x\n"), Some(PathBuf::from("/sys/fs/cgroup/user.slice/x")));
        let v1 = "35 24 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(locate(v1, "3:cpu:/\n"), None);
    }
}
