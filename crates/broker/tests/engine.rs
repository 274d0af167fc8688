//! The embedded engine: its log, its records, its blobs, its audit, its steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod audit;
mod blobs;
mod kv;
mod log;
mod retention;
mod schema;
pub(crate) mod support;
