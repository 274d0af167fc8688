//! Meeting the keeper: at start, after its upgrade, and after its death.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hostel_journal::ProcessId;
use hostel_keeper::proto::{Builder, Held, Limits, Note, Phase, State, feature, kind, tag};
use hostel_peer::server::{self, ServerError};
use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags};
use tokio::sync::watch as signal;

use super::greeting::{Greeting, KeeperPlace, Meeting};
use super::history::ended_progress;
use super::label::Label;
use super::link::{Answer, Caller, Gone, Link, LinkEnd};
use super::process::{Process, Progress};
use super::spawning::NotStarted;
use super::stage::question_about;
use super::{
    ConnectError, FailedStart, House, HouseKey, KeeperOptions, LOST, MAX_FAILED_STARTS, Processes, Registry,
    UpgradeError, launch,
};

/// Attempts to reach a keeper that is just starting or replacing itself.
const ATTEMPTS: u32 = 60;
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_WAIT_FOR_KEEPER: Duration = Duration::from_secs(5);
/// How long an upgraded keeper may take to let go of the old connection.
const UPGRADE_LIMIT: Duration = Duration::from_secs(15);
const BUILD: &str = env!("CARGO_PKG_VERSION");

impl Processes {
    /// Finds the keeper of a house or starts one, takes over from an older daemon, and learns of
    /// every process there is.
    pub async fn connect(options: KeeperOptions) -> Result<Self, ConnectError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let journal = rustix::fs::open(&options.journal_dir, flags, Mode::empty())
            .map_err(|errno| ConnectError::Journal(errno.into()))?;
        let caller = Caller { build: BUILD, started: since_boot_ns() };
        let notes = NoteTaker::early();
        let (link, greeting) = reach(&options, caller, Meeting::First, &notes).await?;
        let stat = rustix::fs::fstat(&journal).map_err(|errno| ConnectError::Journal(errno.into()))?;
        if greeting.welcome.journal != (stat.st_dev, stat.st_ino) {
            return Err(ConnectError::OtherJournal);
        }
        let house = Arc::new(House {
            options,
            caller,
            journal,
            link: RwLock::new(link),
            welcome: RwLock::new(greeting.welcome.clone()),
            registry: RwLock::new(Registry::default()),
            naming: Mutex::new(()),
            superseded: signal::Sender::new(false),
            relinked: signal::Sender::new(0),
            lost: signal::Sender::new((0, 0)),
            expecting_end: false.into(),
            key: signal::Sender::new(greeting.key.map(Arc::new)),
            spared: Mutex::default(),
            unreadable: Mutex::default(),
            unwanted: Mutex::default(),
            failed_starts: Mutex::default(),
            room_is_needed: tokio::sync::Notify::new(),
        });
        let processes = Self { house };
        processes.learn(&greeting.states);
        processes.learn_history().await;
        processes.settle_names();
        notes.open(&processes.house);
        processes.send_limits().await;
        hostel_tasks::spawn(supervise(processes.clone()));
        Ok(processes)
    }

    async fn send_limits(&self) {
        let options = &self.house.options;
        let limits =
            Limits { total_quota: options.total_quota, process_quota: options.process_quota, floor: options.floor };
        drop(self.house.request(|corr, out| limits.encode(corr, out)).await);
    }

    /// Takes up what the keeper says of its processes.
    fn learn(&self, states: &[State]) {
        for state in states {
            let known = self.house.find(state.id);
            let process = known.unwrap_or_else(|| {
                let label = Label::decode(&state.label, &state.id.to_string());
                let process = Process::new(&self.house, state.id, label, state.command.clone(), Progress::START);
                self.house.registry.write().by_id.insert(state.id, Arc::clone(&process));
                process
            });
            if self.house.unwanted.lock().remove(&state.id) {
                self.end_unwanted(&process);
            }
            process.started.get_or_init(|| (state.pid, state.start_ns));
            if state.phase == Phase::Starting && self.knows_pipelines() {
                self.await_start(&process);
            }
            process.applied.fetch_max(state.applied, Ordering::Relaxed);
            process.apply(&state.note);
        }
    }

    /// Waits for the exec of a process that an earlier daemon, or an earlier link, asked for. If it fails the process never
    /// was one, and its number belongs to nobody.
    fn await_start(&self, process: &Arc<Process>) {
        process.is_starting.store(true, Ordering::Release);
        let (processes, process) = (self.clone(), Arc::clone(process));
        hostel_tasks::spawn(async move {
            match processes.ask_for(&process, &question_about(process.id()), &[]).await {
                Err(NotStarted::Failed { stage, errno, .. }) => {
                    let reason = match errno {
                        0 => format!("{stage:?}"),
                        errno => io::Error::from_raw_os_error(errno).to_string(),
                    };
                    processes.never_started(&process, reason);
                }
                Ok(()) => process.is_starting.store(false, Ordering::Release),
                // The next greeting names it again, or does not.
                Err(_) => {}
            }
        });
    }

    /// A process that never was one: whoever waits for it hears that it is over, and it is known no more.
    fn never_started(&self, process: &Arc<Process>, reason: String) {
        process.progress.send_modify(|progress| {
            *progress = Progress { next_seq: progress.next_seq + 1, exit: Some(LOST), held: Held::No, ..*progress };
        });
        self.house.remove(process);
        let mut failed = self.house.failed_starts.lock();
        if failed.len() < MAX_FAILED_STARTS {
            failed.push(FailedStart { name: process.name().to_owned(), reason });
        }
    }

    /// Ends a process whose caller was told that it could not be started.
    fn end_unwanted(&self, process: &Arc<Process>) {
        let process = Arc::clone(process);
        hostel_tasks::spawn(async move { drop(process.kill_tree().await) });
    }

    /// The youngest process of a name has it; an older one that still runs was being replaced when
    /// the daemon died.
    fn settle_names(&self) {
        for process in self.list() {
            if let Some(older) = self.house.name(&process).filter(|older| older.status().running) {
                hostel_tasks::spawn(async move { older.kill_tree().await });
            }
        }
    }

    /// Replaces the keeper's program in place by the one behind a descriptor; its children do not notice.
    ///
    /// Runs to its end even if the caller stops waiting.
    pub async fn upgrade_keeper(&self, program: Arc<OwnedFd>) -> Result<(), UpgradeError> {
        let processes = self.clone();
        let upgrade = hostel_tasks::spawn(async move {
            processes.house.expecting_end.store(true, Ordering::Release);
            let outcome = processes.upgrade_now(program).await;
            processes.house.expecting_end.store(false, Ordering::Release);
            // Whatever happened, whoever watches over the link looks at it again.
            processes.house.relinked.send_modify(|count| *count += 1);
            outcome
        });
        upgrade.await.map_err(|error| UpgradeError::Lost(error.to_string()))?
    }

    async fn upgrade_now(&self, program: Arc<OwnedFd>) -> Result<(), UpgradeError> {
        let link = self.house.link();
        let before = self.house.welcome.read().clone();
        let asked = if before.features & feature::UPGRADE_BY_DESCRIPTOR != 0 {
            let request = |corr, out: &mut Vec<u8>| {
                Builder::new(out, kind::UPGRADE, corr).u32(tag::DESCRIPTORS, 1).finish();
            };
            link.request_alone(&[program], request).await
        } else {
            // An older keeper opens the program by itself.
            let path = path_of(&program).map_err(|error| UpgradeError::Refused(error.to_string()))?;
            let path = path.as_os_str().as_encoded_bytes();
            let request =
                |corr, out: &mut Vec<u8>| Builder::new(out, kind::UPGRADE, corr).bytes(tag::PATH, path).finish();
            link.request_alone(&[], request).await
        };
        match asked {
            Ok((Answer::Done { .. }, _quiet)) => {
                // Nothing was in flight and nothing was sent since: the new image gets it all.
                drop(tokio::time::timeout(UPGRADE_LIMIT, link.ended()).await);
                self.meet_again().await.map_err(|error| UpgradeError::Lost(error.to_string()))?;
                let after = self.house.welcome.read().clone();
                if after.keeper_id != before.keeper_id {
                    return Err(UpgradeError::Lost("another keeper had to be started".to_owned()));
                }
                if after.image_ns == before.image_ns {
                    return Err(UpgradeError::Refused("the new program could not be executed".to_owned()));
                }
                Ok(())
            }
            Ok((Answer::Refused(text), _)) => Err(UpgradeError::Refused(text)),
            Ok((other, _)) => Err(UpgradeError::Refused(format!("unexpected answer {other:?}"))),
            Err(busy @ (Gone::Busy | Gone::Starting)) => Err(UpgradeError::Refused(busy.to_string())),
            Err(gone) => Err(UpgradeError::Lost(gone.to_string())),
        }
    }

    /// Opens a new link. The same keeper, whatever image of it, knows everything it knew before; of
    /// another one's silence about a process follows that the process is lost.
    async fn meet_again(&self) -> Result<(), ConnectError> {
        let notes = NoteTaker::early();
        let (link, greeting) =
            reach(&self.house.options, self.house.caller, Meeting::Again, &notes).await.inspect_err(|error| {
                if matches!(error, ConnectError::Superseded) {
                    self.house.superseded.send_replace(true);
                }
            })?;
        let before = std::mem::replace(&mut *self.house.welcome.write(), greeting.welcome.clone());
        let older = std::mem::replace(&mut *self.house.link.write(), link);
        self.take_key(greeting.key);
        self.learn(&greeting.states);
        notes.open(&self.house);
        let kept: HashSet<ProcessId> = greeting.states.iter().map(|state| state.id).collect();
        if before.keeper_id != greeting.welcome.keeper_id {
            let lost = self.declare_lost(&kept).await;
            self.house.lost.send_modify(|(count, processes)| (*count, *processes) = (*count + 1, lost));
        } else {
            // The same keeper knows what runs: what it does not name is over, or never began.
            self.declare_lost(&kept).await;
        }
        // Those who waited for a permit of the old link go on with the new one.
        older.retire();
        self.house.relinked.send_modify(|count| *count += 1);
        self.send_limits().await;
        Ok(())
    }

    /// Takes the key of the keeper that was just met. After an upgrade it is the same one, and nobody is told.
    fn take_key(&self, key: Option<HouseKey>) {
        self.house.key.send_if_modified(|present| {
            let changed = present.as_ref().map(|key| key.id()) != key.as_ref().map(HouseKey::id);
            if changed {
                *present = key.map(Arc::new);
            }
            changed
        });
    }

    /// No keeper holds them any more. If theirs is dead, the new one has killed what was left of their trees and
    /// closed their journals before it answered. Returns how many there were.
    async fn declare_lost(&self, kept: &HashSet<ProcessId>) -> usize {
        let ran = self.list().into_iter().filter(|process| process.status().running && !kept.contains(&process.id()));
        let ran: Vec<_> = ran.collect();
        let count = ran.len();
        for process in ran {
            let house = Arc::clone(&self.house);
            let id = process.id();
            let inspected = hostel_tasks::spawn_blocking(move || hostel_journal::inspect(house.journal_dir(), id));
            let recovered = inspected.await.map_err(io::Error::other).and_then(|result| result).ok();
            process.progress.send_modify(|progress| {
                *progress = match &recovered {
                    Some(recovered) => ended_progress(recovered),
                    None => Progress { next_seq: progress.next_seq + 1, exit: Some(LOST), held: Held::No, ..*progress },
                };
            });
        }
        count
    }
}

/// Where the file behind a descriptor is, as long as it is still there.
fn path_of(file: &OwnedFd) -> io::Result<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if path.is_file() {
        return Ok(path);
    }
    let text = format!("the program file `{}` was removed; restart the daemon", path.display());
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

fn since_boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Opens a link, starting a keeper where none answers.
async fn reach(
    options: &KeeperOptions,
    caller: Caller,
    meeting: Meeting,
    notes: &NoteTaker,
) -> Result<(Arc<Link>, Greeting), ConnectError> {
    let socket: PathBuf = launch::socket(&options.run_dir);
    let place = KeeperPlace { socket: &socket, program: &options.program };
    let mut pause = FIRST_PAUSE;
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for attempt in 0..ATTEMPTS {
        let taker = notes.clone();
        match Link::open(place, caller, meeting, move |note| taker.take(note)).await {
            Ok(opened) => return Ok(opened),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(ConnectError::Superseded),
            Err(error) => match error.downcast::<ServerError>() {
                // Its keeper may be just replacing itself, or ending.
                Ok(unknown @ (ServerError::Unknown { .. } | ServerError::Ended)) => last = io::Error::other(unknown),
                Ok(found) => return Err(ConnectError::NotTheKeeper { socket, found }),
                Err(error) => last = error,
            },
        }
        let nobody = matches!(last.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
        if nobody {
            // What this process starts has its limits, and a keeper with those of a hosted process would be refused.
            server::this_process().map_err(|found| ConnectError::NotTheKeeper { socket: socket.clone(), found })?;
            let options = options.clone();
            let started = hostel_tasks::spawn_blocking(move || launch::start(&options)).await;
            started
                .map_err(|error| ConnectError::Start(io::Error::other(error)))
                .and_then(|result| result.map_err(ConnectError::Start))?;
        }
        // A keeper that was just started answers at once; one that is leaving needs a moment.
        if attempt > 0 || !nobody {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
    Err(ConnectError::Reach(last))
}

/// Receives notes. Those that come before the house knows its processes wait, the newest of each:
/// the greeting may be older than they are.
#[derive(Clone)]
struct NoteTaker(Arc<Mutex<Notes>>);

enum Notes {
    Early(HashMap<ProcessId, Note>),
    Open(Weak<House>),
}

impl NoteTaker {
    fn early() -> Self {
        Self(Arc::new(Mutex::new(Notes::Early(HashMap::new()))))
    }

    fn take(&self, note: Note) {
        let house = match &mut *self.0.lock() {
            Notes::Early(waiting) => {
                waiting.insert(note.id, note);
                return;
            }
            Notes::Open(house) => house.upgrade(),
        };
        if let Some(process) = house.and_then(|house| house.find(note.id)) {
            process.apply(&note);
        }
    }

    fn open(&self, house: &Arc<House>) {
        let mut notes = self.0.lock();
        if let Notes::Early(waiting) = std::mem::replace(&mut *notes, Notes::Open(Arc::downgrade(house))) {
            for note in waiting.values() {
                if let Some(process) = house.find(note.id) {
                    process.apply(note);
                }
            }
        }
    }
}

/// Watches over the link for as long as the house stands, and does what its end asks for.
async fn supervise(processes: Processes) {
    let mut relinked = processes.house.relinked.subscribe();
    let mut pause = FIRST_PAUSE;
    loop {
        relinked.mark_unchanged();
        let link = processes.house.link();
        let end = link.ended().await;
        if end == LinkEnd::Superseded {
            processes.house.superseded.send_replace(true);
            return;
        }
        // Whoever ended it on purpose opens the next one, or leaves with the keeper.
        let on_purpose =
            processes.house.expecting_end.load(Ordering::Acquire) || !Arc::ptr_eq(&link, &processes.house.link());
        if on_purpose {
            if relinked.changed().await.is_err() {
                return;
            }
            continue;
        }
        match processes.meet_again().await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(ConnectError::Superseded) => return,
            // No keeper can be had now; the doors say so, and this goes on trying.
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_WAIT_FOR_KEEPER);
            }
        }
    }
}
