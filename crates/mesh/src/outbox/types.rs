//! What goes into the outbox, what comes out of it, and why it would not.

use hostel_store::StoreError;
use hostel_wire::canonical::NotCanonical;
use hostel_wire::fingerprint::Fingerprint;
use hostel_wire::frames::Priority;
use hostel_wire::frames::client::EntryMark;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a destination is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DestKind {
    /// A member (`memberid`) or a session of one (`memberid/session`).
    Dm,
    /// A topic, by its id.
    Topic,
    /// A group: `@name`.
    Group,
    /// Everybody: `*`.
    All,
}

impl DestKind {
    /// As it is written, here and in fingerprints.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Topic => "topic",
            Self::Group => "group",
            Self::All => "all",
        }
    }

    /// Reads what `as_str` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Dm, Self::Topic, Self::Group, Self::All].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// How far a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It waits.
    Pending,
    /// It was given to the link, and nothing is known yet.
    Inflight,
    /// The broker has it.
    Done,
    /// Given up: refused for good, or too old.
    Dead,
    /// Given up by an operator, who made another row of it.
    Aborted,
}

impl Status {
    /// All five.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Inflight, Self::Done, Self::Dead, Self::Aborted];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Inflight => "inflight",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Aborted => "aborted",
        }
    }

    /// Reads what `as_str` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// A request to send something. Its destination is resolved: ids, not names.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    /// The caller's id for it; one is made if there is none.
    pub client_message_id: Option<String>,
    /// The session that sends; `None`: the member itself.
    pub sender_session: Option<String>,
    /// Where it goes.
    pub dest_kind: DestKind,
    /// The id there.
    pub dest_ref: String,
    /// How urgent it is.
    pub priority: Priority,
    /// What it says, and what is needed to seal it.
    pub payload: Payload,
}

/// The plaintext of a request: it is kept as it is, and sealed each time it is sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Payload {
    /// The text.
    pub body: String,
    /// What the sender puts beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
    /// The message it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Who is mentioned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// The session of the addressee it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The file it announces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
    /// The fingerprint of what was asked for, hex, where the hook `pre-send` made something else of it: a request that
    /// comes again is compared with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

/// A message was taken, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Of the row.
    pub id: String,
    /// The caller's id for it, or the one that was made.
    pub client_message_id: String,
    /// How far it is: `Pending` (queued), `Inflight`, or `Done` (a duplicate of something delivered).
    pub status: Status,
    /// The broker's id, once it has one.
    pub broker_message_id: Option<String>,
    /// The row was there before.
    pub duplicate: bool,
}

/// The id belongs to another request, or to one that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// How far the row with that id is.
    pub status: Status,
    /// Whether it is the same request.
    pub same: bool,
    /// The first 16 hex digits of the row's fingerprint.
    pub fingerprint_prefix: String,
    /// The broker's id, if it has one.
    pub broker_message_id: Option<String>,
    /// Why the row was given up.
    pub reason: Option<String>,
}

impl Conflict {
    /// The contract's word for it, such as `outbox_done_fingerprint_mismatch`.
    #[must_use]
    pub fn code(&self) -> String {
        let how = if self.same { "match" } else { "mismatch" };
        format!("outbox_{}_fingerprint_{how}", self.status.as_str())
    }
}

/// Why a message was not taken. None of these uses the id up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AcceptError {
    /// The id is taken: 409 `idempotency_key_reused`.
    #[error("the id was used before: {}", .0.code())]
    Reused(Box<Conflict>),
    /// The outbox is nearly full: 507 `insufficient_storage`.
    #[error("the outbox is nearly full")]
    Full,
    /// It is full, nothing is taken: 507 or 503 `degraded`.
    #[error("the outbox is full")]
    Degraded,
    /// `meta` cannot be fingerprinted.
    #[error("meta: {0}")]
    Meta(#[from] NotCanonical),
    /// An id of this kind cannot be kept.
    #[error("a client message id has 1 to {MOST_ID} characters")]
    BadId,
    /// The database's own reason.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Bytes a client message id may have.
pub const MOST_ID: usize = 256;

/// Whose order is kept: what one sender has for one destination with one priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The session that sends; `None`: the member itself.
    pub sender_session: Option<String>,
    /// Where it goes.
    pub dest_kind: DestKind,
    /// The id there.
    pub dest_ref: String,
    /// How urgent it is.
    pub priority: Priority,
}

impl Lane {
    /// As `send` carries it: kind, ref and priority. The sender is the connection's.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}|{}|{}", self.dest_kind.as_str(), self.dest_ref, self.priority.as_str())
    }
}

/// One claim of one row: what is heard about an earlier claim of it does not count for a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowKey {
    pub(crate) no: i64,
    pub(crate) claim: u64,
}

impl RowKey {
    /// Unique among all claims of this process: fit to correlate a `send` with its `ack`.
    #[must_use]
    pub fn text(self) -> String {
        format!("{}-{}", self.no, self.claim)
    }
}

/// A row that was claimed, to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// This claim of it.
    pub key: RowKey,
    /// Its id as others see it.
    pub id: String,
    /// The caller's id.
    pub client_message_id: String,
    /// As it was when the row was made.
    pub fingerprint: Fingerprint,
    /// The member that accepted it, if another one has taken over since.
    pub origin: Option<String>,
    /// Where it goes.
    pub lane: Lane,
    /// What it says.
    pub payload: Payload,
    /// How often it was refused.
    pub attempts: u32,
    /// When it was taken.
    pub enqueued_at: u64,
}

/// What is to be sent now, and what has become too old for that.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claimed {
    /// In the order in which they must be sent.
    pub rows: Vec<Row>,
    /// They are `dead` now.
    pub dead: Vec<DeadRow>,
}

/// A row that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRow {
    /// Its id.
    pub id: String,
    /// The caller's id.
    pub client_message_id: String,
    /// Where it was to go.
    pub dest_kind: DestKind,
    /// It announced a file.
    pub is_file: bool,
    /// Why: a code.
    pub code: String,
    /// Why, for people.
    pub error: String,
}

impl DeadRow {
    /// What it was, as counters name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        if self.is_file { "file" } else { self.dest_kind.as_str() }
    }
}

/// The broker has a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckedRow {
    /// Which.
    pub key: RowKey,
    /// The broker's id for it.
    pub broker_message_id: String,
    /// Of which log.
    pub epoch: String,
    /// Where in it, if the broker says so.
    pub seq: Option<u64>,
}

/// The broker will not have a row yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryRow {
    /// Which.
    pub key: RowKey,
    /// Why: a code, such as `rate_limited` or `lane_blocked`.
    pub code: String,
    /// Why, for people.
    pub error: String,
    /// Not before this many milliseconds from now.
    pub retry_after_ms: Option<u64>,
}

/// The broker will never have a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// Which.
    pub key: RowKey,
    /// Why: a code.
    pub code: String,
    /// Why, for people.
    pub error: String,
}

/// A row as an operator sees it; times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its id.
    pub id: String,
    /// The caller's id.
    pub client_message_id: String,
    /// How far it is.
    pub status: Status,
    /// How often it was refused.
    pub attempts: u32,
    /// When it was taken.
    pub enqueued_at: u64,
    /// When it is tried again, if it waits for that.
    pub next_attempt_at: Option<u64>,
    /// When the broker had it.
    pub delivered_at: Option<u64>,
    /// The broker's id.
    pub broker_message_id: Option<String>,
    /// Where in the log.
    pub broker_seq: Option<u64>,
    /// Why it was refused, as a code.
    pub last_error_code: Option<String>,
    /// Why, for people.
    pub last_error: Option<String>,
    /// When an operator gave it up.
    pub aborted_at: Option<u64>,
    /// Who did.
    pub aborted_by: Option<String>,
    /// The row that was made instead.
    pub superseded_by: Option<String>,
    /// When it will be given up.
    pub expires_at: u64,
    /// How large it is.
    pub payload_bytes: u64,
    /// Where it goes.
    pub lane: Lane,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
}

/// A row was given up for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requeued {
    /// The row that was given up.
    pub aborted_row_id: String,
    /// The row that was made.
    pub new_row_id: String,
    /// Its id for the broker.
    pub new_client_message_id: String,
}

/// Why a row was not given up for another.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequeueError {
    /// There is no such row: 404.
    #[error("there is no such row")]
    NotFound,
    /// It is not in a state for that: 409.
    #[error("a row that is {} cannot be sent again", .0.as_str())]
    WrongState(Status),
    /// The new id is taken: 409.
    #[error("the new client message id was used before")]
    IdTaken,
    /// The new id cannot be kept: 400.
    #[error("a client message id has 1 to {MOST_ID} characters")]
    BadId,
    /// The database's own reason.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many rows there are of each kind that is not done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// They wait.
    pub pending: u64,
    /// They are under way.
    pub inflight: u64,
    /// They were given up.
    pub dead: u64,
}

/// Codes that make trying again useless; every other is for later.
#[must_use]
pub fn is_permanent(code: &str) -> bool {
    matches!(
        code,
        "message_too_large"
            | "idempotency_key_reused"
            | "invalid"
            | "forbidden"
            | "blocked"
            | "origin_unknown"
            | "topic_not_found"
            | "recipient_unknown"
            | "recipient_revoked"
    )
}

/// The furthest place in a log that the broker has confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed {
    /// Its number.
    pub seq: u64,
    /// The id of the entry there; `None` if an earlier version wrote it down.
    pub entry_id: Option<String>,
}

impl Confirmed {
    /// As a hello names it.
    #[must_use]
    pub fn entry(&self) -> Option<EntryMark> {
        Some(EntryMark { seq: self.seq, id: self.entry_id.clone()? })
    }
}
