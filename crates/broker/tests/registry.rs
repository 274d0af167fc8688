//! Meshes, members, invites, topics, keys, grants and files, on the embedded engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod clock;
mod files;
mod joining;
mod members;
mod memory;
mod rotation;
mod routes;
mod shared;
mod statements;
mod support;
mod topics;
