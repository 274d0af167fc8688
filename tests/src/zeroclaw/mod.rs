//! The zeroclaw door from outside: a daemon to start and to hurt, a client that looks at every frame.

pub mod daemon;
pub mod peer;
pub mod spelling;

pub use daemon::{Daemon, Options};
pub use peer::Peer;
