//! Finds out who can change a file: only root, or somebody else as well.
//!
//! Guarantee: [`Writers::OnlyRoot`] means that nobody but root can change the content of the file or make its path lead
//! to another file. For that, the file, every directory on the way to it and every symbolic link that is followed must
//! belong to root and must not be writable by its group or by others. POSIX access control lists are covered: an entry
//! that allows writing shows up as the write bit of the group.
//!
//! Whatever cannot be examined counts as changeable. This module reads metadata and never the content of a file.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Symbolic links that are followed, as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// What `statfs` calls a file system that a process serves.
const FUSE: u64 = 0x6573_5546;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// In such a directory only the owner of an entry, or of the directory, can replace the entry.
const STICKY: u32 = 0o1000;

/// Who can change a file, with the reason in words.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Writers {
    /// Nobody but root.
    OnlyRoot,
    /// The user of this house, and so every program that can ask for something.
    Requester(String),
    /// Somebody who is neither root nor the user of this house.
    Others(String),
    /// An older version of this program stored the request and did not look.
    #[default]
    Unknown,
}

impl Writers {
    /// Whether nobody but root can change the file.
    #[must_use]
    pub fn is_only_root(&self) -> bool {
        *self == Writers::OnlyRoot
    }

    /// Why somebody else can change it; none if nobody can.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Writers::OnlyRoot => None,
            Writers::Requester(reason) | Writers::Others(reason) => Some(reason),
            Writers::Unknown => Some("nobody has looked who can"),
        }
    }
}

/// Who can change the file or the directory at an absolute path. Blocks on a slow disk.
pub(crate) fn writers_of(path: &Path) -> Writers {
    let own = Own { uid: rustix::process::geteuid().as_raw(), groups: own_groups() };
    match (Walk { own: &own, devices: HashSet::new() }).walk(path) {
        Ok(None) => Writers::OnlyRoot,
        Ok(Some(Weakness { text, by_requester: true })) => Writers::Requester(text),
        Ok(Some(Weakness { text, by_requester: false })) => Writers::Others(text),
        Err(error) => Writers::Others(format!("{} cannot be examined: {error}", path.display())),
    }
}

fn own_groups() -> Vec<u32> {
    let mut groups = vec![rustix::process::getegid().as_raw()];
    groups.extend(rustix::process::getgroups().unwrap_or_default().into_iter().map(rustix::process::Gid::as_raw));
    groups
}

/// The user of this house.
struct Own {
    uid: u32,
    groups: Vec<u32>,
}

/// Why somebody else than root can change a file.
struct Weakness {
    text: String,
    by_requester: bool,
}

impl Own {
    /// Judges a file or directory by its owner and mode. `sticky_is_enough`: the entries of a directory are judged
    /// one by one, so its sticky bit makes up for its write bits.
    fn weakness(&self, path: &Path, metadata: &Metadata, sticky_is_enough: bool) -> Option<Weakness> {
        let (uid, gid, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
        if uid != 0 {
            return Some(Weakness {
                text: format!("user {uid} owns {}", path.display()),
                by_requester: uid == self.uid,
            });
        }
        if sticky_is_enough && mode & STICKY != 0 {
            return None;
        }
        if mode & OTHERS_WRITE != 0 {
            return Some(Weakness {
                text: format!("every user can write to {}", path.display()),
                by_requester: self.uid != 0,
            });
        }
        (mode & GROUP_WRITES != 0).then(|| Weakness {
            text: format!("group {gid} can write to {}", path.display()),
            by_requester: self.uid != 0 && self.groups.contains(&gid),
        })
    }
}

struct Walk<'a> {
    own: &'a Own,
    /// Devices whose file system was examined.
    devices: HashSet<u64>,
}

impl Walk<'_> {
    /// Follows a path as the kernel does and stops at the first weakness.
    fn walk(&mut self, path: &Path) -> io::Result<Option<Weakness>> {
        let mut left: VecDeque<OsString> = components(path);
        let mut at = PathBuf::from("/");
        let mut directory = at.metadata()?;
        let mut links = 0;
        if let Some(weakness) = self.examine(&at, &directory, !left.is_empty())? {
            return Ok(Some(weakness));
        }
        while let Some(name) = left.pop_front() {
            if name == ".." {
                // The path so far holds no symbolic link, so its last part can be taken away.
                at.pop();
                directory = at.metadata()?;
                continue;
            }
            let entry = at.join(&name);
            if at == Path::new("/proc") && is_process(&name) {
                let text = format!("{} is another file for every process", path.display());
                return Ok(Some(Weakness { text, by_requester: true }));
            }
            let metadata = entry.symlink_metadata()?;
            if directory.mode() & STICKY != 0 && metadata.uid() != 0 {
                return Ok(self.own.weakness(&entry, &metadata, false));
            }
            if metadata.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                let target = entry.read_link()?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                    directory = at.metadata()?;
                }
                for part in components(&target).into_iter().rev() {
                    left.push_front(part);
                }
                continue;
            }
            let is_passed = metadata.is_dir() && !left.is_empty();
            if let Some(weakness) = self.examine(&entry, &metadata, is_passed)? {
                return Ok(Some(weakness));
            }
            if !metadata.is_dir() && !left.is_empty() {
                return Err(rustix::io::Errno::NOTDIR.into());
            }
            (at, directory) = (entry, metadata);
        }
        Ok(None)
    }

    fn examine(&mut self, path: &Path, metadata: &Metadata, is_passed: bool) -> io::Result<Option<Weakness>> {
        if let Some(weakness) = self.own.weakness(path, metadata, is_passed) {
            return Ok(Some(weakness));
        }
        if !self.devices.insert(metadata.dev()) || rustix::fs::statfs(path)?.f_type as u64 != FUSE {
            return Ok(None);
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        Ok(server_of(&mounts, metadata.dev()).map(|uid| Weakness {
            text: format!("user {uid} serves the file system of {}", path.display()),
            by_requester: uid == self.own.uid,
        }))
    }
}

/// Whether an entry of `/proc` belongs to one process: links below it lead where that process is.
fn is_process(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name == b"self" || name == b"thread-self" || name.iter().all(u8::is_ascii_digit)
}

/// The parts of a path without the ones that change nothing.
fn components(path: &Path) -> VecDeque<OsString> {
    let part = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

/// The user whose process serves a FUSE file system, if that is not root. A virtual machine's own file system
/// (virtiofs) looks like FUSE, but no process of this system serves it: it has no `user_id`.
fn server_of(mounts: &str, device: u64) -> Option<u32> {
    let name = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mount = mounts.lines().rev().find(|line| line.split(' ').nth(2) == Some(&name))?;
    let (_, about) = mount.split_once(" - ")?;
    let uid = about.split([' ', ',']).find_map(|option| option.strip_prefix("user_id=")?.parse().ok())?;
    (uid != 0).then_some(uid)
}

#[cfg(test)]
#[path = "writers_tests.rs"]
mod tests;
