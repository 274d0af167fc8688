//! What goes into an engine and what comes out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hostel_store::StoreError;
use hostel_wire::frames::{Kind, Priority};
use tokio::sync::oneshot;

use crate::audit::AuditEvent;

/// Why an engine could not do something. Trying again later may help.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The database's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The mesh has no log.
    #[error("no log of mesh `{0}`")]
    NoLog(String),
    /// Something stored cannot be read.
    #[error("a stored record cannot be read: {0}")]
    Unreadable(String),
    /// The disk's reason, of a blob.
    #[error("a file's bytes: {0}")]
    Disk(String),
    /// The engine is ending.
    #[error("the engine is closed")]
    Closed,
}

/// A record that must not have changed for an entry to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    /// Of which kind.
    pub bucket: &'static str,
    /// Which.
    pub key: String,
    /// The revision that was looked at; 0: there was none.
    pub revision: u64,
}

/// A place in a lane: entries of a lane get into the log in the order of their places, also when one of them fails.
#[derive(Debug, Clone)]
pub struct Gate {
    /// The lane: 0 while it is open, else the place of the first one that failed and has not come again.
    pub lane: Arc<AtomicU64>,
    /// The place, from 1.
    pub place: u64,
}

impl Gate {
    /// Whether this one may go on. The one that failed opens the lane again; those behind it may not pass.
    pub(super) fn pass(&self) -> bool {
        match self.lane.load(Ordering::Acquire) {
            0 => true,
            failed if self.place > failed => false,
            failed => {
                if self.place == failed {
                    self.lane.store(0, Ordering::Release);
                }
                true
            }
        }
    }

    /// This one has failed for now: those behind it have to wait.
    pub(super) fn shut(&self) {
        self.lane.compare_exchange(0, self.place, Ordering::AcqRel, Ordering::Acquire).ok();
    }
}

/// An entry to be.
#[derive(Debug, Clone)]
pub struct Append {
    /// Whose log.
    pub mesh: String,
    /// What it is.
    pub kind: Kind,
    /// The member, topic or group it goes to; `*` for everybody.
    pub dest: String,
    /// The member it is from; empty for the broker itself.
    pub sender: String,
    /// The sender's id for it. Empty for the broker's own entries, which are not deduplicated.
    pub client_id: String,
    /// The member whose id that is, if it is not the sender's.
    pub origin: Option<String>,
    /// What is compared when the id comes again.
    pub fingerprint: [u8; 32],
    /// How urgent it is.
    pub priority: Priority,
    /// For a group: the members that are in it now.
    pub audience: Vec<String>,
    /// Whatever is delivered; the engine does not look into it.
    pub bytes: Bytes,
    /// What must not have changed.
    pub guards: Vec<Guard>,
    /// Records that are written with it, in the same transaction; none if it was there before. Comparisons among them
    /// are not made, and none of them may be what others' guards are about.
    pub writes: Vec<KvOp>,
    /// The lane whose order must be kept.
    pub gate: Option<Gate>,
    /// When the entry may go, in milliseconds since 1970.
    pub expires_ms: u64,
    /// When its id may be forgotten: never before the entry goes.
    pub forget_ms: u64,
    /// Now.
    pub now_ms: u64,
}

impl Append {
    /// Among whose ids its id is looked for.
    pub(super) fn whose(&self) -> &str {
        self.origin.as_deref().unwrap_or(&self.sender)
    }
}

/// Where an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Its number.
    pub seq: u64,
    /// Its id, 32 letters and digits.
    pub id: String,
    /// When it was taken.
    pub ts_ms: u64,
    /// It was there before.
    pub duplicate: bool,
    /// The entry itself is still kept.
    pub history_available: bool,
}

/// Why an entry was not taken. Its id stays free, but for `Reused`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The id stands for something else already.
    #[error("the id was used for another message")]
    Reused {
        /// The id of that entry.
        id: String,
    },
    /// An earlier one of its lane has failed and has not come again.
    #[error("an earlier message of its lane waits")]
    Blocked,
    /// What the decision was based on has changed: look again.
    #[error("`{}` of `{}` has changed", .0.key, .0.bucket)]
    Stale(Guard),
    /// The log has no room for it: later.
    #[error("the log is full")]
    Full,
    /// It could not be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// An entry that stands in line.
#[derive(Debug)]
pub struct AppendTicket(pub(super) oneshot::Receiver<Result<Appended, AppendError>>);

impl AppendTicket {
    /// Waits until it is on disk. An entry whose ticket is dropped is written all the same.
    pub async fn done(self) -> Result<Appended, AppendError> {
        self.0.await.unwrap_or(Err(AppendError::Engine(EngineError::Closed)))
    }
}

/// An id that was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Of what it stands for.
    pub fingerprint: [u8; 32],
    /// Where that is.
    pub seq: u64,
    /// The entry's id.
    pub id: String,
    /// When it was taken.
    pub ts_ms: u64,
    /// Whether the entry is still kept.
    pub history_available: bool,
}

/// An entry of a log.
#[derive(Debug)]
pub struct Entry {
    /// Its number.
    pub seq: u64,
    /// Its id.
    pub id: String,
    /// When it was taken, in milliseconds since 1970.
    pub ts_ms: u64,
    /// What it is.
    pub kind: Kind,
    /// The member, topic or group it goes to; `*` for everybody.
    pub dest: String,
    /// The member it is from; empty for the broker itself.
    pub sender: String,
    /// The sender's id for it.
    pub client_id: String,
    /// Of the request.
    pub fingerprint: [u8; 32],
    /// How urgent it is.
    pub priority: Priority,
    /// For a group: the members that were in it.
    pub audience: Vec<String>,
    /// Whatever is delivered.
    pub bytes: Bytes,
    /// Room for who delivers it: the frame as it goes to everybody.
    pub frame: OnceLock<Bytes>,
}

/// Which of the older entries.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only direct messages and files from or to this member.
    pub with_member: Option<String>,
    /// Older than this.
    pub before_seq: Option<u64>,
    /// Newer than this.
    pub after_seq: Option<u64>,
    /// How many.
    pub limit: usize,
    /// No more once so many bytes are reached, but always one.
    pub max_bytes: usize,
}

/// Which entries a log has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Made with the log, never twice.
    pub epoch: String,
    /// The first that is kept; one more than the last if none is.
    pub first_seq: u64,
    /// The last there ever was; 0: none yet.
    pub last_seq: u64,
}

/// How much of a log's room is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes of entries and of remembered ids.
    pub used: u64,
    /// How many there may be; 0: any number.
    pub limit: u64,
}

impl Room {
    /// A log of which no more than this is used has enough room.
    #[must_use]
    pub fn enough(&self) -> u64 {
        self.limit / 10 * 8
    }

    /// Nine tenths are used: something should go.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.limit > 0 && self.used >= self.limit / 10 * 9
    }

    /// In percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        if self.limit == 0 { 0.0 } else { self.used as f64 * 100.0 / self.limit as f64 }
    }
}

/// What retention has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Entries.
    pub entries: u64,
    /// Ids.
    pub ids: u64,
    /// Records of the audit.
    pub audit: u64,
    /// There is more to remove.
    pub more: bool,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// Its key.
    pub key: String,
    /// Its content.
    pub value: Vec<u8>,
    /// When it was written, among all writes.
    pub revision: u64,
}

/// A write, or a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KvOp {
    /// Writes a record.
    Put {
        /// Of which kind.
        bucket: String,
        /// Which.
        key: String,
        /// Its content.
        value: Vec<u8>,
    },
    /// Removes a record.
    Delete {
        /// Of which kind.
        bucket: String,
        /// Which.
        key: String,
    },
    /// Goes on only if the record has this revision; 0: if there is none.
    Check {
        /// Of which kind.
        bucket: String,
        /// Which.
        key: String,
        /// Its revision.
        revision: u64,
    },
}

impl KvOp {
    /// Writes a record.
    #[must_use]
    pub fn put(bucket: &str, key: &str, value: Vec<u8>) -> Self {
        Self::Put { bucket: bucket.to_owned(), key: key.to_owned(), value }
    }

    /// Removes a record.
    #[must_use]
    pub fn delete(bucket: &str, key: &str) -> Self {
        Self::Delete { bucket: bucket.to_owned(), key: key.to_owned() }
    }

    /// Compares a record's revision.
    #[must_use]
    pub fn check(bucket: &str, key: &str, revision: u64) -> Self {
        Self::Check { bucket: bucket.to_owned(), key: key.to_owned(), revision }
    }
}

/// Writes that happen together, in this order, with what the audit says of them.
#[derive(Debug, Clone, Default)]
pub struct KvBatch {
    /// The writes and comparisons.
    pub ops: Vec<KvOp>,
    /// Records for the audit.
    pub audit: Vec<AuditEvent>,
}

impl KvBatch {
    /// Writes of which the audit says nothing.
    #[must_use]
    pub fn of(ops: impl IntoIterator<Item = KvOp>) -> Self {
        Self { ops: ops.into_iter().collect(), audit: Vec::new() }
    }
}

/// Writes that have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvCommitted {
    /// The revision of all that was written by them.
    pub revision: u64,
}

/// Why nothing of a batch was written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KvError {
    /// A comparison failed.
    #[error("`{key}` of `{bucket}` has changed")]
    Conflict {
        /// Of which kind.
        bucket: String,
        /// Which.
        key: String,
    },
    /// It could not be written.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A record has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvChange {
    /// Of which kind.
    pub bucket: String,
    /// Which.
    pub key: String,
    /// Its revision; 0: it was removed.
    pub revision: u64,
}
