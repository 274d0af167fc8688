//! What `hostel doctor` says of meshes: broker, daemons, their files, hooks and keys. Nothing where there are none.
//!
//! Invariant: everything is looked at and nothing is opened for writing; a database least of all.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;
use std::time::SystemTime;

use hostel_mesh::home::MeshDir;
use hostel_mesh::home::Settings;
use serde_json::Value;

use super::FREE_SPACE;
use super::Findings;
use super::hooks;
use crate::broker;
use crate::broker::place::Place;
use crate::mesh;
use crate::mesh::Desk;
use crate::mesh::host::Host;
use crate::text;
use crate::ui::Ui;

/// A file from further ahead than this was written by another clock.
const SKEW: Duration = Duration::from_secs(60);

/// The most of a key archive that is looked at.
const ARCHIVE: u64 = 4 << 20;

/// Below this much free space a daemon soon takes nothing more.
const LEAST_SPACE: u64 = 128 << 20;

pub(super) async fn check(ui: &Ui, home: &Path, findings: &mut Findings) {
    let Ok(host) = Host::of_environment(ui) else { return };
    let desk = Desk { ui, home: home.to_owned(), host, mesh: None, called: "hostel mesh" };
    for problem in desk.host.problems() {
        let file = desk.host.places().config_file();
        findings.bad("meshes", problem, format!("correct or remove the entry in {}", file.display()));
    }
    let slugs = match desk.host.slugs() {
        Ok(slugs) => slugs,
        Err(failure) => {
            return findings.bad("meshes", failure.message(), "see to the file, or restore it from a backup");
        }
    };
    if slugs.is_empty() {
        return;
    }
    check_broker(home, findings).await;
    let mut up = 0;
    for slug in &slugs {
        up += usize::from(check_daemon(&desk, slug, findings).await);
        let enabled = check_files(&desk.host.dir(slug), slug, findings);
        hooks::check(&desk.host.dir(slug), slug, enabled, findings);
    }
    check_fleet(&desk, slugs.len(), up, findings);
    check_space(desk.host.places().daemon_root(), findings);
}

async fn check_broker(home: &Path, findings: &mut Findings) {
    let place = Place::of(home);
    match broker::running(&place).await {
        Some(health) => {
            let ours = env!("CARGO_PKG_VERSION");
            match health.answer.get("version").and_then(Value::as_str) {
                Some(version) if version != ours => findings.warn(
                    "broker",
                    format!("runs version {version}, this is {ours}"),
                    "`hostel broker down && hostel broker up`; daemons come back to it by themselves",
                ),
                _ => findings.good("broker", format!("answers on {}, process {}", health.url(), health.pid)),
            }
        }
        None if place.holder().is_some() => findings.bad(
            "broker",
            "runs and does not answer",
            format!("look into {}, then `hostel broker down && hostel broker up`", place.log().display()),
        ),
        None => {
            findings.warn(
                "broker",
                "is not up; meshes of this machine wait for it",
                "start it with `hostel broker up`",
            );
        }
    }
    let (_, key) = place.certificate();
    for file in [place.admin_token_file(), key] {
        closed("broker", &file, findings);
    }
}

/// Looks at one daemon; whether it is up.
async fn check_daemon(desk: &Desk<'_>, slug: &str, findings: &mut Findings) -> bool {
    let start = format!("start it with `hostel mesh daemon up --mesh {slug}`");
    let Some(daemon) = mesh::daemon::running(desk, slug).await else {
        match mesh::daemon::ended(&desk.host.dir(slug)) {
            Some(ended) if ended.state() == "revoked" => findings.bad(
                "mesh",
                format!("{slug}: this member was revoked"),
                "ask the mesh's owner for a new invite, or leave it with `hostel mesh leave`",
            ),
            Some(ended) if ended.state() == "cloned" => findings.bad(
                "mesh",
                format!("{slug}: {}", ended.message),
                format!("`hostel mesh daemon up --remint --mesh {slug}` on a copy, `--accept-cloned-identity` on the same machine"),
            ),
            Some(ended) => findings.bad(
                "mesh",
                format!("{slug}: its daemon ended: {}", ended.message),
                format!("see more with `hostel mesh daemon logs --mesh {slug}`; {start}"),
            ),
            None => findings.warn("mesh", format!("{slug}: its daemon is not up"), start),
        }
        return false;
    };
    let pid = daemon.pid().unwrap_or_default();
    let word = |name: &str| daemon.health.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (state, version) = (word("state"), word("daemon_version"));
    let ours = env!("CARGO_PKG_VERSION");
    match state.as_str() {
        "revoked" => findings.bad(
            "mesh",
            format!("{slug}: this member was revoked"),
            "ask the mesh's owner for a new invite, or leave it with `hostel mesh leave`",
        ),
        "degraded" => findings.bad(
            "mesh",
            format!("{slug}: takes nothing more, its disk or its quota is full"),
            format!("`hostel mesh daemon outbox prune --confirm --mesh {slug}`, or make room on the disk"),
        ),
        _ if daemon.connected() => findings.good("mesh", format!("{slug}: connected, process {pid}")),
        _ => findings.warn(
            "mesh",
            format!("{slug}: process {pid} has no connection to its broker"),
            format!("see why with `hostel mesh daemon logs --mesh {slug}`"),
        ),
    }
    if !version.is_empty() && version != ours {
        findings.warn(
            "mesh",
            format!("{slug}: its daemon runs version {version}, this is {ours}"),
            format!("`hostel mesh daemon restart --mesh {slug}`"),
        );
    }
    true
}

/// The files of one daemon: closed, and not from the future. Whether its settings let hooks run.
fn check_files(dir: &MeshDir, slug: &str, findings: &mut Findings) -> bool {
    let Ok(metadata) = dir.path().metadata() else { return true };
    if metadata.mode() & 0o077 != 0 {
        let path = dir.path().display();
        findings.bad("files", format!("{path} is open to others"), format!("`chmod 700 {path}`"));
    }
    for file in [dir.keypair(), dir.local_token(), dir.host_fingerprint(), dir.outbox(), dir.inbox(), dir.sessions()] {
        closed("files", &file, findings);
    }
    let (socket_mode, hooks) = match Settings::load(&dir.config()) {
        Ok((settings, notices)) => {
            for notice in notices {
                let file = dir.config();
                findings.warn(
                    "configuration",
                    format!("{}: {notice}", file.display()),
                    "correct the line, or remove it",
                );
            }
            (settings.ipc.uds_mode, settings.hooks.enabled)
        }
        Err(error) => {
            findings.bad(
                "configuration",
                error.to_string(),
                "correct the line; a running daemon goes on with what it had",
            );
            (0o600, true)
        }
    };
    if let Ok(socket) = dir.sock().symlink_metadata()
        && socket.mode() & 0o777 & !socket_mode != 0
    {
        let path = dir.sock().display().to_string();
        findings.bad(
            "files",
            format!("{path} is open to others"),
            format!("`hostel mesh daemon restart --mesh {slug}`"),
        );
    }
    check_archive(&dir.path().join("keypair-archive.json"), findings);
    let ahead = |path: &Path| {
        let written = path.metadata().and_then(|metadata| metadata.modified()).ok()?;
        written.duration_since(SystemTime::now()).ok().filter(|ahead| *ahead > SKEW)
    };
    if let Some(ahead) = [dir.log(), dir.inbox(), dir.outbox()].iter().find_map(|path| ahead(path)) {
        findings.warn(
            "clock",
            format!("files of mesh {slug} were written {} in the future", text::duration(ahead)),
            "set the clock (`timedatectl set-ntp true`); messages go and come all the same, with a wrong time",
        );
    }
    hooks
}

/// Keys that were replaced and still open messages.
fn check_archive(path: &Path, findings: &mut Findings) {
    let mut bytes = Vec::new();
    let Ok(file) = std::fs::File::open(path) else { return };
    closed("keys", path, findings);
    let read = file.take(ARCHIVE).read_to_end(&mut bytes).is_ok();
    if !read || serde_json::from_slice::<Value>(&bytes).is_err() {
        findings.warn(
            "keys",
            format!("{} cannot be read: messages for keys that were replaced cannot be opened", path.display()),
            "restore it from a backup; the next start sets it aside",
        );
    }
}

/// A file that must be nobody else's to read.
fn closed(check: &'static str, path: &Path, findings: &mut Findings) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    if metadata.mode() & 0o077 != 0 {
        let path = path.display();
        findings.bad(check, format!("{path} is open to others"), format!("`chmod 600 {path}`"));
    }
}

fn check_fleet(desk: &Desk<'_>, joined: usize, up: usize, findings: &mut Findings) {
    let file = desk.host.places().fleet_config();
    match mesh::daemon::fleet_caps(desk) {
        Err(failure) => findings.bad("fleet", failure.message(), "correct the line, or remove it"),
        Ok((fleet, notices)) => {
            for notice in notices {
                findings.warn("fleet", format!("{}: {notice}", file.display()), "correct the line, or remove it");
            }
            let most = usize::try_from(fleet.max_daemons).unwrap_or(usize::MAX);
            if joined > most {
                findings.warn(
                    "fleet",
                    format!("{joined} meshes are joined and at most {most} daemons may run"),
                    format!("raise `max_daemons` below `[fleet]` in {}", file.display()),
                );
            } else {
                findings.good("fleet", format!("{up} of at most {most} mesh daemons run"));
            }
        }
    }
}

fn check_space(root: &Path, findings: &mut Findings) {
    let Ok(stat) = rustix::fs::statvfs(root) else { return };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let text = format!("{} left where the mesh daemons keep their data", text::size(free));
    match free {
        free if free < LEAST_SPACE => findings.bad("mesh space", text, "make room: daemons take no more messages"),
        free if free < FREE_SPACE => findings.warn("mesh space", text, "make room before it gets less"),
        _ => findings.good("mesh space", text),
    }
}
