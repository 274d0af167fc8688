//! Faults: what must not be lost when something dies, fills up or runs out.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::unwrap_used, reason = "tests")]

mod children;
mod consent;
mod descriptors;
mod disk;
mod keeper;
mod kills;
mod mesh;
mod points;
mod sessions;
mod storm;
