//! Meshes, members, invites, topics, keys, grants and files, on the embedded engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

#[path = "registry/files.rs"]
mod files;
#[path = "registry/joining.rs"]
mod joining;
#[path = "registry/members.rs"]
mod members;
#[path = "registry/memory.rs"]
mod memory;
#[path = "registry/rotation.rs"]
mod rotation;
#[path = "registry/routes.rs"]
mod routes;
#[path = "registry/shared.rs"]
mod shared;
#[path = "registry/support.rs"]
mod support;
#[path = "registry/topics.rs"]
mod topics;
