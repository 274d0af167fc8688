//! Removing old versions after a successful installation.
//!
//! Only plain files directly in the program directory are considered. Leftovers of transfers are swept and never
//! counted as versions; the version just asked for always stays and counts as one of those kept.
//!
//! Failures are silent: an old version too many is no reason to call an installation failed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::place::TEMPORARY_SUFFIX;

/// A temporary file this old belongs to no running installation.
const STALE: Duration = Duration::from_secs(3600);

/// Keeps the newest `keep` versions, `current` among them.
pub(super) fn prune(directory: &Path, current: &OsStr, keep: usize) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut versions: Vec<(SystemTime, OsString)> = Vec::new();
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        // The metadata is the entry's own, so a link is no plain file.
        if !metadata.is_file() {
            continue;
        }
        let name = entry.file_name();
        let changed = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        if name == current {
            continue;
        }
        match leftover(name.as_bytes()) {
            Leftover::Transfer => remove(directory, &name),
            Leftover::Temporary => {
                if changed.elapsed().is_ok_and(|age| age > STALE) {
                    remove(directory, &name);
                }
            }
            Leftover::Foreign => {}
            Leftover::No => versions.push((changed, name)),
        }
    }
    versions.sort_unstable_by(|left, right| right.cmp(left));
    for (_, name) in versions.iter().skip(keep.saturating_sub(1)) {
        remove(directory, name);
    }
}

enum Leftover {
    /// A finished or abandoned transfer.
    Transfer,
    /// A temporary file, perhaps in use by another installation.
    Temporary,
    /// A hidden file that somebody else put here.
    Foreign,
    /// A version.
    No,
}

fn leftover(name: &[u8]) -> Leftover {
    if name.starts_with(b".fetch-") || name.ends_with(b".zst") {
        Leftover::Transfer
    } else if name.ends_with(TEMPORARY_SUFFIX.as_bytes()) {
        Leftover::Temporary
    } else if name.starts_with(b".") {
        Leftover::Foreign
    } else {
        Leftover::No
    }
}

/// `name` comes from the directory itself, so it can not lead out of it.
fn remove(directory: &Path, name: &OsStr) {
    drop(fs::remove_file(directory.join(name)));
}
