//! The sudo-proxy door from outside: a daemon on a terminal of its own, real or ours, and a client for its one line each
//! way.

pub mod client;
pub mod daemon;
pub mod moment;
pub mod oracle;
pub mod terminal;

pub use client::Client;
pub use daemon::{Daemon, Options, Program};
pub use terminal::Terminal;
