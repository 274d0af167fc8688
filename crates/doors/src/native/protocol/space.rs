//! What is said of journals, of the room they take, and of what waits for room.

use serde::Deserialize;
use serde::Serialize;

use super::State;

/// The answer to `journal/usage`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Usage {
    /// What all journals take on disk.
    pub bytes: u64,
    /// How many there are.
    pub files: u64,
    /// What they may take.
    pub quota_bytes: u64,
    /// What the file system has left.
    pub free_bytes: u64,
    /// Where they are.
    pub dir: String,
    /// One by one, largest first.
    pub processes: Vec<JournalInfo>,
    /// Journals that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableInfo>,
}

/// A journal that cannot be read.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct UnreadableInfo {
    /// The file's name in the journal directory.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
    /// It was renamed; if not, it is tried again.
    pub set_aside: bool,
}

/// One journal.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct JournalInfo {
    /// 32 hex digits.
    pub id: String,
    /// The name of its process.
    pub name: String,
    /// What it takes on disk.
    pub bytes: u64,
    /// The state of its process.
    pub state: State,
}

/// `journal/gc`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Collect {
    /// Remove nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Every exited process, however recent.
    #[serde(default)]
    pub all: bool,
    /// Only journals that were changed last before this moment, nanoseconds since 1970: what somebody was shown then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_before_ns: Option<u64>,
}

/// The answer to `journal/gc`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Collected {
    /// What went, or would go.
    pub removed: Vec<JournalInfo>,
    /// The space that came free, or would.
    pub freed_bytes: u64,
}

/// `process/held`: the process waits for room in its journal, or goes on.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HeldNotice {
    /// 32 hex digits.
    pub id: String,
    /// `quota`, `disk_full` or `disk_error`; null if it goes on.
    pub because: Option<String>,
}

/// Sessions that cannot go on because `state.db` takes nothing.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StalledInfo {
    /// How many.
    pub sessions: u64,
    /// What the database says.
    pub error: String,
}
