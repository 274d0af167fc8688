//! Hosted processes: start them, feed them, watch them, end them.
//!
//! The house keeps no state of its own about a process: what it knows comes from the keeper and
//! the journals, so a daemon that starts after a crash knows as much as the one before. It knows no
//! wire; doors turn its types into theirs.

mod connect;
mod garbage;
mod greeting;
mod guarded;
mod history;
mod input;
mod label;
mod launch;
mod link;
mod origin;
mod outbox;
mod process;
pub mod program;
mod spawning;
mod stage;
mod types;
mod vault;
mod watch;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hostel_guard::Guards;
use hostel_keeper::cgroup::Cgroups;
use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{Builder, Limits, StopMode, Welcome, kind, tag};
use hostel_keeper::tree;
use hostel_peer::server;
use parking_lot::{Mutex, RwLock};
use rustix::process::Signal;
use tokio::sync::watch as signal;

pub use garbage::{Candidate, Collected, Survey, Usage};
pub use guarded::SpawnGuard;
pub use history::{MAX_UNREADABLE_REPORTED, UnreadableJournal};
pub use hostel_journal::{ProcessId, Retention, Stream};
pub use hostel_keeper::key::{HouseKey, Key};
pub use hostel_keeper::tree::{Member, Relation, Tree};
pub use input::{Applied, StdinError, StdinTicket};
pub use origin::{Origin, OriginError};
pub use process::{Exit, HeldBecause, Process, Status};
pub use types::{ConnectError, FailedStart, KeeperStatus, SpawnError, SpawnSpec, UpgradeError};
pub use watch::{Batch, Item, Next, Watch, WatchError};

pub(crate) use stage::{StageError, StageSpec};

use link::{Answer, Caller, Gone, Lane, Link, Ticket};

/// How long a request waits for the next link when the keeper is being replaced.
const RELINK_LIMIT: Duration = Duration::from_secs(10);

/// How to reach, or make, the keeper of a house.
#[derive(Debug, Clone)]
pub struct KeeperOptions {
    /// Where its socket and its lock are.
    pub run_dir: PathBuf,
    /// Where the journals are.
    pub journal_dir: PathBuf,
    /// The program that can become a keeper: ourselves.
    pub program: PathBuf,
    /// Cgroups below this directory instead of the daemon's own, if it is writable.
    pub cgroup_root: Option<PathBuf>,
    /// All journals together, in bytes.
    pub total_quota: u64,
    /// One journal, in bytes.
    pub process_quota: u64,
    /// Free space that must remain, 0 for the keeper's own rule.
    pub floor: u64,
    /// Whether a process that reaches its quota loses its oldest output instead of being held.
    pub drop_oldest: bool,
    /// The file mode mask that children get.
    pub child_umask: u32,
    /// The soft limit of open files that children get.
    pub child_nofile: u64,
    /// What this house hides from agents, and which guards the machine allows.
    pub guards: Arc<Guards>,
}

/// Shared by every handle.
pub(crate) struct House {
    options: KeeperOptions,
    caller: Caller,
    journal: OwnedFd,
    link: RwLock<Arc<Link>>,
    welcome: RwLock<Welcome>,
    registry: RwLock<Registry>,
    /// Serialises replacements of a name: the last spawn to succeed has it.
    naming: Mutex<()>,
    superseded: signal::Sender<bool>,
    /// Counts the keepers that died, and the processes lost with the last of them.
    lost: signal::Sender<(u64, usize)>,
    /// Counts the links there have been.
    relinked: signal::Sender<u64>,
    /// The keeper is being replaced, or is to end: its silence is no accident.
    expecting_end: AtomicBool,
    /// The key of the present keeper, once it was handed over.
    key: signal::Sender<Option<Arc<HouseKey>>>,
    /// Ended processes that somebody still needs: the rule of retention passes them over.
    spared: Mutex<HashSet<ProcessId>>,
    unreadable: Mutex<history::UnreadableList>,
    /// Processes whose start was called failed because there was no link to hear of it: the keeper may have started them.
    unwanted: Mutex<HashSet<ProcessId>>,
    failed_starts: Mutex<Vec<FailedStart>>,
    /// A process is held that was not before.
    room_is_needed: tokio::sync::Notify,
}

/// Starts that failed after the daemon that had asked for them was gone, as many as are remembered until they are told.
const MAX_FAILED_STARTS: usize = 100;
/// Processes that nobody wants, as many as are remembered until the keeper says what became of them.
const MAX_UNWANTED: usize = 1024;

/// The end of a process whose keeper died: how it really ended is not known.
const LOST: Exit = Exit { code: -1, signal: 0, lost: true };

#[derive(Default)]
struct Registry {
    by_id: HashMap<ProcessId, Arc<Process>>,
    by_name: HashMap<String, Arc<Process>>,
}

impl House {
    pub(crate) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link.read())
    }

    /// Sends a request by the present link, or by the next one if this one ends before it was sent.
    pub(crate) async fn submit(&self, encode: impl Fn(u64, &mut Vec<u8>)) -> Result<Ticket, Gone> {
        self.submit_by(Lane::Request, &[], encode).await
    }

    /// As [`House::submit`], for a request to start a process. It may carry descriptors; its frame says how many.
    pub(crate) async fn submit_spawn(
        &self,
        descriptors: &[Arc<OwnedFd>],
        encode: impl Fn(u64, &mut Vec<u8>),
    ) -> Result<Ticket, Gone> {
        self.submit_by(Lane::Spawn, descriptors, encode).await
    }

    async fn submit_by(
        &self,
        lane: Lane,
        descriptors: &[Arc<OwnedFd>],
        encode: impl Fn(u64, &mut Vec<u8>),
    ) -> Result<Ticket, Gone> {
        let deadline = tokio::time::Instant::now() + RELINK_LIMIT;
        loop {
            let mut relinked = self.relinked.subscribe();
            let link = self.link();
            let outcome = link.submit(lane, descriptors, &encode).await;
            match outcome {
                Err(Gone::Unsent) if Arc::ptr_eq(&link, &self.link()) => {
                    if tokio::time::timeout_at(deadline, relinked.changed()).await.is_err() {
                        return outcome;
                    }
                }
                Err(Gone::Unsent) if tokio::time::Instant::now() < deadline => {}
                outcome => return outcome,
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(&self, encode: impl Fn(u64, &mut Vec<u8>)) -> Result<Answer, Gone> {
        self.submit(encode).await?.answer().await
    }

    /// The token for the input of a process, if this daemon has the house key.
    pub(crate) fn owner_token(&self, id: ProcessId) -> Option<OwnerToken> {
        self.key.borrow().as_ref().map(|key| key.owner_token(id))
    }

    /// Whether the keeper can do something beyond the base protocol.
    pub(crate) fn keeper_can(&self, feature: u64) -> bool {
        self.welcome.read().features & feature != 0
    }

    pub(crate) fn journal_dir(&self) -> BorrowedFd<'_> {
        self.journal.as_fd()
    }

    pub(crate) fn drops_oldest(&self) -> bool {
        self.options.drop_oldest
    }

    pub(crate) fn tag(&self) -> String {
        self.welcome.read().house_tag.clone()
    }

    pub(crate) fn cgroups(&self) -> Option<Cgroups> {
        self.welcome.read().cgroup.as_ref().map(|root| Cgroups::at(root.as_ref()))
    }

    fn find(&self, id: ProcessId) -> Option<Arc<Process>> {
        self.registry.read().by_id.get(&id).cloned()
    }

    /// Gives a name to a process; returns the one that had it.
    fn name(&self, process: &Arc<Process>) -> Option<Arc<Process>> {
        let older = self.registry.write().by_name.insert(process.name().to_owned(), Arc::clone(process));
        let older = older.filter(|older| older.id() != process.id())?;
        older.replaced.store(true, Ordering::Release);
        // Wakes the watchers, so that they leave before the new process can be mistaken for it.
        older.progress.send_modify(|_| {});
        Some(older)
    }

    fn remove(&self, process: &Process) {
        let mut registry = self.registry.write();
        registry.by_id.remove(&process.id());
        if registry.by_name.get(process.name()).is_some_and(|named| named.id() == process.id()) {
            registry.by_name.remove(process.name());
        }
    }
}

/// The processes of a house. Cheap to clone.
#[derive(Clone)]
pub struct Processes {
    house: Arc<House>,
}

impl Processes {
    /// The process that has this name.
    pub fn get(&self, name: &str) -> Option<Arc<Process>> {
        self.house.registry.read().by_name.get(name).cloned()
    }

    /// The process with this identity, whether or not it still has its name.
    pub fn by_id(&self, id: ProcessId) -> Option<Arc<Process>> {
        self.house.find(id)
    }

    /// All processes, oldest first.
    pub fn list(&self) -> Vec<Arc<Process>> {
        let mut list: Vec<_> =
            self.house.registry.read().by_id.values().filter(|process| process.pid() != 0).cloned().collect();
        list.sort_by_key(|process| (process.started_ns(), process.id()));
        list
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.house.registry.read().by_id.values().filter(|process| process.status().running).count()
    }

    /// What lives on after the process that started it has ended, with that process's name.
    pub async fn strays(&self) -> Vec<(Member, Option<String>)> {
        let running =
            self.list().iter().filter(|process| process.status().running).map(|process| process.id()).collect();
        let (tag, keeper) = (self.house.tag(), self.house.welcome.read().pid);
        let found = hostel_tasks::spawn_blocking(move || tree::find_strays(&tag, keeper, &running)).await;
        let name = |id| self.house.find(id).map(|process| process.name().to_owned());
        found.unwrap_or_default().into_iter().map(|stray| (stray.member, stray.started_by.and_then(name))).collect()
    }

    /// Resolves when a newer daemon has taken over this house. Leave at once and touch nothing.
    pub async fn superseded(&self) {
        let mut state = self.house.superseded.subscribe();
        drop(state.wait_for(|superseded| *superseded).await);
    }

    /// Waits until more than `seen` keepers have died, counts it, and says how many processes were
    /// lost with the last one.
    pub async fn keeper_died(&self, seen: &mut u64) -> usize {
        let mut lost = self.house.lost.subscribe();
        let told = lost.wait_for(|(count, _)| *count > *seen).await;
        let (count, processes) = told.map_or((*seen, 0), |lost| *lost);
        *seen = count;
        processes
    }

    /// Whose limits somebody has lowered since it was started, so that it looks like a hosted process: `daemon`, `keeper`.
    pub async fn lowered_limits(&self) -> Vec<&'static str> {
        let link = self.house.link();
        let keeper = server::is_inside(link.keeper()).await == Some(true);
        let daemon = server::this_process().is_err();
        [(daemon, "daemon"), (keeper, "keeper")]
            .into_iter()
            .filter_map(|(lowered, whose)| lowered.then_some(whose))
            .collect()
    }

    /// The keeper.
    pub fn keeper_status(&self) -> KeeperStatus {
        let welcome = self.house.welcome.read();
        KeeperStatus {
            pid: welcome.pid,
            build: welcome.build.clone(),
            proto: welcome.proto,
            features: welcome.features,
            since_ns: welcome.since_ns,
            children: self.running(),
            child_limit: welcome.child_limit,
            cgroup: welcome.cgroup.is_some(),
        }
    }

    /// The house key: made by the keeper, kept in memory only, the same for the keeper's whole life and over its
    /// upgrades. None if the keeper is older than this program or does not recognise this process as its daemon.
    pub fn house_key(&self) -> Option<Arc<HouseKey>> {
        self.house.key.borrow().clone()
    }

    /// The house key as it changes: another key, or none, means that the keeper that had the earlier one is dead.
    pub fn house_keys(&self) -> signal::Receiver<Option<Arc<HouseKey>>> {
        self.house.key.subscribe()
    }

    /// Starts that failed after the daemon that had asked for them was gone. Each is told once.
    pub fn take_failed_starts(&self) -> Vec<FailedStart> {
        std::mem::take(&mut self.house.failed_starts.lock())
    }

    /// Sets quotas; what is held because of them looks again at once.
    pub async fn set_limits(&self, total_quota: u64, process_quota: u64, floor: u64) {
        let limits = Limits { total_quota, process_quota, floor };
        drop(self.house.request(|corr, out| limits.encode(corr, out)).await);
    }

    /// Ends every process, with `grace` to do so by itself, and then the keeper. Returns how many
    /// processes could not be killed.
    pub async fn stop_keeper(&self, grace: Duration) -> Result<u32, String> {
        self.house.expecting_end.store(true, Ordering::Release);
        let answer = self.house.request(|corr, out| {
            Builder::new(out, kind::STOP, corr)
                .u32(tag::MODE, StopMode::Kill.to_wire())
                .u64(tag::GRACE_MS, grace.as_millis() as u64)
                .finish();
        });
        match answer.await {
            Ok(Answer::Done { count }) => Ok(count),
            Ok(other) => Err(format!("unexpected answer {other:?}")),
            Err(gone) => Err(gone.to_string()),
        }
    }

    /// Keeps the journals of these processes, whatever the rule of retention says.
    pub fn spare(&self, ids: impl IntoIterator<Item = ProcessId>) {
        self.house.spared.lock().extend(ids);
    }

    /// These are agents of sessions, also where a label of an older program does not say so.
    pub(crate) fn mark_agents(&self, ids: &[ProcessId]) {
        for process in ids.iter().filter_map(|id| self.house.find(*id)) {
            process.agent.store(true, Ordering::Release);
        }
    }

    /// Forgets a process that has ended, with its journal.
    pub async fn forget(&self, id: ProcessId) {
        self.house.spared.lock().remove(&id);
        garbage::forget_ended(&self.house, id).await;
    }

    /// Lets the keeper forget a process that has ended; its journal stays, and with it all there is to know.
    pub(crate) async fn release(&self, id: ProcessId) {
        garbage::release(&self.house, id).await;
    }

    /// Limits what a process and everything it starts may use, through its cgroup. `false` where it has none that can.
    pub fn limit_cgroup(&self, id: ProcessId, memory: Option<u64>, cpu_percent: Option<u32>) -> bool {
        self.house.cgroups().is_some_and(|cgroups| cgroups.limit(id, memory, cpu_percent))
    }

    /// Looks at the journal directory and at what of it may go. `stored` are processes of sessions that serve nobody any
    /// more, whose events are all stored elsewhere.
    ///
    /// # Errors
    /// The journal directory cannot be read.
    pub async fn survey(&self, stored: HashSet<ProcessId>) -> io::Result<Survey> {
        garbage::survey(&self.house, stored).await
    }

    /// Forgets these, with their journals, as long as they have ended and nobody reads them.
    pub async fn forget_all(&self, chosen: &[ProcessId]) -> Collected {
        garbage::forget_all(&self.house, chosen).await
    }

    /// Resolves when a process has begun to be held because there is no room.
    pub async fn room_is_needed(&self) {
        self.house.room_is_needed.notified().await;
    }

    /// Journals that may go by the retention rule.
    pub async fn collect_garbage(&self, retention: Retention, dry_run: bool) -> io::Result<Collected> {
        garbage::collect(&self.house, retention, dry_run).await
    }

    /// What the journals occupy.
    pub async fn usage(&self) -> io::Result<Usage> {
        garbage::usage(&self.house).await
    }
}

/// The default signal of a kill.
pub const DEFAULT_SIGNAL: Signal = Signal::TERM;
