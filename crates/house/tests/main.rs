//! The integration tests of this crate, as one program.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod approvals;
mod approvals_property;
mod keeper_faults;
mod keeper_hangs;
mod keeper_stages;
mod keeper_trust;
mod keeper_wire;
mod pipelines;
mod pipelines_output;
mod pipelines_restart;
mod processes;
mod property;
mod retention;
mod sessions;
mod sessions_idle;
mod sessions_mail;
mod sessions_races;
mod sessions_restart;
mod sessions_tampering;
mod store;
mod support;
mod tarballs;
mod workspace_archive;
mod workspace_archive_hostile;
mod workspace_files;
mod workspace_git;
mod workspace_git_hostile;
mod workspace_git_limits;
