//! What several daemons of one user may take together: `[fleet]` of the file they share.
//!
//! Invariant: never more daemons run than the cap says, whoever starts them: each counts the others before it serves,
//! one at a time. Memory and disk are divided by the meshes that are joined, so that all of them together stay within
//! the budget; a mesh that was joined later counts once the others have been started anew.

use std::fs::File;
use std::time::Duration;

use hostel_mesh::home::Fleet;
use hostel_mesh::home::Settings;
use hostel_mesh::home::settings::LEAST_MEMORY;
use hostel_mesh::home::settings::LEAST_OUTBOX;
use hostel_mesh::home::settings::Notice;
use rustix::fs::FlockOperation;
use serde_json::json;

use super::caps;
use crate::daemon::lock::DaemonLock;
use crate::mesh::Desk;
use crate::mesh::failure::Failure;
use crate::text;

/// How long other daemons may take to be counted.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

/// What one daemon gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Share {
    pub(crate) memory: u64,
    /// Of the outbox, and of the inbox.
    pub(crate) disk: u64,
}

/// The caps of all daemons, and what is to be said about their file.
pub(crate) fn fleet(desk: &Desk<'_>) -> Result<(Fleet, Vec<Notice>), Failure> {
    Fleet::load(&desk.host.places().fleet_config())
        .map_err(|error| Failure::daemon(1, "config", error.to_string()).hint("correct the line, or remove it"))
}

/// What each daemon of this user gets.
pub(crate) fn share(desk: &Desk<'_>) -> Result<Share, Failure> {
    let joined = desk.host.meshes().map_or(1, |meshes| meshes.len());
    let share = divide(&fleet(desk)?.0, joined);
    let file = desk.host.places().fleet_config();
    let short = |key: &str, least: u64, has: u64| {
        let message = format!("`{key}` in `{}` leaves {} to each daemon", file.display(), text::size(has));
        Failure::daemon(1, "fleet_budget", message)
            .hint(format!("one needs at least {}: raise it, or lower `max_daemons` there", text::size(least)))
    };
    if share.memory < LEAST_MEMORY {
        return Err(short("total_memory_budget", LEAST_MEMORY, share.memory));
    }
    if share.disk < LEAST_OUTBOX {
        return Err(short("total_disk_budget", 2 * LEAST_OUTBOX, 2 * share.disk));
    }
    Ok(share)
}

fn divide(fleet: &Fleet, joined: usize) -> Share {
    let daemons = u64::try_from(joined).unwrap_or(u64::MAX).clamp(1, u64::from(fleet.max_daemons));
    Share { memory: caps::MEMORY.min(fleet.total_memory_budget / daemons), disk: fleet.total_disk_budget / daemons / 2 }
}

impl Share {
    /// Bounds what a daemon's own file asks for.
    pub(super) fn bound(&self, settings: &mut Settings) {
        settings.outbox.max_bytes = settings.outbox.max_bytes.min(self.disk);
        settings.inbox.max_bytes = settings.inbox.max_bytes.min(self.disk);
    }
}

/// Held while a daemon takes its place: others that start at the same instant count after it.
pub(super) struct Gate {
    _directory: Option<File>,
}

impl Gate {
    pub(super) async fn pass(desk: &Desk<'_>) -> Result<Self, Failure> {
        // Without a directory there is nobody to count.
        let Ok(directory) = File::open(desk.host.places().daemon_root()) else { return Ok(Gate { _directory: None }) };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
            if tokio::time::Instant::now() >= deadline {
                return Err(Failure::daemon(1, "fleet_busy", "another daemon has been starting for too long")
                    .hint("see which with `claudemesh daemon status`"));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(Gate { _directory: Some(directory) })
    }

    /// Refuses one daemon more than the cap allows.
    pub(super) fn admit(&self, desk: &Desk<'_>, mesh: &str) -> Result<(), Failure> {
        let most = usize::try_from(fleet(desk)?.0.max_daemons).unwrap_or(usize::MAX);
        let up: Vec<String> = desk.host.slugs()?.into_iter().filter(|slug| slug != mesh && is_up(desk, slug)).collect();
        if up.len() < most {
            return Ok(());
        }
        let file = desk.host.places().fleet_config();
        let count = match up.len() {
            1 => "1 daemon is up".to_owned(),
            count => format!("{count} daemons are up"),
        };
        let message =
            format!("{count}, as many as `max_daemons = {most}` below `[fleet]` in `{}` allows", file.display());
        Err(Failure::daemon(1, "fleet_full", message)
            .hint("raise it there (the file may be made), or stop a daemon with `claudemesh daemon down --mesh MESH`")
            .hint(format!("up: {}", up.join(", ")))
            .with_data(json!({"ok": false, "reason": "fleet_full", "max_daemons": most, "up": up, "config": file})))
    }
}

fn is_up(desk: &Desk<'_>, mesh: &str) -> bool {
    desk.host.locks(mesh).iter().any(|lock| DaemonLock::is_held(lock).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_divided_and_no_share_is_more_than_a_daemon_may_have() {
        let fleet = Fleet::default();
        assert_eq!(divide(&fleet, 1), Share { memory: caps::MEMORY, disk: 10_000_000_000 });
        assert_eq!(divide(&fleet, 0), divide(&fleet, 1));
        assert_eq!(divide(&fleet, 8), Share { memory: 250_000_000, disk: 1_250_000_000 });
        // Those beyond the cap do not run, and get nothing.
        assert_eq!(divide(&fleet, 50), divide(&fleet, 10));
        let mut settings = Settings::default();
        divide(&fleet, 10).bound(&mut settings);
        assert_eq!((settings.outbox.max_bytes, settings.inbox.max_bytes), (1_000_000_000, 1_000_000_000));
        divide(&fleet, 1).bound(&mut settings);
        assert_eq!(settings.outbox.max_bytes, 1_000_000_000);
    }
}
