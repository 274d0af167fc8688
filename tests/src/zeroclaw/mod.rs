//! The zeroclaw door from outside: a daemon to start and to hurt, a client that looks at every frame, and the player
//! of its data files.

pub mod daemon;
pub mod matching;
pub mod peer;
pub mod script;
pub mod spelling;

pub use daemon::{Daemon, Options};
pub use peer::Peer;
