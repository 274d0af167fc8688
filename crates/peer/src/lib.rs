//! The process at the other end of a connection, and what it is to this user: [`Peer`] and [`Standing`].
//!
//! | module | what it is |
//! |---|---|
//! | `peer` | one connection's other end, captured when it connected |
//! | `standing` | owner, insider, other user, remote or unknown; how that is decided |
//! | `marks` | the mark that everything inside a house carries and cannot take off |
//! | `server` | the process that serves a socket, for whoever connects to it |
//! | `registry` | the hostel processes of this user that are known by number |
//! | `houses` | the directories of the houses of this user that run |
//! | `process`, `tree` | a process held by a descriptor; whose tree it belongs to |
//! | `tcp`, `holders` | the two ends of a TCP connection, and the processes that hold one |
//! | `accept` | taking connections: who is let in, how many, what becomes of the others |
//! | `http`, `secret` | the guard in front of HTTP doors; tokens |
//! | `lookups` | the few threads that may read `/proc` |
//! | `proc`, `sys` | reading `/proc`; the system calls without a safe wrapper |
//!
//! Guarantees: a process that cannot be recognised is never the owner. A process id that was given to another process is
//! never mistaken for the peer. `/proc` is never read on a thread of the runtime, and every lookup has a time limit.
//!
//! The crate must not know a door, a house or a mesh, and must not decide what a peer may do.

#![deny(unsafe_code)]

pub mod accept;
pub mod houses;
pub mod http;
pub mod marks;
pub mod registry;
pub mod server;
pub mod tcp;

mod holders;
mod lookups;
mod peer;
mod proc;
mod process;
mod recent;
mod secret;
mod standing;
#[allow(unsafe_code)] // socket options and a step between fork and exec, for which there is no safe wrapper
mod sys;
mod tree;

pub use peer::Peer;
pub use process::{Process, start_of};
pub use secret::Secret;
pub use standing::Standing;
pub use tcp::Ends;
pub use tree::{Ancestor, PeerInfo};
