//! Which process is the keeper's daemon.
//!
//! A controller that is recognised is given the house key and may upgrade the keeper; any other one may only manage
//! processes, and only while no recognised one is connected. A process is recognised if it
//!
//! 1. is the process that started the keeper, or one that was recognised before (same number, same start time), or
//! 2. runs from the keeper's own program file, from the file that has taken that file's path since (a new build or a new
//!    package), or from the file that the keeper's starter ran from.
//!
//! The second rule needs `/proc/PID/exe`, which the kernel hides once a daemon has hidden its memory. So a daemon that
//! connects for the first time lets itself be looked at during its greeting, hides its memory when it has been welcomed,
//! and asks for the key after that. What makes itself unreadable before cannot be recognised by rule 2.
//!
//! Callers have checked before that the peer is of the same user, does not descend from the keeper and is not further
//! inside a house than the keeper ([`crate::marks`]): a hosted process may run the daemon's own file, with a library of its
//! own loaded into it. Nothing here reads a process's memory (its environment, for one): whoever connects could make that
//! wait for ever.

use std::fs::Metadata;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::conn::Peer;
use crate::tree;

/// Recognised processes that are remembered: a daemon, and those it took over from.
const REMEMBERED: usize = 8;

/// What the kernel appends to the name of a program file that was removed.
const DELETED: &str = " (deleted)";

/// A file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) dev: u64,
    pub(crate) inode: u64,
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), inode: metadata.ino() }
    }

    /// The file behind a descriptor, if it is an ordinary one.
    pub(crate) fn of_descriptor(file: &OwnedFd) -> Option<Self> {
        let stat = rustix::fs::fstat(file).ok()?;
        let ordinary = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        ordinary.then_some(Self { dev: stat.st_dev, inode: stat.st_ino })
    }
}

/// A process, whatever its number will mean later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownProcess {
    pub(crate) pid: u32,
    pub(crate) start_ticks: u64,
}

impl KnownProcess {
    fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, start_ticks: tree::start_ticks(pid)? })
    }
}

/// A program file that is kept open: as long as it is, the file system gives its number to no other file.
#[derive(Debug)]
struct HeldFile {
    id: FileId,
    _open: OwnedFd,
}

impl HeldFile {
    /// The program file of a process; none if the process has hidden itself.
    fn of_process(pid: &str) -> Option<Self> {
        let open = rustix::fs::open(format!("/proc/{pid}/exe"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(Self { id: FileId::of_descriptor(&open)?, _open: open })
    }
}

/// Who is recognised. Path and processes are kept over upgrades.
#[derive(Debug, Default)]
pub(crate) struct Recognition {
    /// The program file that this image of the keeper runs from.
    own: Option<HeldFile>,
    /// The one that the process ran from that started the keeper.
    starter: Option<HeldFile>,
    /// Where the keeper's own program file was when the keeper began.
    pub(crate) path: Option<PathBuf>,
    /// Recognised processes, newest last.
    pub(crate) processes: Vec<KnownProcess>,
    /// The keeper was upgraded from a build that recognised nobody: the controller of that time, which is known by the
    /// moment it was started, is recognised once.
    pub(crate) inherited_controller: Option<u64>,
}

impl Recognition {
    /// What a keeper that is just being started recognises. Called by the process that was executed, before it forks:
    /// its parent is whoever starts the keeper.
    pub(crate) fn at_start() -> Self {
        let mut recognition = Self::default();
        recognition.take_own_program();
        if let Some(parent) = rustix::process::getppid() {
            let parent = parent.as_raw_nonzero().get() as u32;
            recognition.processes.extend(KnownProcess::of(parent));
            recognition.starter = HeldFile::of_process(&parent.to_string());
        }
        recognition
    }

    /// Notes the program file that this image of the keeper runs from, and where it is.
    pub(crate) fn take_own_program(&mut self) {
        self.own = HeldFile::of_process("self");
        let path = std::fs::read_link("/proc/self/exe").ok();
        let path = path.filter(|path| !path.as_os_str().as_encoded_bytes().ends_with(DELETED.as_bytes()));
        self.path = path.or(self.path.take());
    }

    /// Whether the peer of a connection is recognised; if so it is remembered. `started` is what its greeting says.
    pub(crate) fn recognise(&mut self, peer: &Peer, started: u64) -> bool {
        let Some(process) = KnownProcess::of(peer.pid) else { return false };
        let known = self.processes.contains(&process)
            || HeldFile::of_process(&peer.pid.to_string()).is_some_and(|program| self.is_program(program.id));
        let inherited = self.inherited_controller.is_some_and(|controller| controller == started);
        // The number was the peer's all the time if the handle says that the peer still lives.
        if !(known || inherited) || is_traced(peer.pid) || !is_alive(&peer.process) {
            return false;
        }
        self.inherited_controller = None;
        self.processes.retain(|known| *known != process);
        if self.processes.len() >= REMEMBERED {
            self.processes.remove(0);
        }
        self.processes.push(process);
        true
    }

    /// Whether a file is one that the keeper's daemon runs from, and that the keeper may become.
    pub(crate) fn is_program(&self, file: FileId) -> bool {
        let held = [&self.own, &self.starter].into_iter().flatten();
        held.map(|held| held.id).any(|id| id == file) || self.path.as_deref().and_then(installed_at) == Some(file)
    }
}

/// The file that is installed under a path now, if only root or this user can have put it there.
fn installed_at(path: &Path) -> Option<FileId> {
    let metadata = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    let trusted = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    (trusted && metadata.mode() & 0o002 == 0).then(|| FileId::of(&metadata))
}

/// Whether a process is being traced. Unknown counts as traced.
pub fn is_traced(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_none_or(|tracer| tracer.trim() != "0")
}

/// Whether the process behind a handle has not ended.
pub(crate) fn is_alive(process: &OwnedFd) -> bool {
    let mut polled = [rustix::event::PollFd::from_borrowed_fd(process.as_fd(), rustix::event::PollFlags::IN)];
    matches!(rustix::event::poll(&mut polled, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn handle(pid: u32) -> OwnedFd {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
    }

    fn peer(pid: u32) -> Peer {
        Peer { pid, process: handle(pid) }
    }

    /// A process that waits for the end of its input.
    fn running(program: &Path) -> Child {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // What it prints first shows that the program runs, and no copy of this one any more.
        use std::io::{Read as _, Write as _};
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    fn copy_of_cat(directory: &Path, name: &str) -> PathBuf {
        let path = directory.join(name);
        std::fs::copy("/bin/cat", &path).unwrap();
        path
    }

    /// What a keeper recognises that runs from this file.
    fn keeper_from(path: &Path) -> Recognition {
        let running = running(path);
        let own = HeldFile::of_process(&running.id().to_string());
        end(running);
        Recognition { own, path: Some(path.to_owned()), ..Recognition::default() }
    }

    #[test]
    fn the_starter_and_what_runs_from_its_file_is_recognised() {
        let mut recognition = Recognition::at_start();
        recognition.processes.clear();
        assert!(recognition.recognise(&peer(std::process::id()), 0), "this program itself");
        let stranger = running(Path::new("/bin/cat"));
        assert!(!recognition.recognise(&peer(stranger.id()), 0));
        end(stranger);
    }

    #[test]
    fn a_newer_file_at_the_same_path_is_recognised_and_another_path_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = copy_of_cat(directory.path(), "hostel");
        let mut recognition = keeper_from(&path);
        let older = running(&path);
        assert!(recognition.recognise(&peer(older.id()), 0));
        // A build or a package manager puts a new file in the place of the old one.
        std::fs::rename(copy_of_cat(directory.path(), "next"), &path).unwrap();
        let (newer, elsewhere) = (running(&path), running(&copy_of_cat(directory.path(), "elsewhere")));
        assert!(recognition.recognise(&peer(newer.id()), 0));
        recognition.processes.clear();
        assert!(recognition.recognise(&peer(older.id()), 0), "the file that the keeper itself runs from");
        assert!(!recognition.recognise(&peer(elsewhere.id()), 0));
        assert!(recognition.recognise(&peer(newer.id()), 0));
        // A file that everybody may write to is nobody's.
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(recognition.recognise(&peer(newer.id()), 0), "it was recognised before");
        recognition.processes.clear();
        assert!(!recognition.recognise(&peer(newer.id()), 0));
        for child in [older, newer, elsewhere] {
            end(child);
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let path = copy_of_cat(directory.path(), "hostel");
        let mut recognition = keeper_from(&path);
        let mut child = running(&path);
        let peer = peer(child.id());
        drop(child.stdin.take());
        rustix::process::waitid(
            rustix::process::WaitId::PidFd(peer.process.as_fd()),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert!(!recognition.recognise(&peer, 0));
        child.wait().unwrap();
    }

    #[test]
    fn the_controller_of_an_older_build_is_recognised_once() {
        let stranger = running(Path::new("/bin/cat"));
        let mut recognition = Recognition { inherited_controller: Some(42), ..Recognition::default() };
        assert!(!recognition.recognise(&peer(stranger.id()), 41));
        assert!(recognition.recognise(&peer(stranger.id()), 42));
        recognition.processes.clear();
        assert!(!recognition.recognise(&peer(stranger.id()), 42));
        end(stranger);
    }
}
