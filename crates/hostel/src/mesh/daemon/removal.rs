//! `daemon uninstall` and `daemon reset`: everything of a mesh gone from this host, or only what was received and sent.
//!
//! Invariant: `uninstall` ends with nothing of the mesh here, whether its broker could be told or not, and says which.
//! Its service goes with it; one of the machine's, which takes root, is named.
//! `reset` removes only what this program has made and can have again; keys, membership, settings and hooks stay.
//! Neither begins before the daemon has ended.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use hostel_mesh::home::Memberships;
use hostel_mesh::home::PidLock;
use hostel_wire::Clock;
use serde_json::json;

use super::asking;
use super::down;
use super::service;
use crate::backup::leftovers;
use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::failure::Failure;
use crate::mesh::route;

/// How long the broker may take to hear that we leave.
const FAREWELL: Duration = Duration::from_secs(10);

/// What `reset` removes: whatever has one of these names or begins with one and a dot or a dash.
const STATE: [&str; 14] = [
    "outbox.db",
    "inbox.db",
    "roster.json",
    "sessions.json",
    "files.json",
    "files",
    "daemon.log",
    "local_token",
    "http.port",
    "schema_version",
    "read_only.json",
    "started_with",
    "last_exit",
    "hooks.log",
];

/// `daemon uninstall`.
pub(super) async fn uninstall(desk: &Desk<'_>, arguments: &cli::Removal) -> Result<ExitCode, Failure> {
    let mesh = named(desk)?;
    let joined = desk.host.joined(Some(&mesh)).ok();
    let directory = desk.host.dir(&mesh);
    let what = format!(
        "this leaves the mesh `{mesh}` and removes its keys, messages, settings and hooks in `{}`",
        directory.path().display()
    );
    asking::confirm(desk, arguments.confirm, &mesh, &what)?;
    // First who would start it again.
    let service = service::withdraw(desk, &mesh).await;
    down::stop(desk, &mesh).await?;
    let mut told = Err("this host is no member any more".to_owned());
    if let Some(joined) = &joined {
        let enrol = route::enrol(desk, joined, Clock::system());
        told = match tokio::time::timeout(FAREWELL, enrol.leave(joined)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the broker does not answer".to_owned()),
        };
        // First what makes it a member: a directory without that is used by nobody.
        Memberships::remove(desk.host.places(), &mesh).map_err(|error| Failure::daemon(1, "io", error.to_string()))?;
    }
    remove(directory.path()).map_err(|error| {
        Failure::daemon(1, "io", format!("cannot remove `{}`: {error}", directory.path().display()))
            .hint("the membership is gone already; remove the directory by hand, or run this again")
    })?;
    let copies = copies(directory.path());
    if desk.ui.json() {
        desk.ui.data(&json!({
            "ok": true, "mesh": mesh, "copies_left": copies, "broker_told": told.is_ok(), "broker_error": told.as_ref().err(),
            "removed": directory.path(), "service_removed": service.removed,
            "service_left": service.left.iter().map(|(path, _)| path).collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("`{mesh}` is gone from this host"))?;
    if let Some(path) = &service.removed {
        desk.ui.line(&format!("{mesh}: removed {}", path.display()))?;
    }
    for (path, by_hand) in &service.left {
        desk.ui
            .note(&format!("its service `{}` is still there and would fail at every start: {by_hand}", path.display()));
    }
    for path in &copies {
        desk.ui
            .note(&format!("an earlier copy with its keys and messages is left, of a restore: `{}`", path.display()));
    }
    if let (Err(reason), Some(joined)) = (&told, &joined) {
        desk.ui.note(&format!("the broker was not told: {reason}"));
        desk.ui.note(&format!(
            "others see this member until the mesh's owner takes it out: `{} member revoke {}`",
            desk.called,
            joined.key.public().hex()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What `hostel restore --force` has kept of the mesh.
fn copies(directory: &Path) -> Vec<PathBuf> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let beginning = format!(".{name}.before-");
    let beside = directory.parent().and_then(|parent| fs::read_dir(parent).ok()).into_iter().flatten().flatten();
    let mut copies: Vec<PathBuf> = beside
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&beginning))
        .map(|entry| entry.path())
        .collect();
    copies.sort();
    copies
}

/// The mesh that is meant, also one of which only the directory is left.
fn named(desk: &Desk<'_>) -> Result<String, Failure> {
    match &desk.mesh {
        Some(mesh) if hostel_wire::topic::is_mesh_slug(mesh) && desk.host.dir(mesh).path().is_dir() => Ok(mesh.clone()),
        asked => Ok(desk.host.joined(asked.as_deref())?.slug),
    }
}

/// Removes a directory: under another name first, so that what is left after an interruption is nobody's.
fn remove(directory: &Path) -> io::Result<()> {
    let Some(name) = directory.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let beginning = format!(".{name}.gone-");
    if let Some(parent) = directory.parent() {
        leftovers::sweep(parent, &beginning, &[""]);
    }
    let gone = directory.with_file_name(format!("{beginning}{}", std::process::id()));
    match fs::rename(directory, &gone) {
        Ok(()) => fs::remove_dir_all(&gone),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It may be a mount of its own.
        Err(_) => fs::remove_dir_all(directory),
    }
}

/// `daemon reset`.
pub(super) async fn reset(desk: &Desk<'_>, arguments: &cli::Removal) -> Result<ExitCode, Failure> {
    let mesh = desk.host.joined(desk.mesh.as_deref())?.slug;
    let directory = desk.host.dir(&mesh);
    let what = format!("this removes what was received in `{mesh}` and what waits to be sent; the membership stays");
    asking::confirm(desk, arguments.confirm, &mesh, &what)?;
    down::stop(desk, &mesh).await?;
    let problem =
        |error: io::Error| Failure::daemon(1, "io", format!("cannot clear `{}`: {error}", directory.path().display()));
    let mut removed = Vec::new();
    if directory.path().is_dir() {
        // Held meanwhile: a daemon that started now would keep what is being removed.
        let lock = PidLock::take(&directory.pid()).map_err(problem)?;
        let _lock = lock.ok_or_else(|| Failure::daemon(1, "running", "the daemon was started again meanwhile"))?;
        for entry in fs::read_dir(directory.path()).map_err(problem)? {
            let entry = entry.map_err(problem)?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_state(name)) else { continue };
            let path = entry.path();
            match entry.file_type().map_err(problem)?.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            }
            .map_err(problem)?;
            removed.push(name.to_owned());
        }
    }
    removed.sort();
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "mesh": mesh, "removed": removed}))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("what was received in `{mesh}` and what waited to be sent is gone; the membership stays"))?;
    desk.ui
        .note(&format!("`{} daemon up --mesh {mesh}` goes on; what the broker still keeps comes again", desk.called));
    Ok(ExitCode::SUCCESS)
}

fn is_state(name: &str) -> bool {
    STATE
        .iter()
        .any(|known| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_had_again_is_state() {
        for name in ["outbox.db", "outbox.db-wal", "inbox.db.corrupt-7", "daemon.log.1", "local_token.prev", "files"] {
            assert!(is_state(name), "{name}");
        }
        for name in ["keypair.json", "keypair-archive.json", "keypair.next.json", "topics.json", "config.toml", "hooks"]
        {
            assert!(!is_state(name), "{name}");
        }
        for name in ["host_fingerprint.json", "house", "notes.txt", "filesystem", "pid", "sock"] {
            assert!(!is_state(name), "{name}");
        }
    }

    #[test]
    fn a_directory_goes_as_a_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("lab");
        fs::create_dir_all(directory.join("hooks")).unwrap();
        fs::write(directory.join("hooks/on-dm"), "x").unwrap();
        let kept = scratch.path().join(".lab.before-7");
        fs::create_dir(&kept).unwrap();
        fs::create_dir(scratch.path().join(".lab2.before-7")).unwrap();
        remove(&directory).unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
        assert_eq!(copies(&directory), [kept]);
        remove(&directory).unwrap();
    }
}
