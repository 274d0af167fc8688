//! What `hostel up` does about meshes, and the bounds of the embedded broker.

use serde::Deserialize;

use super::values::Size;

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
    /// The largest file.
    pub(crate) file_size: u64,
    /// Whether daemons of the first protocol are let in.
    pub(crate) allow_v1_hello: bool,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        BrokerSettings {
            rate_per_s: 100,
            burst: 1_000,
            capacity: 100,
            dedupe_days: 30,
            retention_days: 30,
            file_size: 50 << 20,
            allow_v1_hello: true,
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
    pub(super) file_size: Option<Size>,
    pub(super) allow_v1_hello: Option<bool>,
}
