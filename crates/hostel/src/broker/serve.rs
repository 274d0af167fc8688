//! The broker's process: one lock, one log, one listener for this machine, and on demand one with TLS for others.
//!
//! Invariant: nobody is told of a port before it accepts. Its memory is closed to others of the same user.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hostel_broker::AdminToken;
use hostel_broker::Broker;
use hostel_broker::Level;
use hostel_broker::Limits;
use hostel_broker::Log;
use hostel_broker::Settings as Served;
use hostel_broker::engine::EngineOptions;
use hostel_broker::engine::SqliteEngine;
use hostel_broker::registry::RegistrySettings;
use hostel_doors::tls::Identity;
use hostel_wire::Clock;
use hostel_wire::iso;
use rustls::ServerConfig;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::address::Addresses;
use super::health::Health;
use super::health::local_url;
use super::place::Place;
use crate::config::BrokerSettings;
use crate::config::Settings;
use crate::daemon;
use crate::daemon::launch::Launcher;
use crate::daemon::lock::DaemonLock;
use crate::mesh::daemon::log::JsonLog;
use crate::mesh::daemon::place::gone;
use crate::mesh::daemon::signals::Signals;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::paths::HouseDir;

/// How long a broker that is leaving may hold what this one needs.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

/// Runs the broker here until it is told to end. `launcher` hears when it is up; without one `announce` is called.
pub(super) fn run(
    place: &Place,
    addresses: &Addresses,
    launcher: Option<Launcher>,
    announce: impl FnOnce(&Health),
) -> Result<ExitCode, Failure> {
    daemon::hide_memory();
    daemon::mark_inside();
    daemon::raise_open_files();
    let runtime = daemon::runtime().map_err(|error| Failure::internal(format!("cannot start the runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        match Opened::open(place, addresses, launcher.is_none()).await {
            Ok(opened) => {
                let health = opened.health.clone();
                opened
                    .serve(|| match launcher {
                        Some(launcher) => launcher.ready(),
                        None => announce(&health),
                    })
                    .await;
                Ok(ExitCode::SUCCESS)
            }
            Err(failure) => {
                if let Some(launcher) = launcher {
                    launcher.failed(&failure.to_string());
                }
                Err(failure)
            }
        }
    });
    runtime.shutdown_background();
    outcome
}

/// A broker that is ours and listens, and has served nobody yet.
struct Opened {
    broker: Arc<Broker<SqliteEngine>>,
    local: TcpListener,
    beyond: Option<(TcpListener, Arc<ServerConfig>)>,
    signals: Signals,
    health: Health,
    log: JsonLog,
    pid_file: PathBuf,
    _lock: DaemonLock,
}

impl Opened {
    async fn open(place: &Place, addresses: &Addresses, foreground: bool) -> Result<Self, Failure> {
        let settings = settings_of(place)?;
        place.create()?;
        let log = JsonLog::open(&place.log(), 0o600, foreground)
            .map_err(|error| Failure::io(format!("cannot open `{}`: {error}", place.log().display())))?;
        let lock = take_lock(place).await?;
        let signals =
            Signals::install().map_err(|error| Failure::internal(format!("cannot be told of signals: {error}")))?;
        let local = bind_local(place, addresses.local).await?;
        let port = local.local_addr().map_err(|error| Failure::io(error.to_string()))?.port();
        let (beyond, certificate) = bind_beyond(place, addresses).await?;
        let broker = open_broker(place, addresses, &settings.broker, port, &log).await?;
        let written = place.write_port(port).and_then(|()| place.write_listening(&addresses.beyond));
        written.map_err(|error| Failure::io(format!("cannot write to `{}`: {error}", place.root().display())))?;
        let health = Health {
            pid: std::process::id(),
            port,
            answer: json!({"public_url": addresses.beyond.url, "certificate": certificate}),
        };
        line(
            &log,
            "info",
            "broker_started",
            json!({
                "version": env!("CARGO_PKG_VERSION"), "pid": health.pid, "port": port,
                "listen": addresses.beyond.listen, "url": addresses.beyond.url,
            }),
        );
        Ok(Opened { broker, local, beyond, signals, health, log, pid_file: place.pid(), _lock: lock })
    }

    async fn serve(self, ready: impl FnOnce()) {
        let Opened { broker, local, beyond, mut signals, log, pid_file, .. } = self;
        let (stop, stopping) = watch::channel(false);
        let until = |mut stopping: watch::Receiver<bool>| async move {
            stopping.wait_for(|stop| *stop).await.ok();
        };
        let mut serving = tokio::task::JoinSet::new();
        {
            let (broker, until) = (Arc::clone(&broker), until(stopping.clone()));
            serving.spawn(async move { broker.serve(local, None, until).await });
        }
        if let Some((listener, tls)) = beyond {
            let (broker, until) = (Arc::clone(&broker), until(stopping));
            serving.spawn(async move { broker.serve(listener, Some(tls), until).await });
        }
        ready();
        tokio::select! {
            () = signals.told_to_end() => {}
            () = gone(&pid_file) => line(&log, "error", "directory_gone", json!({})),
        }
        stop.send_replace(true);
        while serving.join_next().await.is_some() {}
        broker.shutdown().await;
        line(&log, "info", "broker_shutdown", json!({}));
    }
}

/// The house's settings, as far as they are the broker's.
fn settings_of(place: &Place) -> Result<Settings, Failure> {
    let home = place.root().parent().unwrap_or(place.root());
    Ok(Settings::load(&HouseDir::at(home).config_file(), &[])?)
}

/// Takes the lock; whoever looks at it holds it for an instant, and one that is ending for a moment.
async fn take_lock(place: &Place) -> Result<DaemonLock, Failure> {
    let problem = |error: io::Error| Failure::io(format!("cannot lock `{}`: {error}", place.pid().display()));
    match DaemonLock::take_over(&place.pid(), PATIENCE).await.map_err(problem)? {
        Some(lock) => Ok(lock),
        None => {
            let pid = place.holder().unwrap_or_default();
            Err(Failure::daemon(1, "already_running", format!("broker already running (pid {pid})")))
        }
    }
}

/// Listens on loopback: where it was asked to, else where it was the last time, else anywhere.
async fn bind_local(place: &Place, asked: SocketAddr) -> Result<TcpListener, Failure> {
    let last = place.port().filter(|_| asked.port() == 0);
    let address = SocketAddr::new(asked.ip(), last.unwrap_or(asked.port()));
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let error = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOOK).await;
            }
            Err(error) => break error,
        }
    };
    let failure = Failure::daemon(1, "cannot_listen", format!("cannot listen on {address}: {error}"));
    Err(match last {
        Some(_) => failure.hint(format!(
            "meshes of this broker are joined by that port; free it, or give them up with `rm {}`",
            place.port_file().display()
        )),
        None => failure,
    })
}

type Beyond = (Option<(TcpListener, Arc<ServerConfig>)>, Option<String>);

/// Listens for other machines, with a certificate that is made at the first time; its digest is told.
async fn bind_beyond(place: &Place, addresses: &Addresses) -> Result<Beyond, Failure> {
    let Some(address) = addresses.beyond.listen else { return Ok((None, None)) };
    let (identity, digest) = super::identity(place)?;
    let tls = server_config(&identity)?;
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| Failure::daemon(1, "cannot_listen", format!("cannot listen on {address}: {error}")))?;
    Ok((Some((listener, tls)), Some(hostel_wire::encoding::hex(&digest))))
}

fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>, Failure> {
    let acceptor = identity.acceptor(hostel_doors::tls::Protocols::Http1);
    acceptor
        .map(|acceptor| Arc::clone(acceptor.config()))
        .map_err(|error| Failure::daemon(1, "certificate", format!("the certificate cannot be used: {error}")))
}

async fn open_broker(
    place: &Place,
    addresses: &Addresses,
    settings: &BrokerSettings,
    port: u16,
    log: &JsonLog,
) -> Result<Arc<Broker<SqliteEngine>>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::daemon(1, "broker", format!("cannot open the broker in `{}`: {error}", place.root().display()))
    };
    let token = place.admin_token().map_err(|error| failed(&error))?;
    let clock = Clock::system();
    let options = EngineOptions::at(place.root().join("broker.db"), place.root().join("blobs"));
    let options = EngineOptions {
        log_bytes: settings.log_size,
        audit_records: settings.audit_records,
        audit_days: settings.audit_days,
        ..options
    };
    let engine = SqliteEngine::open(options).await.map_err(|error| failed(&error))?;
    let limits = Limits {
        rate_per_s: settings.rate_per_s,
        burst: settings.burst,
        capacity: settings.capacity,
        dedupe_days: settings.dedupe_days,
        retention_days: settings.retention_days,
        file_bytes: settings.file_size,
        ..Limits::default()
    };
    let served = Served {
        urls: vec![addresses.beyond.url.clone().unwrap_or_else(|| local_url(port))],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        limits,
        allow_v1_hello: settings.allow_v1_hello,
        admin_token: AdminToken::new(&token),
        ping: settings.ping,
        silence: settings.silence,
        lease: settings.lease,
        ..Served::default()
    };
    let sink = log.clone();
    let least = if route::is_set("CLAUDEMESH_DEBUG") { Level::Debug } else { Level::Info };
    let lines = Log::new(move |level, message, fields| {
        if level >= least {
            line(&sink, level.as_str(), message, Value::Object(fields));
        }
    });
    let registry = RegistrySettings {
        concurrency: settings.concurrency,
        state_entries: settings.state_entries,
        state_bytes: settings.state_size,
        tasks: settings.tasks,
        // A key is needed as long as there is something it opens.
        key_days: u64::from(settings.retention_days) + 1,
        ..RegistrySettings::default()
    };
    let opened = Broker::open(engine, served, registry, clock, lines).await;
    opened.map_err(|error| failed(&error))
}

/// Writes a line of the log.
fn line(log: &JsonLog, level: &str, message: &str, fields: Value) {
    let mut whole = Map::new();
    whole.insert("level".to_owned(), level.into());
    whole.insert("msg".to_owned(), message.into());
    whole.insert("ts".to_owned(), iso(Clock::system().now_ms()).into());
    if let Value::Object(fields) = fields {
        whole.extend(fields);
    }
    log.line(&Value::Object(whole).to_string());
}
