//! The hostel processes of this user that are known by number: keepers, daemons, mesh daemons and brokers.
//!
//! What descends from one of them is inside. The registry backs up the mark (`marks`): it covers keepers and daemons of
//! older versions, which did not mark themselves, and processes of root, which can take a mark off. So it need not be
//! complete, and nothing that a hosted process writes or deletes can take a registered process out of it.
//!
//! A process gets into the registry in two ways. Whoever starts or finds a hostel process adds it. Beside that, the
//! holders of the lock files of all houses below a directory count, as the kernel lists them; what a lock file contains is
//! not read, because anybody could have written it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::marks;
use crate::proc::Stat;
use crate::recent::Recent;

/// Houses below one directory whose locks are looked at.
const MAX_HOUSES: usize = 4096;

/// The files of a house whose locks its processes hold.
const LOCK_FILES: [&str; 3] = ["run/keeper.lock", "run/daemon.lock", "broker/pid"];

static REGISTRY: Registry = Registry::new();

/// The registry of this process.
#[must_use]
pub fn registry() -> &'static Registry {
    &REGISTRY
}

/// Known hostel processes.
pub struct Registry {
    added: RwLock<BTreeSet<Known>>,
    homes: RwLock<BTreeSet<PathBuf>>,
    holders: Recent<(), Arc<BTreeSet<Known>>>,
}

/// A process id and when that process was started: an id that was given to another process is not registered.
type Known = (u32, u64);

impl Registry {
    const fn new() -> Self {
        Registry { added: RwLock::new(BTreeSet::new()), homes: RwLock::new(BTreeSet::new()), holders: Recent::new() }
    }

    /// Adds a process of ours. Reads `/proc`, so not for a thread of the runtime.
    pub fn add(&self, pid: u32) {
        if let Some(stat) = Stat::of(pid) {
            let mut added = self.added.write();
            // Whoever has ended makes room; there are never many.
            added.retain(|(pid, started)| Stat::of(*pid).is_some_and(|stat| stat.started == *started));
            added.insert((pid, stat.started));
        }
    }

    /// Adds this very process, for the beginning of a daemon. Reads `/proc`, so not for a thread of the runtime.
    pub fn add_this_process(&self) {
        marks::prepare();
        self.add(std::process::id());
    }

    /// Adds whoever holds a lock of a house in this directory, now or later.
    pub fn add_houses_of(&self, home: &Path) {
        self.homes.write().insert(home.to_owned());
    }

    /// Whether a process is one of ours.
    pub(crate) fn contains(&self, pid: u32, started: u64) -> bool {
        self.added.read().contains(&(pid, started))
            || self
                .holders
                .get_or_look_up((), || Some(Arc::new(self.lock_holders())))
                .is_some_and(|holders| holders.contains(&(pid, started)))
    }

    fn lock_holders(&self) -> BTreeSet<Known> {
        let homes = self.homes.read().clone();
        let files: BTreeSet<FileId> = homes.iter().flat_map(|home| lock_files(home)).collect();
        if files.is_empty() {
            return BTreeSet::new();
        }
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let holders = locks.lines().filter_map(parse_lock).filter(|(_, file)| files.contains(file));
        holders.filter_map(|(pid, _)| Stat::of(pid).map(|stat| (pid, stat.started))).collect()
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Registry")
            .field("added", &self.added)
            .field("homes", &self.homes)
            .finish_non_exhaustive()
    }
}

/// Major and minor number of a device, and the inode.
type FileId = (u32, u32, u64);

fn lock_files(home: &Path) -> Vec<FileId> {
    let others =
        fs::read_dir(home.join("as")).into_iter().flatten().flatten().take(MAX_HOUSES).map(|entry| entry.path());
    let houses = std::iter::once(home.to_owned()).chain(others);
    let files = houses.flat_map(|house| LOCK_FILES.map(|file| house.join(file)));
    files.filter_map(|file| fs::metadata(file).ok()).map(|about| file_id(&about)).collect()
}

fn file_id(about: &fs::Metadata) -> FileId {
    (rustix::fs::major(about.dev()), rustix::fs::minor(about.dev()), about.ino())
}

/// A line of `/proc/locks`: number, kind, mode, access, process, device and inode, range. Waiting processes have an arrow
/// after the number and are no holders.
fn parse_lock(line: &str) -> Option<(u32, FileId)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next()? != "FLOCK" {
        return None;
    }
    let pid = fields.nth(2)?.parse().ok()?;
    let mut file = fields.next()?.split(':');
    let (major, minor, inode) = (file.next()?, file.next()?, file.next()?);
    let device = |text| u32::from_str_radix(text, 16).ok();
    Some((pid, (device(major)?, device(minor)?, inode.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn lines_of_locks() {
        assert_eq!(
            parse_lock("1: FLOCK  ADVISORY  WRITE 1234 fd:0a:3932193 0 EOF"),
            Some((1234, (0xfd, 0x0a, 3_932_193)))
        );
        for other in [
            "1: POSIX  ADVISORY  WRITE 1234 fd:0a:3932193 0 EOF",
            "1: -> FLOCK  ADVISORY  WRITE 1234 fd:0a:3932193 0 EOF",
            "1: FLOCK  ADVISORY  WRITE -1 fd:0a:3932193 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 12 fd:0a",
            "",
        ] {
            assert_eq!(parse_lock(other), None, "{other}");
        }
    }

    #[test]
    fn a_number_that_was_given_away_again_is_not_registered() {
        let (registry, own) = (Registry::new(), std::process::id());
        let started = Stat::of(own).unwrap().started;
        assert!(!registry.contains(own, started));
        registry.add_this_process();
        registry.add(u32::MAX);
        assert!(registry.contains(own, started) && !registry.contains(own, started + 1));
    }

    #[test]
    fn the_holder_of_a_lock_is_registered_whatever_the_file_says() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("as/sudo-proxy-1/run");
        fs::create_dir_all(&run).unwrap();
        fs::create_dir_all(home.path().join("run")).unwrap();
        let own = std::process::id();
        fs::write(home.path().join("run/daemon.lock"), own.to_string()).unwrap();
        let mut holder = Command::new("flock");
        holder.arg("--no-fork").arg(run.join("keeper.lock")).args(["sh", "-c", "echo; read line"]);
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let registry = Registry::new();
        let start = |pid| Stat::of(pid).unwrap().started;
        registry.add_houses_of(home.path());
        let expected = (holder.id(), start(holder.id()));
        let found = registry.lock_holders();
        // On some file systems the kernel lists locks under another device than the file has.
        let listed = fs::read_to_string("/proc/locks").unwrap();
        let file = file_id(&fs::metadata(run.join("keeper.lock")).unwrap());
        if listed.lines().filter_map(parse_lock).any(|(_, locked)| locked == file) {
            assert_eq!(found, BTreeSet::from([expected]));
            assert!(registry.contains(expected.0, expected.1));
        }
        assert!(!registry.contains(own, start(own)), "what a file says is not believed");
        drop(holder.stdin.take());
        holder.wait().unwrap();
    }
}
