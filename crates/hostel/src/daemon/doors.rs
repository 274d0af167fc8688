//! The doors of a house while it is open: each served until the house says otherwise.
//!
//! Invariant: a door's clients stay until processes and sessions are put away, so that one that sees its connection
//! close may rely on that. No door ends the daemon but the one whose contract has such a request.

use std::path::Path;
use std::sync::Arc;

use hostel_doors::claustrum;
use hostel_doors::claustrum::Log;
use hostel_doors::claustrum::Metrics;
use hostel_doors::claustrum::Secret;
use hostel_doors::claustrum::ShutdownReason;
use hostel_doors::codecast;
use hostel_doors::native::Phase;
use hostel_doors::zeroclaw;
use hostel_house::processes::Processes;
use hostel_house::sessions::Sessions;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

use super::HELPER;
use super::House;
use super::Policy;
use super::sockets::Bound;
use super::sockets::SocketFile;
use super::system::connection_limit;
use super::system::journal_dir;
use super::system::own_program;
use crate::config::Reattach;
use crate::zeroclaw::endpoint::Endpoint;

/// A door to serve.
pub(crate) enum Door {
    Claustrum(ClaustrumDoor),
    Codecast(CodecastDoor),
    Zeroclaw(ZeroclawDoor),
    /// The zeroclaw door for other machines.
    Wss(WssDoor),
}

/// A claustrum door.
pub(crate) struct ClaustrumDoor {
    pub(crate) bound: Bound,
    pub(crate) settings: DoorSettings,
}

/// Makes a claustrum door's settings.
pub(crate) type DoorSettings = Box<dyn Fn() -> claustrum::Settings + Send>;

/// A codecast door.
pub(crate) struct CodecastDoor {
    pub(crate) listener: TcpListener,
    pub(crate) settings: codecast::Settings,
}

/// A zeroclaw door.
pub(crate) struct ZeroclawDoor {
    pub(crate) bound: Bound,
    pub(crate) door: zeroclaw::Door,
    /// The right to the address, where others may want it.
    pub(crate) endpoint: Option<Endpoint>,
}

/// A zeroclaw door for other machines.
pub(crate) struct WssDoor {
    pub(crate) listener: TcpListener,
    pub(crate) tls: TlsAcceptor,
    pub(crate) door: zeroclaw::Door,
}

/// What serving a door needs of its house.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) processes: Processes,
    pub(super) sessions: Sessions,
    pub(super) log: Log,
    pub(super) phases: watch::Receiver<Phase>,
    pub(super) down: mpsc::Sender<bool>,
    pub(super) policy: Policy,
}

impl Door {
    /// The file it made, if it made one.
    pub(super) fn file(&self) -> Option<SocketFile> {
        match self {
            Door::Claustrum(door) => Some(door.bound.file()),
            Door::Zeroclaw(door) => Some(door.bound.file()),
            Door::Codecast(_) | Door::Wss(_) => None,
        }
    }

    /// Serves it until the house closes.
    pub(super) async fn serve(self, serving: Serving) {
        let stop = closing(serving.phases.clone());
        match self {
            Door::Claustrum(door) => serve_claustrum(door, serving).await,
            Door::Codecast(door) => {
                codecast::serve(door.listener, serving.sessions, door.settings, serving.log, stop).await;
            }
            Door::Zeroclaw(door) => match door.bound.listener() {
                Ok(listener) => {
                    zeroclaw::serve_unix(listener, door.door, stop).await;
                    drop(door.endpoint);
                }
                Err(error) => cannot_serve(&serving.log, door.bound.path(), &error),
            },
            Door::Wss(door) => zeroclaw::serve_wss(door.listener, door.tls, door.door, stop).await,
        }
    }
}

/// Waits until the house wants its doors closed.
async fn closing(mut phases: watch::Receiver<Phase>) {
    drop(phases.wait_for(|phase| matches!(phase, Phase::Closing { .. })).await);
}

fn cannot_serve(log: &Log, path: &Path, error: &std::io::Error) {
    log.error(format_args!("[hostel] cannot serve {}: {error}", path.display()));
}

/// Serves one claustrum door. A shutdown request either ends the daemon or, in a house with other doors, only what
/// came in by this one.
async fn serve_claustrum(mut door: ClaustrumDoor, serving: Serving) {
    let Serving { processes, log, phases, down, policy, .. } = serving;
    let ended = loop {
        let listener = match door.bound.listener() {
            Ok(listener) => listener,
            Err(error) => return cannot_serve(&log, door.bound.path(), &error),
        };
        let mut watched = phases.clone();
        let stop = async move {
            drop(watched.wait_for(|phase| *phase != Phase::Open).await);
        };
        let ended = claustrum::serve(listener, processes.clone(), (door.settings)(), stop).await;
        if ended.reason == ShutdownReason::Stopped || policy.doors_may_end {
            break ended;
        }
        log.info(format_args!("[hostel] a client asked the claustrum door to end what came in by it"));
        for process in processes.list() {
            if process.door() == claustrum::NAME && process.status().running {
                process.kill_tree().await;
            }
        }
        drop(ended);
    };
    door.bound.close();
    if ended.reason == ShutdownReason::Asked {
        // A full queue means that somebody else has asked already.
        down.try_send(policy.keep_on_signal).unwrap_or_default();
    }
    closing(phases).await;
    drop(ended);
}

/// Makes the settings of a claustrum door of this house, as often as it is opened.
pub(crate) fn door_settings(house: &House, token: &[u8], counters: &Arc<Metrics>) -> DoorSettings {
    let ours = house.settings.claustrum.clone();
    let version = ours.reported_version.unwrap_or_else(|| crate::claustrum::DEFAULT_VERSION.to_owned());
    let token = Zeroizing::new(token.to_vec());
    let log = house.log.clone();
    let protected = vec![house.dir.root().to_owned(), journal_dir(&house.dir, &house.settings)];
    let counters = Arc::clone(counters);
    let connections = connection_limit(house.settings.limits.connections);
    Box::new(move || {
        let mut settings = claustrum::Settings::new(Secret::new(token.to_vec()), version.clone(), log.clone());
        settings.shutdown_needs_auth = ours.shutdown_needs_auth;
        settings.limits.connections = connections;
        settings.reattach = match ours.reattach {
            Reattach::Share => claustrum::Reattach::Share,
            Reattach::Transfer => claustrum::Reattach::Transfer,
        };
        settings.protected.clone_from(&protected);
        settings.metrics = Arc::clone(&counters);
        if let Ok(program) = own_program() {
            settings.login_path = claustrum::LoginPath::Ask { helper: vec![program.into_os_string(), HELPER.into()] };
        }
        settings
    })
}
