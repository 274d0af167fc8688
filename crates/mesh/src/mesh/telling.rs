//! How the mesh stands, for people, programs and monitors.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Health, Mesh, State, Version};
use crate::home::Settings;
use crate::metrics::Gauges;
use crate::schema;

/// The additive minor of the local interface.
const IPC_MINOR: u32 = 4;

/// What this daemon can do, for who asks.
const FEATURES: &[&str] = &[
    "send",
    "topics",
    "inbox",
    "search",
    "peers",
    "profile",
    "files",
    "events_resume",
    "outbox",
    "sessions",
    "members",
    "invites",
    "rotate_keypair",
    "heartbeat",
    "rotate_token",
    "reload",
];

/// What it can do at this moment: what is always there, and what the settings switch on.
fn features(settings: &Settings) -> Vec<&'static str> {
    let switched = [
        ("hooks", settings.hooks.enabled),
        ("state", settings.capabilities.state),
        ("tasks", settings.capabilities.tasks),
    ];
    let on = switched.into_iter().filter(|(_, on)| *on).map(|(name, _)| name);
    FEATURES.iter().copied().chain(on).collect()
}

impl Mesh {
    /// `GET /v1/health`.
    pub async fn health(&self) -> Health {
        let core = &self.core;
        let (depth, state) = (core.outbox.depth(), core.state());
        Health {
            ok: true,
            pid: std::process::id(),
            connected: core.line().is_ok(),
            lag_ms: core.lag_ms(),
            queue_depth: depth.pending + depth.inflight,
            inflight: depth.inflight,
            mesh: core.me.slug.clone(),
            member_pubkey: core.pubkey(),
            uptime_s: core.started.elapsed().as_secs(),
            schema_version: schema::VERSION,
            daemon_version: core.me.version.clone(),
            broker_version: core.welcome().map(|welcome| welcome.broker_version).filter(|version| !version.is_empty()),
            brokers: BTreeMap::from([(core.me.slug.clone(), state.broker_word())]),
            display_name: core.display_name(),
            state: match state {
                State::Revoked => "revoked",
                State::Degraded => "degraded",
                _ => "ok",
            },
        }
    }

    /// `GET /v1/version`.
    #[must_use]
    pub fn version(&self) -> Version {
        let core = &self.core;
        Version {
            daemon_version: core.me.version.clone(),
            ipc_api: "v1",
            ipc_minor: IPC_MINOR,
            schema_version: schema::VERSION,
            broker_protocol_min: "2",
            broker_protocol_max: "2",
            mesh: core.me.slug.clone(),
            ipc_features: features(&core.settings.get()),
            broker_features_negotiated: core.welcome().map(|welcome| welcome.features.supported).unwrap_or_default(),
        }
    }

    /// `GET /v1/compat`.
    #[must_use]
    pub fn compat(&self) -> Value {
        let version = &self.core.me.version;
        let mut parts = version.split('.');
        let (major, minor) = (parts.next().unwrap_or("0"), parts.next().unwrap_or("0"));
        let next = major.parse::<u32>().map_or(1, |major| major.saturating_add(1));
        let range = format!(">={version},<{next}.0.0");
        json!({
            "daemon": version,
            "compatible_brokers": [format!("{major}.{minor}.x")],
            "compatible_clis": [format!("{major}.{minor}.x")],
            "compatible_sdks": {"python": range, "go": range, "ts": range},
        })
    }

    /// `GET /v1/metrics`, without what the door counts itself.
    pub async fn metrics_text(&self) -> String {
        let core = &self.core;
        let (depth, now) = (core.outbox.depth(), core.outbox.now_ms());
        let age = core.outbox.oldest_pending().map_or(0, |oldest| now.saturating_sub(oldest));
        let gauges = Gauges {
            connected: core.line().is_ok(),
            lag_ms: core.lag_ms().unwrap_or_default(),
            pending: depth.pending,
            inflight: depth.inflight,
            dead: depth.dead,
            oldest_pending_s: std::time::Duration::from_millis(age).as_secs_f64(),
            outbox_pct: core.outbox.pressure().percent(),
            inbox_pct: core.inbox.pressure().percent(),
            inbox_rows: core.inbox.counts().rows,
        };
        core.metrics.text(&core.me.slug, &gauges)
    }
}
