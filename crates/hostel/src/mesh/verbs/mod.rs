//! The verbs of a mesh, one file per thing they are about.
//!
//! Invariant: standard output holds the answer and nothing else; with `--json` it is the contract's JSON.

pub(super) mod create;
pub(super) mod events;
pub(super) mod files;
pub(super) mod grants;
pub(super) mod inbox;
pub(super) mod install;
pub(super) mod invites;
pub(super) mod join;
pub(super) mod launch;
pub(super) mod leave;
pub(super) mod list;
pub(super) mod members;
pub(super) mod peers;
pub(super) mod profile;
pub(super) mod send;
pub(super) mod state;
pub(super) mod tasks;
pub(super) mod topics;
