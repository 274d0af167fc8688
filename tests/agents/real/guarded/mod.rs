//! What agents need from a machine, inside the guard and as an ordinary user: the real CLIs themselves, codex's own
//! sandbox, git over ssh, and rootless podman, which the guard does not allow.
//!
//! Each is done without a guard as well, so that a difference is the guard's. What a machine does not allow without one
//! is no test of the guard and is skipped with the reason.

mod clis;
mod machine;
mod podman;
mod sandbox;
mod ssh;

#[path = "../../../house/guard/place.rs"]
#[allow(dead_code, reason = "each test program uses its own part")]
mod place;
