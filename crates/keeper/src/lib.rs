//! The keeper: the one process of a house that must not die.
//!
//! It is the parent of every hosted child. It owns their pipes, copies their output into
//! journals, applies their input in order, reaps them and remembers how they ended. The daemon
//! talks to it over a small binary protocol ([`proto`]) and may be killed at any instant: nothing
//! the keeper accepted is lost, doubled or reordered.
//!
//! What it never does: it knows no door, no agent and no policy, runs no async runtime, and never
//! waits for anybody. Two threads share the work. *Control* owns the socket,
//! stdin queues, signals and reaping and never touches a journal; the *pump* moves bytes from pipes
//! to journals and may be throttled by the disk without anybody else noticing.

#![deny(unsafe_code)]

mod channel;
mod child_table;
mod conn;
mod control;
mod launch;
mod marks;
mod pump;
mod recognition;
mod state;
#[allow(unsafe_code)] // the one module that talks to the kernel where no safe wrapper exists
mod sys;
mod upgrade;

pub mod cgroup;
pub mod confine;
pub mod key;
pub mod lease;
pub mod memory;
pub mod proto;
pub mod socket_path;
pub mod stdin_rule;
pub mod syscall_filter;
pub mod tree;

pub use launch::process_main;
pub use recognition::is_traced;
#[doc(hidden)]
pub use upgrade::fuzz_state;

/// The sub-command of the program that becomes the keeper.
pub const SUBCOMMAND: &str = "keeper-process";
/// The option of the sub-command that says the lowest hard limit of file locks of a process outside of the house.
pub const OUTSIDE_LIMIT_OPTION: &str = "--outside-limit";
/// The keeper's socket, inside the run directory.
pub const SOCKET_NAME: &str = "keeper.sock";
/// The file whose lock says that a keeper is alive, inside the run directory.
pub const LOCK_NAME: &str = "keeper.lock";
/// The file that holds the house's tag, inside the run directory.
pub const TAG_NAME: &str = "house.tag";
/// The environment variable by which a child's descendants are recognised wherever they went.
pub const TAG_VARIABLE: &str = "HOSTEL_PROCESS";
