//! Replacing the running keeper by another build of itself, without a child noticing.
//!
//! The pump parks between two records, everything known goes into a memfd as frames of the wire
//! protocol, the new build reads it once for trial (`--check-state`), then takes our place by
//! `exec`: same process id, same children, same lock, same listening socket. Whatever fails before
//! that leaves the old build running as if nothing had been asked.

use std::ffi::{CString, OsStr};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_journal::{Exit, Position, ProcessId, Stream};
use rustix::io::FdFlags;

use crate::child_table::{ChildTable, Chunk, Slot, Stdin};
use crate::control::{Control, Identity};
use crate::launch;
use crate::proto::{self, Builder, DecodeError, Frame, Limits, NoteExit, OnFull, kind, tag};
use crate::pump::{Mark, ParkedChild, ParkedPump};
use crate::state::{Command, Event, NewChild, Progress, SlotKey};
use crate::sys;

/// Version of the state's layout; a build refuses one it does not know.
const LAYOUT: u32 = 1;
/// How long the pump may take to park (it may be inside a slow write).
const PARK_LIMIT: Duration = Duration::from_secs(2);
/// How long the new build may take to read the state.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// Frame types and tags of the state; they never meet the wire.
mod own {
    pub(super) const HOUSE: u16 = 1001;
    pub(super) const CHILD: u16 = 1002;
    pub(super) const LAYOUT: u16 = 1100;
    pub(super) const LOCK: u16 = 1101;
    pub(super) const LISTENER: u16 = 1102;
    pub(super) const JOURNAL: u16 = 1106;
    pub(super) const RUN_DIR: u16 = 1103;
    pub(super) const JOURNAL_DIR: u16 = 1104;
    pub(super) const CGROUP_ROOT: u16 = 1105;
    pub(super) const SLOT: u16 = 1110;
    pub(super) const GENERATION: u16 = 1111;
    pub(super) const STDIN: u16 = 1112;
    pub(super) const STDOUT: u16 = 1113;
    pub(super) const STDERR: u16 = 1114;
    pub(super) const CHUNK: u16 = 1115;
    pub(super) const GATED_CHUNK: u16 = 1116;
    pub(super) const CLOSE_WHEN_EMPTY: u16 = 1117;
    pub(super) const POSITION: u16 = 1118;
    pub(super) const SILENT_SEQ: u16 = 1119;
    pub(super) const PENDING_OUT: u16 = 1120;
    pub(super) const PENDING_ERR: u16 = 1121;
    pub(super) const MARK: u16 = 1122;
    pub(super) const EXIT: u16 = 1123;
}

/// A keeper at rest, read back.
pub(crate) struct Resumed {
    pub(crate) identity: Identity,
    pub(crate) lock: RawFd,
    pub(crate) listener: RawFd,
    pub(crate) journal: RawFd,
    pub(crate) controller_started: u64,
    pub(crate) limits: Limits,
    pub(crate) children: Vec<ResumedChild>,
}

/// One child, its descriptors still numbers: a trial reading must not take them over.
pub(crate) struct ResumedChild {
    pub(crate) slot: Slot,
    pub(crate) parked: ParkedChild,
    pub(crate) stdin: Option<RawFd>,
    pub(crate) stdout: Option<RawFd>,
    pub(crate) stderr: Option<RawFd>,
}

impl ResumedChild {
    /// Takes the descriptors over.
    pub(crate) fn adopt(mut self) -> io::Result<(Slot, ParkedChild)> {
        self.slot.stdin.fd = self.stdin.map(sys::adopt).transpose()?;
        self.parked.stdout = self.stdout.map(sys::adopt).transpose()?;
        self.parked.stderr = self.stderr.map(sys::adopt).transpose()?;
        Ok((self.slot, self.parked))
    }
}

/// Does it. Returns only when it could not be done; the text says why.
pub(crate) fn upgrade(control: &mut Control, conn: u64, corr: u64, path: &[u8]) -> Result<(), String> {
    if control.children.iter().any(|slot| slot.starting.is_some()) {
        return Err("a process is just being started; try again".to_owned());
    }
    let program = rustix::fs::open(
        OsStr::from_bytes(path),
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(|errno| format!("cannot open the new program: {errno}"))?;
    let parked = park(control)?;
    let attempt =
        write_state(control, &parked).map_err(|error| format!("cannot write the state: {error}")).and_then(|state| {
            check(path, &state)?;
            Ok(state)
        });
    let state = match attempt {
        Ok(state) => state,
        Err(text) => {
            unpark(control, parked);
            return Err(text);
        }
    };
    control.reply(conn, |out| Builder::new(out, kind::DONE, corr).finish());
    let kept = kept_descriptors(control, &parked, &state);
    set_inherited(&kept, true);
    let argv: Vec<CString> = ["hostel", crate::SUBCOMMAND, "--resume-state", &state.as_raw_fd().to_string()]
        .iter()
        .filter_map(|word| CString::new(*word).ok())
        .collect();
    let error = sys::exec_descriptor(program.as_fd(), &argv);
    set_inherited(&kept, false);
    unpark(control, parked);
    // It was told that we go; the end of the connection makes it look again.
    control.drop_conn(conn as u32);
    Err(format!("cannot execute the new program: {error}"))
}

fn park(control: &mut Control) -> Result<ParkedPump, String> {
    control.commands.push(Command::Park);
    let deadline = Instant::now() + PARK_LIMIT;
    loop {
        let mut parked = None;
        for event in control.events.take() {
            match event {
                Event::Parked(pump) => parked = Some(*pump),
                other => control.take_event(other),
            }
        }
        if let Some(parked) = parked {
            return Ok(parked);
        }
        let wait = deadline.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return Err("output is being written to a slow disk; try again".to_owned());
        }
        let timeout =
            rustix::event::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let bell = control.events.bell();
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(bell, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&timeout)).ok();
    }
}

/// Starts the pump again in this image of the program.
pub(crate) fn unpark(control: &mut Control, parked: ParkedPump) {
    let mut pairs = Vec::new();
    for child in parked.children {
        if let Some(slot) = control.children.get(child.key) {
            pairs.push(reunite(slot, child));
        }
    }
    // Without a pump nothing can be kept; leaving lets the next keeper say so of every process.
    if launch::start_pump(
        &control.setting,
        &control.commands,
        &control.events,
        parked.limits,
        pairs,
        Some(parked.notes),
    )
    .is_err()
    {
        control.give_up();
    }
}

/// What the pump is told of a child when it takes it up again.
pub(crate) fn reunite(slot: &Slot, mut parked: ParkedChild) -> (NewChild, ParkedChild) {
    let new = NewChild {
        key: slot.key,
        id: slot.id,
        label: slot.label.clone(),
        pid: slot.pid,
        start_ns: slot.start_ns,
        stdout: parked.stdout.take(),
        stderr: parked.stderr.take(),
        quota: slot.quota,
        on_full: slot.on_full,
        progress: Arc::clone(&slot.progress),
    };
    (new, parked)
}

/// Everything that must stay open over the exec.
fn kept_descriptors<'a>(control: &'a Control, parked: &'a ParkedPump, state: &'a OwnedFd) -> Vec<BorrowedFd<'a>> {
    let mut kept = vec![control.lock.as_fd(), control.listener.as_fd(), control.setting.journal.as_fd(), state.as_fd()];
    kept.extend(control.children.iter().filter_map(|slot| slot.stdin.borrow()));
    for child in &parked.children {
        kept.extend([&child.stdout, &child.stderr].into_iter().flatten().map(AsFd::as_fd));
    }
    kept
}

fn set_inherited(descriptors: &[BorrowedFd<'_>], inherited: bool) {
    let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    for fd in descriptors {
        rustix::io::fcntl_setfd(fd, flags).ok();
    }
}

/// Lets the new build read the state without acting on it.
fn check(path: &[u8], state: &OwnedFd) -> Result<(), String> {
    let copy = rustix::io::dup(state).map_err(|errno| format!("cannot copy the state: {errno}"))?;
    let mut trial = Process::new(OsStr::from_bytes(path))
        .args([crate::SUBCOMMAND, "--check-state"])
        .stdin(Stdio::from(copy))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .env_clear()
        .spawn()
        .map_err(|error| format!("cannot try the new program: {error}"))?;
    let deadline = Instant::now() + CHECK_LIMIT;
    loop {
        match trial.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(format!("the new program does not understand the state ({status})")),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                drop(trial.kill());
                drop(trial.wait());
                return Err("the new program did not read the state in time".to_owned());
            }
        }
    }
    // An exit code alone could be any program's: the proof can only come from having read it.
    let mut said = String::new();
    if let Some(output) = trial.stdout.take() {
        output.take(256).read_to_string(&mut said).map_err(|error| error.to_string())?;
    }
    let copy = rustix::io::dup(state).map_err(|errno| format!("cannot copy the state: {errno}"))?;
    let expected = proof_of_reading(std::fs::File::from(copy)).map_err(|error| error.to_string())?;
    if said == expected { Ok(()) } else { Err("the new program is not a keeper".to_owned()) }
}

fn write_state(control: &Control, parked: &ParkedPump) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    let identity = &control.identity;
    let mut house = Builder::new(&mut bytes, own::HOUSE, 0)
        .u32(own::LAYOUT, LAYOUT)
        .bytes(tag::KEEPER_ID, &identity.keeper_id)
        .u64(tag::SINCE_NS, identity.since_ns)
        .u64(tag::STARTED, control.controller_started)
        .bytes(tag::HOUSE_TAG, identity.house_tag.as_bytes())
        .bytes(own::RUN_DIR, identity.run_dir.as_os_str().as_bytes())
        .bytes(own::JOURNAL_DIR, identity.journal_dir.as_os_str().as_bytes())
        .i32(own::LOCK, control.lock.as_raw_fd())
        .i32(own::LISTENER, control.listener.as_raw_fd())
        .i32(own::JOURNAL, control.setting.journal.as_raw_fd())
        .u64(tag::TOTAL_QUOTA, parked.limits.total_quota)
        .u64(tag::QUOTA, parked.limits.process_quota)
        .u64(tag::FLOOR, parked.limits.floor);
    if let Some(root) = &identity.cgroup_root {
        house = house.bytes(own::CGROUP_ROOT, root.as_os_str().as_bytes());
    }
    house.finish();
    for child in &parked.children {
        if let Some(slot) = control.children.get(child.key) {
            encode_child(slot, child, &mut bytes);
        }
    }
    let memory = rustix::fs::memfd_create("hostel-keeper-state", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(&bytes)?;
    file.rewind()?;
    Ok(OwnedFd::from(file))
}

fn encode_child(slot: &Slot, child: &ParkedChild, out: &mut Vec<u8>) {
    // The frame's own length limit does not bind here: a full stdin queue is larger.
    let mut builder = Builder::new(out, own::CHILD, 0)
        .u32(own::SLOT, slot.key.slot)
        .u32(own::GENERATION, slot.key.generation)
        .bytes(tag::ID, &slot.id.0)
        .bytes(tag::LABEL, &slot.label)
        .bytes(tag::COMMAND, &slot.command)
        .u32(tag::PID, slot.pid)
        .u64(tag::START_NS, slot.start_ns)
        .u64(tag::QUOTA, slot.quota)
        .u32(tag::ON_FULL, slot.on_full.to_wire())
        .u64(tag::APPLIED, slot.stdin.applied)
        .u64(tag::WRITTEN, slot.stdin.written)
        .u32(own::CLOSE_WHEN_EMPTY, u32::from(slot.stdin.close_when_empty))
        .u64(own::SILENT_SEQ, child.silent_seq);
    for (name, fd) in [(own::STDIN, &slot.stdin.fd), (own::STDOUT, &child.stdout), (own::STDERR, &child.stderr)] {
        if let Some(fd) = fd {
            builder = builder.i32(name, fd.as_raw_fd());
        }
    }
    for (index, chunk) in slot.stdin.queue.iter().enumerate() {
        let sent = if index == 0 { slot.stdin.front_sent } else { 0 };
        builder = builder.bytes(if chunk.gated { own::GATED_CHUNK } else { own::CHUNK }, &chunk.bytes[sent..]);
    }
    if let Some(position) = &child.position {
        builder = builder.bytes(own::POSITION, &position.to_bytes());
    }
    if let Some((stream, bytes)) = &child.pending {
        builder = builder.bytes(if *stream == Stream::Out { own::PENDING_OUT } else { own::PENDING_ERR }, bytes);
    }
    for mark in &child.marks {
        let numbers = [mark.mark, mark.offset, u64::from(mark.len)];
        builder = builder.bytes(own::MARK, &numbers.map(u64::to_le_bytes).concat());
    }
    if let Some(exit) = child.exit.or(slot.observed) {
        let numbers =
            [exit.code as u64, exit.signal as u64, exit.wall_ns, exit.user_us, exit.system_us, exit.max_rss_kib];
        builder = builder.bytes(own::EXIT, &numbers.map(u64::to_le_bytes).concat());
    }
    if let Some(ended) = child.ended {
        builder = builder
            .i32(tag::CODE, ended.code)
            .i32(tag::EXIT_SIGNAL, ended.signal)
            .u64(tag::EXIT_WALL_NS, ended.wall_ns);
    }
    builder.finish();
}

/// What a build says to show that it has read a state.
pub(crate) fn proof_of_reading(mut file: std::fs::File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let resumed = decode_state(&bytes).map_err(io::Error::other)?;
    Ok(format!("keeper state {LAYOUT} {} {:08x}\n", resumed.children.len(), crc32c::crc32c(&bytes)))
}

/// Reads a state from a descriptor at its start.
pub(crate) fn read_state(mut file: std::fs::File) -> Result<Resumed, String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
    decode_state(&bytes).map_err(|error| error.to_string())
}

fn decode_state(bytes: &[u8]) -> Result<Resumed, DecodeError> {
    let mut rest = bytes;
    let (house, length) = proto::split_unbounded(rest)?.ok_or(DecodeError::Missing(own::HOUSE))?;
    if house.kind != own::HOUSE || house.u32(own::LAYOUT)? != LAYOUT {
        return Err(DecodeError::BadValue(own::LAYOUT));
    }
    rest = &rest[length..];
    let path = |tag| Ok::<_, DecodeError>(PathBuf::from(OsStr::from_bytes(house.bytes(tag)?)));
    let mut resumed = Resumed {
        identity: Identity {
            keeper_id: house.array(tag::KEEPER_ID)?,
            since_ns: house.u64(tag::SINCE_NS)?,
            house_tag: String::from_utf8_lossy(house.bytes(tag::HOUSE_TAG)?).into_owned(),
            run_dir: path(own::RUN_DIR)?,
            journal_dir: path(own::JOURNAL_DIR)?,
            cgroup_root: house.find(own::CGROUP_ROOT)?.map(|bytes| PathBuf::from(OsStr::from_bytes(bytes))),
        },
        lock: house.i32(own::LOCK)?,
        listener: house.i32(own::LISTENER)?,
        journal: house.i32(own::JOURNAL)?,
        controller_started: house.u64(tag::STARTED)?,
        limits: Limits::decode(&house)?,
        children: Vec::new(),
    };
    while let Some((frame, length)) = proto::split_unbounded(rest)? {
        if frame.kind == own::CHILD {
            resumed.children.push(decode_child(&frame)?);
        }
        rest = &rest[length..];
    }
    if rest.is_empty() { Ok(resumed) } else { Err(DecodeError::Truncated(own::CHILD)) }
}

fn decode_child(frame: &Frame<'_>) -> Result<ResumedChild, DecodeError> {
    let key = SlotKey { slot: frame.u32(own::SLOT)?, generation: frame.u32(own::GENERATION)? };
    let number = |tag| frame.find(tag)?.map(|_| frame.i32(tag)).transpose();
    let mut stdin = Stdin {
        applied: frame.u64(tag::APPLIED)?,
        written: frame.u64(tag::WRITTEN)?,
        close_when_empty: frame.u32(own::CLOSE_WHEN_EMPTY)? != 0,
        ..Stdin::default()
    };
    let mut pending = None;
    let mut marks = Vec::new();
    for field in frame.fields() {
        match field? {
            (tag @ (own::CHUNK | own::GATED_CHUNK), bytes) => {
                stdin.queued += bytes.len();
                stdin.queue.push_back(Chunk { bytes: bytes.to_vec(), gated: tag == own::GATED_CHUNK });
            }
            (own::PENDING_OUT, bytes) => pending = Some((Stream::Out, bytes.to_vec())),
            (own::PENDING_ERR, bytes) => pending = Some((Stream::Err, bytes.to_vec())),
            (own::MARK, bytes) => {
                let [mark, offset, len] = numbers(bytes, own::MARK)?;
                marks.push(Mark { mark, offset, len: len as u32 });
            }
            _ => {}
        }
    }
    let exit = frame.find(own::EXIT)?.map(|bytes| {
        let [code, signal, wall_ns, user_us, system_us, max_rss_kib] = numbers(bytes, own::EXIT)?;
        Ok(Exit { code: code as i32, signal: signal as i32, wall_ns, user_us, system_us, max_rss_kib })
    });
    let exit = exit.transpose()?;
    let ended = match frame.find(tag::CODE)? {
        Some(_) => Some(NoteExit {
            code: frame.i32(tag::CODE)?,
            signal: frame.i32(tag::EXIT_SIGNAL)?,
            wall_ns: frame.u64(tag::EXIT_WALL_NS)?,
        }),
        None => None,
    };
    let position = frame
        .find(own::POSITION)?
        .map(|bytes| Position::from_bytes(bytes).map_err(|_| DecodeError::BadValue(own::POSITION)))
        .transpose()?;
    Ok(ResumedChild {
        slot: Slot {
            key,
            id: ProcessId(frame.array(tag::ID)?),
            label: frame.bytes(tag::LABEL)?.to_vec(),
            command: frame.bytes(tag::COMMAND)?.to_vec(),
            pid: frame.u32(tag::PID)?,
            start_ns: frame.u64(tag::START_NS)?,
            quota: frame.u64(tag::QUOTA)?,
            on_full: OnFull::from_wire(frame.u32(tag::ON_FULL)?)?,
            stdin,
            starting: None,
            observed: exit,
            ended,
            progress: Arc::new(Progress::default()),
        },
        parked: ParkedChild {
            key,
            stdout: None,
            stderr: None,
            position,
            silent_seq: frame.u64(own::SILENT_SEQ)?,
            pending,
            marks,
            exit,
            ended,
        },
        stdin: number(own::STDIN)?,
        stdout: number(own::STDOUT)?,
        stderr: number(own::STDERR)?,
    })
}

fn numbers<const N: usize>(bytes: &[u8], tag: u16) -> Result<[u64; N], DecodeError> {
    let mut out = [0; N];
    if bytes.len() != N * 8 {
        return Err(DecodeError::BadValue(tag));
    }
    for (number, chunk) in out.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = chunk.try_into().map(u64::from_le_bytes).map_err(|_| DecodeError::BadValue(tag))?;
    }
    Ok(out)
}

/// Decodes arbitrary bytes as a state, for the fuzzer: it must refuse or accept, never panic.
pub fn fuzz_state(bytes: &[u8]) {
    drop(decode_state(bytes).map(|resumed| {
        let mut table = ChildTable::default();
        for child in resumed.children.into_iter().filter(|child| child.slot.key.slot < 4096) {
            table.insert(child.slot);
        }
        table.len()
    }));
}
