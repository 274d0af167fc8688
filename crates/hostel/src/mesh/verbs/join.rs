//! Joining a mesh by its invite.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use hostel_mesh::enrol::Enrol;
use hostel_mesh::enrol::EnrolError;
use hostel_wire::Clock;
use serde_json::json;
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::cli::Join;
use crate::mesh::daemon;
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::text;

/// The longest invite.
const INVITE_BYTES: u64 = 64 * 1024;

/// How long a new daemon may take to reach the broker before we go on without.
const CONNECT: Duration = Duration::from_secs(10);

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Join) -> Result<ExitCode, Failure> {
    let name = display_name(arguments.name.as_deref())?;
    let enrol = Enrol::new(desk.host.places().clone(), Clock::system());
    let invite = read_invite(&arguments.invite)?;
    let joined = enrol.join(invite.trim(), &name).await.map_err(|error| refused(&error))?;
    let (membership, already) = (joined.membership, joined.already_member);
    let started = Daemon::start_if(may_start(arguments.no_start), desk, &membership.slug).await?;
    if desk.ui.json() {
        desk.ui.data(&json!({
            "ok": true, "mesh": membership.slug, "meshId": membership.mesh_id, "memberId": membership.member_id,
            "pubkey": membership.key.public().hex(), "displayName": membership.display_name,
            "brokerUrl": membership.broker_urls.first(), "alreadyMember": already, "daemonPid": started.pid,
            "connected": started.connected,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let again = if already { "is in mesh" } else { "joined mesh" };
    let own = membership.display_name.as_deref().unwrap_or(&name);
    desk.ui.line(&format!("{} {again} `{}`", text::printable(own), membership.slug))?;
    tell_daemon(desk, &membership.slug, started)?;
    desk.ui.line("")?;
    desk.ui.line("Next:")?;
    desk.ui.line(&format!("  {} peers", desk.called))?;
    desk.ui.line(&format!("  {} send NAME \"hello\"", desk.called))?;
    Ok(ExitCode::SUCCESS)
}

/// The invite that a word stands for: itself, standard input, or a file. Every user of the machine can read the words of a
/// command while it runs, and an invite is a secret.
fn read_invite(word: &str) -> Result<Zeroizing<String>, Failure> {
    let read = |from: &mut dyn Read, what: &str| {
        let mut text = Zeroizing::new(String::new());
        let read = from.take(INVITE_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| Failure::io(format!("cannot read the invite from {what}: {error}")))?;
        match text.len() as u64 > INVITE_BYTES {
            true => Err(Failure::arguments(format!("{what} holds more than an invite"))),
            false => Ok(text),
        }
    };
    if word == "-" {
        return read(&mut std::io::stdin().lock(), "standard input");
    }
    // A link has a colon and no file has its name; a path has a slash.
    if word.starts_with('/') || word.starts_with("./") || word.starts_with("../") {
        let mut file = std::fs::File::open(word).map_err(|error| {
            Failure::io(format!("cannot read the invite from `{}`: {error}", text::printable(word)))
        })?;
        return read(&mut file, word);
    }
    Ok(Zeroizing::new(word.to_owned()))
}

/// What this host is called: as asked for, else as the machine is.
pub(super) fn display_name(asked: Option<&str>) -> Result<String, Failure> {
    match asked
        .map(str::to_owned)
        .or_else(|| std::env::var("CLAUDEMESH_DISPLAY_NAME").ok().filter(|name| !name.is_empty()))
    {
        Some(name) => hostel_wire::topic::display_name(&name).map_err(|error| {
            Failure::arguments(format!("`{}` cannot be a name: {error}", text::printable(&name)))
                .hint("letters, digits, `_` and `-`, at most 64: others mention it as @name")
        }),
        None => {
            let system = rustix::system::uname();
            let host = system.nodename().to_string_lossy();
            Ok(hostel_wire::topic::display_slug(host.split('.').next().unwrap_or_default()))
        }
    }
}

/// Whether broker and daemon may be started unasked.
pub(super) fn may_start(no_start: bool) -> bool {
    !no_start && !route::is_set("CLAUDEMESH_INTERNAL_NO_AUTOSPAWN") && !route::is_set("CLAUDEMESH_NO_DAEMON")
}

/// The daemon of a mesh that was just made or joined.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Daemon {
    /// None if it is not up.
    pub(super) pid: Option<u32>,
    /// Whether it has reached the broker.
    pub(super) connected: bool,
}

impl Daemon {
    /// Starts it if that is wanted, and waits until it has reached the broker: whoever goes on from here may ask for
    /// peers at once. A broker that is away does not hold us up for longer than a little while.
    pub(super) async fn start_if(wanted: bool, desk: &Desk<'_>, mesh: &str) -> Result<Self, Failure> {
        if !wanted {
            return Ok(Daemon::default());
        }
        let pid = start_daemon(desk, mesh).await?;
        Ok(Daemon { pid, connected: connected(desk, mesh).await })
    }
}

/// Waits until the daemon of a mesh has reached the broker; false if that takes too long.
async fn connected(desk: &Desk<'_>, mesh: &str) -> bool {
    let deadline = Instant::now() + CONNECT;
    let mut pause = Duration::from_millis(10);
    loop {
        if daemon::running(desk, mesh).await.is_some_and(|daemon| daemon.connected()) {
            return true;
        }
        if Instant::now() + pause > deadline {
            return false;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

/// Starts the daemon of a mesh unless it is up; its process id.
pub(super) async fn start_daemon(desk: &Desk<'_>, mesh: &str) -> Result<Option<u32>, Failure> {
    if let Some(running) = daemon::running(desk, mesh).await {
        return Ok(running.pid());
    }
    Ok(Some(daemon::start(desk, mesh, &cli::Up::default()).await?.pid))
}

pub(super) fn tell_daemon(desk: &Desk<'_>, mesh: &str, started: Daemon) -> Result<(), Failure> {
    match started.pid {
        Some(pid) if started.connected => desk.ui.line(&format!("its daemon is up (pid {pid})"))?,
        Some(pid) => {
            desk.ui.line(&format!("its daemon is up (pid {pid}) and has not reached the broker yet"))?;
            desk.ui.line(&format!("see how it stands with `{} daemon status --mesh {mesh}`", desk.called))?;
        }
        None => {
            desk.ui.line(&format!("its daemon is not up; start it with `{} daemon up --mesh {mesh}`", desk.called))?;
        }
    }
    Ok(())
}

/// What the broker, or the way to it, refused.
pub(super) fn refused(error: &EnrolError) -> Failure {
    let word = error.code().to_owned();
    let (code, hint) = match word.as_str() {
        "broker_unavailable" => {
            (Code::Network, Some("see whether the broker is up there with `claudemesh broker status`"))
        }
        "invite_expired" | "invite_exhausted" | "invite_revoked" | "invite_not_found" => {
            (Code::Denied, Some("ask for a new one: `claudemesh invite create` on the host that made the mesh"))
        }
        "invite_bad_signature" | "invite_owner_mismatch" | "invite_mesh_mismatch" | "certificate_mismatch" => {
            (Code::Auth, Some("it is not the invite its owner made; ask for it again over a channel you trust"))
        }
        "invalid_name" | "invalid_url" => (Code::Arguments, None),
        "certificate_unknown" | "root_key_missing" => (Code::Auth, None),
        "invite_malformed" => (Code::Arguments, Some("put it in quotes: shells take # and & for something else")),
        "mesh_not_found" => (Code::NotFound, None),
        "unauthorized" | "forbidden" => (Code::Auth, None),
        "exists" | "slug_taken" => (Code::Exists, None),
        "revoked" | "member_revoked" => (Code::Auth, Some("ask the mesh's owner to take the revocation back")),
        "io" => (Code::Io, None),
        _ => (Code::Internal, None),
    };
    let failure = Failure::new(code, word, error.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
