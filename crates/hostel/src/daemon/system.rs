//! What a daemon asks of the system it runs on: threads, limits, its own program.
//!
//! Invariant: what the daemon takes for itself (descriptors, a narrow mask) does not reach its children: they get what
//! it was started with.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use hostel_doors::claustrum::environment::PRIVATE;
use hostel_house::processes::KeeperOptions;
use hostel_peer::marks;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::process::Resource;

use super::guard;
use crate::config::OnFull;
use crate::config::Settings;
use crate::error::CommandError;
use crate::mesh::speaker;
use crate::paths::HouseDir;

/// The system's own link to the program that runs.
pub(super) const OWN_LINK: &str = "/proc/self/exe";

/// The daemon's threads: half of the cores. The keeper and the processes that print want the others, and a stream that
/// hops between cores costs more than it gains (on two cores, one thread moves an eighth more than two).
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tokio::runtime::Builder::new_multi_thread().worker_threads((cores / 2).max(1)).enable_all().build()
}

/// Where the journals of a house are. Below a directory that was asked for each house has one of its own: a keeper takes
/// every journal it finds for one of its own.
pub(crate) fn journal_dir(dir: &HouseDir, settings: &Settings) -> PathBuf {
    match &settings.journal.dir {
        Some(shared) => shared.join(dir.key()),
        None => dir.journal(),
    }
}

/// How to reach the keeper of a house.
pub(crate) fn keeper_options(dir: &HouseDir, settings: &Settings) -> Result<KeeperOptions, CommandError> {
    Ok(KeeperOptions {
        run_dir: dir.run(),
        journal_dir: journal_dir(dir, settings),
        program: keeper_program()?,
        cgroup_root: None,
        total_quota: settings.journal.quota,
        process_quota: settings.journal.per_process_quota(),
        floor: settings.journal.floor.unwrap_or(0),
        drop_oldest: settings.journal.on_full == OnFull::DropOldest,
        child_umask: current_umask(),
        child_nofile: rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        guards: Arc::new(guard::guards(dir, settings)?),
    })
}

/// The file we run from; through the system's own link once the file was replaced or removed.
pub(crate) fn own_program() -> Result<PathBuf, CommandError> {
    let own = std::env::current_exe()
        .map_err(|error| CommandError::failure(format!("cannot find our own program file: {error}")))?;
    Ok(if own.is_file() { own } else { PathBuf::from(OWN_LINK) })
}

/// The program we run from, open: whatever takes its place on disk later, this is what the keeper can be upgraded to.
pub(super) fn open_own_program() -> Result<Arc<OwnedFd>, CommandError> {
    let opened = rustix::fs::open(OWN_LINK, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    opened.map(Arc::new).map_err(|error| CommandError::failure(format!("cannot open our own program file: {error}")))
}

/// The program a keeper is started from. Under another name than `hostel` the system's own link is used: whoever ends a
/// daemon by its name must not end its keeper too, which then could not end processes in order.
fn keeper_program() -> Result<PathBuf, CommandError> {
    let own = own_program()?;
    let named_so = own.file_name().is_some_and(|name| name == "hostel");
    Ok(if named_so { own } else { PathBuf::from(OWN_LINK) })
}

/// The environment hosted processes start from: ours, without what is only the daemon's business, and without the session
/// of a mesh in which somebody may have started us.
pub(super) fn child_environment() -> Vec<(OsString, OsString)> {
    let kept = |name: &OsString| !PRIVATE.iter().chain(&speaker::VARIABLES).any(|own| name == own);
    std::env::vars_os().filter(|(name, _)| kept(name)).collect()
}

/// The mask children get: ours. The system tells it; where it does not, it is read by setting it for an instant.
fn current_umask() -> u32 {
    let told = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    });
    told.unwrap_or_else(|| {
        let mask = rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
        rustix::process::umask(mask);
        mask.bits()
    })
}

/// How many connections a door takes: as many as were asked for, but never so many that no descriptor is left for the
/// journals of those who are already here. A connection takes two: its socket, and the process at its other end.
pub(super) fn connection_limit(asked: usize) -> usize {
    let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    asked.min(usize::try_from(files / 4).unwrap_or(usize::MAX)).max(1)
}

/// A daemon with a thousand clients needs more descriptors than a shell; children get the old limit back.
pub(crate) fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Refused is as good as not tried: the soft limit stays.
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap_or_default();
}

/// Refuses to be the daemon of the house in which this process runs, and to be one in a process that has the limits of a
/// hosted one without knowing why: what it decides would count for nothing, and nobody outside would take it for the daemon.
/// This is for people, to tell them at once; a process can hide what is asked here
/// from us, and then keeper and commands refuse it.
pub(super) fn refuse_inside(dir: &HouseDir) -> Result<(), CommandError> {
    let tag = std::fs::read_to_string(dir.run().join(hostel_keeper::TAG_NAME)).unwrap_or_default();
    if marks::is_marked_unexpectedly() {
        let limit = rustix::process::getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX);
        return Err(CommandError::failure(format!(
            "this process runs inside a house, or somebody has lowered its hard limit of file locks (`ulimit -H -x` says {limit}): \
             what a daemon decides here would count for nothing"
        ))
        .hint("run it from a new terminal outside of every house")
        .hint(format!(
            "set {}=1 for a house that is meant to be inside, in which nobody decides anything",
            marks::NESTED_VARIABLE
        )));
    }
    let own = std::env::var(hostel_keeper::TAG_VARIABLE).unwrap_or_default();
    match own.split_once('.') {
        Some((house, _)) if house == tag.trim() => Err(CommandError::failure(format!(
            "this process runs inside the house in `{}`, so it cannot be its daemon",
            dir.root().display()
        ))
        .hint("run `hostel up` from a terminal outside of the house")),
        _ => Ok(()),
    }
}

/// Marks this process and everything it starts as inside the house. Not for the daemon of a house, which speaks to mesh
/// daemons in the owner's name.
pub(crate) fn mark_inside() {
    // To lower an own limit needs no right. Where it fails all the same, what this process starts is known by its parents.
    marks::mark_this_process().unwrap_or_default();
}

/// Nobody of the same user may look into our memory, which holds tokens.
pub(crate) fn hide_memory() {
    // A system without this protection is served all the same.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap_or_default();
}
