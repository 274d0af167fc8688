//! A keeper at rest as bytes: frames of the wire protocol in a memfd, written by one build and read by the next.
//!
//! Invariant: reading acts on nothing. Descriptors stay numbers until the whole state is understood.

use std::ffi::OsStr;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_journal::{Exit, Position, ProcessId, Stream};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::child_table::{ChildTable, Chunk, Slot, Stdin};
use crate::control::{Control, Identity};
use crate::key::OwnerDigest;
use crate::proto::{self, Builder, DecodeError, Frame, Limits, NoteExit, OnFull, tag};
use crate::pump::{Kept, Mark, ParkedChild, ParkedPump};
use crate::recognition::{KnownProcess, Recognition};
use crate::state::{Bounds, Progress, SlotKey};
use crate::{marks, sys};

/// Layouts that are read. Version 1 has neither stages of pipelines nor a house key, version 2 has no house key. A build
/// that knows only those refuses the present one, because it would forget the key and the owners of inputs.
const LAYOUTS: std::ops::RangeInclusive<u32> = 1..=LAYOUT;
/// The layout that is written.
const LAYOUT: u32 = 3;

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
    pub(super) const HELD_STDOUT: u16 = 1124;
    pub(super) const BOUNDS: u16 = 1125;
    pub(super) const SECRETS: u16 = 1126;
    pub(super) const PROGRAM_PATH: u16 = 1127;
    pub(super) const KNOWN_PROCESS: u16 = 1128;
    pub(super) const OWNER: u16 = 1129;
    pub(super) const OUTSIDE_LIMIT: u16 = 1130;
    pub(super) const ANCHOR: u16 = 1190;
}

/// A keeper at rest, read back.
pub(crate) struct Resumed {
    layout: u32,
    pub(crate) identity: Identity,
    pub(crate) lock: RawFd,
    pub(crate) listener: RawFd,
    pub(crate) journal: RawFd,
    /// The socket that holds the house key.
    pub(crate) secrets: Option<RawFd>,
    pub(crate) recognition: Recognition,
    /// What the daemon wants to be told by the next one.
    pub(crate) anchor: Option<Vec<u8>>,
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
    pub(crate) held_stdout: Option<RawFd>,
}

impl ResumedChild {
    /// Takes the descriptors over.
    pub(crate) fn adopt(mut self) -> io::Result<(Slot, ParkedChild)> {
        self.slot.stdin.fd = self.stdin.map(sys::adopt).transpose()?;
        self.slot.held_stdout = self.held_stdout.map(sys::adopt).transpose()?;
        self.parked.stdout = self.stdout.map(sys::adopt).transpose()?;
        self.parked.stderr = self.stderr.map(sys::adopt).transpose()?;
        Ok((self.slot, self.parked))
    }
}

pub(super) fn write_state(control: &Control, parked: &ParkedPump, secrets: &OwnedFd) -> io::Result<OwnedFd> {
    let mut bytes = Vec::new();
    let identity = &control.identity;
    let mut house = Builder::new(&mut bytes, own::HOUSE, 0)
        .u32(own::LAYOUT, LAYOUT)
        .i32(own::SECRETS, secrets.as_raw_fd())
        .u64(own::OUTSIDE_LIMIT, identity.outside_limit)
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
    if let Some(anchor) = &control.anchor {
        house = house.bytes(own::ANCHOR, anchor);
    }
    if let Some(path) = &control.recognition.path {
        house = house.bytes(own::PROGRAM_PATH, path.as_os_str().as_bytes());
    }
    for process in &control.recognition.processes {
        let numbers = [u64::from(process.pid), process.start_ticks];
        house = house.bytes(own::KNOWN_PROCESS, &numbers.map(u64::to_le_bytes).concat());
    }
    house.finish();
    for child in &parked.children {
        if let Some(slot) = control.children.get(child.key) {
            encode_child(slot, child, &mut bytes);
        }
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("hostel-keeper-state", flags)?);
    file.write_all(&bytes)?;
    file.rewind()?;
    // Others of the same user may be able to open it for an instant, in the trial and after the exec: not to write.
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
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
    if let Some(owner) = &slot.owner {
        builder = builder.bytes(own::OWNER, &owner.0);
    }
    if slot.bounds != Bounds::NONE {
        let drain_ms = slot.bounds.drain.as_millis() as u64;
        let numbers = [slot.bounds.keep_bytes, drain_ms, child.kept.out, child.kept.err];
        builder = builder.bytes(own::BOUNDS, &numbers.map(u64::to_le_bytes).concat());
    }
    let descriptors = [
        (own::STDIN, &slot.stdin.fd),
        (own::HELD_STDOUT, &slot.held_stdout),
        (own::STDOUT, &child.stdout),
        (own::STDERR, &child.stderr),
    ];
    for (name, fd) in descriptors {
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
    Ok(format!("keeper state {} {} {:08x}\n", resumed.layout, resumed.children.len(), crc32c::crc32c(&bytes)))
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
    let layout = house.u32(own::LAYOUT)?;
    if house.kind != own::HOUSE || !LAYOUTS.contains(&layout) {
        return Err(DecodeError::BadValue(own::LAYOUT));
    }
    rest = &rest[length..];
    let path = |tag| Ok::<_, DecodeError>(PathBuf::from(OsStr::from_bytes(house.bytes(tag)?)));
    let mut resumed = Resumed {
        layout,
        identity: Identity {
            keeper_id: house.array(tag::KEEPER_ID)?,
            since_ns: house.u64(tag::SINCE_NS)?,
            house_tag: String::from_utf8_lossy(house.bytes(tag::HOUSE_TAG)?).into_owned(),
            run_dir: path(own::RUN_DIR)?,
            journal_dir: path(own::JOURNAL_DIR)?,
            cgroup_root: house.find(own::CGROUP_ROOT)?.map(|bytes| PathBuf::from(OsStr::from_bytes(bytes))),
            outside_limit: match house.maybe_u64(own::OUTSIDE_LIMIT)? {
                Some(limit) => limit,
                None => marks::outside_of_older_build(),
            },
        },
        lock: house.i32(own::LOCK)?,
        listener: house.i32(own::LISTENER)?,
        journal: house.i32(own::JOURNAL)?,
        secrets: house.find(own::SECRETS)?.map(|_| house.i32(own::SECRETS)).transpose()?,
        anchor: house.find(own::ANCHOR)?.map(<[u8]>::to_vec),
        recognition: decode_recognition(&house)?,
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

/// Who the keeper recognises. A build of layout 1 or 2 recognised nobody: its controller is recognised once.
fn decode_recognition(house: &Frame<'_>) -> Result<Recognition, DecodeError> {
    let has_key = house.find(own::SECRETS)?.is_some();
    let mut recognition = Recognition::default();
    if !has_key {
        recognition.inherited_controller = Some(house.u64(tag::STARTED)?);
    }
    for field in house.fields() {
        match field? {
            (own::PROGRAM_PATH, bytes) => recognition.path = Some(PathBuf::from(OsStr::from_bytes(bytes))),
            (own::KNOWN_PROCESS, bytes) => {
                let [pid, start_ticks] = numbers(bytes, own::KNOWN_PROCESS)?;
                recognition.processes.push(KnownProcess { pid: pid as u32, start_ticks });
            }
            _ => {}
        }
    }
    Ok(recognition)
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
    let (bounds, kept) = match frame.find(own::BOUNDS)? {
        Some(bytes) => {
            let [keep_bytes, drain_ms, out, err] = numbers(bytes, own::BOUNDS)?;
            (Bounds { keep_bytes, drain: Duration::from_millis(drain_ms).min(Bounds::NONE.drain) }, Kept { out, err })
        }
        None => (Bounds::NONE, Kept::default()),
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
            bounds,
            stdin,
            owner: frame.find(own::OWNER)?.map(|_| frame.array(own::OWNER).map(OwnerDigest)).transpose()?,
            held_stdout: None,
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
            kept,
            pending,
            marks,
            exit,
            ended,
        },
        stdin: number(own::STDIN)?,
        stdout: number(own::STDOUT)?,
        stderr: number(own::STDERR)?,
        held_stdout: number(own::HELD_STDOUT)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a build that knew neither house key nor recognition.
    fn older_state(layout: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        Builder::new(&mut bytes, own::HOUSE, 0)
            .u32(own::LAYOUT, layout)
            .bytes(tag::KEEPER_ID, &[7; 16])
            .u64(tag::SINCE_NS, 1)
            .u64(tag::STARTED, 42)
            .bytes(tag::HOUSE_TAG, b"0123456789abcdef")
            .bytes(own::RUN_DIR, b"/r")
            .bytes(own::JOURNAL_DIR, b"/j")
            .i32(own::LOCK, 3)
            .i32(own::LISTENER, 4)
            .i32(own::JOURNAL, 5)
            .u64(tag::TOTAL_QUOTA, 1)
            .u64(tag::QUOTA, 2)
            .u64(tag::FLOOR, 3)
            .finish();
        bytes
    }

    #[test]
    fn states_of_older_builds_are_read_and_their_controller_is_recognised_once() {
        for layout in [1, 2] {
            let resumed = decode_state(&older_state(layout)).map_err(|error| error.to_string()).ok().unwrap();
            assert_eq!(resumed.secrets, None);
            assert_eq!(resumed.recognition.inherited_controller, Some(42));
        }
        let resumed = decode_state(&older_state(3)).map_err(|error| error.to_string()).ok().unwrap();
        assert!(resumed.identity.outside_limit <= marks::OUTSIDE, "it compared with its own limit");
        assert!(decode_state(&older_state(4)).is_err() && decode_state(&older_state(0)).is_err());
    }
}
