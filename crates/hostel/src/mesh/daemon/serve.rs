//! The daemon's process: identity, databases, socket and loopback HTTP of one mesh, until it is told to end.
//!
//! Invariant: the lock comes before everything that is shared, the check of the host before the key is used, and nobody
//! is told that it is up before its socket accepts. What it leaves behind is its data: socket, port and pid file go.

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hostel_doors::claudemesh;
use hostel_doors::claudemesh::Door;
use hostel_guard::ClosedPlaces;
use hostel_guard::Guards;
use hostel_mesh::Ending;
use hostel_mesh::Mesh;
use hostel_mesh::MeshOptions;
use hostel_mesh::OpenError;
use hostel_mesh::home::Membership;
use hostel_mesh::home::Memberships;
use hostel_mesh::home::MeshDir;
use hostel_mesh::home::Tokens;
use hostel_mesh::log::Log;
use hostel_wire::Clock;
use serde_json::json;
use tokio::sync::watch;

use super::budget;
use super::caps;
use super::keys;
use super::listen::Listening;
use super::log::Bounds;
use super::log::JsonLog;
use super::memory;
use super::place::gone;
use super::reload;
use super::reload::Reloader;
use super::settle;
use super::settle::Settled;
use super::signals::Signals;
use super::signals::Told;
use super::up;
use crate::config::Settings;
use crate::daemon;
use crate::daemon::launch::Launcher;
use crate::mesh::Desk;
use crate::mesh::cli::Up;
use crate::mesh::failure::Failure;
use crate::mesh::hooks;
use crate::mesh::route;
use crate::paths;
use crate::paths::HouseDir;
use crate::text;

/// How a supervisor is told not to start it again.
const REVOKED: u8 = 78;

/// After so long a daemon has started, and from then on it mostly waits.
const SETTLED: Duration = Duration::from_secs(2);

/// How long who starts a daemon waits for the broker's first word.
const FIRST_WORD: Duration = Duration::from_millis(300);

/// How long the connection and the databases may take to be put away.
const FAREWELL: Duration = Duration::from_secs(4);

/// The places whose files are not for processes inside a house: what the house's guard hides and holds read-only, and the
/// directories of the meshes. The house's settings are read whenever somebody asks. Those that cannot be read close what is
/// closed by default, with what was closed when this daemon started. Houses are known from here on.
fn closed(desk: &Desk<'_>) -> Result<impl Fn() -> ClosedPlaces + Send + Sync + 'static, Failure> {
    let home = paths::home(None).map_err(|error| Failure::arguments(error.to_string()))?;
    hostel_peer::registry::registry().add_houses_of(&home);
    let places = desk.host.places();
    let own = [home.clone(), places.config_dir().to_owned(), places.daemon_root().to_owned()];
    let house = HouseDir::at(home);
    let guards = move || {
        let settings = Settings::load(&house.config_file(), &[]).unwrap_or_default();
        daemon::guard::guards(&house, &settings).ok()
    };
    // These keep hold of the hidden directories, so that one that is moved is known where it is then.
    let first = guards();
    // Looked at now: nobody has moved anything yet.
    drop(first.as_ref().map(Guards::closed_places));
    Ok(move || {
        let now = guards().as_ref().map(Guards::closed_places).unwrap_or_default();
        let held = first.as_ref().map(Guards::closed_places).unwrap_or_default();
        ClosedPlaces {
            hidden: [now.hidden, held.hidden, own.to_vec()].concat(),
            read_only: [now.read_only, held.read_only].concat(),
            writable: now.writable,
        }
    })
}

/// Runs the daemon of a mesh here. `launcher` hears what becomes of it; without one it says so on standard output.
pub(super) fn run(
    desk: &Desk<'_>,
    joined: Membership,
    arguments: &Up,
    launcher: Option<Launcher>,
) -> Result<ExitCode, Failure> {
    daemon::hide_memory();
    // Hooks are inside, whatever becomes of this process.
    daemon::mark_inside();
    hostel_peer::registry::registry().add_this_process();
    let share = match budget::share(desk) {
        Ok(share) => share,
        Err(failure) => {
            if let Some(launcher) = launcher {
                launcher.failed(&up::told(&failure));
            }
            return Err(failure);
        }
    };
    caps::put_in_force(share.memory);
    let dir = desk.host.dir(&joined.slug);
    let runtime = caps::runtime().map_err(|error| Failure::internal(format!("cannot start the runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        match Opened::open(desk, joined, arguments, launcher.is_none()).await {
            Ok(opened) => {
                let told = opened.told(desk);
                let ready = |early: Option<&Ending>| match (launcher, early.map(|early| finish(early.clone()))) {
                    (Some(launcher), Some(Err(failure))) => launcher.failed(&up::told(&failure)),
                    (Some(launcher), _) => launcher.ready(),
                    (None, Some(Err(_))) => {}
                    // A closed terminal is no reason to stop.
                    (None, _) => drop(announce(desk, &told)),
                };
                opened.serve(desk, ready).await
            }
            Err(failure) => {
                if let Some(launcher) = launcher {
                    launcher.failed(&up::told(&failure));
                }
                Err(failure)
            }
        }
    });
    runtime.shutdown_background();
    if let Err(failure) = &outcome
        && !arguments.ephemeral
    {
        memory::failed(&dir, failure);
    }
    outcome
}

fn announce(desk: &Desk<'_>, told: &serde_json::Value) -> Result<(), Failure> {
    if desk.ui.json() {
        desk.ui.data(told)?;
        return Ok(());
    }
    desk.ui.line(&format!("daemon started (pid {})", std::process::id()))?;
    desk.ui.line("  Ctrl-C ends it")?;
    Ok(())
}

/// A daemon whose socket accepts and which has served nobody yet.
struct Opened {
    mesh: Mesh,
    door: Door,
    listening: Listening,
    signals: Signals,
    log: Log,
    settled: Settled,
    ttl: Option<Duration>,
    reloader: Reloader,
}

impl Opened {
    async fn open(desk: &Desk<'_>, joined: Membership, arguments: &Up, foreground: bool) -> Result<Self, Failure> {
        let clock = Clock::system();
        let ttl = match &arguments.ttl {
            Some(ttl) => Some(text::parse_duration(ttl).map_err(Failure::arguments)?),
            None => None,
        };
        let settled = settle::settle(desk, joined, arguments, &clock).await?;
        let log = open_log(&settled, foreground, clock.clone())?;
        for (level, message, fields) in &settled.notes {
            log.line(*level, message, fields.clone());
        }
        let tokens = match &settled.dir {
            Some(dir) => Tokens::open(dir, &clock),
            None => Ok(Tokens::in_memory(&clock)),
        };
        let tokens =
            tokens.map_err(|error| Failure::daemon(1, "local_token", format!("cannot make the token: {error}")))?;
        let signals =
            Signals::install().map_err(|error| Failure::internal(format!("cannot be told of signals: {error}")))?;
        let options = options(desk, &settled, &log, clock)?;
        let mesh = Mesh::open(options).await.map_err(|error| cannot_open(&settled, &error))?;
        let listening = Listening::bind(desk, &settled, arguments).await?;
        let mut door_settings = claudemesh::Settings::of(&settled.settings);
        door_settings.public_health |= arguments.public_health;
        door_settings.external = listening.external();
        door_settings.config_file = settled.dir.as_ref().map(MeshDir::config);
        let door = Door::new(mesh.clone(), tokens, log.clone(), door_settings.clone(), closed(desk)?);
        let reloader = Reloader::new(&mesh, &door, &log, door_settings, &settled.membership, &settled.settings);
        if let Some(dir) = &settled.dir {
            memory::started(dir, arguments);
        }
        Ok(Opened { mesh, door, listening, signals, log, settled, ttl, reloader })
    }

    fn told(&self, desk: &Desk<'_>) -> serde_json::Value {
        json!({
            "ok": true, "detached": false, "pid": std::process::id(), "mesh": self.settled.membership.slug,
            "socket": self.listening.socket(), "http_port": self.listening.port(), "ephemeral": self.settled.dir.is_none(),
            "log": self.settled.dir.as_ref().map(|_| desk.host.dir(&self.settled.membership.slug).log()),
        })
    }

    async fn serve(self, desk: &Desk<'_>, ready: impl FnOnce(Option<&Ending>)) -> Result<ExitCode, Failure> {
        let Opened { mesh, door, mut listening, mut signals, log, settled, ttl, mut reloader } = self;
        let (stop, stopping) = watch::channel(false);
        let listeners = listening.take()?;
        let serving = hostel_tasks::spawn({
            let (door, mut stopping) = (door.clone(), stopping);
            async move {
                door.serve(
                    listeners,
                    async move { stopping.wait_for(|stop| *stop).await.map(drop).unwrap_or_default() },
                )
                .await;
            }
        });
        let mut running = hostel_tasks::spawn({
            let mesh = mesh.clone();
            async move { mesh.run().await }
        });
        log.info(
            "daemon_started",
            json!({
                "version": env!("CARGO_PKG_VERSION"), "pid": std::process::id(), "sock": listening.socket(),
                "tcp": listening.port(), "meshes": [settled.membership.slug], "ephemeral": settled.dir.is_none(),
            }),
        );
        listening.link(desk);
        let mut early = first_word(&mesh, &mut running).await;
        ready(early.as_ref());
        hostel_tasks::spawn(settle_down());
        #[cfg(feature = "otel")]
        super::otel::spawn(&settled.settings, &settled.membership.slug, &door, &log);
        let held = listening.socket().to_owned();
        let over = async {
            match ttl {
                Some(ttl) => tokio::time::sleep(ttl).await,
                None => std::future::pending().await,
            }
        };
        let (mut over, mut gone) = (pin!(over), pin!(gone(&held)));
        let ending = loop {
            if let Some(ending) = early.take() {
                break Some(ending);
            }
            tokio::select! {
                told = signals.told() => match told {
                    Told::End => break None,
                    Told::Reload => drop(reloader.reload(desk)),
                },
                asked = reloader.asked() => drop(asked.send(reloader.reload(desk))),
                () = &mut over => break None,
                () = &mut gone => {
                    log.error("directory_gone", json!({}));
                    break None;
                }
                ended = &mut running => {
                    break Some(ended.unwrap_or_else(|error| Ending::Broken(error.to_string())));
                }
            }
        };
        // First nobody comes in any more, then what was taken is put away.
        listening.unlink(desk);
        stop.send_replace(true);
        let ending = match ending {
            Some(ending) => ending,
            None => {
                mesh.shutdown();
                match tokio::time::timeout(FAREWELL, running).await {
                    Ok(Ok(ending)) => ending,
                    Ok(Err(error)) => Ending::Broken(error.to_string()),
                    Err(_) => Ending::Shutdown,
                }
            }
        };
        tokio::time::timeout(FAREWELL, serving).await.ok();
        log.info("daemon_shutdown", json!({"reason": format!("{ending:?}")}));
        drop(settled);
        finish(ending)
    }
}

/// What the broker says first: who is revoked has not started, and whoever started it should hear so. A broker that is
/// away, or slow, is waited for no longer than that.
async fn first_word(mesh: &Mesh, running: &mut tokio::task::JoinHandle<Ending>) -> Option<Ending> {
    tokio::select! {
        ended = running => Some(ended.unwrap_or_else(|error| Ending::Broken(error.to_string()))),
        () = mesh.connected() => None,
        () = tokio::time::sleep(FIRST_WORD) => None,
    }
}

/// Gives back what only the start needed: one daemon per mesh should not be felt.
async fn settle_down() {
    tokio::time::sleep(SETTLED).await;
    hostel_keeper::memory::give_back();
    hostel_keeper::memory::let_code_go();
}

fn finish(ending: Ending) -> Result<ExitCode, Failure> {
    match ending {
        Ending::Shutdown => Ok(ExitCode::SUCCESS),
        Ending::Revoked => Err(Failure::daemon(REVOKED, "member_revoked", "this member was revoked")
            .hint("ask the mesh's owner for a new invite")),
        Ending::MissingFeatures(reason) => {
            Err(Failure::daemon(1, "missing_features", format!("broker and daemon do not fit: {reason}"))
                .hint("bring the older of the two up to date"))
        }
        Ending::Broken(reason) => Err(Failure::daemon(1, "broken", format!("the daemon cannot go on: {reason}"))),
    }
}

fn open_log(settled: &Settled, foreground: bool, clock: Clock) -> Result<Log, Failure> {
    let opened = match &settled.dir {
        Some(dir) => {
            let daemon = &settled.settings.daemon;
            let bounds = Bounds::of(daemon.log_max_bytes, u64::from(daemon.log_max_age_days));
            JsonLog::open_within(&dir.log(), 0o644, foreground, bounds)
        }
        None => JsonLog::nowhere(foreground),
    };
    let lines = opened.map_err(|error| Failure::daemon(1, "log", format!("cannot open the log: {error}")))?;
    let least = reload::level(&settled.settings);
    Ok(Log::new(clock, least, move |_, line| lines.line(line)))
}

fn options(desk: &Desk<'_>, settled: &Settled, log: &Log, clock: Clock) -> Result<MeshOptions, Failure> {
    let membership = &settled.membership;
    let certificate = route::pin(desk, membership);
    let dial = route::dial(&settled.settings, certificate)?;
    let known = Memberships::load(desk.host.places());
    let broker_urls = route::chosen_urls(&settled.settings, membership);
    Ok(MeshOptions {
        slug: membership.slug.clone(),
        mesh_id: membership.mesh_id.clone(),
        member_id: membership.member_id.clone(),
        member_key: membership.key.clone(),
        keys: keys::options(desk),
        root_key: membership.root_key.clone(),
        owner_key: membership.owner_key.clone(),
        display_name: settled.display_name.clone(),
        rename: settled.rename,
        groups: known.map(|known| known.groups().to_vec()).unwrap_or_default(),
        broker_urls,
        certificate,
        dir: settled.dir.as_ref().map(|dir| dir.path().to_owned()),
        leave_on_end: settled.dir.is_none(),
        host_fingerprint: settled.fingerprint.clone(),
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        cwd: std::env::current_dir().map(|cwd| cwd.display().to_string()).unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: settled.settings.clone(),
        clock,
        dial: Arc::new(dial),
        log: log.clone(),
        // A build server has an ephemeral identity unless it was asked otherwise, and no hooks with that.
        hooks: hooks::options(
            &desk.host.dir(&membership.slug).sock(),
            settled.surroundings.ci.filter(|_| settled.dir.is_none()),
        ),
        inline_stores: false,
    })
}

fn cannot_open(settled: &Settled, error: &OpenError) -> Failure {
    let failure = Failure::daemon(1, "cannot_open", format!("cannot open mesh `{}`: {error}", settled.membership.slug));
    match error {
        OpenError::OutboxCorrupt(_) => failure
            .hint(format!(
                "`claudemesh daemon recover --mesh {}` shows what is damaged and offers ways to go on",
                settled.membership.slug
            ))
            .hint("nothing is thrown away: what can still be read of it is sent, and the rest is kept beside it"),
        OpenError::TooNew(_) => failure.hint("use the version of this program that wrote it, or a later one"),
        _ => failure,
    }
}
