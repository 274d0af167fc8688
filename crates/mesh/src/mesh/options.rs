//! With what a mesh is opened.

use std::path::PathBuf;
use std::sync::Arc;

use hostel_wire::Clock;
use hostel_wire::frames::Group;
use hostel_wire::invite::CertPin;
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;

use crate::home::Settings;
use crate::hooks::HookOptions;
use crate::keyring::KeyOptions;
use crate::link::dial::Dial;
use crate::log::Log;

/// With what a mesh is opened. Nothing is read from the environment after this.
pub struct MeshOptions {
    /// The mesh's short name.
    pub slug: String,
    /// Its id.
    pub mesh_id: String,
    /// Our member's id.
    pub member_id: String,
    /// Our key.
    pub member_key: SecretKey,
    /// Where the key is kept, for who may replace it.
    pub keys: KeyOptions,
    /// The key of epoch 0 of `general`; without it what is sealed with that cannot be read.
    pub root_key: Option<RootKey>,
    /// The mesh owner's key, on the owner's host: it signs invites.
    pub owner_key: Option<SecretKey>,
    /// Our name.
    pub display_name: String,
    /// Tell the broker that this is the name from now on.
    pub rename: bool,
    /// Groups we are in.
    pub groups: Vec<Group>,
    /// Where the brokers are: `ws://` or `wss://`.
    pub broker_urls: Vec<String>,
    /// The digest of the broker's certificate, for invites; the dialler has its own copy.
    pub certificate: Option<CertPin>,
    /// The mesh's directory, for databases and what else is kept. None: ephemeral, nothing is written.
    pub dir: Option<PathBuf>,
    /// Leave the mesh when it ends: ephemeral identities.
    pub leave_on_end: bool,
    /// Of this host, hex.
    pub host_fingerprint: Option<String>,
    /// The host's name.
    pub hostname: String,
    /// Where the daemon runs.
    pub cwd: String,
    /// The program's version.
    pub version: String,
    /// `config.toml`.
    pub settings: Settings,
    /// The time of day.
    pub clock: Clock,
    /// How brokers are reached.
    pub dial: Arc<dyn Dial>,
    /// Where log lines go.
    pub log: Log,
    /// With what hooks are run.
    pub hooks: HookOptions,
    /// The databases have no threads of their own: for simulators.
    pub inline_stores: bool,
}
