//! Who the daemon is and where it lives: settings, directory, lock, host and key, before anything is served.
//!
//! Invariant: a key that belongs to another machine is not used unless somebody said so; that is exit code 4. An
//! ephemeral daemon writes nothing.

use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use hostel_mesh::home::ClonePolicy;
use hostel_mesh::home::Membership;
use hostel_mesh::home::Memberships;
use hostel_mesh::home::MeshDir;
use hostel_mesh::home::PidLock;
use hostel_mesh::home::Settings;
use hostel_mesh::home::fingerprint;
use hostel_mesh::home::fingerprint::Host;
use hostel_mesh::home::fingerprint::Record;
use hostel_mesh::home::fingerprint::Verdict;
use hostel_mesh::home::identity;
use hostel_mesh::home::surroundings::Surroundings;
use hostel_mesh::home::write_default_settings;
use hostel_mesh::log::Level;
use hostel_wire::Clock;
use rustix::fs::FlockOperation;
use serde_json::Value;
use serde_json::json;

use super::budget;
use super::budget::Gate;
use super::up;
use crate::broker::place::replace;
use crate::mesh::Desk;
use crate::mesh::cli::Up;
use crate::mesh::failure::Failure;
use crate::mesh::route;

/// How long whoever merely looks at the lock, or is ending, may hold it.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// Lines for the log, once there is one.
pub(super) type Notes = Vec<(Level, &'static str, Value)>;

/// What was settled.
pub(super) struct Settled {
    pub(super) membership: Membership,
    pub(super) settings: Settings,
    pub(super) surroundings: Surroundings,
    /// Where everything is kept; none for an ephemeral identity.
    pub(super) dir: Option<MeshDir>,
    /// Where an ephemeral daemon has its socket.
    pub(super) runtime: Option<PathBuf>,
    pub(super) display_name: String,
    pub(super) rename: bool,
    pub(super) fingerprint: Option<String>,
    /// What the log should say.
    pub(super) notes: Notes,
    _lock: Lock,
}

/// What is held while the daemon lives.
enum Lock {
    Pid(#[expect(dead_code, reason = "held, not read")] PidLock),
    Directory(#[expect(dead_code, reason = "held, not read")] File),
}

pub(super) async fn settle(
    desk: &Desk<'_>,
    joined: Membership,
    arguments: &Up,
    clock: &Clock,
) -> Result<Settled, Failure> {
    let dir = desk.host.dir(&joined.slug);
    let mut notes = Vec::new();
    let settings = load_settings(desk, &dir, &mut notes)?;
    if let Some(other) = settings.daemon.mesh.as_ref().filter(|mesh| **mesh != joined.slug) {
        let message =
            format!("{}: its settings are for mesh `{other}`, not for `{}`", dir.config().display(), joined.slug);
        return Err(Failure::daemon(1, "config", message).hint("correct `mesh` below `[daemon]`, or remove it"));
    }
    let surroundings = Surroundings::here();
    let ephemeral = arguments.ephemeral || (surroundings.ci.is_some() && !arguments.persistent);
    if ephemeral {
        return settle_ephemeral(desk, joined, arguments, settings, surroundings, notes).await;
    }
    let problem =
        |error: io::Error| Failure::daemon(1, "io", format!("cannot use `{}`: {error}", dir.path().display()));
    dir.create().map_err(problem)?;
    write_default_settings(&dir.config()).map_err(problem)?;
    let lock = {
        let gate = Gate::pass(desk).await?;
        let lock = take_lock(&dir).await?;
        gate.admit(desk, &joined.slug)?;
        lock
    };
    // Read again: the daemon that has only just ended may have replaced its key.
    let known = Memberships::load(desk.host.places());
    let joined = known.ok().and_then(|known| known.find(&joined.slug).cloned()).unwrap_or(joined);
    // Whose daemon it is, for `hostel down`.
    replace(&dir.path().join(HOUSE), desk.home.as_os_str().as_encoded_bytes(), 0o600).map_err(problem)?;
    let (mut membership, fingerprint) =
        settle_host(desk, &dir, joined, arguments, &settings, clock, &mut notes).await?;
    let kept = identity::of_membership(&dir, &membership, clock.now_ms())
        .map_err(|error| Failure::daemon(1, "identity", format!("cannot use the key: {error}")))?;
    if let Some(aside) = kept.set_aside {
        notes.push((Level::Warn, "keypair_set_aside", json!({"path": aside})));
    }
    let (display_name, rename) = settle_name(desk, &mut membership, arguments, &settings)?;
    Ok(Settled {
        membership,
        settings,
        surroundings,
        dir: Some(dir),
        runtime: None,
        display_name,
        rename,
        fingerprint,
        notes,
        _lock: Lock::Pid(lock),
    })
}

/// The file that says which house a daemon belongs to.
pub(super) const HOUSE: &str = "house";

/// The daemon's own file, within what all daemons of this user share.
pub(super) fn load_settings(desk: &Desk<'_>, dir: &MeshDir, notes: &mut Notes) -> Result<Settings, Failure> {
    let path = dir.config();
    let (mut settings, warnings) = Settings::load(&path)
        .map_err(|error| Failure::daemon(1, "config", error.to_string()).hint("correct the line, or remove it"))?;
    for warning in warnings {
        notes.push((Level::Warn, "config_warning", json!({"line": warning.line, "text": warning.text})));
    }
    if settings.metrics.otel_endpoint.is_some() && !cfg!(feature = "otel") {
        let text = "`metrics.otel_endpoint` has no effect: this program was built without the feature `otel`, and \
                    numbers are served at `/v1/metrics` alone";
        notes.push((Level::Warn, "config_warning", json!({"text": text})));
    }
    for warning in budget::fleet(desk)?.1 {
        let file = desk.host.places().fleet_config();
        notes.push((Level::Warn, "config_warning", json!({"file": file, "line": warning.line, "text": warning.text})));
    }
    budget::share(desk)?.bound(&mut settings);
    Ok(settings)
}

async fn take_lock(dir: &MeshDir) -> Result<PidLock, Failure> {
    let problem =
        |error: io::Error| Failure::daemon(1, "io", format!("cannot lock `{}`: {error}", dir.pid().display()));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(lock) = PidLock::take(&dir.pid()).map_err(problem)? {
            return Ok(lock);
        }
        // Held by a daemon whose socket answers: it will not go away.
        let answers = crate::daemon::sockets::occupant(&dir.sock()) == crate::daemon::sockets::Occupant::Listening;
        if answers || tokio::time::Instant::now() >= deadline {
            return Err(up::already(PidLock::holder(&dir.pid())));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Compares this machine with the one the key belongs to; makes a new identity if that is asked for.
async fn settle_host(
    desk: &Desk<'_>,
    dir: &MeshDir,
    joined: Membership,
    arguments: &Up,
    settings: &Settings,
    clock: &Clock,
    notes: &mut Notes,
) -> Result<(Membership, Option<String>), Failure> {
    let file = dir.host_fingerprint();
    let problem =
        |error: io::Error| Failure::daemon(1, "io", format!("cannot read or write `{}`: {error}", file.display()));
    let host = Host::here();
    if arguments.remint {
        // What was accepted keeps the ids of who accepted it; that must be known before there is anybody else.
        hostel_mesh::outbox::belongs_to(&dir.outbox(), &joined.member_id).await.map_err(|error| {
            Failure::daemon(1, "outbox", format!("cannot make a new identity: {error}"))
                .hint("the identity is as it was: what was accepted has to be readable before there is a new one")
        })?;
        let enrol = route::enrol(desk, &joined, clock.clone());
        let reminted = enrol.remint(&joined).await.map_err(|error| {
            Failure::daemon(1, error.code(), format!("cannot make a new identity: {error}"))
                .hint("the broker has to be asked for it; see whether it is up with `claudemesh broker status`")
        })?;
        notes.push((Level::Warn, "identity_reminted", json!({"member_id": reminted.member_id})));
        fingerprint::accept(&file, &host, clock.now_ms()).map_err(problem)?;
        let check = fingerprint::check(&file, &host, settings.clone.policy, false, clock.now_ms()).map_err(problem)?;
        return Ok((reminted, check.fingerprint));
    }
    let accept = arguments.accept_cloned_identity;
    let check = fingerprint::check(&file, &host, settings.clone.policy, accept, clock.now_ms()).map_err(problem)?;
    match check.verdict {
        Verdict::Same => {}
        Verdict::Written | Verdict::Rewritten | Verdict::Accepted => {
            notes.push((Level::Info, "host_fingerprint_written", json!({"fingerprint": check.fingerprint})));
        }
        Verdict::UnknownSchema => notes.push((Level::Warn, "host_fingerprint_unknown_schema", json!({}))),
        Verdict::Unavailable => notes.push((Level::Warn, "fingerprint_unavailable", json!({}))),
        Verdict::Clone { recorded, here, policy: ClonePolicy::Refuse } => return Err(cloned(desk, &recorded, &here)),
        Verdict::Clone { recorded, here, .. } => {
            notes.push((Level::Warn, "clone_suspected", json!({"recorded": recorded.host_id, "here": here.host_id})));
        }
    }
    Ok((joined, check.fingerprint))
}

fn cloned(desk: &Desk<'_>, recorded: &Record, here: &Record) -> Failure {
    let shown = |record: &Record| match (record.host_id.as_str(), record.stable_mac.as_str()) {
        ("", mac) => mac.to_owned(),
        (id, _) => id.to_owned(),
    };
    let message = format!("this identity belongs to another host: recorded {}, here {}", shown(recorded), shown(here));
    Failure::daemon(4, "cloned_identity", message)
        .hint(format!("this is a copy of that host: `{} daemon up --remint` makes a new identity for it", desk.called))
        .hint(format!(
            "this is the same host, moved: `{} daemon up --accept-cloned-identity` keeps the identity",
            desk.called
        ))
        .with_data(json!({
            "ok": false, "reason": "cloned_identity",
            "recorded": {"host_id": recorded.host_id, "fingerprint": recorded.fingerprint},
            "here": {"host_id": here.host_id, "fingerprint": here.fingerprint},
        }))
}

/// The name, and whether peers have to be told of it: the first one stays, unless another is asked for.
fn settle_name(
    desk: &Desk<'_>,
    membership: &mut Membership,
    arguments: &Up,
    settings: &Settings,
) -> Result<(String, bool), Failure> {
    let asked = match &arguments.name {
        Some(name) => Some(
            hostel_wire::topic::display_name(name)
                .map_err(|error| Failure::arguments(format!("`{name}` cannot be a name: {error}")).with_exit(3))?,
        ),
        None => None,
    };
    let known = membership.display_name.clone().or_else(|| settings.daemon.display_name.clone());
    let (name, rename) = match (asked, known) {
        (Some(asked), Some(known)) if arguments.rename => {
            let changed = asked != known;
            (asked, changed)
        }
        (_, Some(known)) => return Ok((known, false)),
        (Some(asked), None) => (asked, true),
        (None, None) => return Ok((membership.slug.clone(), false)),
    };
    membership.display_name = Some(name.clone());
    Memberships::rename(desk.host.places(), &membership.slug, &name)
        .map_err(|error| Failure::daemon(1, "io", format!("cannot keep the name: {error}")))?;
    Ok((name, rename))
}

/// An identity that is never written down: enrolled by the member's own, and gone with the process.
async fn settle_ephemeral(
    desk: &Desk<'_>,
    joined: Membership,
    arguments: &Up,
    settings: Settings,
    surroundings: Surroundings,
    notes: Notes,
) -> Result<Settled, Failure> {
    let runtime = desk.host.runtime_dir(&joined.slug);
    let lock = {
        let gate = Gate::pass(desk).await?;
        let lock = lock_directory(&runtime).await?;
        gate.admit(desk, &joined.slug)?;
        lock
    };
    let base = arguments.name.clone().or_else(|| joined.display_name.clone()).unwrap_or_else(|| joined.slug.clone());
    let display_name = match arguments.name {
        Some(_) => hostel_wire::topic::display_slug(&base),
        None => hostel_wire::topic::display_slug(&format!("{base}-{}", std::process::id())),
    };
    let enrol = route::enrol(desk, &joined, Clock::system());
    let membership = enrol.ephemeral(&joined, &display_name).await.map_err(|error| {
        Failure::daemon(1, error.code(), format!("cannot enrol an ephemeral identity: {error}"))
            .hint("the broker has to be asked for it; see whether it is up with `claudemesh broker status`")
    })?;
    let display_name = membership.display_name.clone().unwrap_or(display_name);
    Ok(Settled {
        membership,
        settings,
        surroundings,
        dir: None,
        runtime: Some(runtime),
        display_name,
        rename: false,
        fingerprint: None,
        notes,
        _lock: Lock::Directory(lock),
    })
}

/// The private directory of an ephemeral daemon, locked: a file in it would be one file too many.
async fn lock_directory(path: &Path) -> Result<File, Failure> {
    let problem =
        |error: &dyn std::fmt::Display| Failure::daemon(1, "io", format!("cannot use `{}`: {error}", path.display()));
    if let Some(parent) = path.parent() {
        crate::paths::private_directory(parent)?;
    }
    crate::paths::private_directory(path)?;
    let directory = File::open(path).map_err(|error| problem(&error))?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(directory),
            Err(rustix::io::Errno::WOULDBLOCK) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOOK).await;
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(up::already(None)),
            Err(error) => return Err(problem(&error)),
        }
    }
}
