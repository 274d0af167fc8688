//! The keeper's wire protocol: length-prefixed frames of tagged fields.
//!
//! ```text
//! frame: len u32 (bytes after this field, at most 2 MiB) | type u16 | flags u16 | corr u64 | field*
//! field: tag u16 | len u32 | bytes                       (all numbers little-endian)
//! ```
//!
//! A frame may carry descriptors of open files (`SCM_RIGHTS`). Its field [`tag::DESCRIPTORS`] says how many, at most
//! [`MAX_DESCRIPTORS`]; they are attached to the first byte of the frame. Descriptors that no frame names are closed.
//!
//! Rules that let an old keeper serve a newer daemon: an unknown field is skipped; an unknown
//! type with `corr != 0` is answered by [`kind::ERROR`]; numbers are never reused and a field
//! never changes its meaning. This module encodes and decodes bytes; it opens nothing.

mod frame;
mod message;
mod spawn;

pub(crate) use frame::split_unbounded;
pub use frame::{Builder, DecodeError, Fields, Frame, HEADER_BYTES, MAX_FRAME_BYTES, split};
pub use message::*;
pub use spawn::*;

/// The protocol version this build speaks.
pub const PROTOCOL: u32 = 1;
/// Most descriptors that one frame may carry.
pub const MAX_DESCRIPTORS: usize = 4;
/// Largest anchor.
pub const MAX_ANCHOR_BYTES: usize = 4096;
/// Largest stdin payload of one frame.
pub const MAX_STDIN_BYTES: usize = 1024 * 1024;

/// Frame types. Numbers are never reused.
pub mod kind {
    #![allow(missing_docs)] // the names are the documentation; the module page gives the shapes
    pub const HELLO: u16 = 1;
    pub const WELCOME: u16 = 2;
    pub const STATE: u16 = 3;
    pub const SYNCED: u16 = 4;
    pub const SPAWN: u16 = 5;
    pub const SPAWNED: u16 = 6;
    pub const FAILED: u16 = 7;
    pub const STDIN: u16 = 8;
    pub const INPUT: u16 = 9;
    pub const CLOSE_STDIN: u16 = 10;
    pub const SIGNAL: u16 = 11;
    pub const DONE: u16 = 12;
    pub const FORGET: u16 = 15;
    pub const LIMITS: u16 = 16;
    pub const PING: u16 = 17;
    pub const UPGRADE: u16 = 18;
    pub const STOP: u16 = 19;
    pub const ERROR: u16 = 20;
    pub const NOTE: u16 = 32;
    pub const SUPERSEDED: u16 = 33;
    pub const HOUSE_KEY: u16 = 34;
    pub const KEY: u16 = 35;
    pub const PUT_ANCHOR: u16 = 50;
    pub const GET_ANCHOR: u16 = 51;
    pub const ANCHOR: u16 = 52;
}

/// Field tags. Numbers are never reused.
pub mod tag {
    #![allow(missing_docs)] // the names are the documentation; `message` gives the types
    pub const ID: u16 = 1;
    pub const LABEL: u16 = 2;
    pub const PROGRAM: u16 = 3;
    pub const ARG: u16 = 4;
    pub const ENV: u16 = 5;
    pub const CWD: u16 = 6;
    pub const UMASK: u16 = 7;
    pub const NOFILE: u16 = 8;
    pub const STDIN_KIND: u16 = 9;
    pub const QUOTA: u16 = 10;
    pub const ON_FULL: u16 = 11;
    pub const PID: u16 = 12;
    pub const START_NS: u16 = 13;
    pub const STAGE: u16 = 14;
    pub const ERRNO: u16 = 15;
    pub const TEXT: u16 = 16;
    pub const OFFSET: u16 = 17;
    pub const MARK: u16 = 18;
    pub const BYTES: u16 = 19;
    pub const APPLIED: u16 = 20;
    pub const WRITTEN: u16 = 21;
    pub const OUTCOME: u16 = 22;
    pub const SIGNO: u16 = 23;
    pub const SCOPE: u16 = 24;
    pub const REACHED: u16 = 25;
    pub const PHASE: u16 = 26;
    pub const COMMITTED: u16 = 27;
    pub const NEXT_SEQ: u16 = 28;
    pub const HELD: u16 = 29;
    pub const CODE: u16 = 30;
    pub const EXIT_SIGNAL: u16 = 31;
    pub const HAS_FILE: u16 = 32;
    pub const PROTO_MIN: u16 = 33;
    pub const PROTO_MAX: u16 = 34;
    pub const PROTO: u16 = 35;
    pub const ROLE: u16 = 36;
    pub const BUILD: u16 = 37;
    pub const JOURNAL_DEV: u16 = 38;
    pub const JOURNAL_INO: u16 = 39;
    pub const FEATURES: u16 = 40;
    pub const KEEPER_ID: u16 = 41;
    pub const SINCE_NS: u16 = 42;
    pub const CHILD_LIMIT: u16 = 43;
    pub const COUNT: u16 = 44;
    pub const MODE: u16 = 45;
    pub const GRACE_MS: u16 = 46;
    pub const PATH: u16 = 47;
    pub const TOTAL_QUOTA: u16 = 48;
    pub const FLOOR: u16 = 49;
    pub const CGROUP: u16 = 50;
    pub const EXIT_WALL_NS: u16 = 51;
    pub const HOUSE_TAG: u16 = 52;
    pub const COMMAND: u16 = 53;
    pub const IMAGE_NS: u16 = 54;
    pub const NOTES_KEY: u16 = 55;
    pub const STARTED: u16 = 56;
    pub const STDIN_FROM: u16 = 57;
    pub const HOLDS_STDOUT: u16 = 58;
    pub const KEEP_BYTES: u16 = 59;
    pub const DRAIN_MS: u16 = 60;
    pub const LIMIT_TAG: u16 = 61;
    pub const ONLY_IF_KNOWN: u16 = 62;
    pub const PIN: u16 = 63;
    pub const OWN_CGROUP: u16 = 64;
    pub const DESCRIPTORS: u16 = 65;
    pub const EXECUTE: u16 = 66;
    pub const OWNER: u16 = 67;
    pub const RECOGNISED: u16 = 68;
    pub const KEY: u16 = 69;
    pub const ANCHOR: u16 = 90;
}
