//! Becoming the keeper: from the sub-command to the two running threads.
//!
//! A new keeper detaches completely (own session, no inherited descriptors or environment), takes
//! the lock that says a keeper is alive, repairs what an earlier one left behind, and only then
//! opens its socket. The process that started it hears of success or failure, never of a maybe.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

use crate::cgroup::Cgroups;
use crate::channel::Channel;
use crate::child_table::ChildTable;
use crate::control::{self, Control, Identity, Parts};
use crate::key::HouseKey;
use crate::proto::Limits;
use crate::pump::{Notes, ParkedChild, Pressure, Pump, Setting, now_ns};
use crate::recognition::Recognition;
use crate::state::{Command, Event, NewChild};
use crate::sys::{self, Forked};
use crate::upgrade::{self, Resumed};
use crate::{LOCK_NAME, OUTSIDE_LIMIT_OPTION, SOCKET_NAME, TAG_NAME, marks, tree};

/// Stack of the pump's thread.
const PUMP_STACK_BYTES: usize = 256 * 1024;

/// Where a keeper works, as its starter says it.
struct Place {
    run_dir: PathBuf,
    journal_dir: PathBuf,
    cgroup_root: Option<PathBuf>,
    outside_limit: u64,
}

/// What the sub-command was asked to do.
enum Task {
    /// Become a keeper of this run directory and this journal directory.
    Start(Place),
    /// Read a state from standard input and say by the exit code whether it was understood.
    CheckState,
    /// Go on where an earlier image of this program stopped.
    Resume(i32),
}

fn parse(args: impl Iterator<Item = OsString>) -> Option<Task> {
    let mut run_dir = None;
    let mut journal_dir = None;
    let mut cgroup_root = None;
    let mut outside_limit = marks::OUTSIDE;
    let mut args = args.peekable();
    while let Some(word) = args.next() {
        match word.to_str()? {
            "--check-state" => return Some(Task::CheckState),
            "--resume-state" => return Some(Task::Resume(args.next()?.to_str()?.parse().ok()?)),
            "--run-dir" => run_dir = args.next().map(PathBuf::from),
            "--journal-dir" => journal_dir = args.next().map(PathBuf::from),
            "--cgroup-root" => cgroup_root = args.next().map(PathBuf::from),
            OUTSIDE_LIMIT_OPTION => outside_limit = args.next()?.to_str()?.parse().ok()?,
            _ => return None,
        }
    }
    Some(Task::Start(Place { run_dir: run_dir?, journal_dir: journal_dir?, cgroup_root, outside_limit }))
}

/// The sub-command's whole life.
pub fn process_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match parse(args) {
        Some(Task::Start(place)) => start(place),
        Some(Task::CheckState) => {
            let input = io::stdin().as_fd().try_clone_to_owned();
            let checked = input.and_then(|fd| upgrade::proof_of_reading(File::from(fd)));
            let checked = checked.and_then(|proof| rehearse().map(|()| proof));
            match checked.and_then(|proof| io::stdout().write_all(proof.as_bytes())) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Some(Task::Resume(state)) => {
            // First of all: until then others of the same user may look into this process.
            harden();
            let resumed =
                sys::adopt(state).map_err(|error| error.to_string()).and_then(|fd| upgrade::read_state(File::from(fd)));
            match resumed.and_then(|resumed| resume(resumed).map_err(|error| error.to_string())) {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        None => {
            say("this sub-command is started by the daemon, not by hand; see `hostel keeper --help`");
            ExitCode::from(2)
        }
    }
}

fn say(text: &str) {
    drop(writeln!(io::stderr(), "hostel keeper: {text}"));
}

fn start(place: Place) -> ExitCode {
    crate::memory::stay_small();
    sys::close_from(3);
    let recognition = Recognition::at_start();
    let (mut reader, writer) = match io::pipe() {
        Ok(pipe) => pipe,
        Err(error) => {
            say(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    match sys::fork_self() {
        Ok(Forked::Parent) => {
            drop(writer);
            let mut word = String::new();
            drop(reader.read_to_string(&mut word));
            match word.as_str() {
                "ready" => ExitCode::SUCCESS,
                "" => {
                    say("it ended before it was ready");
                    ExitCode::FAILURE
                }
                other => {
                    say(other);
                    ExitCode::FAILURE
                }
            }
        }
        Ok(Forked::Child) => {
            drop(reader);
            match become_keeper(place, recognition, OwnedFd::from(writer)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(()) => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn become_keeper(place: Place, recognition: Recognition, ready: OwnedFd) -> Result<(), ()> {
    let mut ready = File::from(ready);
    match prepare(place, recognition) {
        Ok((control, setting)) => {
            let pump = start_pump(
                &setting,
                &control.commands,
                &control.events,
                Limits { total_quota: 0, process_quota: 0, floor: 0 },
                Vec::new(),
                None,
            );
            if let Err(error) = pump {
                drop(ready.write_all(error.to_string().as_bytes()));
                return Err(());
            }
            drop(ready.write_all(b"ready"));
            drop(ready);
            control.run();
            Ok(())
        }
        Err(error) => {
            drop(ready.write_all(error.to_string().as_bytes()));
            Err(())
        }
    }
}

fn context<T>(what: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{what}: {error}")))
}

fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// What holds for every image of the program, also after an upgrade.
fn harden() {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok();
    sys::ignore_file_size_signal();
    rustix::thread::set_name(c"hostel-keeper").ok();
    let limit = rustix::process::getrlimit(Resource::Nofile);
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).ok();
}

fn random() -> io::Result<[u8; 16]> {
    hostel_journal::ProcessId::random().map(|id| id.0)
}

/// The house's tag: made once, then the same for every keeper of this run directory.
fn house_tag(run_dir: &Path) -> io::Result<String> {
    let path = run_dir.join(TAG_NAME);
    if let Ok(text) = fs::read_to_string(&path)
        && text.trim().len() == 16
        && text.trim().bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        return Ok(text.trim().to_owned());
    }
    let tag: String = random()?[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?.write_all(tag.as_bytes())?;
    Ok(tag)
}

fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let hex: Vec<u8> = text.bytes().filter_map(|byte| (byte as char).to_digit(16)).map(|digit| digit as u8).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    id
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn prepare(place: Place, recognition: Recognition) -> io::Result<(Control, Arc<Setting>)> {
    let Place { run_dir, journal_dir, cgroup_root, outside_limit } = place;
    detach()?;
    harden();
    let lock = OwnedFd::from(context(
        "cannot open the lock",
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(run_dir.join(LOCK_NAME)),
    )?);
    context(
        "another keeper is alive",
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from),
    )?;
    let identity = Identity {
        keeper_id: random()?,
        since_ns: now_ns(),
        house_tag: context("cannot make the house's tag", house_tag(&run_dir))?,
        run_dir,
        journal_dir,
        cgroup_root,
        outside_limit,
    };
    let setting = context("cannot open the journal directory", open_setting(&identity))?;
    tell_backups(&identity.journal_dir);
    repair(&identity, &setting);
    let socket = identity.run_dir.join(SOCKET_NAME);
    // The lock is ours: whatever is there was left by a keeper that is no more.
    drop(fs::remove_file(&socket));
    let listener = context("cannot open the socket", control::bind(&socket))?;
    let memory = Memory {
        children: ChildTable::default(),
        controller_started: 0,
        recognition,
        house_key: HouseKey::random()?,
        anchor: None,
    };
    let control = assemble(identity, &setting, lock, listener, memory)?;
    Ok((control, setting))
}

/// Marks the journals as a cache for programs that make backups.
fn tell_backups(journal_dir: &Path) {
    let path = journal_dir.join("CACHEDIR.TAG");
    if !path.exists() {
        fs::write(path, "Signature: 8a477f597d28d172789f06886806bc55\n# Journals of hosted processes.\n").ok();
    }
}

fn open_setting(identity: &Identity) -> io::Result<Arc<Setting>> {
    Ok(Arc::new(Setting {
        journal: open_directory(&identity.journal_dir)?,
        keeper_id: identity.keeper_id,
        boot_id: boot_id(),
    }))
}

/// Ends what an earlier keeper's death left running, and closes the journals it left open.
fn repair(identity: &Identity, setting: &Setting) {
    tree::kill_all(|| tree::find_house(&identity.house_tag));
    let Ok(files) = hostel_journal::scan(setting.journal.as_fd()) else { return };
    for file in files {
        // A file that cannot be repaired stays as it is; reading it says what is wrong.
        drop(hostel_journal::recover(setting.journal.as_fd(), file.id, &identity.keeper_id, now_ns()));
    }
}

/// What only the keeper's memory holds, and an upgrade passes on.
struct Memory {
    children: ChildTable,
    controller_started: u64,
    recognition: Recognition,
    house_key: HouseKey,
    anchor: Option<Vec<u8>>,
}

fn assemble(
    identity: Identity,
    setting: &Arc<Setting>,
    lock: OwnedFd,
    listener: OwnedFd,
    memory: Memory,
) -> io::Result<Control> {
    let stat = rustix::fs::fstat(&setting.journal)?;
    let cgroups = Cgroups::probe(identity.cgroup_root.as_deref(), &identity.house_tag);
    Control::new(Parts {
        identity,
        journal: (stat.st_dev, stat.st_ino),
        setting: Arc::clone(setting),
        lock,
        listener,
        commands: Arc::new(Channel::new()?),
        events: Arc::new(Channel::new()?),
        children: memory.children,
        cgroups,
        controller_started: memory.controller_started,
        recognition: memory.recognition,
        house_key: memory.house_key,
        anchor: memory.anchor,
    })
}

/// Does once what [`resume`] does after the exec, when an error would end the keeper and every child: the old image asks
/// for it while it can still refuse.
fn rehearse() -> io::Result<()> {
    let (commands, events) = (Channel::<Command>::new()?, Channel::<Event>::new()?);
    let signals = sys::signal_descriptor()?;
    let readable = epoll::EventFlags::IN;
    for bell in [commands.bell(), events.bell()] {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, bell, epoll::EventData::new_u64(0), readable)?;
        epoll::add(&set, &signals, epoll::EventData::new_u64(1), readable)?;
    }
    random()?;
    let thread = std::thread::Builder::new().stack_size(PUMP_STACK_BYTES).spawn(|| ())?;
    thread.join().map_err(|_| io::Error::other("a thread cannot be started"))
}

fn resume(resumed: Resumed) -> io::Result<()> {
    let house_key = upgrade::take_key(resumed.secrets.map(sys::adopt).transpose()?)?;
    let mut recognition = resumed.recognition;
    recognition.take_own_program();
    let lock = sys::adopt(resumed.lock)?;
    let listener = sys::adopt(resumed.listener)?;
    let journal = sys::adopt(resumed.journal)?;
    let setting = Arc::new(Setting { journal, keeper_id: resumed.identity.keeper_id, boot_id: boot_id() });
    let mut table = ChildTable::default();
    let mut pairs = Vec::new();
    for child in resumed.children {
        let (slot, parked) = child.adopt()?;
        // A daemon may greet us before the pump has taken it up.
        slot.progress.publish(&parked.note(slot.id));
        pairs.push(upgrade::reunite(&slot, parked));
        table.insert(slot);
    }
    let memory = Memory {
        children: table,
        controller_started: resumed.controller_started,
        recognition,
        house_key,
        anchor: resumed.anchor,
    };
    let control = assemble(resumed.identity, &setting, lock, listener, memory)?;
    start_pump(&setting, &control.commands, &control.events, resumed.limits, pairs, None)?;
    control.run();
    Ok(())
}

/// A keeper without its pump would look alive and move nothing. That cannot be mended; ending lets
/// the next keeper say so of every process.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Starts the pump's thread with the children it takes up.
pub(crate) fn start_pump(
    setting: &Arc<Setting>,
    commands: &Arc<Channel<Command>>,
    events: &Arc<Channel<Event>>,
    limits: Limits,
    children: Vec<(NewChild, ParkedChild)>,
    notes: Option<Notes>,
) -> io::Result<()> {
    let mut pressure = Pressure::new(setting);
    pressure.set(limits);
    let mut pump = Pump::new(Arc::clone(setting), Arc::clone(commands), Arc::clone(events), pressure)?;
    std::thread::Builder::new().name("hostel-pump".to_owned()).stack_size(PUMP_STACK_BYTES).spawn(move || {
        let _guard = AbortOnPanic;
        for (new, parked) in children {
            pump.adopt(new, parked);
        }
        if let Some(notes) = notes {
            pump.adopt_notes(notes);
        }
        pump.run();
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_resumed_keeper_needs_can_be_had_here() {
        super::rehearse().unwrap();
    }
}
