//! Files: sealed where they are, carried by the broker, opened where they are fetched.
//!
//! Invariant: what leaves this host is sealed with a key of its own, and that key is sealed for its readers alone. A
//! share is a snapshot: it is sealed before the caller hears that it was taken, and uploaded whenever the broker is
//! there. The hook `pre-send` decides before that. The announcement waits in the outbox like any message until the upload
//! is done. A file without an announcement never leaves this host: the caller was not told that it was taken, and shares
//! it again.

pub(crate) mod fetch;
mod http;
pub(crate) mod keys;
pub(crate) mod place;
pub(crate) mod share;
pub(crate) mod upload;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use hostel_syncpoint::points;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::keep::Kept;
use crate::log::Log;

/// Bytes of sealed files that may wait for the broker.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// Files that may wait for the broker.
const MOST_WAITING: usize = 256;

/// How long it is remembered that a file was uploaded: as long as its announcement may wait.
const REMEMBERED_MS: u64 = 31 * 24 * 3_600_000;

/// How far a file is on its way to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Upload {
    /// It is not there yet.
    Waiting,
    /// It is there, or not one of ours.
    Done,
    /// It will never be: a code and a text.
    Refused(String, String),
}

/// A file on its way, as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Outgoing {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) tags: Vec<String>,
    pub(crate) persistent: bool,
    /// A member's id, or `*`.
    pub(crate) target: String,
    /// For each reader, or for `*`, the sealed key.
    pub(crate) keys: BTreeMap<String, String>,
    /// Of the sealed bytes.
    pub(crate) sealed_size: u64,
    pub(crate) sealed_sha256: String,
    pub(crate) shared_at: u64,
    pub(crate) done: bool,
    pub(crate) refused: Option<(String, String)>,
    /// Its announcement is in the outbox. Only the outbox is asked for that after a start.
    #[serde(skip)]
    pub(crate) announced: bool,
}

impl Outgoing {
    fn is_settled(&self) -> bool {
        self.done || self.refused.is_some()
    }

    /// Not settled, or not for long.
    fn is_remembered(&self, now_ms: u64) -> bool {
        !self.is_settled() || now_ms.saturating_sub(self.shared_at) < REMEMBERED_MS
    }
}

/// The sealed bytes of a file.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// In the spool.
    File(PathBuf),
    /// In memory: nothing is written for who is ephemeral.
    Memory(Bytes),
}

/// Files on their way to the broker.
pub(crate) struct Spool {
    dir: Option<PathBuf>,
    kept: Kept,
    log: Log,
    files: Mutex<BTreeMap<String, Outgoing>>,
    memory: Mutex<BTreeMap<String, Bytes>>,
    changed: watch::Sender<u64>,
}

impl Spool {
    /// As it was left.
    pub(crate) fn load(dir: Option<&Path>, log: Log, now_ms: u64) -> io::Result<Self> {
        let kept = Kept::new(dir, "files.json");
        let mut files: BTreeMap<String, Outgoing> = kept.load()?;
        files.retain(|_, file| file.is_remembered(now_ms));
        let dir = dir.map(|dir| dir.join("files"));
        if let Some(dir) = &dir {
            clear(dir, &files);
        }
        let (changed, _) = watch::channel(0);
        Ok(Self { dir, kept, log, files: Mutex::new(files), memory: Mutex::default(), changed })
    }

    /// Changes whenever a file has come further.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// How far a file is.
    pub(crate) fn status(&self, id: &str) -> Upload {
        match self.files.lock().get(id) {
            None => Upload::Done,
            Some(file) if file.done => Upload::Done,
            Some(Outgoing { refused: Some((code, text)), .. }) => Upload::Refused(code.clone(), text.clone()),
            Some(_) => Upload::Waiting,
        }
    }

    /// Whether there is room for another file.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let files = self.files.lock();
        let waiting = files.values().filter(|file| !file.is_settled());
        let (count, sum) =
            waiting.fold((0, 0_u64), |(count, sum), file| (count + 1, sum.saturating_add(file.sealed_size)));
        count < MOST_WAITING && sum.saturating_add(bytes) <= MOST_BYTES
    }

    /// Where sealed bytes may be written; None: into memory.
    pub(crate) fn place(&self, id: &str) -> io::Result<Option<PathBuf>> {
        let Some(dir) = &self.dir else { return Ok(None) };
        crate::home::files::make_private_dir(dir)?;
        Ok(Some(dir.join(format!("{id}.sealed"))))
    }

    /// What a start found: of the files that are not at the broker, those go on that have an announcement. The others
    /// were left behind by a daemon that died before it had announced them.
    pub(crate) fn resume(&self, announced: &BTreeSet<String>) {
        let left_behind: Vec<String> = {
            let mut files = self.files.lock();
            files.values_mut().for_each(|file| file.announced = announced.contains(&file.id));
            files.values().filter(|file| !file.is_settled() && !file.announced).map(|file| file.id.clone()).collect()
        };
        for id in left_behind {
            self.log.info("file_not_announced", serde_json::json!({"file": id}));
            self.forget(&id);
        }
    }

    /// Files that are not at the broker, announced or not.
    pub(crate) fn unsettled(&self) -> Vec<String> {
        self.files.lock().values().filter(|file| !file.is_settled()).map(|file| file.id.clone()).collect()
    }

    /// Takes a sealed file. It stays here until it is announced.
    pub(crate) fn put(&self, file: Outgoing, body: Body) -> io::Result<()> {
        if let Body::Memory(bytes) = body {
            self.memory.lock().insert(file.id.clone(), bytes);
        }
        let mut files = self.files.lock();
        files.insert(file.id.clone(), file);
        points::FILE_KEPT.reach_if_ok(self.kept.save(&*files, true))
    }

    /// The announcement of a file is in the outbox: the file may leave.
    pub(crate) fn announced(&self, id: &str) {
        if let Some(file) = self.files.lock().get_mut(id) {
            file.announced = true;
        }
        self.changed.send_modify(|count| *count += 1);
    }

    /// Files that are announced and not at the broker.
    pub(crate) fn waiting(&self) -> Vec<Outgoing> {
        self.files.lock().values().filter(|file| file.announced && !file.is_settled()).cloned().collect()
    }

    /// The sealed bytes.
    pub(crate) fn body(&self, id: &str) -> Option<Body> {
        match &self.dir {
            Some(dir) => Some(Body::File(dir.join(format!("{id}.sealed")))),
            None => self.memory.lock().get(id).cloned().map(Body::Memory),
        }
    }

    /// A file has arrived, or never will. That is on disk before its bytes go: with neither it would look as if it could
    /// never be uploaded.
    pub(crate) fn settle(&self, id: &str, refused: Option<(String, String)>, now_ms: u64) {
        let mut files = self.files.lock();
        if let Some(file) = files.get_mut(id) {
            file.done = refused.is_none();
            file.refused = refused;
        }
        files.retain(|_, file| file.is_remembered(now_ms));
        let kept = points::FILE_SETTLED.reach_if_ok(self.kept.save(&*files, true));
        drop(files);
        match kept {
            Ok(()) => self.drop_body(id),
            // The next start uploads it again, and hears that it is there.
            Err(error) => self.log.warn("files_not_kept", serde_json::json!({"error": error.to_string()})),
        }
        self.changed.send_modify(|count| *count += 1);
    }

    /// A sealed file that was never put here.
    pub(crate) fn discard(&self, id: &str, body: &Body) {
        if let Body::File(path) = body {
            std::fs::remove_file(path).ok();
        }
        self.memory.lock().remove(id);
    }

    /// A file that was never announced.
    pub(crate) fn forget(&self, id: &str) {
        self.drop_body(id);
        let mut files = self.files.lock();
        files.remove(id);
        self.save(&files);
    }

    fn save(&self, files: &BTreeMap<String, Outgoing>) {
        if let Err(error) = self.kept.save(files, false) {
            self.log.warn("files_not_kept", serde_json::json!({"error": error.to_string()}));
        }
    }

    fn drop_body(&self, id: &str) {
        self.memory.lock().remove(id);
        if let Some(dir) = &self.dir {
            std::fs::remove_file(dir.join(format!("{id}.sealed"))).ok();
        }
    }
}

/// Removes what a crash left half written.
fn clear(dir: &Path, files: &BTreeMap<String, Outgoing>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let known = name
            .to_str()
            .and_then(|name| name.strip_suffix(".sealed"))
            .is_some_and(|id| files.get(id).is_some_and(|file| !file.is_settled()));
        if !known {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}
