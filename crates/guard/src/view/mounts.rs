//! The few mount operations a view is made of.
//!
//! A [`Tree`] is a copy of a mount that is attached nowhere yet. It is taken before its original is covered.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags};

use crate::sys;

/// A copy of what is mounted at a path, with everything below it.
pub(super) struct Tree(OwnedFd);

impl Tree {
    /// Copies what is at a path.
    pub(super) fn copy(path: &Path) -> io::Result<Tree> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        Ok(Tree(rustix::mount::open_tree(CWD, path, flags)?))
    }

    /// Makes the copy read-only, with everything below it.
    pub(super) fn read_only(self) -> io::Result<Tree> {
        sys::make_read_only(self.0.as_fd(), true)?;
        Ok(self)
    }

    /// Puts the copy over what is at a path.
    pub(super) fn attach(&self, to: &Path) -> io::Result<()> {
        Ok(rustix::mount::move_mount(&self.0, c"", CWD, to, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
    }
}

/// How large an empty directory may become.
pub(super) enum Room {
    /// It holds a few names and is closed when the view is ready.
    Names,
    /// Programs put their sockets and small files there.
    Runtime,
}

/// Opens a directory to mount something on it.
pub(super) fn open_directory(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

/// Puts an empty file system over a directory, wherever that is now.
pub(super) fn cover(directory: &OwnedFd, room: &Room) -> io::Result<()> {
    let options: &CStr = match room {
        Room::Names => c"mode=0755,size=4m,nr_inodes=4096",
        Room::Runtime => c"mode=0700,size=10%",
    };
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let target = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(rustix::mount::mount(c"hostel-guard", target.as_str(), c"tmpfs", flags, options)?)
}

/// Puts terminals of our own over those of the machine: other people's terminals can be read and written by their user.
pub(super) fn own_terminals(directory: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = c"newinstance,ptmxmode=0666,mode=0620";
    rustix::mount::mount(c"devpts", directory, c"devpts", flags, options)?;
    let (master, everywhere) = (directory.join("ptmx"), Path::new("/dev/ptmx"));
    // A link leads to the new one by itself.
    match std::fs::symlink_metadata(everywhere) {
        Ok(found) if !found.is_symlink() => Tree::copy(&master)?.attach(everywhere),
        _ => Ok(()),
    }
}

/// Makes what is mounted at a path read-only, but nothing that is mounted below it.
pub(super) fn close(directory: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mount = rustix::fs::open(directory, flags, Mode::empty())?;
    sys::make_read_only(mount.as_fd(), false)
}
