//! What a daemon leaves behind for whoever looks after it: the flags it was started with, and why it could not go on.
//!
//! Invariant: both are notes. A daemon works without them, and what they say is believed by people and by `restart`
//! alone. An ephemeral daemon leaves none.

use hostel_mesh::home::MeshDir;
use serde::Deserialize;
use serde::Serialize;

use crate::broker::place::replace;
use crate::mesh::cli::Up;
use crate::mesh::failure::Failure;

/// The most of a note that is read.
const LIMIT: u64 = 16 << 10;

/// Flags that hold until the daemon is started with others. `--remint` and the like are done once.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
struct Flags {
    persistent: bool,
    no_tcp: bool,
    public_health: bool,
    container: bool,
}

/// Why a daemon ended.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Ended {
    /// Its exit code.
    pub(crate) exit: u8,
    /// A stable word.
    pub(crate) word: String,
    /// For people.
    pub(crate) message: String,
}

impl Ended {
    /// How the daemon stands that ended so, in one word.
    pub(crate) fn state(&self) -> &'static str {
        match self.exit {
            78 => "revoked",
            4 => "cloned",
            _ => "failed",
        }
    }
}

/// Notes how the daemon was started, and that it did not fail.
pub(super) fn started(dir: &MeshDir, arguments: &Up) {
    let flags = Flags {
        persistent: arguments.persistent,
        no_tcp: arguments.no_tcp,
        public_health: arguments.public_health,
        container: arguments.container,
    };
    std::fs::remove_file(dir.last_exit()).ok();
    keep(&dir.started_with(), &flags);
}

/// The arguments of the last start, for the next.
pub(super) fn arguments(dir: &MeshDir) -> Up {
    let flags: Flags = recall(&dir.started_with()).unwrap_or_default();
    Up {
        persistent: flags.persistent,
        no_tcp: flags.no_tcp,
        public_health: flags.public_health,
        container: flags.container,
        ..Up::default()
    }
}

/// Notes why the daemon could not go on. That another one runs is no failure of the daemon's.
pub(super) fn failed(dir: &MeshDir, failure: &Failure) {
    if failure.word() == "already_running" || !dir.path().is_dir() {
        return;
    }
    let ended =
        Ended { exit: failure.exit_code(), word: failure.word().to_owned(), message: failure.message().to_owned() };
    keep(&dir.last_exit(), &ended);
}

/// Why the daemon is not up, if it did not just stop.
pub(crate) fn ended(dir: &MeshDir) -> Option<Ended> {
    recall(&dir.last_exit())
}

fn keep(path: &std::path::Path, note: &impl Serialize) {
    // A full disk must not keep a daemon from starting or ending.
    if let Ok(text) = serde_json::to_vec(note) {
        replace(path, &text, 0o600).ok();
    }
}

fn recall<T: serde::de::DeserializeOwned>(path: &std::path::Path) -> Option<T> {
    use std::io::Read as _;
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(LIMIT).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_endings_are_remembered() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = MeshDir::at(scratch.path());
        assert_eq!(arguments(&dir), Up::default());
        failed(&dir, &Failure::daemon(1, "already_running", "x"));
        assert_eq!(ended(&dir), None);
        failed(&dir, &Failure::daemon(78, "member_revoked", "this member was revoked"));
        assert_eq!(ended(&dir).unwrap().state(), "revoked");
        // What is done once is not done again.
        started(&dir, &Up { no_tcp: true, remint: true, ..Up::default() });
        assert_eq!(ended(&dir), None);
        assert_eq!(arguments(&dir), Up { no_tcp: true, ..Up::default() });
        std::fs::write(dir.started_with(), "not JSON").unwrap();
        assert_eq!(arguments(&dir), Up::default());
    }
}
