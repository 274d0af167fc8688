//! The integration tests of this crate, as one program.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod claustrum;
mod common;
mod container;
mod doors;
mod generated;
mod house;
mod mesh;
mod mesh_common;
mod mesh_daemon;
mod native;
mod personalities;
mod sessions;
mod space;
mod usage;
