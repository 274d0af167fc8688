//! The words of our own protocol: methods, parameters, results, notifications, error codes.
//!
//! Invariant: both sides use these types, so a field cannot be spelled in two ways. Unknown fields are ignored and
//! new ones are optional, so that an older client and a newer daemon understand each other.
//!
//! It holds no behaviour beyond encoding.

mod space;

use std::collections::BTreeMap;

use hostel_guard::GuardStatus;
use serde::Deserialize;
use serde::Serialize;

pub use space::Collect;
pub use space::Collected;
pub use space::HeldNotice;
pub use space::JournalInfo;
pub use space::StalledInfo;
pub use space::UnreadableInfo;
pub use space::Usage;

pub use super::code;
pub use super::pick::Pick;
pub use super::pick::pick;
pub use super::pick::{SessionName, pick_session};
pub use super::text::Text;

/// The one protocol version this build speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// The longest request line; a longer one ends the connection.
pub const LINE_LIMIT: usize = 8 << 20;

/// The most bytes of stdin in one request.
pub const STDIN_LIMIT: usize = 1 << 20;

/// `initialize`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Initialize {
    /// What the client speaks.
    pub protocol_version: u32,
}

/// The answer to `initialize`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Initialized {
    /// What the server speaks.
    pub protocol_version: u32,
    /// The server's own version.
    pub server_version: String,
    /// The server's process id.
    pub server_pid: u32,
    /// Every method the server knows.
    pub capabilities: Vec<String>,
}

/// `process/spawn`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Spawn {
    /// The command and its arguments, the command first.
    pub argv: Vec<Text>,
    /// What to call the process; none = the server makes up a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where to start it; none = the server's own directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Text>,
    /// The whole environment of the process; none = the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, Text>>,
    /// End a running process of the same name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// The answer to `process/spawn`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Spawned {
    /// 32 hex digits.
    pub id: String,
    /// The name it goes by.
    pub name: String,
    /// The operating system's id.
    pub pid: u32,
    /// When it was started, nanoseconds since the epoch.
    pub started_ns: u64,
}

/// A request about one process: a name, an id, or the unique start of an id.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Target {
    /// Whom it is about.
    pub id: String,
}

/// The answer to `process/list`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ProcessList {
    /// Oldest first.
    pub processes: Vec<ProcessInfo>,
}

/// One process as `process/list` shows it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ProcessInfo {
    /// 32 hex digits.
    pub id: String,
    /// The name it goes by.
    pub name: String,
    /// The door it came in by.
    pub door: String,
    /// The operating system's id.
    pub pid: u32,
    /// The command, as it was asked for.
    pub command: String,
    /// `running`, `held`, `exited` or `lost`.
    pub state: State,
    /// The exit status, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// When it was started, nanoseconds since the epoch.
    pub started_ns: u64,
    /// The number of its newest frame.
    pub last_seq: u64,
    /// What its journal takes on disk.
    #[serde(default)]
    pub bytes: u64,
    /// Bytes of stdin taken so far.
    pub stdin_applied: u64,
}

/// What a process is doing.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It runs.
    Running,
    /// It runs, but waits for room in the journal.
    Held,
    /// It has ended.
    Exited,
    /// It ended with its keeper; how is not known.
    Lost,
}

impl State {
    /// As it is on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Held => "held",
            State::Exited => "exited",
            State::Lost => "lost",
        }
    }

    /// Whether there still is a process.
    #[must_use]
    pub fn alive(self) -> bool {
        matches!(self, State::Running | State::Held)
    }
}

/// The answer to `process/tree`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ProcessTree {
    /// The leader first.
    pub processes: Vec<TreeMember>,
    /// The system did not let us see everything.
    pub partial: bool,
}

/// One member of a process's tree.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TreeMember {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub ppid: u32,
    /// Seconds since it was started.
    pub age_s: u64,
    /// Its command line.
    pub command: String,
    /// `leader`, `group`, `escaped` or `stray`.
    pub relation: String,
    /// Of a stray: the ended process that started it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by: Option<String>,
}

/// `process/attach`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Attach {
    /// Whom to watch.
    pub id: String,
    /// Only what comes after this number.
    #[serde(default)]
    pub since_seq: u64,
    /// Whether to go on after what is there now.
    #[serde(default = "yes")]
    pub follow: bool,
}

fn yes() -> bool {
    true
}

/// The answer to `process/attach`, sent before the first notification.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Attached {
    /// 32 hex digits.
    pub id: String,
    /// The name it goes by.
    pub name: String,
    /// Whether it still runs.
    pub running: bool,
    /// The oldest frame that is kept.
    pub first_seq: u64,
    /// The newest frame.
    pub last_seq: u64,
    /// Bytes of stdin taken so far.
    pub stdin_applied: u64,
    /// The operating system's id.
    pub pid: u32,
}

/// `process/stdin`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Stdin {
    /// Whose stdin.
    pub id: String,
    /// The bytes, base64.
    pub data: String,
    /// Where they belong in the whole input; none = at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// The answer to `process/stdin`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct StdinApplied {
    /// Bytes of stdin taken so far.
    pub applied: u64,
    /// All of it had been taken before.
    pub duplicate: bool,
}

/// `process/kill`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Kill {
    /// Whom to signal, with everything it started.
    pub id: String,
    /// The signal's name, with or without `SIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// How long to wait for the end; none = do not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Send KILL when the wait was in vain.
    #[serde(default)]
    pub escalate: bool,
}

/// The answer to `process/kill`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Killed {
    /// There is such a process.
    pub found: bool,
    /// It has ended.
    pub died: bool,
    /// It had ended before.
    pub already_exited: bool,
    /// KILL had to be sent.
    pub escalated: bool,
}

/// The answer to `house/status`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HouseStatus {
    /// The daemon's version.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// The house's directory.
    pub home: String,
    /// Where it can be reached.
    pub doors: Vec<DoorAddress>,
    /// The keeper behind it.
    pub keeper: KeeperInfo,
    /// The client runs inside the house: it is told of what is its own, and may do less.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inside: bool,
    /// How many journals cannot be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable_journals: u64,
    /// Sessions that cannot go on because `state.db` takes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalled: Option<StalledInfo>,
    /// The guard of agents that do not say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardInfo>,
}

/// The guard around an agent.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct GuardInfo {
    /// What was asked for: `off`, `auto` or `strict`.
    pub setting: String,
    /// What is enforced: `none`, `scopes`, `view` or `full`.
    pub active: String,
    /// Why there is nothing stronger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not_stronger: Option<String>,
}

impl From<GuardStatus> for GuardInfo {
    fn from(status: GuardStatus) -> Self {
        GuardInfo {
            setting: status.setting.name().to_owned(),
            active: status.active.name().to_owned(),
            why_not_stronger: status.why_not_stronger,
        }
    }
}

/// One address of the house.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DoorAddress {
    /// The contract spoken there.
    pub name: String,
    /// A path or an address.
    pub address: String,
    /// Whether it is ours: a door somebody else holds is listed and not open.
    pub open: bool,
    /// What there is to say about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The keeper, as far as the daemon knows it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct KeeperInfo {
    /// Its process id.
    pub pid: u32,
    /// The build it runs.
    pub build: String,
    /// The control protocol spoken with it.
    pub proto: u32,
    /// Its feature bits.
    pub features: u64,
    /// When it was started, nanoseconds since the epoch.
    pub since_ns: u64,
    /// How many processes it keeps.
    pub children: u64,
    /// How many it may keep.
    #[serde(default)]
    pub child_limit: u32,
    /// Whether it can use a cgroup per process.
    pub cgroup: bool,
}

/// `house/down`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Down {
    /// End only the daemon.
    #[serde(default)]
    pub keep: bool,
}

/// `keeper/upgrade`. It takes nothing: the keeper becomes the daemon's own program, and a path in the request is refused.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {}

/// The answer to `keeper/upgrade`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Upgraded {
    /// The keeper's process id, the same before and after.
    pub pid: u32,
    /// The build before.
    pub build_before: String,
    /// The build after.
    pub build_after: String,
}

/// The notification `process/output`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Output {
    /// 32 hex digits.
    pub id: String,
    /// `stdout` or `stderr`.
    pub stream: StreamName,
    /// The frame's number.
    pub seq: u64,
    /// When it was read from the process, nanoseconds since the epoch.
    #[serde(default)]
    pub time_ns: u64,
    /// The bytes, base64.
    pub data: String,
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The notification `process/exit`, the last one about a process.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Exit {
    /// The frame's number.
    pub seq: u64,
    /// The exit status, -1 for a signal.
    pub exit_code: i32,
    /// The signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How it ended is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// The notification `process/failed`: its output cannot be read any further.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Failed {
    /// 32 hex digits.
    pub id: String,
    /// Why.
    pub message: String,
}

/// The notification `house/closing`: the last thing said on a connection the daemon ends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HouseClosing {
    /// Processes run on and a later daemon will have them.
    pub keep: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_have_their_defaults() {
        let attach: Attach = serde_json::from_str(r#"{"id":"x","unknown":1}"#).unwrap();
        assert!(attach.follow);
        assert_eq!(attach.since_seq, 0);
        let kill: Kill = serde_json::from_str(r#"{"id":"x"}"#).unwrap();
        assert!(kill.signal.is_none() && kill.wait_ms.is_none() && !kill.escalate);
        assert!(serde_json::from_str::<Stdin>(r#"{"id":"x","data":"","offset":-1}"#).is_err());
    }
}
