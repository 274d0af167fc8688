//! Hidden directories by what they are, and not only by where they are.
//!
//! A guard hides paths. If somebody moves a hidden directory away, the next guard would hide what is at its path now, and
//! show the directory under its new name. So a house keeps a descriptor of every hidden directory that it has seen. A plan
//! names each by device and inode and says where it is now, and a launcher that finds it nowhere starts nothing.
//!
//! Guarantees: at most [`MAX_HELD`] descriptors are kept; what comes after them is hidden by its path alone. A directory
//! that was removed, or whose file system is mounted no more, is forgotten. Mount points are not kept: a descriptor would
//! stop a person from unmounting them, and they can hardly be moved.

use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxAttributes, StatxFlags};
use serde::{Deserialize, Serialize};

/// Directories that are kept.
const MAX_HELD: usize = 256;

/// How often a directory is looked for that is moved meanwhile.
const MAX_LOOKS: usize = 4;

/// A hidden directory in a plan.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Pinned {
    /// The path that is hidden.
    pub named: PathBuf,
    /// Where the directory is that was there.
    pub now: PathBuf,
    /// Which directory that is.
    pub identity: Identity,
}

/// What a file is, wherever it is: the numbers of its device and its inode.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Identity(pub u64, pub u64);

/// The directories that a house keeps hold of.
#[derive(Debug, Default)]
pub(crate) struct Held(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    named: PathBuf,
    directory: OwnedFd,
    identity: Identity,
}

impl Held {
    /// Keeps the directories at some paths, and says where they and those that were there earlier are now. Looks at files.
    pub(crate) fn look(&mut self, paths: &[PathBuf]) -> Vec<Pinned> {
        paths.iter().for_each(|path| self.keep(path));
        let mut found = Vec::new();
        self.0.retain(|entry| {
            if !paths.contains(&entry.named) {
                return true;
            }
            let Some(now) = entry.place() else { return false };
            found.push(Pinned { named: entry.named.clone(), now, identity: entry.identity });
            true
        });
        found
    }

    fn keep(&mut self, path: &Path) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = rustix::fs::open(path, flags, Mode::empty()) else { return };
        let Some(about) = about(&directory) else { return };
        let identity = identity(&about);
        let known = self.0.iter().any(|entry| entry.identity == identity && entry.named == path);
        if known || is_mount_point(&about) || self.0.len() >= MAX_HELD {
            return;
        }
        self.0.push(Entry { named: path.to_owned(), directory, identity });
    }
}

impl Entry {
    /// Where the directory is; none if nobody can get there any more.
    fn place(&self) -> Option<PathBuf> {
        let link = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let mut last = None;
        for _ in 0..MAX_LOOKS {
            let about = about(&self.directory).filter(|about| about.stx_nlink > 0)?;
            let path = fs::read_link(&link).ok()?;
            if identity_at(&path) == Some(self.identity) {
                return Some(path);
            }
            last = Some((path, about));
        }
        // Closed to us, or on its way from one place to another: the launcher finds it or starts nothing.
        last.filter(|(_, about)| is_mounted(about)).map(|(path, _)| path)
    }
}

fn about(directory: &OwnedFd) -> Option<Statx> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    rustix::fs::statx(directory, c"", AtFlags::EMPTY_PATH, wanted).ok()
}

fn identity_at(path: &Path) -> Option<Identity> {
    let found = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS).ok()?;
    Some(identity(&found))
}

fn identity(about: &Statx) -> Identity {
    Identity(rustix::fs::makedev(about.stx_dev_major, about.stx_dev_minor), about.stx_ino)
}

fn is_mount_point(about: &Statx) -> bool {
    about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
}

/// Whether the mount that a directory was found in is still there.
fn is_mounted(about: &Statx) -> bool {
    let Ok(table) = fs::read("/proc/self/mountinfo") else { return true };
    let id = format!("{} ", about.stx_mnt_id);
    table.split(|byte| *byte == b'\n').any(|line| line.starts_with(id.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_known_wherever_it_goes_until_it_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let (path, moved, missing) = (root.join("hidden"), root.join("moved"), root.join("missing"));
        let mut held = Held::default();
        let paths = [path.clone(), missing.clone()];
        assert!(held.look(&paths).is_empty());
        fs::create_dir(&path).unwrap();
        let first = held.look(&paths);
        let [pinned] = &first[..] else { panic!("{first:?}") };
        assert_eq!((&pinned.named, &pinned.now, Some(pinned.identity)), (&path, &path, identity_at(&path)));
        assert_eq!(held.look(&paths), first);
        // It goes, and another one takes its place.
        fs::rename(&path, &moved).unwrap();
        assert_eq!(held.look(&paths), [Pinned { now: moved.clone(), ..pinned.clone() }]);
        fs::create_dir(&path).unwrap();
        let both = held.look(&paths);
        assert_eq!(both.iter().map(|pinned| &pinned.now).collect::<Vec<_>>(), [&moved, &path]);
        assert!(held.look(&[missing]).is_empty(), "nobody asked for it");
        // It is removed.
        fs::remove_dir(&moved).unwrap();
        let left = held.look(&paths);
        assert_eq!(left.iter().map(|pinned| &pinned.now).collect::<Vec<_>>(), [&path]);
        assert_eq!(held.0.len(), 1);
    }

    #[test]
    fn files_and_mount_points_are_not_kept_and_there_is_a_bound() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        let mut held = Held::default();
        assert!(held.look(&[file, "/proc".into(), "/".into()]).is_empty());
        let many: Vec<PathBuf> = (0..=MAX_HELD).map(|number| scratch.path().join(number.to_string())).collect();
        many.iter().for_each(|path| fs::create_dir(path).unwrap());
        assert_eq!(held.look(&many).len(), MAX_HELD);
    }
}
