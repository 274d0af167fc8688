//! What a mesh daemon may take of its host: descriptors and memory.
//!
//! Invariant: the caps hold before the first connection is taken. Memory is bounded by the kernel (`RLIMIT_DATA`: heap,
//! stacks and other private memory, of which what is resident is a part), so that one daemon gone wrong ends itself, and
//! not its neighbours; everything it had promised is on disk. Mapped files do not count.
//!
//! Threads are few and their stacks small, because stacks count. They share one heap: what is free in a heap counts as
//! well, and a heap of each thread's own would keep what that thread once needed.

use std::io;

use rustix::process::Resource;
use rustix::process::Rlimit;

/// Descriptors: clients, streams, databases, the connection to the broker.
const OPEN_FILES: u64 = 1024;

/// Private memory, unless the configuration says otherwise.
pub(crate) const MEMORY: u64 = 256 << 20;

/// Threads that may wait for the disk.
const WAITING_THREADS: usize = 8;

/// Their stacks, and those of the runtime.
const STACK: usize = 1 << 20;

/// Puts the caps in force; none may be raised again by us. Before there are threads.
pub(crate) fn put_in_force(memory: u64) {
    hostel_keeper::memory::stay_small();
    cap(Resource::Nofile, OPEN_FILES);
    cap(Resource::Data, memory);
}

/// Lowers a limit. A host that allows less already is left as it is; one that does not know the limit, too.
fn cap(resource: Resource, value: u64) {
    let known = rustix::process::getrlimit(resource);
    let least = |limit: Option<u64>| Some(limit.map_or(value, |limit| limit.min(value)));
    let limit = Rlimit { current: least(known.current), maximum: least(known.maximum) };
    rustix::process::setrlimit(resource, limit).ok();
}

/// The daemon's threads: one that does everything, and a few that wait for the disk.
pub(crate) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(WAITING_THREADS)
        .thread_stack_size(STACK)
        .enable_all()
        .build()
}
