//! The messages, typed. Each knows its own encoding; the frame layer knows none of them.

use hostel_journal::ProcessId;

use super::frame::{Builder, DecodeError, Frame};
use super::{kind, tag};

macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident by $tag:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$vmeta])* $variant = $value),+ }
        impl $name {
            /// The number on the wire.
            pub fn to_wire(self) -> u32 { self as u32 }
            /// The value a number stands for.
            pub fn from_wire(value: u32) -> Result<Self, DecodeError> {
                match value { $($value => Ok(Self::$variant),)+ _ => Err(DecodeError::BadValue(tag::$tag)) }
            }
        }
    };
}
pub(super) use wire_enum;

wire_enum! {
    /// What a connection is for.
    Role by ROLE {
        /// The one daemon that may change things; a newer one takes the place of an older.
        Controller = 1,
        /// Receives [`Note`]s, written by the pump itself so that no thread stands in between.
        Notes = 2,
        /// Sees everything, changes nothing.
        Observer = 3,
    }
}

wire_enum! {
    /// Where a process is in its life.
    Phase by PHASE {
        /// Forked, not yet known to have executed its program.
        Starting = 1,
        /// Running.
        Running = 2,
        /// The process itself ended; somebody may still hold its pipes.
        Draining = 3,
        /// Ended, and its last frame is written.
        Exited = 4,
    }
}

wire_enum! {
    /// Why a process is held back.
    Held by HELD {
        /// It is not.
        No = 0,
        /// Its own journal, or all together, reached the quota.
        Quota = 1,
        /// The disk is full, or nearly so.
        Disk = 2,
        /// The disk reports errors.
        Error = 3,
    }
}

wire_enum! {
    /// What became of input.
    Outcome by OUTCOME {
        /// Accepted, wholly or its fresh tail.
        Accepted = 1,
        /// All of it had been accepted before.
        Duplicate = 2,
        /// It starts past what was accepted.
        Gap = 3,
        /// The queue is full; nothing was taken.
        Full = 4,
        /// The process has ended.
        NotRunning = 5,
        /// No such process.
        Unknown = 6,
        /// The input belongs to an owner, and the frame did not carry the owner's token; nothing was taken.
        Owned = 7,
    }
}

wire_enum! {
    /// Whom a signal reaches. Descendants that left the group are the caller's to find ([`crate::tree`]).
    Scope by SCOPE {
        /// The process itself.
        Leader = 1,
        /// Its process group.
        Group = 2,
    }
}

wire_enum! {
    /// How the keeper is to stop.
    StopMode by MODE {
        /// Only if it has no running child.
        IfIdle = 1,
        /// End every child's tree first.
        Kill = 2,
    }
}

/// What a keeper can do beyond the base protocol; the daemon asks for nothing that is not here.
pub mod feature {
    /// `STDIN` with a mark.
    pub const MARKS: u64 = 1;
    /// `UPGRADE`.
    pub const UPGRADE: u64 = 1 << 1;
    /// Standard input as a socket pair.
    pub const SOCKET_STDIN: u64 = 1 << 2;
    /// The policy `drop-oldest`.
    pub const DROP_OLDEST: u64 = 1 << 3;
    /// Stages of pipelines: `SPAWN` with [`super::PipelineTerms`], empty input, input from another process.
    pub const PIPELINES: u64 = 1 << 4;
    /// Frames with descriptors, and `SPAWN` that executes one ([`super::Execute`]).
    pub const DESCRIPTORS: u64 = 1 << 5;
    /// `SPAWN` with an owner of the input ([`super::Spawn::owner`]).
    pub const OWNED_INPUT: u64 = 1 << 6;
    /// `UPGRADE` takes the program as a descriptor, and only so.
    pub const UPGRADE_BY_DESCRIPTOR: u64 = 1 << 7;
    /// `HOUSE_KEY`.
    pub const HOUSE_KEY: u64 = 1 << 8;
    /// `PUT_ANCHOR` and `GET_ANCHOR`.
    pub const ANCHOR: u64 = 1 << 12;
    /// `SPAWN` that executes [`super::Execute::Leased`].
    pub const LEASES: u64 = 1 << 13;
    /// All of this build.
    pub const ALL: u64 = MARKS
        | UPGRADE
        | SOCKET_STDIN
        | DROP_OLDEST
        | PIPELINES
        | DESCRIPTORS
        | OWNED_INPUT
        | UPGRADE_BY_DESCRIPTOR
        | HOUSE_KEY
        | ANCHOR
        | LEASES;
}

/// The first frame of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Oldest protocol the client speaks.
    pub proto_min: u32,
    /// Newest protocol the client speaks.
    pub proto_max: u32,
    /// What the connection is for.
    pub role: Role,
    /// The client's build, for the log.
    pub build: String,
    /// When the client was started, nanoseconds since boot: of two daemons the younger is in charge.
    pub started: u64,
    /// For [`Role::Notes`]: the key that the controller of the same daemon was given.
    pub notes_key: Option<[u8; 16]>,
}

/// The keeper's answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The protocol both will speak.
    pub proto: u32,
    /// Bits of [`feature`].
    pub features: u64,
    /// Random, new for every keeper that was started (and kept over its upgrades).
    pub keeper_id: [u8; 16],
    /// The keeper's process.
    pub pid: u32,
    /// When it was started (kept over its upgrades), nanoseconds of wall clock.
    pub since_ns: u64,
    /// The keeper's build.
    pub build: String,
    /// How many children it may hold.
    pub child_limit: u32,
    /// Whether children live in cgroups of their own; the directory that holds them.
    pub cgroup: Option<String>,
    /// Device and inode of the journal directory it writes to.
    pub journal: (u64, u64),
    /// The house's tag, first half of every child's [`crate::TAG_VARIABLE`].
    pub house_tag: String,
    /// When this image of the program began: changes with an upgrade.
    pub image_ns: u64,
    /// For a controller: proves that a [`Role::Notes`] greeting comes from the same daemon.
    pub notes_key: Option<[u8; 16]>,
    /// The keeper recognises the controller as its daemon: it may have the house key and upgrade the keeper.
    pub recognised: bool,
}

/// All the keeper knows of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Its identity.
    pub id: ProcessId,
    /// What the daemon called it; opaque here, and the only text kept in the journal.
    pub label: Vec<u8>,
    /// Its command line, kept in memory only.
    pub command: Vec<u8>,
    /// Its process.
    pub pid: u32,
    /// When it was started.
    pub start_ns: u64,
    /// Where it is in its life.
    pub phase: Phase,
    /// Progress of its output.
    pub note: Note,
    /// Input bytes accepted.
    pub applied: u64,
    /// Input bytes that reached the pipe.
    pub written: u64,
}

/// How far a process's output has come; the one thing the keeper pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// The process.
    pub id: ProcessId,
    /// Readers may read the journal up to here.
    pub committed: u64,
    /// The sequence number the next frame will get.
    pub next_seq: u64,
    /// Whether and why it is held back.
    pub held: Held,
    /// Whether it has a journal file.
    pub has_file: bool,
    /// How it ended, once its last frame is written.
    pub exit: Option<NoteExit>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoteExit {
    /// Exit status, -1 when a signal ended it.
    pub code: i32,
    /// The signal, 0 if none.
    pub signal: i32,
    /// When, nanoseconds of wall clock.
    pub wall_ns: u64,
}

/// Limits of the pump. Zero leaves a value as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// All journals together.
    pub total_quota: u64,
    /// One journal.
    pub process_quota: u64,
    /// Free space that must remain on the file system.
    pub floor: u64,
}

fn put_note(builder: Builder<'_>, note: &Note) {
    let mut builder = builder
        .bytes(tag::ID, &note.id.0)
        .u64(tag::COMMITTED, note.committed)
        .u64(tag::NEXT_SEQ, note.next_seq)
        .u32(tag::HELD, note.held.to_wire())
        .u32(tag::HAS_FILE, u32::from(note.has_file));
    if let Some(exit) = note.exit {
        builder =
            builder.i32(tag::CODE, exit.code).i32(tag::EXIT_SIGNAL, exit.signal).u64(tag::EXIT_WALL_NS, exit.wall_ns);
    }
    builder.finish();
}

fn text(frame: &Frame<'_>, tag: u16) -> Result<String, DecodeError> {
    Ok(String::from_utf8_lossy(frame.find(tag)?.unwrap_or_default()).into_owned())
}

fn maybe_key(frame: &Frame<'_>) -> Result<Option<[u8; 16]>, DecodeError> {
    match frame.find(tag::NOTES_KEY)? {
        Some(_) => frame.array(tag::NOTES_KEY).map(Some),
        None => Ok(None),
    }
}

impl Note {
    /// Appends the note as a frame of its own.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_note(Builder::new(out, kind::NOTE, 0), self);
    }

    /// Reads a note from a `NOTE` or `STATE` frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let exit = match frame.find(tag::CODE)? {
            Some(_) => Some(NoteExit {
                code: frame.i32(tag::CODE)?,
                signal: frame.i32(tag::EXIT_SIGNAL)?,
                wall_ns: frame.maybe_u64(tag::EXIT_WALL_NS)?.unwrap_or(0),
            }),
            None => None,
        };
        Ok(Self {
            id: ProcessId(frame.array(tag::ID)?),
            committed: frame.u64(tag::COMMITTED)?,
            next_seq: frame.u64(tag::NEXT_SEQ)?,
            held: Held::from_wire(frame.u32_or(tag::HELD, 0)?)?,
            has_file: frame.u32_or(tag::HAS_FILE, 1)? != 0,
            exit,
        })
    }
}

impl Hello {
    /// Appends the frame.
    pub fn encode(&self, corr: u64, out: &mut Vec<u8>) {
        let mut builder = Builder::new(out, kind::HELLO, corr)
            .u32(tag::PROTO_MIN, self.proto_min)
            .u32(tag::PROTO_MAX, self.proto_max)
            .u32(tag::ROLE, self.role.to_wire())
            .bytes(tag::BUILD, self.build.as_bytes())
            .u64(tag::STARTED, self.started);
        if let Some(key) = &self.notes_key {
            builder = builder.bytes(tag::NOTES_KEY, key);
        }
        builder.finish();
    }

    /// Reads the frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            started: frame.u64(tag::STARTED)?,
            proto_min: frame.u32(tag::PROTO_MIN)?,
            proto_max: frame.u32(tag::PROTO_MAX)?,
            role: Role::from_wire(frame.u32(tag::ROLE)?)?,
            build: text(frame, tag::BUILD)?,
            notes_key: maybe_key(frame)?,
        })
    }
}

impl Welcome {
    /// Appends the frame.
    pub fn encode(&self, corr: u64, out: &mut Vec<u8>) {
        let mut builder = Builder::new(out, kind::WELCOME, corr)
            .u32(tag::PROTO, self.proto)
            .u64(tag::FEATURES, self.features)
            .bytes(tag::KEEPER_ID, &self.keeper_id)
            .u32(tag::PID, self.pid)
            .u64(tag::SINCE_NS, self.since_ns)
            .bytes(tag::BUILD, self.build.as_bytes())
            .u32(tag::CHILD_LIMIT, self.child_limit)
            .u64(tag::JOURNAL_DEV, self.journal.0)
            .u64(tag::JOURNAL_INO, self.journal.1)
            .bytes(tag::HOUSE_TAG, self.house_tag.as_bytes())
            .u64(tag::IMAGE_NS, self.image_ns);
        if let Some(key) = &self.notes_key {
            builder = builder.bytes(tag::NOTES_KEY, key);
        }
        if let Some(cgroup) = &self.cgroup {
            builder = builder.bytes(tag::CGROUP, cgroup.as_bytes());
        }
        if self.recognised {
            builder = builder.u32(tag::RECOGNISED, 1);
        }
        builder.finish();
    }

    /// Reads the frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            proto: frame.u32(tag::PROTO)?,
            features: frame.u64(tag::FEATURES)?,
            keeper_id: frame.array(tag::KEEPER_ID)?,
            pid: frame.u32(tag::PID)?,
            since_ns: frame.u64(tag::SINCE_NS)?,
            build: text(frame, tag::BUILD)?,
            child_limit: frame.u32_or(tag::CHILD_LIMIT, 0)?,
            cgroup: frame.find(tag::CGROUP)?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            journal: (frame.u64(tag::JOURNAL_DEV)?, frame.u64(tag::JOURNAL_INO)?),
            house_tag: text(frame, tag::HOUSE_TAG)?,
            image_ns: frame.u64(tag::IMAGE_NS)?,
            notes_key: maybe_key(frame)?,
            recognised: frame.u32_or(tag::RECOGNISED, 0)? != 0,
        })
    }
}

impl State {
    /// Appends the frame.
    pub fn encode(&self, corr: u64, out: &mut Vec<u8>) {
        let builder = Builder::new(out, kind::STATE, corr)
            .bytes(tag::LABEL, &self.label)
            .bytes(tag::COMMAND, &self.command)
            .u32(tag::PID, self.pid)
            .u64(tag::START_NS, self.start_ns)
            .u32(tag::PHASE, self.phase.to_wire())
            .u64(tag::APPLIED, self.applied)
            .u64(tag::WRITTEN, self.written);
        put_note(builder, &self.note);
    }

    /// Reads the frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let note = Note::decode(frame)?;
        Ok(Self {
            id: note.id,
            label: frame.bytes(tag::LABEL)?.to_vec(),
            command: frame.find(tag::COMMAND)?.unwrap_or_default().to_vec(),
            pid: frame.u32(tag::PID)?,
            start_ns: frame.u64(tag::START_NS)?,
            phase: Phase::from_wire(frame.u32(tag::PHASE)?)?,
            note,
            applied: frame.u64(tag::APPLIED)?,
            written: frame.u64(tag::WRITTEN)?,
        })
    }
}

impl Limits {
    /// Appends the frame.
    pub fn encode(&self, corr: u64, out: &mut Vec<u8>) {
        Builder::new(out, kind::LIMITS, corr)
            .u64(tag::TOTAL_QUOTA, self.total_quota)
            .u64(tag::QUOTA, self.process_quota)
            .u64(tag::FLOOR, self.floor)
            .finish();
    }

    /// Reads the frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            total_quota: frame.maybe_u64(tag::TOTAL_QUOTA)?.unwrap_or(0),
            process_quota: frame.maybe_u64(tag::QUOTA)?.unwrap_or(0),
            floor: frame.maybe_u64(tag::FLOOR)?.unwrap_or(0),
        })
    }
}
