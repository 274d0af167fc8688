//! What `hostel up` does about meshes, and the bounds of the embedded broker.

use std::time::Duration;

use hostel_broker::registry::Concurrency;
use serde::Deserialize;

use super::values::Size;
use super::values::Time;

/// Meshes of this user.
#[derive(Clone, Debug)]
pub(crate) struct MeshSettings {
    /// Whether `hostel up` starts the embedded broker.
    pub(crate) broker: bool,
    /// Whether `hostel up` starts a daemon for every mesh that is joined.
    pub(crate) daemons: bool,
}

impl Default for MeshSettings {
    fn default() -> Self {
        MeshSettings { broker: true, daemons: true }
    }
}

/// The embedded broker.
#[derive(Clone, Debug)]
pub(crate) struct BrokerSettings {
    /// Sends of a member per second; 0 is as many as it likes.
    pub(crate) rate_per_s: u32,
    /// Sends of a member at once.
    pub(crate) burst: u32,
    /// Connections per mesh.
    pub(crate) capacity: usize,
    /// How long an id is remembered, in days.
    pub(crate) dedupe_days: u32,
    /// How long an entry is kept, in days.
    pub(crate) retention_days: u32,
    /// Bytes of a mesh's log, with the ids it remembers.
    pub(crate) log_size: u64,
    /// Records of the audit.
    pub(crate) audit_records: u64,
    /// How long a record of the audit is kept, in days.
    pub(crate) audit_days: u32,
    /// The largest file.
    pub(crate) file_size: u64,
    /// Entries of a mesh's shared state.
    pub(crate) state_entries: usize,
    /// Bytes of all their values, sealed.
    pub(crate) state_size: u64,
    /// Tasks of a mesh.
    pub(crate) tasks: usize,
    /// Whether daemons of the first protocol are let in.
    pub(crate) allow_v1_hello: bool,
    /// How often a connection is asked whether it is there.
    pub(crate) ping: Duration,
    /// After so much silence a connection is dropped.
    pub(crate) silence: Duration,
    /// How long a member counts as present after its last connection broke.
    pub(crate) lease: Duration,
    /// What meshes that are made here do with two connections of one key.
    pub(crate) concurrency: Concurrency,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        BrokerSettings {
            rate_per_s: 100,
            burst: 1_000,
            capacity: 100,
            dedupe_days: 30,
            retention_days: 30,
            log_size: 16 << 30,
            audit_records: 100_000,
            audit_days: 365,
            file_size: 50 << 20,
            state_entries: 10_000,
            state_size: 256 << 20,
            tasks: 10_000,
            allow_v1_hello: true,
            ping: Duration::from_secs(30),
            silence: Duration::from_secs(75),
            lease: Duration::from_secs(90),
            concurrency: Concurrency::PreferNewest,
        }
    }
}

/// `[mesh]` in one layer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mesh {
    pub(super) broker: Option<bool>,
    pub(super) daemons: Option<bool>,
}

/// `[broker]` in one layer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Broker {
    pub(super) rate_per_s: Option<u32>,
    pub(super) burst: Option<u32>,
    pub(super) capacity: Option<usize>,
    pub(super) dedupe_days: Option<u32>,
    pub(super) retention_days: Option<u32>,
    pub(super) log_size: Option<Size>,
    pub(super) audit_records: Option<u64>,
    pub(super) audit_days: Option<u32>,
    pub(super) file_size: Option<Size>,
    pub(super) state_entries: Option<usize>,
    pub(super) state_size: Option<Size>,
    pub(super) tasks: Option<usize>,
    pub(super) allow_v1_hello: Option<bool>,
    pub(super) ping: Option<Time>,
    pub(super) silence: Option<Time>,
    pub(super) lease: Option<Time>,
    pub(super) concurrency: Option<Concurrency>,
}

/// As it is written.
pub(super) fn concurrency_name(concurrency: Concurrency) -> &'static str {
    match concurrency {
        Concurrency::PreferNewest => "prefer_newest",
        Concurrency::PreferOldest => "prefer_oldest",
        Concurrency::AllowConcurrent => "allow_concurrent",
    }
}
