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
use hostel_doors::mcp;
use hostel_doors::native;
use hostel_doors::native::Phase;
use hostel_doors::sudo_proxy;
use hostel_doors::sudo_proxy::Leaving;
use hostel_doors::zeroclaw;
use hostel_house::insiders::Insiders;
use hostel_house::processes::Processes;
use hostel_house::sessions::Sessions;
use hostel_peer::Peer;
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
use crate::codecast::PortFile;
use crate::config::Reattach;
use crate::zeroclaw::endpoint::Endpoint;

/// A door to serve.
pub(crate) enum Door {
    Claustrum(ClaustrumDoor),
    Codecast(CodecastDoor),
    Zeroclaw(ZeroclawDoor),
    /// The zeroclaw door for other machines.
    Wss(WssDoor),
    SudoProxy(SudoProxyDoor),
    Mcp(McpDoor),
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

/// A sudo-proxy door.
pub(crate) struct SudoProxyDoor {
    pub(crate) bound: Bound,
    pub(crate) door: sudo_proxy::Door,
}

/// The MCP door over HTTP.
pub(crate) struct McpDoor {
    pub(crate) listener: TcpListener,
    pub(crate) settings: mcp::HttpSettings,
    /// The door behind its tools that run commands; none where that is closed.
    pub(crate) sudo_proxy: Option<sudo_proxy::Door>,
    /// The file that tells its port, for as long as it accepts.
    pub(crate) port_file: PortFile,
}

/// What serving a door needs of its house.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) processes: Processes,
    pub(super) sessions: Sessions,
    pub(super) insiders: Insiders,
    pub(super) native: Arc<native::Settings>,
    pub(super) log: Log,
    pub(super) phases: watch::Receiver<Phase>,
    /// Says, before anything is ended, that the house ends and whether what runs is kept.
    pub(super) leave: watch::Receiver<Option<bool>>,
    pub(super) down: mpsc::Sender<bool>,
    pub(super) policy: Policy,
}

impl Door {
    /// The file it made, if it made one.
    pub(super) fn file(&self) -> Option<SocketFile> {
        match self {
            Door::Claustrum(door) => Some(door.bound.file()),
            Door::Zeroclaw(door) => Some(door.bound.file()),
            Door::SudoProxy(door) => Some(door.bound.file()),
            Door::Codecast(_) | Door::Wss(_) | Door::Mcp(_) => None,
        }
    }

    /// Whether those it serves have to hear what became of their commands before those are ended.
    pub(super) fn answers_for_commands(&self) -> bool {
        matches!(self, Door::SudoProxy(_))
    }

    /// Serves it until the house closes.
    pub(super) async fn serve(self, serving: Serving) {
        let stop = closing(serving.phases.clone());
        match self {
            Door::Claustrum(door) => serve_claustrum(door, serving).await,
            Door::Codecast(door) => {
                let Serving { sessions, insiders, log, .. } = serving;
                codecast::serve(door.listener, sessions, insiders, door.settings, log, stop).await;
            }
            Door::Zeroclaw(door) => match door.bound.listener() {
                Ok(listener) => {
                    zeroclaw::serve_unix(listener, door.door, stop).await;
                    drop(door.endpoint);
                }
                Err(error) => cannot_serve(&serving.log, door.bound.path(), &error),
            },
            Door::Wss(door) => zeroclaw::serve_wss(door.listener, door.tls, door.door, stop).await,
            Door::SudoProxy(door) => serve_sudo_proxy(door, serving).await,
            Door::Mcp(door) => serve_mcp(door, serving, stop).await,
        }
    }
}

/// Serves the MCP door: its tools reach the doors of this house from the inside, each call as the process behind it.
async fn serve_mcp(door: McpDoor, serving: Serving, stop: impl Future<Output = ()>) {
    let McpDoor { listener, settings, sudo_proxy, port_file } = door;
    let insiders = serving.insiders.clone();
    let sudo = Box::new(move |stream, peer: Peer| {
        // Without a door the stream is closed at once, and the tool says so.
        if let Some(door) = sudo_proxy.clone() {
            hostel_tasks::spawn(sudo_proxy::serve_stream(stream, door, peer));
        }
    });
    let native = Box::new(move |stream, peer: Peer| {
        let (processes, settings) = (serving.processes.clone(), Arc::clone(&serving.native));
        hostel_tasks::spawn(native::attend(stream, peer, processes, settings, serving.phases.clone()));
    });
    let server = crate::mcp::inside(sudo, native, insiders);
    mcp::serve_http(listener, server, settings, stop).await;
    port_file.remove();
}

/// Serves one sudo-proxy door. A client that stops it stops the daemon where that is all the daemon is for, and else
/// the door alone: its address is free for another program then.
async fn serve_sudo_proxy(mut door: SudoProxyDoor, serving: Serving) {
    let Serving { log, mut leave, down, policy, .. } = serving;
    let listener = match door.bound.listener() {
        Ok(listener) => listener,
        Err(error) => return cannot_serve(&log, door.bound.path(), &error),
    };
    let stop = async move {
        match leave.wait_for(Option::is_some).await.map(|keep| *keep) {
            Ok(Some(true)) => Leaving::Restart,
            _ => Leaving::End,
        }
    };
    let ended = sudo_proxy::serve(listener, door.door, stop).await;
    door.bound.close();
    door.bound.file().unlink();
    if ended == sudo_proxy::Ended::Stopped {
        log.info(format_args!("[hostel] a client stopped the sudo-proxy door on {}", door.bound.path().display()));
        if policy.doors_may_end {
            // A full queue means that somebody else has asked already.
            down.try_send(policy.keep_on_signal).unwrap_or_default();
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
    let Serving { processes, insiders, log, phases, down, policy, .. } = serving;
    let ended = loop {
        let listener = match door.bound.listener() {
            Ok(listener) => listener,
            Err(error) => return cannot_serve(&log, door.bound.path(), &error),
        };
        let mut watched = phases.clone();
        let stop = async move {
            drop(watched.wait_for(|phase| *phase != Phase::Open).await);
        };
        let ended = claustrum::serve(listener, processes.clone(), insiders.clone(), (door.settings)(), stop).await;
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
