//! One hosted process as the house sees it.
//!
//! Everything about it is learned from the keeper's notes and its journal, so a handle made after
//! a restart of the daemon is as good as the one made by the spawn. Reading its output is
//! [`Watch`](super::Watch)'s work.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use hostel_journal::{ProcessId, Reader};
use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{Builder, Held, Note, Scope, kind, tag};
use hostel_keeper::tree::{self, Marks, Relation, Tree};
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::sync::watch;

use super::label::Label;
use super::link::Gone;
use super::origin::Origin;
use super::{House, Watch, WatchError};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit status, -1 when a signal ended it or nobody knows.
    pub code: i32,
    /// The signal, 0 if none.
    pub signal: i32,
    /// Its keeper died: how it really ended is not known.
    pub lost: bool,
}

/// How far a process has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) committed: u64,
    pub(crate) next_seq: u64,
    pub(crate) held: Held,
    pub(crate) has_file: bool,
    pub(crate) exit: Option<Exit>,
}

impl Progress {
    pub(crate) const START: Self = Self { committed: 0, next_seq: 1, held: Held::No, has_file: false, exit: None };
}

/// A process at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Its last frame has not been written yet.
    pub running: bool,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Number of the oldest frame that is kept, 0 if none.
    pub first_seq: u64,
    /// Number of the newest frame, 0 if none.
    pub last_seq: u64,
    /// Input bytes accepted.
    pub stdin_applied: u64,
    /// Why it is held back, if it is.
    pub held: Option<HeldBecause>,
    /// Size of its journal.
    pub journal_bytes: u64,
}

/// Why a process is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBecause {
    /// A quota is used up.
    Quota,
    /// The disk is full, or nearly so.
    DiskFull,
    /// The disk reports errors.
    DiskError,
}

/// One hosted process.
pub struct Process {
    pub(crate) id: ProcessId,
    pub(crate) label: Label,
    pub(crate) command: Vec<u8>,
    pub(crate) house: Weak<House>,
    /// Process id and start time, once it has started.
    pub(crate) started: OnceLock<(u32, u64)>,
    /// An earlier daemon asked for it, and whether its exec works is not known yet.
    pub(crate) is_starting: AtomicBool,
    /// It is an agent of some session, where only the database says so because an older program wrote its label.
    pub(crate) agent: AtomicBool,
    pub(crate) applied: AtomicU64,
    /// Shown to the keeper with input, if the input is owned. Made by the spawn, or from the house key when first needed.
    pub(crate) owner: OnceLock<OwnerToken>,
    pub(crate) progress: watch::Sender<Progress>,
    /// Another process took its name.
    pub(crate) replaced: AtomicBool,
    reader: Mutex<Weak<Reader>>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("id", &self.id).field("name", &self.label.name).finish_non_exhaustive()
    }
}

impl Process {
    pub(crate) fn new(
        house: &Arc<House>,
        id: ProcessId,
        label: Label,
        command: Vec<u8>,
        progress: Progress,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            label,
            command,
            house: Arc::downgrade(house),
            started: OnceLock::new(),
            is_starting: AtomicBool::new(false),
            agent: AtomicBool::new(false),
            applied: AtomicU64::new(0),
            owner: OnceLock::new(),
            progress: watch::Sender::new(progress),
            replaced: AtomicBool::new(false),
            reader: Mutex::new(Weak::new()),
        })
    }

    /// Its identity in the keeper and on disk.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// The name it is known by in this house.
    pub fn name(&self) -> &str {
        &self.label.name
    }

    /// The door it came in by.
    pub fn door(&self) -> &str {
        &self.label.door
    }

    /// The session whose agent it is.
    pub fn session(&self) -> Option<&str> {
        self.label.session.as_deref()
    }

    /// Whether its standard input belongs to the house itself: it is an agent, which is answered through it, or a stage
    /// of an approved pipeline, which runs as it was shown.
    pub fn is_input_owned(&self) -> bool {
        self.label.owned_input || self.agent.load(Ordering::Acquire)
    }

    /// The session or hosted command that asked for it, where a process inside the house did.
    pub fn asked_by(&self) -> Option<&Origin> {
        self.label.asked_by.as_ref()
    }

    /// Its process id; 0 while it is being started.
    pub fn pid(&self) -> u32 {
        self.started.get().map_or(0, |(pid, _)| *pid)
    }

    /// When it was started, nanoseconds of wall clock; the same for all its life.
    pub fn started_ns(&self) -> u64 {
        self.started.get().map_or(0, |(_, start_ns)| *start_ns)
    }

    /// Its command line while its keeper lives, its program afterwards.
    pub fn command(&self) -> &[u8] {
        if self.command.is_empty() { self.label.program.as_bytes() } else { &self.command }
    }

    /// Whether its standard input belongs to the house, so that [`Process::stdin`] is refused.
    pub fn has_owned_input(&self) -> bool {
        self.label.owned_input
    }

    /// Whether another process has taken its name.
    pub fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Acquire)
    }

    /// Its last frame has not been written yet. Cheaper than its whole status.
    pub(crate) fn is_running(&self) -> bool {
        self.progress.borrow().exit.is_none()
    }

    /// Input bytes accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// The process as it is now.
    pub fn status(&self) -> Status {
        let progress = *self.progress.borrow();
        let last_seq = progress.next_seq.saturating_sub(1);
        Status {
            running: progress.exit.is_none(),
            exit: progress.exit,
            first_seq: self.first_seq(&progress, last_seq),
            last_seq,
            stdin_applied: self.applied.load(Ordering::Relaxed),
            held: held_because(progress.held),
            journal_bytes: progress.committed,
        }
    }

    /// Waits until the process is held for another reason than this, or goes on.
    pub async fn held_otherwise_than(&self, known: Option<HeldBecause>) -> Option<HeldBecause> {
        let mut progress = self.progress.subscribe();
        let changed = progress.wait_for(|progress| held_because(progress.held) != known).await;
        changed.map_or(None, |progress| held_because(progress.held))
    }

    fn first_seq(&self, progress: &Progress, last_seq: u64) -> u64 {
        let may_drop = self.house.upgrade().is_some_and(|house| house.drops_oldest());
        if may_drop && progress.has_file && last_seq > 0 {
            return self.reader().and_then(|reader| reader.first_seq(progress.committed)).unwrap_or(1);
        }
        last_seq.min(1)
    }

    /// The journal, shared by everybody who reads it.
    pub(crate) fn reader(&self) -> io::Result<Arc<Reader>> {
        let mut shared = self.reader.lock();
        if let Some(reader) = shared.upgrade() {
            return Ok(reader);
        }
        let house = self.house.upgrade().ok_or_else(|| io::Error::other("the house is closed"))?;
        let reader = Arc::new(Reader::open(house.journal_dir(), self.id)?);
        *shared = Arc::downgrade(&reader);
        Ok(reader)
    }

    /// Bytes of each stream in its journal, from a look at the end of it. May wait for the disk.
    pub(crate) fn printed(&self) -> Result<hostel_journal::Totals, WatchError> {
        let progress = *self.progress.borrow();
        match progress.has_file {
            true => Ok(self.reader()?.totals(progress.committed)?),
            false => Ok(hostel_journal::Totals::default()),
        }
    }

    /// Somebody holds a cursor into its journal.
    pub(crate) fn is_read(&self) -> bool {
        self.reader.lock().strong_count() > 0 || self.progress.receiver_count() > 0
    }

    /// Takes a note of the keeper. Notes of two connections may cross: only progress counts.
    pub(crate) fn apply(&self, note: &Note) {
        let mut is_newly_held = false;
        self.progress.send_if_modified(|progress| {
            let exit = note.exit.map(|exit| Exit { code: exit.code, signal: exit.signal, lost: false });
            let next = Progress {
                committed: progress.committed.max(note.committed),
                next_seq: progress.next_seq.max(note.next_seq),
                held: note.held,
                has_file: progress.has_file || note.has_file,
                exit: progress.exit.or(exit),
            };
            let changed = next != *progress;
            is_newly_held = next.held != Held::No && progress.held == Held::No;
            *progress = next;
            changed
        });
        if is_newly_held && let Some(house) = self.house.upgrade() {
            house.room_is_needed.notify_one();
        }
    }

    pub(super) fn house(&self) -> Result<Arc<House>, Gone> {
        self.house.upgrade().ok_or(Gone::Unsent)
    }

    /// Signals its process group and every descendant that left it. Best effort: a process that
    /// has ended is left alone.
    pub async fn kill(&self, signal: Signal) {
        if self.progress.borrow().exit.is_some() {
            return;
        }
        // Those that left are looked for first: once their parents are gone, the trail is cold.
        let escaped: Vec<_> =
            self.tree().await.members.into_iter().filter(|member| member.relation == Relation::Escaped).collect();
        self.signal_group(signal).await;
        for member in escaped {
            // Another user's process (sudo) cannot be reached; `ps --tree` shows that it stayed.
            tree::signal(&member, signal).ok();
        }
    }

    /// Signals its process group alone.
    pub async fn signal_group(&self, signal: Signal) {
        let Ok(house) = self.house() else { return };
        let answer = house.request(|corr, out| {
            Builder::new(out, kind::SIGNAL, corr)
                .bytes(tag::ID, &self.id.0)
                .i32(tag::SIGNO, signal.as_raw())
                .u32(tag::SCOPE, Scope::Group.to_wire())
                .finish();
        });
        drop(answer.await);
    }

    /// Kills everything it started, until nothing of it is found.
    pub async fn kill_tree(&self) -> Vec<tree::Member> {
        self.signal_group(Signal::KILL).await;
        let Some(scan) = self.scanner() else { return Vec::new() };
        let (id, cgroups) = (self.id, self.house.upgrade().and_then(|house| house.cgroups()));
        let killing = move || {
            // Reaches even another user's processes, which a signal may not.
            if let Some(cgroups) = cgroups {
                cgroups.kill(id);
            }
            tree::kill_all(|| scan().members)
        };
        hostel_tasks::spawn_blocking(killing).await.unwrap_or_default()
    }

    /// What it has started and waits for, directly or not; what has lost its parent is left alone by everybody.
    pub(crate) async fn offspring(&self) -> Vec<tree::Member> {
        let members = self.tree().await.members;
        let parents: HashSet<u32> = members.iter().map(|member| member.pid).collect();
        members.into_iter().filter(|member| parents.contains(&member.parent)).collect()
    }

    /// Kills those of its earlier offspring that have lost their parent since, and with them theirs.
    pub(crate) async fn kill_orphans(&self, offspring: Arc<[tree::Member]>) {
        let Some(scan) = self.scanner() else { return };
        let orphans = move || {
            let members = scan().members;
            let parents: HashSet<u32> = members.iter().map(|member| member.pid).collect();
            let was_there = |member: &tree::Member| {
                offspring.iter().any(|known| (known.pid, known.start_ticks) == (member.pid, member.start_ticks))
            };
            members.into_iter().filter(|member| !parents.contains(&member.parent) && was_there(member)).collect()
        };
        drop(hostel_tasks::spawn_blocking(move || tree::kill_all(orphans)).await);
    }

    /// Waits until its last frame is written.
    pub async fn wait_exit(&self, limit: Duration) -> Option<Exit> {
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.exit.is_some());
        tokio::time::timeout(limit, ended).await.ok()?.ok()?.exit
    }

    /// Everything it started that still lives.
    pub async fn tree(&self) -> Tree {
        let Some(scan) = self.scanner() else { return Tree { members: Vec::new(), partial: true } };
        hostel_tasks::spawn_blocking(scan).await.unwrap_or(Tree { members: Vec::new(), partial: true })
    }

    fn scanner(&self) -> Option<impl Fn() -> Tree + Send + 'static> {
        let house = self.house.upgrade()?;
        let marks = Marks::of(&house.tag(), self.id);
        let (pid, alive, id) = (self.pid(), self.progress.borrow().exit.is_none(), self.id);
        let (cgroups, keeper) = (house.cgroups(), house.welcome.read().pid);
        let has_file = self.progress.borrow().has_file;
        // Until then its number may become somebody else's at any moment.
        let alive = alive && !self.is_starting.load(Ordering::Acquire);
        Some(move || {
            let extra = cgroups.as_ref().map(|cgroups| cgroups.members(id)).unwrap_or_default();
            // A number that was given to somebody else since leads nobody's tree.
            let is_same = || started_at(&house, id).is_none_or(|ticks| tree::start_ticks(pid) == Some(ticks));
            let leads = alive && (!has_file || is_same());
            tree::find(&marks, pid, leads, keeper, &extra)
        })
    }

    /// A cursor that begins after the frame `after_seq`.
    pub fn watch(self: &Arc<Self>, after_seq: u64) -> Result<Watch, WatchError> {
        Ok(Watch::new(Arc::clone(self), after_seq))
    }
}

/// When the process of a journal was started, in the kernel's ticks. May wait for the disk; none if it is not known.
fn started_at(house: &House, id: ProcessId) -> Option<u64> {
    let meta = Reader::open(house.journal_dir(), id).and_then(|reader| reader.meta()).ok()?;
    (meta.start_ticks != 0).then_some(meta.start_ticks)
}

fn held_because(held: Held) -> Option<HeldBecause> {
    match held {
        Held::No => None,
        Held::Quota => Some(HeldBecause::Quota),
        Held::Disk => Some(HeldBecause::DiskFull),
        Held::Error => Some(HeldBecause::DiskError),
    }
}
