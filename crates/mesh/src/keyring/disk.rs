//! The keys' files: what is found at a start, and what is written when a key counts.
//!
//! Invariant: nothing here decides which key counts. What belongs to no rotation of this member is set aside, not thrown
//! away: it is a secret key, and somebody may miss it.

use std::fs;
use std::io;

use hostel_wire::keys::{PublicKey, SecretKey};
use serde_json::json;

use super::Step;
use crate::home::archive::Archive;
use crate::home::lineage::Lineage;
use crate::home::next::{Found, Next};
use crate::home::{Memberships, MeshDir, Places, identity};
use crate::log::Log;

/// What stands on the disk.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) archive: Archive,
    /// A rotation that was committed and not finished.
    pub(super) next: Option<Next>,
    pub(super) lineage: Lineage,
}

/// Finds the keys beside the one that counts.
pub(super) fn find(
    dir: &MeshDir,
    mesh_id: &str,
    member_id: &str,
    current: &SecretKey,
    now_ms: u64,
    log: &Log,
) -> io::Result<Kept> {
    let path = dir.keypair_archive();
    let named =
        |path: &std::path::Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let read = Archive::open(&path, now_ms).map_err(|error| named(&path, error))?;
    if let Some(aside) = &read.set_aside {
        let kept = read.archive.keys().len();
        log.error("keypair_archive_set_aside", json!({"renamed_to": aside.display().to_string(), "keys_kept": kept}));
    }
    let damaged = read.set_aside.is_some();
    let (mut archive, path) = (read.archive, dir.keypair_next());
    let next = match Next::read(&path).map_err(|error| named(&path, error))? {
        Found::Nothing => None,
        // All that was missing is that this file goes.
        Found::Change(next) if next.key == *current => {
            Next::remove(&path).map_err(|error| named(&path, error))?;
            log.info("rotation_finished", json!({"pubkey": current.public().hex()}));
            None
        }
        Found::Change(next)
            if next.mesh_id != mesh_id || next.member_id != member_id || next.old != current.public() =>
        {
            set_aside(&path, now_ms, log)?;
            None
        }
        // Where the archive was damaged nobody can say whether it was committed: the broker is asked.
        Found::Change(next) if archive.holds(&next.old) || damaged => Some(*next),
        // It was drawn and nothing more: nobody has heard of it.
        Found::Change(_) => {
            Next::remove(&path).map_err(|error| named(&path, error))?;
            log.warn("rotation_abandoned", json!({"reason": "it was not committed"}));
            None
        }
        Found::Nonsense => {
            set_aside(&path, now_ms, log)?;
            None
        }
    };
    // A key that counts is no earlier one: the rotation that would have made it one was given up.
    if next.is_none() && archive.holds(&current.public()) {
        archive.remove(&current.public());
        archive.write(&dir.keypair_archive()).map_err(|error| named(&dir.keypair_archive(), error))?;
    }
    let path = dir.keypair_lineage();
    let (lineage, aside) = Lineage::open(&path, &current.public(), now_ms).map_err(|error| named(&path, error))?;
    if let Some(aside) = aside {
        log.error("keypair_lineage_set_aside", json!({"renamed_to": aside.display().to_string()}));
    }
    Ok(Kept { archive, next, lineage })
}

fn set_aside(path: &std::path::Path, now_ms: u64, log: &Log) -> io::Result<()> {
    let aside = path.with_file_name(format!("keypair.next.json.old-{now_ms}"));
    fs::rename(path, &aside)?;
    log.error("keypair_next_set_aside", json!({"renamed_to": aside.display().to_string()}));
    Ok(())
}

/// Writes how the key that counts came after the one before. Before the old one is gone: without it this could never be
/// signed again.
pub(super) fn link(dir: &MeshDir, lineage: &Lineage) -> Result<(), String> {
    let path = dir.keypair_lineage();
    lineage.write(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes the key that counts: `config.json`, then `keypair.json`; then the rotation is over.
pub(super) fn save(
    dir: &MeshDir,
    places: &Places,
    mesh_id: &str,
    old: &PublicKey,
    key: &SecretKey,
    now_ms: u64,
    step: &dyn Fn(Step),
) -> Result<(), String> {
    match Memberships::replace_key(places, mesh_id, old, key) {
        Ok(true) => {}
        Ok(false) => return Err(format!("{}: it holds another key", places.config_file().display())),
        Err(error) => return Err(error.to_string()),
    }
    step(Step::Configured);
    identity::write(dir, key, now_ms).map_err(|error| format!("{}: {error}", dir.keypair().display()))?;
    step(Step::Kept);
    Next::remove(&dir.keypair_next()).map_err(|error| format!("{}: {error}", dir.keypair_next().display()))
}
