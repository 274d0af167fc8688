//! The embedded engine: its log, its records, its blobs, its audit, its steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

#[path = "engine/audit.rs"]
mod audit;
#[path = "engine/blobs.rs"]
mod blobs;
#[path = "engine/kv.rs"]
mod kv;
#[path = "engine/log.rs"]
mod log;
#[path = "engine/retention.rs"]
mod retention;
#[path = "engine/schema.rs"]
mod schema;
#[path = "engine/support.rs"]
mod support;
