//! Damaged files of a mesh's directory: what is wrong with them, and three ways to go on.
//!
//! Invariant: nothing is thrown away. A damaged file gets another name (`*.corrupt-<time>`) and whatever takes its place
//! is complete before it does; a recovery that is cut off is finished or begun again, never left half done. What was
//! saved and what was lost is counted, and lost messages are named where their names can still be read.
//!
//! No daemon may run meanwhile: callers hold its lock. Nothing here speaks to a broker.

mod copy;
mod look;
mod rebuild;

pub use look::{Database, Found, Kept, look};

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::disk;
use crate::home::files;
use crate::inbox::Cursor;

/// The databases, in the order in which they are looked at.
const DATABASES: [&str; 2] = ["outbox.db", "inbox.db"];

/// The mark of a daemon that only reads.
const MARK: &str = "read_only.json";

/// What a database that is ready to take another's place is called, before the time.
const READY: &str = ".recovered-";

/// How to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What can be read is read, nothing is sent; what is damaged waits for a decision.
    ReadOnly,
    /// What can be read is kept, the rest of what came is had from the broker again.
    FromBroker,
    /// Nothing is kept.
    Fresh,
}

/// Why it could not be done. Everything is as it was, or the next try goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// A file.
    #[error("`{}`: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A database that was to be made.
    #[error("{0}")]
    Database(String),
}

impl RecoverError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }

    /// Whether it was for want of room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            Self::Database(text) => text.contains("disk is full"),
        }
    }
}

/// What became of the messages that were to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SavedOutbox {
    /// Messages that wait to be sent again, under the ids they had.
    pub queued: u64,
    /// Rows of messages that were delivered, failed or aborted: their ids stay bound.
    pub settled: u64,
    /// Ids of messages that were there and cannot be read any more, as far as they are known.
    pub lost: Vec<String>,
    /// How many those are, and those without a name.
    pub lost_count: u64,
}

/// What became of the messages that had come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SavedInbox {
    /// Messages that could be read.
    pub kept: u64,
    /// Those that could not.
    pub lost: u64,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Recovered {
    /// Where what was damaged is now.
    pub set_aside: Vec<PathBuf>,
    /// If the outbox was damaged and something was saved from it.
    pub outbox: Option<SavedOutbox>,
    /// If the inbox was damaged and something was saved from it.
    pub inbox: Option<SavedInbox>,
    /// The broker's log is read from its beginning.
    pub history: bool,
    /// Nothing is sent from now on.
    pub read_only: bool,
}

#[derive(Serialize, Deserialize)]
struct Mark {
    since: String,
    reason: String,
}

/// Why the daemon of a directory only reads; `None` if it does not.
pub fn read_only(dir: &Path) -> io::Result<Option<String>> {
    let bytes = files::read_bounded(&dir.join(MARK), 64 * 1024)?;
    // Whoever wrote it meant it, whatever has become of it since.
    let reason = |bytes: Vec<u8>| match serde_json::from_slice::<Mark>(&bytes) {
        Ok(mark) => format!("{} (since {})", mark.reason, mark.since),
        Err(_) => "it was told so".to_owned(),
    };
    Ok(bytes.map(reason))
}

/// Puts in its place what a recovery has made ready; where the damaged files are now.
pub fn finish(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut moved = Vec::new();
    for name in DATABASES {
        let Some((ready, time)) = ready(dir, name)? else { continue };
        let place = dir.join(name);
        moved.push(disk::set_aside(&place, time)?);
        fs::rename(&ready, &place)?;
        fs::remove_file(disk::beside(&place, ".damaged")).ok();
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(moved)
}

/// A database that is ready, and the time in its name.
fn ready(dir: &Path, name: &str) -> io::Result<Option<(PathBuf, u64)>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut found: Option<(u64, PathBuf)> = None;
    for entry in entries {
        let entry = entry?;
        let text = entry.file_name();
        let time = text.to_str().and_then(|text| text.strip_prefix(name)?.strip_prefix(READY)?.parse().ok());
        if let Some(time) = time {
            found = found.max(Some((time, entry.path())));
        }
    }
    Ok(found.map(|(time, path)| (path, time)))
}

/// Goes on in this way. `place` is where in the broker's log a fresh inbox begins; without it, at its beginning.
pub fn recover(dir: &Path, way: Way, now_ms: u64, place: Option<&Cursor>) -> Result<Recovered, RecoverError> {
    let mut done = Recovered { set_aside: finish(dir).map_err(RecoverError::io(dir))?, ..Recovered::default() };
    let found = look(dir);
    for kept in found.files.iter().filter(|kept| kept.problem.is_some()) {
        let path = dir.join(kept.name);
        done.set_aside.push(disk::set_aside(&path, now_ms).map_err(RecoverError::io(&path))?);
    }
    if found.schema.is_some() {
        let path = dir.join("schema_version");
        done.set_aside.push(disk::set_aside(&path, now_ms).map_err(RecoverError::io(&path))?);
    }
    match way {
        Way::ReadOnly => {
            if found.inbox.is_damaged() {
                done.inbox = Some(rebuild::inbox(dir, now_ms)?);
                done.history = true;
            }
            mark(dir, &found, now_ms)?;
            done.read_only = true;
        }
        Way::FromBroker => {
            if found.outbox.is_damaged() {
                done.outbox = Some(rebuild::outbox(dir, now_ms)?);
            }
            match found.inbox.is_damaged() {
                true => done.inbox = Some(rebuild::inbox(dir, now_ms)?),
                false => rebuild::rewind(dir)?,
            }
            done.history = true;
            unmark(dir)?;
        }
        Way::Fresh => {
            for name in DATABASES {
                let path = dir.join(name);
                if path.exists() {
                    done.set_aside.push(disk::set_aside(&path, now_ms).map_err(RecoverError::io(&path))?);
                    fs::remove_file(disk::beside(&path, ".damaged")).ok();
                }
            }
            match place {
                Some(place) => rebuild::empty_inbox(dir, place)?,
                None => done.history = true,
            }
            unmark(dir)?;
        }
    }
    done.set_aside.extend(finish(dir).map_err(RecoverError::io(dir))?);
    Ok(done)
}

fn mark(dir: &Path, found: &Found, now_ms: u64) -> Result<(), RecoverError> {
    let reason = match &found.outbox {
        Database::Damaged(what) => format!("outbox.db is damaged: {what}"),
        _ => "somebody wanted it so".to_owned(),
    };
    let path = dir.join(MARK);
    let text = serde_json::to_vec(&Mark { since: hostel_wire::iso(now_ms), reason });
    let text = text.map_err(|error| RecoverError::Database(error.to_string()))?;
    files::write_atomic(&path, &text, 0o600).map_err(RecoverError::io(&path))
}

fn unmark(dir: &Path) -> Result<(), RecoverError> {
    let path = dir.join(MARK);
    match fs::remove_file(&path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(RecoverError::Io { path, source: error }),
    }
}
