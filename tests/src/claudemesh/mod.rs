//! Hosts of a mesh: a broker, daemons, requests over both transports.

pub mod client;
pub mod clocks;
pub mod hooks;
pub mod host;
pub mod lab;
mod letter;
pub mod space;
pub mod stream;
pub mod supervisor;
pub mod systemd;
pub mod wire;

pub use client::{Client, Transport};
pub use clocks::WallClock;
pub use host::Host;
pub use lab::{Lab, Options};
pub use letter::letter;
pub use space::Space;
pub use stream::{Block, Stream};
pub use supervisor::Supervised;
pub use systemd::Systemd;
pub use wire::Wire;
