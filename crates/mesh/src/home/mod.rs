//! What a mesh daemon finds and keeps on its host: where the files are, which meshes it is a member of, its settings,
//! its key, its token, the host's fingerprint, the lock.
//!
//! Invariant: secrets are written with mode 0600 in directories of 0700, whole or not at all, and never printed. Every
//! file that is read has a size limit.
//!
//! Nothing here speaks to a broker, and nothing prints: what a person should know is returned.

pub mod archive;
pub mod backup;
pub mod files;
pub mod fingerprint;
pub mod identity;
pub mod lineage;
mod live;
mod lock;
mod memberships;
pub mod next;
mod paths;
pub mod settings;
pub mod surroundings;
mod token;

pub use live::Live;
pub use lock::PidLock;
pub use memberships::{ConfigError, Membership, Memberships};
pub use paths::{MeshDir, NoHome, Places};
pub use settings::{ClonePolicy, Fleet, Settings, write_default_settings};
pub use token::{GRACE_S, Tokens};
