//! What an agent must do behind a door, whoever plays it: the same scenarios for the played CLIs and for the real ones.
//!
//! A [`world::World`] is one agent in a house of its own; [`scenarios`] are what it goes through, by either [`Door`].
//! All of it knows nothing but the two contracts and what the agent's words do.

pub(crate) mod codecast;
pub(crate) mod scenarios;
pub(crate) mod session;
pub(crate) mod stage;
pub(crate) mod world;
pub(crate) mod zeroclaw;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use world::World;

/// By which door the sessions come in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Door {
    /// HTTP and event streams; a process for each message.
    Codecast,
    /// JSON-RPC on a socket; a process that is kept.
    Zeroclaw,
}

impl Door {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Door::Codecast => "codecast",
            Door::Zeroclaw => "zeroclaw",
        }
    }
}

/// Says something in one piece: others speak at the same time.
pub(crate) fn say(line: &str) {
    let line = format!("{line}\n");
    eprint!("{line}");
}

/// Goes through every scenario, tells of each what became of it, and fails at the end if one did.
pub(crate) fn play(world: &World, door: Door) {
    if let Some(reason) = world.stage.no_guard() {
        say(&format!("skipped in part: this machine has no complete guard: {reason}"));
    }
    let mut failed = Vec::new();
    for scenario in scenarios::ALL {
        if !(scenario.concerns)(world, door) {
            continue;
        }
        let begun = Instant::now();
        // The others are worth knowing too: each has sessions and a directory of its own.
        let outcome = catch_unwind(AssertUnwindSafe(|| (scenario.play)(world, door)));
        let verdict = if outcome.is_ok() { "passed" } else { "FAILED" };
        let (agent, door, name) = (&world.title, door.name(), scenario.name);
        say(&format!("{agent:<18} {door:<9} {name:<12} {verdict} in {:.1} s", begun.elapsed().as_secs_f64()));
        if outcome.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{} through {}: failed were {}", world.title, door.name(), failed.join(", "));
    world.stage.expect_nobody();
}
