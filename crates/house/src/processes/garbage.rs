//! Giving disk space back: which journals may go, and what they occupy.

use std::collections::{HashMap, HashSet};
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

/// An ended process that nobody needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its journal; one of no size for a process that printed nothing.
    pub file: FileInfo,
    /// It served a session that lives, and everything that came of its journal is stored elsewhere.
    pub is_stored: bool,
}

/// The journal directory at a moment, and what of it may go.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// What all journals take on disk.
    pub used_bytes: u64,
    /// What the file system has left.
    pub free_bytes: u64,
    /// How large the file system is.
    pub disk_bytes: u64,
    candidates: Vec<Candidate>,
    names: HashMap<ProcessId, String>,
}

impl Survey {
    #[cfg(test)]
    pub(crate) fn of(used_bytes: u64, free_bytes: u64, disk_bytes: u64, candidates: Vec<Candidate>) -> Self {
        Self { used_bytes, free_bytes, disk_bytes, candidates, names: HashMap::new() }
    }

    /// Ended processes that nobody needs, in no order.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// What would come of removing these.
    pub fn describe(&self, chosen: &[ProcessId]) -> Collected {
        let sizes: HashMap<ProcessId, u64> =
            self.candidates.iter().map(|one| (one.file.id, one.file.bytes_on_disk)).collect();
        let name = |id| self.names.get(id).cloned().unwrap_or_default();
        Collected {
            removed: chosen.iter().map(|id| (*id, name(id))).collect(),
            freed_bytes: chosen.iter().filter_map(|id| sizes.get(id)).sum(),
        }
    }
}

/// Looks at the directory and at what is known. `stored` are processes of sessions whose events are all stored.
pub(super) async fn survey(house: &Arc<House>, stored: HashSet<ProcessId>) -> io::Result<Survey> {
    let house = Arc::clone(house);
    let looking = hostel_tasks::spawn_blocking(move || {
        let files = hostel_journal::scan(house.journal_dir())?;
        let stat = rustix::fs::fstatvfs(house.journal_dir())?;
        let processes: Vec<Arc<Process>> = house.registry.read().by_id.values().cloned().collect();
        let spared = house.spared.lock().clone();
        let by_id: HashMap<ProcessId, &FileInfo> = files.iter().map(|file| (file.id, file)).collect();
        let may_go = |process: &&Arc<Process>| {
            let is_needed = spared.contains(&process.id()) && !stored.contains(&process.id());
            !process.is_running() && !process.is_read() && !is_needed
        };
        let mut survey = Survey {
            used_bytes: files.iter().map(|file| file.bytes_on_disk).sum(),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            disk_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            ..Survey::default()
        };
        for process in processes.iter().filter(may_go) {
            // A silent process has no file; it counts like an empty one.
            let silent = FileInfo { id: process.id(), bytes_on_disk: 0, modified_ns: process.started_ns() };
            let file = by_id.get(&process.id()).map_or(silent, |file| **file);
            survey.candidates.push(Candidate { file, is_stored: spared.contains(&process.id()) });
            survey.names.insert(process.id(), process.name().to_owned());
        }
        Ok(survey)
    });
    looking.await.map_err(io::Error::other)?
}

/// Forgets these, one after the other, as long as they may go.
pub(super) async fn forget_all(house: &Arc<House>, chosen: &[ProcessId]) -> Collected {
    let mut collected = Collected::default();
    for id in chosen {
        // Somebody may have begun to read it since.
        let Some(process) = house.find(*id).filter(|process| !process.is_running() && !process.is_read()) else {
            continue;
        };
        let bytes = size_on_disk(house, *id).await;
        if forget(house, &process).await {
            house.spared.lock().remove(id);
            collected.freed_bytes += bytes;
            collected.removed.push((*id, process.name().to_owned()));
        }
    }
    collected
}

async fn size_on_disk(house: &Arc<House>, id: ProcessId) -> u64 {
    let house = Arc::clone(house);
    let looking = hostel_tasks::spawn_blocking(move || hostel_journal::bytes_on_disk(house.journal_dir(), id));
    looking.await.unwrap_or_default()
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
    let survey = survey(house, HashSet::new()).await?;
    let files: Vec<FileInfo> = survey.candidates.iter().map(|candidate| candidate.file).collect();
    let expired = retention.expired(&files, now_ns());
    Ok(if dry_run { survey.describe(&expired) } else { forget_all(house, &expired).await })
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
