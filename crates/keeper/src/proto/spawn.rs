//! The request to start a process, and what can go wrong with it.

use hostel_journal::ProcessId;

use super::frame::{Builder, DecodeError, Frame};
use super::message::wire_enum;
use super::{kind, tag};
use crate::key::OwnerToken;

wire_enum! {
    /// What to do when a journal may grow no further.
    OnFull by ON_FULL {
        /// Stop reading: the child's pipe fills and it waits.
        Hold = 0,
        /// Give up the oldest output of this process.
        DropOldest = 1,
    }
}

wire_enum! {
    /// What the child's standard input is made of.
    StdinKind by STDIN_KIND {
        /// A pipe.
        Pipe = 0,
        /// A socket pair: another process of the same user cannot open it through `/proc`.
        Socket = 1,
        /// Nothing: it is at its end from the start.
        Null = 2,
        /// What another process prints, see [`PipelineTerms::stdin_from`].
        From = 3,
        /// The last descriptor of the frame. The keeper does not write to it. Needs [`super::feature::DESCRIPTORS`].
        Descriptor = 4,
    }
}

wire_enum! {
    /// Where a spawn failed.
    Stage by STAGE {
        /// The keeper could not set up pipes or fork.
        Setup = 1,
        /// Entering the working directory.
        Chdir = 2,
        /// Executing the program.
        Exec = 3,
        /// A limit of the keeper; the text says which.
        Limit = 4,
        /// The file to execute is not the one that was meant ([`Pin`]).
        Changed = 5,
        /// Asked for only if it is known, and it is not.
        Unknown = 6,
    }
}

wire_enum! {
    /// How the descriptor that a `SPAWN` carries is executed.
    Execute by EXECUTE {
        /// A program: the descriptor is closed when it runs.
        Program = 1,
        /// A script: its interpreter opens `/dev/fd/4`, so the descriptor stays open in the child, and in what that
        /// starts unless the interpreter closes it.
        Script = 2,
        /// A program whose open file has a read lease ([`crate::lease`]): it is not executed if somebody began to write to
        /// the file. Needs [`super::feature::LEASES`].
        Leased = 3,
    }
}

/// A request to start a process. A known id gets its first answer again, never a second process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawn {
    /// Its identity, chosen by the daemon.
    pub id: ProcessId,
    /// What the daemon calls it.
    pub label: Vec<u8>,
    /// The file to execute.
    pub program: Vec<u8>,
    /// Its arguments, `argv[0]` first.
    pub argv: Vec<Vec<u8>>,
    /// Its whole environment, `KEY=value` each.
    pub env: Vec<Vec<u8>>,
    /// Its working directory.
    pub cwd: Vec<u8>,
    /// Its file mode mask.
    pub umask: u32,
    /// Its soft limit of open files.
    pub nofile: u64,
    /// What its standard input is.
    pub stdin: StdinKind,
    /// Largest journal, 0 for the keeper's default.
    pub quota: u64,
    /// What to do at the quota.
    pub on_full: OnFull,
    /// What a stage of a pipeline has beyond that; needs [`super::feature::PIPELINES`].
    pub terms: Option<PipelineTerms>,
    /// The first descriptor of the frame is executed, not the file that the path leads to. The path is only shown then,
    /// and a pin is not looked at. Needs [`super::feature::DESCRIPTORS`].
    pub execute: Option<Execute>,
    /// Whoever does not show this token may neither write to the process's standard input nor end it. Needs
    /// [`super::feature::OWNED_INPUT`].
    pub owner: Option<OwnerToken>,
}

/// What a stage of a pipeline has beyond an ordinary process. It leads a session of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PipelineTerms {
    /// For [`StdinKind::From`]: the process whose held output it reads. That can be taken once.
    pub stdin_from: Option<ProcessId>,
    /// Its standard output is not read but held, for the process that will read it.
    pub holds_stdout: bool,
    /// So many bytes of each stream are kept, the rest is read and dropped; 0 keeps everything.
    pub keep_bytes: u64,
    /// How long somebody else may hold its pipes after it has ended, in milliseconds; 0 for the keeper's own rule.
    pub drain_ms: u64,
    /// It has a cgroup of its own, where there are any.
    pub own_cgroup: bool,
    /// Its mark among its limits ([`crate::tree::limit_tag`]), 0 for that of every hosted process.
    pub limit_tag: u64,
    /// Which file it must be.
    pub pin: Option<Pin>,
    /// Only if it is known: nothing is started.
    pub only_if_known: bool,
}

/// A certain file with a certain content, as far as the file system can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// Its device.
    pub dev: u64,
    /// Its inode.
    pub inode: u64,
    /// Its size.
    pub size: u64,
    /// When its content changed last, nanoseconds of wall clock.
    pub mtime_ns: i64,
    /// When anything about it changed last.
    pub ctime_ns: i64,
}

impl Pin {
    fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        let numbers = [self.dev, self.inode, self.size, self.mtime_ns as u64, self.ctime_ns as u64];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; 40]) -> Self {
        let mut numbers = [0; 5];
        for (number, place) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(place);
            *number = u64::from_le_bytes(eight);
        }
        let [dev, inode, size, mtime_ns, ctime_ns] = numbers;
        Self { dev, inode, size, mtime_ns: mtime_ns as i64, ctime_ns: ctime_ns as i64 }
    }
}

impl PipelineTerms {
    fn put(self, mut builder: Builder<'_>) -> Builder<'_> {
        builder = builder
            .u32(tag::HOLDS_STDOUT, u32::from(self.holds_stdout))
            .u64(tag::KEEP_BYTES, self.keep_bytes)
            .u64(tag::DRAIN_MS, self.drain_ms)
            .u32(tag::OWN_CGROUP, u32::from(self.own_cgroup))
            .u64(tag::LIMIT_TAG, self.limit_tag)
            .u32(tag::ONLY_IF_KNOWN, u32::from(self.only_if_known));
        if let Some(id) = self.stdin_from {
            builder = builder.bytes(tag::STDIN_FROM, &id.0);
        }
        if let Some(pin) = self.pin {
            builder = builder.bytes(tag::PIN, &pin.to_bytes());
        }
        builder
    }

    /// The terms of a frame; their first field says whether there are any.
    fn take(frame: &Frame<'_>) -> Result<Option<Self>, DecodeError> {
        if frame.find(tag::HOLDS_STDOUT)?.is_none() {
            return Ok(None);
        }
        let flag = |tag| {
            frame.u32(tag).and_then(|value| match value {
                0 => Ok(false),
                1 => Ok(true),
                _ => Err(DecodeError::BadValue(tag)),
            })
        };
        let stdin_from = frame.find(tag::STDIN_FROM)?.map(|_| frame.array(tag::STDIN_FROM).map(ProcessId));
        let pin = frame.find(tag::PIN)?.map(|_| frame.array(tag::PIN).map(|bytes| Pin::from_bytes(&bytes)));
        Ok(Some(Self {
            stdin_from: stdin_from.transpose()?,
            holds_stdout: flag(tag::HOLDS_STDOUT)?,
            keep_bytes: frame.u64(tag::KEEP_BYTES)?,
            drain_ms: frame.u64(tag::DRAIN_MS)?,
            own_cgroup: flag(tag::OWN_CGROUP)?,
            limit_tag: frame.u64(tag::LIMIT_TAG)?,
            pin: pin.transpose()?,
            only_if_known: flag(tag::ONLY_IF_KNOWN)?,
        }))
    }
}

impl Spawn {
    /// Whether its frame would be longer than `limit`; counted without making it.
    pub fn is_longer_than(&self, limit: usize) -> bool {
        let texts = [&self.label, &self.program, &self.cwd].into_iter().chain(&self.argv).chain(&self.env);
        // Each field has a head; those of fixed size are fewer than this.
        const FIXED: usize = 512;
        FIXED + texts.map(|text| text.len() + 6).sum::<usize>() > limit
    }

    /// Appends the frame. The caller checks [`Spawn::is_longer_than`] first.
    pub fn encode(&self, corr: u64, out: &mut Vec<u8>) {
        let mut builder = Builder::new(out, kind::SPAWN, corr)
            .bytes(tag::ID, &self.id.0)
            .bytes(tag::LABEL, &self.label)
            .bytes(tag::PROGRAM, &self.program)
            .bytes(tag::CWD, &self.cwd)
            .u32(tag::UMASK, self.umask)
            .u64(tag::NOFILE, self.nofile)
            .u32(tag::STDIN_KIND, self.stdin.to_wire())
            .u64(tag::QUOTA, self.quota)
            .u32(tag::ON_FULL, self.on_full.to_wire());
        if let Some(terms) = self.terms {
            builder = terms.put(builder);
        }
        let descriptors = u32::from(self.execute.is_some()) + u32::from(self.stdin == StdinKind::Descriptor);
        if descriptors > 0 {
            builder = builder.u32(tag::DESCRIPTORS, descriptors);
        }
        if let Some(execute) = self.execute {
            builder = builder.u32(tag::EXECUTE, execute.to_wire());
        }
        if let Some(owner) = &self.owner {
            builder = builder.bytes(tag::OWNER, owner.as_bytes());
        }
        for arg in &self.argv {
            builder = builder.bytes(tag::ARG, arg);
        }
        for pair in &self.env {
            builder = builder.bytes(tag::ENV, pair);
        }
        builder.finish();
    }

    /// Reads the frame.
    pub fn decode(frame: &Frame<'_>) -> Result<Self, DecodeError> {
        let mut argv = Vec::new();
        let mut env = Vec::new();
        for field in frame.fields() {
            match field? {
                (tag::ARG, bytes) => argv.push(bytes.to_vec()),
                (tag::ENV, bytes) => env.push(bytes.to_vec()),
                _ => {}
            }
        }
        Ok(Self {
            id: ProcessId(frame.array(tag::ID)?),
            label: frame.bytes(tag::LABEL)?.to_vec(),
            program: frame.bytes(tag::PROGRAM)?.to_vec(),
            argv,
            env,
            cwd: frame.bytes(tag::CWD)?.to_vec(),
            umask: frame.u32_or(tag::UMASK, 0o022)?,
            nofile: frame.maybe_u64(tag::NOFILE)?.unwrap_or(0),
            stdin: StdinKind::from_wire(frame.u32_or(tag::STDIN_KIND, 0)?)?,
            quota: frame.maybe_u64(tag::QUOTA)?.unwrap_or(0),
            on_full: OnFull::from_wire(frame.u32_or(tag::ON_FULL, 0)?)?,
            terms: PipelineTerms::take(frame)?,
            execute: match frame.find(tag::EXECUTE)? {
                Some(_) => Some(Execute::from_wire(frame.u32(tag::EXECUTE)?)?),
                None => None,
            },
            owner: match frame.find(tag::OWNER)? {
                Some(_) => Some(OwnerToken::from_bytes(frame.array(tag::OWNER)?)),
                None => None,
            },
        })
    }
}
