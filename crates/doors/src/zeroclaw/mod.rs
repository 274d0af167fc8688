//! The zeroclaw door: JSON-RPC 2.0 on a unix socket or a WebSocket, an agent's turn streamed as it happens.
//!
//! Invariant: requests of one connection are handled one after the other; only turns and streams run beside them. A
//! turn is durable before the next line is read, so a cancel right behind a prompt finds it. A client that leaves or
//! does not read holds up nobody and loses nothing: sessions and turns belong to the house.
//!
//! It keeps no session state of its own. Our own socket serves the same methods through [`client::Client`].

pub mod code;
pub mod fuzzing;

mod access;
mod agents;
pub(crate) mod approvals;
mod attach;
mod attachments;
pub(crate) mod client;
mod connection;
mod decide;
mod door;
mod elicit;
mod envelope;
mod export;
mod fs;
mod health;
mod identity;
mod keys;
mod listing;
mod logs;
pub(crate) mod methods;
mod new;
mod params;
pub(crate) mod peer;
mod prompt;
mod sessions;
mod settings;
pub(crate) mod time;
mod turns;
mod unique;
mod updates;
mod visitor;
mod wss;

pub(crate) use client::Client;
pub(crate) use client::Greeting;
pub use connection::serve_unix;
pub use door::Clients;
pub use door::Door;
pub(crate) use envelope::Incoming;
pub(crate) use envelope::read;
pub use keys::Spelling;
pub(crate) use keys::spell;
pub use logs::LogRing;
pub use logs::Tee;
pub(crate) use params::Params;
pub(crate) use peer::Peer;
pub(crate) use peer::PeerNames;
pub use settings::Settings;
pub(crate) use visitor::Face;
pub use wss::serve_wss;

/// The door's name in the house.
pub const NAME: &str = "zeroclaw";

/// The one protocol version that is spoken.
pub(crate) const PROTOCOL_VERSION: u64 = 1;

/// The longest frame that is read, its newline included.
pub(crate) const FRAME_LIMIT: usize = 8 << 20;
