//! The first layer: a mount namespace in which what is hidden does not exist.
//!
//! Guarantees: nothing is covered outside this process. The covers cannot be taken away: an ordinary user's process gives up
//! the capabilities it has in its namespace, further namespaces are refused ([`crate::nested`]), and tracing a process
//! outside is refused because that process belongs to another user namespace. A directory that is not the one that the plan
//! means is an error.
//!
//! The order matters. Whatever is shown or granted is copied before anything is covered, and a covered directory is closed
//! after everything was placed into it.

mod aliases;
mod mounts;
mod ssh;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;

use crate::held::Identity;
use crate::plan::Plan;
use crate::sys;
use aliases::MountTable;
use mounts::{Room, Tree};

/// Where programs named `sudo` are.
const SUDO: [&str; 4] = ["/usr/bin/sudo", "/bin/sudo", "/usr/local/bin/sudo", "/run/wrappers/bin/sudo"];

/// Entries of a directory that is rebuilt at most; in a larger one the socket alone is covered.
const MAX_REBUILT_ENTRIES: usize = 512;

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub(crate) struct ViewError {
    step: String,
    source: io::Error,
}

trait InStep<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, ViewError>;
}

impl<T, E: Into<io::Error>> InStep<T> for Result<T, E> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, ViewError> {
        self.map_err(|error| ViewError { step: step(), source: error.into() })
    }
}

/// Enters a namespace of our own and makes the view in it. The process must have one thread.
pub(crate) fn enter(plan: &Plan) -> Result<(), ViewError> {
    let here = std::env::current_dir().step(|| "the working directory cannot be found".to_owned())?;
    for path in &plan.required {
        fs::symlink_metadata(path).step(|| format!("`{}` must be protected", path.display()))?;
    }
    claim(&plan.claimed);
    let is_root = rustix::process::geteuid().is_root();
    leave_namespaces(is_root)?;
    let from_outside = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", from_outside).step(|| "mounts cannot be kept to ourselves".to_owned())?;
    let mut view = View::new(plan)?;
    view.hold_in_place(is_root)?;
    view.copy()?;
    view.cover()?;
    view.place()?;
    view.rebuild_directories()?;
    view.protect(is_root)?;
    if !is_root {
        view.make_ownership_bearable()?;
    }
    view.close()?;
    // The directory we are in may be below something that is covered now: only the path tells what the view has there.
    std::env::set_current_dir(&here)
        .step(|| format!("the guard hides the working directory `{}` from agents", here.display()))
}

/// Makes directories that somebody could make later and then be seen in.
fn claim(directories: &[PathBuf]) {
    for directory in directories {
        // One that cannot be made is either there already, or nobody of this user can make it.
        fs::DirBuilder::new().mode(0o700).create(directory).ok();
    }
}

/// Leaves the mount namespace; an ordinary user also the user namespace, in which user and group stay the same.
fn leave_namespaces(is_root: bool) -> Result<(), ViewError> {
    if is_root {
        return sys::unshare(UnshareFlags::NEWNS).step(|| "a mount namespace cannot be made".to_owned());
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).step(|| "a user namespace cannot be made".to_owned())?;
    let write = |file: &str, text: String| fs::write(file, text).step(|| format!("`{file}` cannot be written"));
    // Without this the kernel does not let an ordinary user name a group.
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{user} {user} 1\n"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1\n"))
}

/// A path that vanishes.
struct Hidden {
    /// As the plan names it.
    named: PathBuf,
    /// Without symbolic links.
    real: PathBuf,
    is_directory: bool,
    identity: Identity,
    /// Its owner may remove it while the view is made, and put another one there.
    may_vanish: bool,
}

impl Hidden {
    /// Covers a directory, if it is still the one that was found.
    fn cover(&self, room: &Room) -> io::Result<()> {
        let directory = mounts::open_directory(&self.real)?;
        let found = rustix::fs::fstat(&directory)?;
        if Identity(found.st_dev, found.st_ino) != self.identity && !self.may_vanish {
            return Err(io::Error::other("something else has taken its place meanwhile"));
        }
        mounts::cover(&directory, room)
    }
}

/// What is copied before its original is covered.
struct Copied {
    tree: Tree,
    to: PathBuf,
    is_directory: bool,
}

struct View<'a> {
    plan: &'a Plan,
    table: MountTable,
    /// None of them is inside another.
    hidden: Vec<Hidden>,
    emptied: Vec<Hidden>,
    copied: Vec<Copied>,
    /// Covered directories that are closed at the end.
    open: Vec<PathBuf>,
    /// The same that may vanish, and their covers with them.
    open_elsewhere: Vec<PathBuf>,
}

impl<'a> View<'a> {
    fn new(plan: &'a Plan) -> Result<Self, ViewError> {
        let table = fs::read("/proc/self/mountinfo").step(|| "the list of mounts cannot be read".to_owned())?;
        let table = MountTable::parse(&table);
        let hidden = resolve(&plan.hidden, &plan.may_vanish)?;
        let all_emptied = resolve(&plan.emptied, &[])?;
        for pinned in plan.pinned.iter().filter(|pinned| !plan.may_vanish.contains(&pinned.named)) {
            let mut found = hidden.iter().chain(&all_emptied);
            if !found.any(|found| found.identity == pinned.identity) {
                let moved = Err(io::Error::other("it was moved away while the guard was made"));
                return moved.step(|| format!("`{}` cannot be hidden", pinned.named.display()));
            }
        }
        let hidden = outermost(hidden);
        let beneath = |path: &Path| hidden.iter().any(|hidden| path.starts_with(&hidden.real));
        let emptied =
            all_emptied.into_iter().filter(|emptied| emptied.is_directory && !beneath(&emptied.real)).collect();
        let emptied = outermost(emptied);
        Ok(View { plan, table, hidden, emptied, copied: Vec::new(), open: Vec::new(), open_elsewhere: Vec::new() })
    }

    /// Makes each directory on the way to something of the house a mount of its own, so that the program cannot rename it and
    /// put something else in its place. For root that would be in vain.
    fn hold_in_place(&self, is_root: bool) -> Result<(), ViewError> {
        if is_root {
            return Ok(());
        }
        // Each directory, and whether it may vanish meanwhile.
        let mut held = BTreeMap::new();
        for path in &self.plan.held {
            let Ok(target) = fs::canonicalize(path) else { continue };
            let may_vanish = self.plan.may_vanish.contains(path);
            for directory in target.ancestors().skip(1) {
                let Some(parent) = directory.parent() else { break };
                if rustix::fs::access(parent, Access::WRITE_OK).is_err() {
                    break;
                }
                *held.entry(directory.to_owned()).or_insert(true) &= may_vanish;
            }
        }
        // The outer ones first: an outer one that comes later would cover the inner ones.
        for (directory, may_vanish) in held {
            match Tree::copy(&directory).and_then(|tree| tree.attach(&directory)) {
                Err(error) if may_vanish && is_absent(&error) => {}
                attached => {
                    attached.step(|| format!("`{}` cannot be held in its place", directory.display()))?;
                }
            }
        }
        Ok(())
    }

    /// Copies what is shown or granted while it can still be reached.
    fn copy(&mut self) -> Result<(), ViewError> {
        for shown in &self.plan.shown {
            let Ok(found) = fs::metadata(&shown.from) else { continue };
            let Some(to) = self.inside_hidden(&shown.to).filter(|_| found.is_dir()) else { continue };
            let copied = Tree::copy(&shown.from).and_then(Tree::read_only);
            let tree = copied.step(|| format!("`{}` cannot be shown", shown.from.display()))?;
            self.copied.push(Copied { tree, to, is_directory: true });
        }
        for granted in &self.plan.granted {
            let (Ok(real), Ok(found)) = (fs::canonicalize(granted), fs::metadata(granted)) else { continue };
            let covered = self.emptied.iter().chain(&self.hidden).any(|covered| real.starts_with(&covered.real));
            if !covered {
                continue;
            }
            let tree = Tree::copy(&real).step(|| format!("`{}` cannot be granted", granted.display()))?;
            self.copied.push(Copied { tree, to: real, is_directory: found.is_dir() });
        }
        Ok(())
    }

    /// A path inside a hidden directory without the symbolic links on the way to that directory.
    fn inside_hidden(&self, path: &Path) -> Option<PathBuf> {
        self.hidden.iter().find_map(|hidden| {
            let inside = path.strip_prefix(&hidden.named).or_else(|_| path.strip_prefix(&hidden.real)).ok()?;
            Some(if inside.as_os_str().is_empty() { hidden.real.clone() } else { hidden.real.join(inside) })
        })
    }

    fn cover(&mut self) -> Result<(), ViewError> {
        let mut aliases = Vec::new();
        for hidden in &self.hidden {
            for alias in self.table.aliases(&hidden.real) {
                // Whoever cannot get there need not be kept away, and a mount may be covered by another one.
                let Ok(found) = fs::symlink_metadata(&alias) else { continue };
                if identity(&found) == hidden.identity {
                    aliases.push(Hidden { named: alias.clone(), real: alias, ..*hidden });
                }
            }
        }
        for hidden in self.hidden.iter().chain(&aliases) {
            let covered = match hidden.is_directory {
                true => hidden.cover(&Room::Names),
                false => Tree::copy(Path::new("/dev/null")).and_then(|nothing| nothing.attach(&hidden.real)),
            };
            match covered {
                Err(error) if hidden.may_vanish && is_absent(&error) => continue,
                covered => covered.step(|| format!("`{}` cannot be hidden", hidden.named.display()))?,
            }
            if hidden.is_directory {
                let room = if hidden.may_vanish { &mut self.open_elsewhere } else { &mut self.open };
                room.push(hidden.real.clone());
            }
        }
        for emptied in &self.emptied {
            emptied.cover(&Room::Runtime).step(|| format!("`{}` cannot be emptied", emptied.named.display()))?;
        }
        Ok(())
    }

    /// Puts what was copied to its places, and links where programs look for our sockets.
    fn place(&self) -> Result<(), ViewError> {
        for copied in &self.copied {
            place_at(&copied.to, copied.is_directory)
                .and_then(|()| copied.tree.attach(&copied.to))
                .step(|| format!("`{}` cannot be put into the view", copied.to.display()))?;
        }
        for (link, to) in &self.plan.links {
            let emptied = self.emptied.iter().any(|emptied| link.starts_with(&emptied.named));
            if emptied && fs::symlink_metadata(link).is_err() {
                std::os::unix::fs::symlink(to, link).step(|| format!("`{}` cannot be made", link.display()))?;
            }
        }
        Ok(())
    }

    /// Rebuilds directories that hold a socket which is to vanish.
    fn rebuild_directories(&mut self) -> Result<(), ViewError> {
        let reachable = |socket: &&PathBuf| rustix::fs::access(socket.as_path(), Access::WRITE_OK).is_ok();
        for socket in self.plan.sockets.iter().filter(reachable) {
            let Ok(socket) = fs::canonicalize(socket) else { continue };
            let Some(directory) = socket.parent() else { continue };
            let rebuilt = rebuild_without(directory, &socket);
            if rebuilt.step(|| format!("`{}` cannot be hidden", socket.display()))? {
                self.open.push(directory.to_owned());
            }
        }
        Ok(())
    }

    fn protect(&self, is_root: bool) -> Result<(), ViewError> {
        let terminals = Path::new("/dev/pts");
        if terminals.is_dir() {
            mounts::own_terminals(terminals).step(|| "terminals of our own cannot be made".to_owned())?;
        }
        let writable: Vec<(PathBuf, Tree)> = self
            .plan
            .writable
            .iter()
            .filter_map(|path| fs::canonicalize(path).ok())
            .map(|path| Ok((path.clone(), Tree::copy(&path)?)))
            .collect::<io::Result<_>>()
            .step(|| "what stays writable cannot be copied".to_owned())?;
        // Groups of processes could be stopped, killed and left through their files.
        let fixed = ["/sys/fs/cgroup"].into_iter().chain(is_root.then_some("/proc/sys")).map(PathBuf::from);
        let own = self.plan.sudo.iter().cloned();
        for path in self.plan.read_only.iter().cloned().chain(fixed).chain(own) {
            let Ok(real) = fs::canonicalize(&path) else { continue };
            let made = Tree::copy(&real).and_then(Tree::read_only).and_then(|tree| tree.attach(&real));
            made.step(|| format!("`{}` cannot be made read-only", path.display()))?;
        }
        for (path, tree) in writable {
            tree.attach(&path).step(|| format!("`{}` cannot be kept writable", path.display()))?;
        }
        Ok(())
    }

    /// In a user namespace files of root belong to nobody and programs that would become root do not: ssh gets copies of
    /// its configuration, and `sudo` asks for consent instead.
    fn make_ownership_bearable(&self) -> Result<(), ViewError> {
        if let Some(scratch) = self.open.first() {
            let copied = ssh::copy_included(&scratch.join(".ssh_config"));
            copied.step(|| "the configuration of ssh cannot be copied".to_owned())?;
        }
        let Some(program) = &self.plan.sudo else { return Ok(()) };
        let mut done = BTreeSet::new();
        for sudo in SUDO {
            let Ok(real) = fs::canonicalize(sudo) else { continue };
            if done.insert(real.clone()) {
                let put = Tree::copy(program).and_then(|tree| tree.attach(&real));
                put.step(|| format!("`{sudo}` cannot be replaced"))?;
            }
        }
        Ok(())
    }

    fn close(&self) -> Result<(), ViewError> {
        for directory in &self.open {
            mounts::close(directory).step(|| format!("`{}` cannot be closed", directory.display()))?;
        }
        for directory in &self.open_elsewhere {
            match mounts::close(directory) {
                // The directory went, and its cover with it; another one may be in its place, which is no mount.
                Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::InvalidInput => {}
                closed => closed.step(|| format!("`{}` cannot be closed", directory.display()))?,
            }
        }
        Ok(())
    }
}

/// What exists of some paths, without symbolic links.
fn resolve(paths: &[PathBuf], may_vanish: &[PathBuf]) -> Result<Vec<Hidden>, ViewError> {
    let mut found = Vec::new();
    for named in paths {
        match fs::canonicalize(named).and_then(|real| Ok((fs::symlink_metadata(&real)?, real))) {
            Ok((about, real)) => found.push(Hidden {
                named: named.clone(),
                real,
                is_directory: about.is_dir(),
                identity: identity(&about),
                may_vanish: may_vanish.contains(named),
            }),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(error).step(|| format!("`{}` cannot be looked at", named.display())),
        }
    }
    Ok(found)
}

fn identity(about: &fs::Metadata) -> Identity {
    Identity(about.dev(), about.ino())
}

/// Whether nobody of this user can reach a path: it is not there, or closed to us.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Those that are not inside another one.
fn outermost(mut all: Vec<Hidden>) -> Vec<Hidden> {
    all.sort_by(|one, other| one.real.cmp(&other.real));
    let mut kept: Vec<Hidden> = Vec::with_capacity(all.len());
    for hidden in all {
        if !kept.iter().any(|outer| outer.is_directory && hidden.real.starts_with(&outer.real)) {
            kept.push(hidden);
        }
    }
    kept
}

/// Makes something at a path that a mount can be put over.
fn place_at(path: &Path, is_directory: bool) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    if is_directory {
        return fs::create_dir_all(path);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, b"")
}

/// Covers a directory by one with the same entries but for one socket. A cover over the socket alone would go when its
/// owner makes it anew; it is what a directory with too many entries gets. Says whether the directory was rebuilt.
fn rebuild_without(directory: &Path, socket: &Path) -> io::Result<bool> {
    let mut links = Vec::new();
    let mut copied = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if path == socket {
            continue;
        }
        if found.is_symlink() {
            links.push((fs::read_link(&path)?, path));
        } else if !found.file_type().is_fifo() {
            copied.push(Copied { tree: Tree::copy(&path)?, is_directory: found.is_dir(), to: path });
        }
        if copied.len() > MAX_REBUILT_ENTRIES {
            return Tree::copy(Path::new("/dev/null"))?.attach(socket).map(|()| false);
        }
    }
    let mode = fs::metadata(directory)?.permissions().mode();
    mounts::cover(&mounts::open_directory(directory)?, &Room::Names)?;
    for entry in copied {
        place_at(&entry.to, entry.is_directory)?;
        entry.tree.attach(&entry.to)?;
    }
    for (target, link) in links {
        std::os::unix::fs::symlink(target, link)?;
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(mode & 0o755))?;
    Ok(true)
}
