//! The postman: what comes over meshes for the sessions of this house, brought to them.
//!
//! Invariant: nothing is kept here. Letters lie in the mailboxes of the mesh daemons, how far they were read is in the
//! house's database, and a letter is passed over only in the write that takes it. A mesh daemon that is down, restarted
//! or replaced is looked for again; whatever it was told in between is read then.
//!
//! It decides nothing about letters: that is the session's business. It starts no mesh daemon.

mod line;
mod mailboxes;
mod register;
mod rounds;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use hostel_doors::claustrum::Log;
use hostel_house::sessions::Sessions;
use hostel_mesh::home::Memberships;
use tokio::task::JoinHandle;

use crate::mesh::host::Host;
use crate::mesh::speaker;
use register::Tokens;

/// How often it is looked whether meshes were joined or left.
const LOOK: Duration = Duration::from_secs(2);

/// An environment without what says whose words these are: a house that was started inside a session would make all of its
/// own speak as that one.
pub(crate) fn without_session(mut environment: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    environment.retain(|(name, _)| !speaker::VARIABLES.iter().any(|known| name == known));
    environment
}

/// What every line needs.
struct Bag {
    sessions: Sessions,
    tokens: Tokens,
    log: Log,
}

/// A mesh that is joined.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Joined {
    slug: String,
    /// The mesh's own id.
    id: String,
}

/// A line to a mesh daemon, for as long as the mesh is joined.
struct Line {
    joined: Joined,
    task: JoinHandle<()>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows every mesh that is joined, until it is dropped.
pub(crate) async fn run(sessions: Sessions, tokens: PathBuf, log: Log) {
    let bag = Arc::new(Bag { sessions, tokens: Tokens::new(tokens), log });
    let sweeping = Arc::clone(&bag);
    drop(hostel_tasks::spawn_blocking(move || sweeping.tokens.sweep(&sweeping.sessions)).await);
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    let mut seen = None;
    loop {
        let before = seen.clone();
        // The list of meshes is a file, and files are not for the runtime's own threads.
        if let Ok(Some((stamp, joined))) = hostel_tasks::spawn_blocking(move || look(before.as_ref())).await {
            seen = Some(stamp);
            lines.retain(|_, line| joined.contains(&line.joined));
            for joined in joined {
                let bag = &bag;
                lines.entry(joined.slug.clone()).or_insert_with(|| Line {
                    task: hostel_tasks::spawn(line::follow(joined.clone(), Arc::clone(bag))),
                    joined,
                });
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What tells whether the list of meshes is another one.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Stamp {
    changed: Option<SystemTime>,
    size: u64,
}

/// The meshes that are joined, unless that is known.
fn look(seen: Option<&Stamp>) -> Option<(Stamp, Vec<Joined>)> {
    let host = Host::quiet().ok()?;
    let stamp = match host.places().config_file().metadata() {
        Ok(metadata) => Stamp { changed: metadata.modified().ok(), size: metadata.len() },
        Err(_) => Stamp { changed: None, size: 0 },
    };
    if seen == Some(&stamp) {
        return None;
    }
    // A list that cannot be read is looked at again; what is known of it until then stays.
    let known = Memberships::load(host.places()).ok()?;
    let joined = known.all().iter().map(|joined| Joined { slug: joined.slug.clone(), id: joined.mesh_id.clone() });
    Some((stamp, joined.collect()))
}
