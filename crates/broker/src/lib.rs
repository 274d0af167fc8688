//! A broker: meshes of hosts, one log per mesh, delivery to who is meant. It carries what it cannot read.
//!
//! `engine` keeps things (the embedded one in SQLite), `registry` knows who is in which mesh and may do what, `server`
//! speaks with daemons: HTTP and WebSocket over any stream.
//!
//! Invariant: what was acknowledged is on disk; every reader gets every entry that concerns it, in order, from its own
//! cursor.
//!
//! It never holds a private key, a topic's key or the text of a message.

#![forbid(unsafe_code)]

pub mod audit;
pub mod engine;
pub mod registry;
mod server;

pub use server::log::{Level, Log};
pub use server::settings::{AdminToken, Limits, Settings};
pub use server::{Broker, BrokerError, PeerInfo, Served};
