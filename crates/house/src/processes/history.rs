//! Processes that only their journals remember, and journals that cannot be read.
//!
//! Guarantees: nothing is removed because it could not be read. A file that ends before its first block header, and that
//! nobody has changed for a day, is the only one that is: nothing was ever committed to it. Any other file that can be read
//! and is no journal is renamed (`*.unreadable`) and reported, unless a session or a pipeline still needs it; then it stays
//! where it is. Where the system refuses to read, the file stays as it is and is tried again.
//!
//! A file that was renamed is tried again at each start, so that a newer program takes back what an older one set aside.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hostel_journal::{EndKind, FileInfo, ProcessId, ReadFailure, Recovered};
use hostel_keeper::proto::Held;

use super::label::Label;
use super::process::{Exit, Process, Progress};
use super::{House, LOST, Processes, garbage};

/// Journals that are reported by name; of the others only the number is known.
pub const MAX_UNREADABLE_REPORTED: usize = 100;
/// Attempts to read a journal that the system refuses to open, before it is left for the next look.
const READ_ATTEMPTS: u32 = 3;
const READ_RETRY_DELAY: Duration = Duration::from_millis(20);
/// An empty file is removed when nobody has changed it for this long.
const EMPTY_FILE_AGE_NS: u64 = 24 * 3600 * 1_000_000_000;

/// A journal that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableJournal {
    /// The process.
    pub id: ProcessId,
    /// The file's present name in the journal directory.
    pub file: String,
    /// The error that reading it gave.
    pub reason: String,
    /// The file was renamed. If not, the next look tries it again.
    pub is_set_aside: bool,
}

/// The journals that this daemon could not read.
#[derive(Debug, Default)]
pub(crate) struct UnreadableList {
    by_file: BTreeMap<String, UnreadableJournal>,
    /// How many more there are than are remembered.
    unnamed: usize,
}

impl UnreadableList {
    /// Returns whether this was not known yet.
    fn add(&mut self, journal: UnreadableJournal) -> bool {
        if self.by_file.len() >= MAX_UNREADABLE_REPORTED && !self.by_file.contains_key(&journal.file) {
            // A file that was not renamed is counted again at the next look.
            self.unnamed += usize::from(journal.is_set_aside);
            return false;
        }
        self.by_file.insert(journal.file.clone(), journal.clone()) != Some(journal)
    }
}

/// Result of examining one file.
enum Found {
    Process(Box<Recovered>),
    Gone,
    Failed(ReadFailure, io::Error),
}

fn examine(house: &House, id: ProcessId) -> Found {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match hostel_journal::inspect(house.journal_dir(), id) {
            Ok(recovered) => return Found::Process(Box::new(recovered)),
            Err(error) => match ReadFailure::judge(house.journal_dir(), id, &error) {
                ReadFailure::Missing => return Found::Gone,
                ReadFailure::Passing if attempt < READ_ATTEMPTS => std::thread::sleep(READ_RETRY_DELAY),
                failure => return Found::Failed(failure, error),
            },
        }
    }
}

impl Processes {
    /// Takes up the processes that only their journals remember, those included that were set aside and can be read now.
    pub(super) async fn learn_history(&self) {
        let house = Arc::clone(&self.house);
        let restoring = hostel_tasks::spawn_blocking(move || restore_readable(&house));
        for journal in restoring.await.unwrap_or_default() {
            self.house.unreadable.lock().add(journal);
        }
        // Files that cannot be read stay as they are until it is known which of them are needed.
        drop(self.learn_unknown(false).await);
    }

    /// Looks again at journals that belong to no process this daemon knows: takes up those that can be read by now, and
    /// renames those that cannot. Returns what is newly wrong.
    ///
    /// # Errors
    /// The journal directory cannot be read.
    pub async fn examine_unknown_journals(&self) -> io::Result<Vec<UnreadableJournal>> {
        self.learn_unknown(true).await
    }

    /// Journals that cannot be read, as far as they are known, and how many more there are.
    pub fn unreadable_journals(&self) -> (Vec<UnreadableJournal>, usize) {
        let list = self.house.unreadable.lock();
        (list.by_file.values().cloned().collect(), list.unnamed)
    }

    async fn learn_unknown(&self, may_change: bool) -> io::Result<Vec<UnreadableJournal>> {
        let house = Arc::clone(&self.house);
        let looking = hostel_tasks::spawn_blocking(move || {
            let files = hostel_journal::scan(house.journal_dir())?;
            // Read after the files: whatever is started is known before its file is made.
            let known: HashSet<ProcessId> = house.registry.read().by_id.keys().copied().collect();
            let unknown = files.into_iter().filter(|file| !known.contains(&file.id));
            let found: Vec<_> = unknown.map(|file| (file, examine(&house, file.id))).collect();
            Ok::<_, io::Error>((found, hostel_journal::scan_set_aside(house.journal_dir())?))
        });
        let (found, set_aside) = looking.await.map_err(io::Error::other)??;
        let set_aside: HashSet<String> = set_aside.into_iter().map(|file| file.file).collect();
        // Somebody may have removed what was set aside, or repaired what stayed in its place.
        let of_now = |journal: &UnreadableJournal| match journal.is_set_aside {
            true => set_aside.contains(&journal.file),
            false => found.iter().any(|(file, found)| file.id == journal.id && matches!(found, Found::Failed(..))),
        };
        self.house.unreadable.lock().by_file.retain(|_, journal| of_now(journal));
        let keeper_id = self.house.welcome.read().keeper_id;
        let mut reported = Vec::new();
        for (file, found) in found {
            match found {
                // The present keeper writes it: only a greeting or a spawn makes it known.
                Found::Process(recovered) if recovered.end.is_none() && recovered.meta.keeper_id == keeper_id => {}
                Found::Process(recovered) => {
                    let process = self.remembered(&recovered);
                    self.house.registry.write().by_id.entry(process.id()).or_insert(process);
                }
                Found::Gone => {}
                Found::Failed(failure, error) => {
                    reported.extend(self.treat_unreadable(file, failure, &error, may_change).await);
                }
            }
        }
        Ok(reported)
    }

    /// Does what is to be done about one file that cannot be read; returns it if that is news.
    async fn treat_unreadable(
        &self,
        file: FileInfo,
        failure: ReadFailure,
        error: &io::Error,
        may_change: bool,
    ) -> Option<UnreadableJournal> {
        let own_name = file.id.file_name();
        let is_needed = self.house.spared.lock().contains(&file.id);
        let (name, is_set_aside) = match failure {
            ReadFailure::Missing => return None,
            ReadFailure::Empty => {
                let is_old = garbage::now_ns().saturating_sub(file.modified_ns) > EMPTY_FILE_AGE_NS;
                if may_change && is_old && !is_needed {
                    garbage::remove_file(&self.house, file.id).await;
                }
                return None;
            }
            ReadFailure::Unreadable if may_change && !is_needed => {
                let house = Arc::clone(&self.house);
                let renaming =
                    hostel_tasks::spawn_blocking(move || hostel_journal::set_aside(house.journal_dir(), file.id));
                match renaming.await {
                    Ok(Ok(name)) => (name, true),
                    _ => (own_name, false),
                }
            }
            ReadFailure::Passing | ReadFailure::Unreadable => (own_name, false),
        };
        if is_set_aside {
            self.house.unreadable.lock().by_file.remove(&file.id.file_name());
        }
        let journal = UnreadableJournal { id: file.id, file: name, reason: error.to_string(), is_set_aside };
        self.house.unreadable.lock().add(journal.clone()).then_some(journal)
    }

    fn remembered(&self, recovered: &Recovered) -> Arc<Process> {
        let meta = &recovered.meta;
        let label = Label::decode(&meta.label, &meta.id.to_string());
        let process = Process::new(&self.house, meta.id, label, Vec::new(), ended_progress(recovered));
        process.started.get_or_init(|| (meta.pid, meta.start_ns));
        process
    }
}

/// Gives journals that were set aside their names back if they can be read now; returns those that still cannot.
fn restore_readable(house: &House) -> Vec<UnreadableJournal> {
    let dir = house.journal_dir();
    let mut unreadable = Vec::new();
    for file in hostel_journal::scan_set_aside(dir).unwrap_or_default() {
        let reason = match hostel_journal::inspect_set_aside(dir, &file) {
            Ok(_) => match hostel_journal::restore(dir, &file) {
                Ok(()) => continue,
                Err(error) => format!("it can be read, but not be renamed to {}: {error}", file.id.file_name()),
            },
            Err(error) => error.to_string(),
        };
        unreadable.push(UnreadableJournal { id: file.id, file: file.file, reason, is_set_aside: true });
    }
    unreadable
}

pub(super) fn ended_progress(recovered: &Recovered) -> Progress {
    let exit = match &recovered.end {
        Some(end) => match &end.kind {
            EndKind::Exit(exit) => Exit { code: exit.code, signal: exit.signal, lost: false },
            EndKind::Lost(_) => LOST,
        },
        None => LOST,
    };
    Progress {
        committed: recovered.position.committed,
        next_seq: recovered.position.next_seq,
        held: Held::No,
        has_file: true,
        exit: Some(exit),
    }
}
