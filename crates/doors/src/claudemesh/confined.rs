//! Files that a process inside a house names: found below its own working directory, in its own view of the file system.
//!
//! The daemon runs outside every guard, so a path of an insider means more to the daemon than to the insider. Everything here
//! is resolved relative to a descriptor of the insider's working directory. The descriptor belongs to the insider's mount
//! namespace: what a guard hides or holds read-only there is hidden and read-only on this way as well.
//!
//! Guarantees: no symbolic link is followed and nothing above the working directory is reached. A path is resolved once, and
//! what is judged is the descriptor that is used afterwards. Places that are closed by their names are closed in views
//! without a guard too. Files of `/proc` are never opened: the kernel would judge the daemon instead of the insider.
//!
//! All functions block.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Component, Path, PathBuf};

use hostel_guard::ClosedPlaces;
use hostel_mesh::{FilePlace, Refusal};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno;

/// Directories between a file and the root of its file system.
const MAX_DEPTH: usize = 1024;

/// Why an insider's file is not opened.
#[derive(Debug)]
pub(super) enum Refused {
    /// The insider's working directory cannot be found out.
    NoDirectory,
    /// The path leads out of this working directory.
    Outside(PathBuf),
    /// Agents do not see the file, or may not change it.
    Closed,
    /// What the insider is told as everybody is.
    Told(Refusal),
}

/// What the file is wanted for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Use {
    Share,
    Get,
}

impl Use {
    /// The file cannot be opened.
    fn failed(self, error: Errno) -> Refused {
        // A symbolic link, or a way out of the directory.
        if matches!(error, Errno::LOOP | Errno::XDEV) {
            return Refused::Closed;
        }
        let error = io::Error::from(error);
        let refusal = match self {
            Use::Share if error.kind() == io::ErrorKind::NotFound => {
                Refusal::new("file_not_found", format!("the file cannot be read: {error}")).about("path")
            }
            Use::Share => Refusal::field("path", format!("the file cannot be read: {error}")),
            Use::Get => Refusal::new("cannot_write", format!("cannot write there: {error}")).about("out"),
        };
        Refused::Told(refusal)
    }
}

/// The file below the working directory `own` that is to be shared.
pub(super) fn open(own: OwnedFd, path: &Path, closed: &ClosedPlaces) -> Result<File, Refused> {
    let places = Places::new(closed);
    let (directory, relative) = descend(own, path, Use::Share, &places)?;
    // Opened for nothing first: opening a device for reading can do something.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = beneath(&directory, &relative, flags).map_err(|error| Use::Share.failed(error))?;
    match kind(&found) {
        Some(FileType::RegularFile) => {}
        Some(FileType::Symlink) => return Err(Refused::Closed),
        _ => return Err(Refused::Told(Refusal::field("path", "only a regular file can be shared"))),
    }
    places.judge(&found, None)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty());
    opened.map(File::from).map_err(|error| Use::Share.failed(error))
}

/// The place below the working directory `own` to which a file is to be written.
pub(super) fn place(own: OwnedFd, path: &Path, closed: &ClosedPlaces) -> Result<FilePlace, Refused> {
    let (directory, _) = descend(own, path, Use::Get, &Places::new(closed))?;
    FilePlace::within(directory, path).ok_or(Refused::NoDirectory)
}

/// The directory of the file, judged, and the file's name in it.
fn descend(own: OwnedFd, path: &Path, what: Use, places: &Places) -> Result<(OwnedFd, PathBuf), Refused> {
    let base = location(&own).ok_or(Refused::NoDirectory)?;
    let relative = path.strip_prefix(&base).map_err(|_| Refused::Outside(base.clone()))?;
    let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let name = relative.file_name().filter(|_| is_plain).ok_or_else(|| Refused::Outside(base.clone()))?;
    // Before anything is opened: an answer must not tell whether there is something in a hidden place.
    if places.are_closed_by_name(&base.join(relative)) {
        return Err(Refused::Closed);
    }
    let parent = relative.parent().unwrap_or(Path::new(""));
    let directory = match parent.as_os_str().is_empty() {
        true => own,
        false => beneath(&own, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)
            .map_err(|error| what.failed(error))?,
    };
    places.judge(&directory, Some(Path::new(name)))?;
    Ok((directory, PathBuf::from(name)))
}

fn beneath(directory: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(directory, path, flags, Mode::empty(), resolve)
}

/// Where the file of a descriptor is; none if it is nowhere any more.
fn location(file: &OwnedFd) -> Option<PathBuf> {
    let about = about(file)?;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    (about.stx_nlink > 0 && path.is_absolute()).then_some(path)
}

fn about(file: impl AsFd) -> Option<Statx> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).ok()
}

fn kind(file: &OwnedFd) -> Option<FileType> {
    about(file).map(|about| FileType::from_raw_mode(about.stx_mode.into()))
}

/// What a file is, whatever it is called.
type Identity = (u32, u32, u64);

fn identity(about: &Statx) -> Identity {
    (about.stx_dev_major, about.stx_dev_minor, about.stx_ino)
}

/// The places that are closed, by their names and by what is there now.
struct Places {
    closed: BTreeSet<PathBuf>,
    open: BTreeSet<PathBuf>,
    identities: BTreeSet<Identity>,
}

impl Places {
    fn new(closed: &ClosedPlaces) -> Self {
        let names = |paths: &mut dyn Iterator<Item = &PathBuf>| -> BTreeSet<PathBuf> {
            paths.flat_map(|path| [Some(path.clone()), real(path)]).flatten().collect()
        };
        let shut = names(&mut closed.hidden.iter().chain(&closed.read_only));
        // What is read-only may have exceptions, so it is known by its names alone. `/` is no place.
        let hidden = closed.hidden.iter().filter(|path| path.parent().is_some());
        let found = hidden.filter_map(|path| rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::INO).ok());
        Places {
            closed: shut,
            open: names(&mut closed.writable.iter()),
            identities: found.map(|about| identity(&about)).collect(),
        }
    }

    /// Whether a file with this path is in a closed place. The nearest place counts.
    fn are_closed_by_name(&self, path: &Path) -> bool {
        for place in path.ancestors() {
            if self.open.contains(place) {
                return false;
            }
            if self.closed.contains(place) {
                return true;
            }
        }
        false
    }

    /// Refuses a file, or `name` in a directory, if it is in a closed place.
    fn judge(&self, file: &OwnedFd, name: Option<&Path>) -> Result<(), Refused> {
        let place = location(file).ok_or(Refused::Closed)?;
        let place = name.map_or_else(|| place.clone(), |name| place.join(name));
        let system = rustix::fs::fstatfs(file).map_err(|_| Refused::Closed)?;
        let is_closed = system.f_type == PROC_SUPER_MAGIC
            || self.are_closed_by_name(&place)
            || about(file).is_none_or(|about| self.identities.contains(&identity(&about)))
            || (name.is_some() && self.is_below_closed(file));
        if is_closed { Err(Refused::Closed) } else { Ok(()) }
    }

    /// Whether a directory above this one is closed. It may be mounted or have been moved to where it has another name.
    fn is_below_closed(&self, directory: &OwnedFd) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Some(mut below) = about(directory).map(|about| identity(&about)) else { return true };
        let mut current: Option<OwnedFd> = None;
        for _ in 0..MAX_DEPTH {
            let from = current.as_ref().unwrap_or(directory);
            let Ok(above) = rustix::fs::openat(from, c"..", flags, Mode::empty()) else { return true };
            let Some(found) = about(&above).map(|about| identity(&about)) else { return true };
            if found == below {
                return false;
            }
            if self.identities.contains(&found) {
                return true;
            }
            below = found;
            current = Some(above);
        }
        true
    }
}

/// Where a path really leads; what does not exist is where its directory is.
fn real(path: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(path)
        .or_else(|_| {
            Ok::<_, io::Error>(
                std::fs::canonicalize(path.parent().unwrap_or(path))?.join(path.file_name().unwrap_or_default()),
            )
        })
        .ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    fn directory(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn words(refused: &Refused) -> &'static str {
        match refused {
            Refused::NoDirectory => "no directory",
            Refused::Outside(_) => "outside",
            Refused::Closed => "closed",
            Refused::Told(_) => "told",
        }
    }

    #[test]
    fn only_what_is_open_below_the_working_directory_is_found() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let own = root.join("own");
        for name in ["own/sub", "own/hidden/sub", "own/fixed/free", "other"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["own/a", "own/sub/b", "own/hidden/sub/k", "own/fixed/c", "own/fixed/free/d", "other/e", "own/key"]
        {
            std::fs::write(root.join(name), name).unwrap();
        }
        symlink(own.join("a"), own.join("link")).unwrap();
        symlink(root.join("other"), own.join("out")).unwrap();
        std::fs::hard_link(own.join("key"), own.join("alias")).unwrap();
        let closed = ClosedPlaces {
            hidden: vec![own.join("hidden"), own.join("key"), own.join("missing")],
            read_only: vec![own.join("fixed")],
            writable: vec![own.join("fixed/free")],
        };
        let share = |name: &str| open(directory(&own), &own.join(name), &closed).map_err(|refused| words(&refused));
        let get =
            |name: &str| place(directory(&own), &own.join(name), &closed).map(drop).map_err(|refused| words(&refused));
        for name in ["a", "sub/b", "fixed/free/d", "./sub/./b"] {
            let mut text = String::new();
            share(name).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(root.join(text), own.join(name).components().collect::<PathBuf>());
            get(name).unwrap();
        }
        for name in ["new", "sub/new", "fixed/free/new"] {
            get(name).unwrap();
            assert_eq!(share(name).err(), Some("told"), "{name}");
        }
        for name in ["link", "out/e", "hidden/sub/k", "hidden/none", "key", "fixed/c", "missing/x", "alias"] {
            assert_eq!(share(name).err(), Some("closed"), "{name}");
        }
        for name in ["out/e", "hidden/sub/k", "hidden/none", "key", "fixed/c", "fixed/new", "missing/x", "missing"] {
            assert_eq!(get(name), Err("closed"), "{name}");
        }
        for name in ["../other/e", "sub/../../other/e", "sub/../a", "", "/etc/hostname"] {
            assert_eq!((share(name).err(), get(name)), (Some("outside"), Err("outside")), "{name}");
        }
        assert_eq!((share("sub").err(), get("nowhere/x")), (Some("told"), Err("told")));
        // A hidden directory that has another name.
        std::fs::rename(own.join("hidden"), own.join("elsewhere")).unwrap();
        symlink(own.join("elsewhere"), own.join("hidden")).unwrap();
        assert_eq!((share("elsewhere/sub/k").err(), get("elsewhere/sub/k")), (Some("closed"), Err("closed")));
        // Someone who works in a hidden place has nothing.
        let inside = own.join("elsewhere/sub");
        assert_eq!(words(&open(directory(&inside), &inside.join("k"), &closed).unwrap_err()), "closed");
    }

    #[test]
    fn what_the_kernel_shows_of_the_daemon_is_for_nobody() {
        let closed = ClosedPlaces::default();
        let own = format!("/proc/{}/environ", std::process::id());
        assert_eq!(words(&open(directory(Path::new("/")), Path::new(&own), &closed).unwrap_err()), "closed");
        assert_eq!(words(&open(directory(Path::new("/proc")), Path::new(&own), &closed).unwrap_err()), "closed");
        let zero = open(directory(Path::new("/dev")), Path::new("/dev/zero"), &closed).unwrap_err();
        assert_eq!(words(&zero), "told", "no regular file");
    }
}
