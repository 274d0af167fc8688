//! Giving disk space back: which journals may go, and what they occupy.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hostel_journal::{FileInfo, ProcessId, Retention};
use hostel_keeper::proto::kind;

use super::{House, Process, link};

/// Pauses before a keeper that says a process runs is asked to forget it again.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// What a collection removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// The processes that are forgotten.
    pub removed: Vec<(ProcessId, String)>,
    /// Bytes given back.
    pub freed_bytes: u64,
}

/// What the journals occupy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// All journals together.
    pub bytes: u64,
    /// How many files.
    pub files: usize,
    /// How much they may occupy.
    pub quota_bytes: u64,
    /// Free space of the file system.
    pub free_bytes: u64,
    /// Each file's process and size, largest first.
    pub by_process: Vec<(ProcessId, u64)>,
}

pub(super) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

async fn scan(house: &Arc<House>) -> io::Result<Vec<FileInfo>> {
    let house = Arc::clone(house);
    hostel_tasks::spawn_blocking(move || hostel_journal::scan(house.journal_dir())).await.map_err(io::Error::other)?
}

pub(super) async fn usage(house: &Arc<House>) -> io::Result<Usage> {
    let files = scan(house).await?;
    let mut by_process: Vec<_> = files.iter().map(|file| (file.id, file.bytes_on_disk)).collect();
    by_process.sort_by_key(|(id, bytes)| (std::cmp::Reverse(*bytes), *id));
    let stat = rustix::fs::fstatvfs(house.journal_dir())?;
    Ok(Usage {
        bytes: by_process.iter().map(|(_, bytes)| bytes).sum(),
        files: by_process.len(),
        quota_bytes: house.options.total_quota,
        free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        by_process,
    })
}

/// Forgets ended processes by the rule, oldest first; never one that somebody reads.
pub(super) async fn collect(house: &Arc<House>, retention: Retention, dry_run: bool) -> io::Result<Collected> {
    let files = scan(house).await?;
    let processes: Vec<Arc<Process>> = house.registry.read().by_id.values().cloned().collect();
    let spared = house.spared.lock().clone();
    let free = |process: &&Arc<Process>| !process.status().running && !process.is_read();
    let ended = processes.iter().filter(free).filter(|process| !spared.contains(&process.id()));
    // A silent process has no file; it counts like an empty one.
    let by_id: HashMap<ProcessId, &FileInfo> = files.iter().map(|file| (file.id, file)).collect();
    let candidates: HashMap<ProcessId, (FileInfo, &Arc<Process>)> = ended
        .map(|process| {
            let silent = FileInfo { id: process.id(), bytes_on_disk: 0, modified_ns: process.started_ns() };
            let file = by_id.get(&process.id()).map_or(silent, |file| **file);
            (process.id(), (file, process))
        })
        .collect();
    let infos: Vec<FileInfo> = candidates.values().map(|(file, _)| *file).collect();
    let mut collected = Collected::default();
    for id in retention.expired(&infos, now_ns()) {
        let Some((file, process)) = candidates.get(&id) else { continue };
        if !dry_run && !forget(house, process).await {
            continue;
        }
        collected.freed_bytes += file.bytes_on_disk;
        collected.removed.push((id, process.name().to_owned()));
    }
    Ok(collected)
}

/// Forgets one process, if it has ended.
pub(super) async fn forget_ended(house: &Arc<House>, id: ProcessId) {
    let process = house.find(id);
    match process.filter(|process| !process.status().running) {
        Some(process) => forget(house, &process).await,
        None => false,
    };
}

/// Lets the keeper forget a process that has ended: it would keep its place, and its cgroup, for as long as the journal
/// is kept. One that has no journal is known to nobody else, and stays.
pub(super) async fn release(house: &Arc<House>, id: ProcessId) {
    let forgettable = |process: &Arc<Process>| {
        let progress = *process.progress.borrow();
        // Of what only a journal remembers, nobody knows the command line.
        progress.exit.is_some() && progress.has_file && !process.command.is_empty()
    };
    if house.find(id).is_some_and(|process| forgettable(&process)) {
        // A keeper that cannot be asked remembers it, which does no harm.
        drop(house.request(link::about(kind::FORGET, id)).await);
    }
}

/// The keeper first, then the file: a keeper that still knew it would miss it.
async fn forget(house: &Arc<House>, process: &Arc<Process>) -> bool {
    let mut pause = FIRST_PAUSE;
    loop {
        match house.request(link::about(kind::FORGET, process.id())).await {
            Ok(link::Answer::Done { .. }) => break,
            // Word of its end may be here before the keeper's other thread has heard of it.
            Ok(link::Answer::Refused(_)) if pause <= LONGEST_PAUSE => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            _ => return false,
        }
    }
    // The file first: one that cannot be removed still belongs to a process that is known.
    let removed = remove_file(house, process.id()).await;
    if removed {
        house.remove(process);
    }
    removed
}

pub(super) async fn remove_file(house: &Arc<House>, id: ProcessId) -> bool {
    let owner = Arc::clone(house);
    let removed = hostel_tasks::spawn_blocking(move || hostel_journal::remove(owner.journal_dir(), id)).await;
    match removed {
        Ok(Ok(())) => true,
        Ok(Err(error)) => error.kind() == io::ErrorKind::NotFound,
        Err(_) => false,
    }
}
