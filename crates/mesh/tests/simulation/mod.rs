//! The real mesh and the real broker in a world where everything that can fail does, at times a seed decides: delays,
//! streams that break or hang, partitions of one or both directions, replays, wrong clocks, and power that goes at any
//! await. Then peace: what was promised is in every addressee's inbox exactly once, in order, and nothing else is.
//!
//! `HOSTEL_SEED=17 cargo test -p hostel-mesh --test mesh_tests simulation::stories` tells one story again, the same in each run;
//! `HOSTEL_SEEDS=1000` tells so many, from `HOSTEL_SEED` on; `HOSTEL_TRACE=1` with `-- --nocapture` prints what happens.
//! `HOSTEL_STEP=17` ends the tests that crash at every await with the 17th, and traces that one alone.
//!
//! Each story is told by a process of its own: tokio counts the runtimes of a process, and the count goes into the order
//! in which `select!` looks at its branches.
#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

mod beginning;
mod chance;
mod ledger;
mod machine;
mod network;
mod story;
mod sweep;
mod trace;
mod world;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Stories that are told when nobody says how many.
const STORIES: u64 = 8;

/// Stories that are told at once.
const TOGETHER: usize = 2;

/// Set for the process that tells.
const ALONE: &str = "HOSTEL_ALONE";

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Runs one test in a process of its own; says whether it passed, and what it printed.
fn apart(test: &str, seed: Option<u64>) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([format!("simulation::{test}").as_str(), "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .stdin(Stdio::null());
    if let Some(seed) = seed {
        command.env("HOSTEL_SEED", seed.to_string());
    }
    if std::env::var_os("HOSTEL_TRACE").is_some() {
        return (command.status().unwrap().success(), String::new());
    }
    let output = command.output().unwrap();
    let text: Vec<String> = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
    // A name that matches no test would pass, too.
    let ran = String::from_utf8_lossy(&output.stdout).contains("running 1 test");
    (output.status.success() && ran, text.join("\n"))
}

/// Tells one story, in this process.
fn tell(seed: u64) {
    match chance::seeded(seed, || story::tell(seed)) {
        Ok(told) => eprintln!(
            "seed {seed}: {} messages, {} promised, {} crashes; {} lines {}",
            told.messages, told.promised, told.crashes, told.lines, told.digest
        ),
        Err(wrong) => panic!("{wrong}"),
    }
}

#[test]
fn stories() {
    let given = number("HOSTEL_SEED");
    let first = given.unwrap_or(1);
    if std::env::var_os(ALONE).is_some() {
        return tell(first);
    }
    let count = number("HOSTEL_SEEDS").unwrap_or(if given.is_some() { 1 } else { STORIES });
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let (passed, text) = apart("stories", Some(seed));
            eprintln!("{text}");
            if !passed {
                eprintln!(
                    "seed {seed} failed; again: HOSTEL_SEED={seed} cargo test -p hostel-mesh --test mesh_tests simulation::stories"
                );
                failed.lock().push(seed);
            }
        }
    };
    std::thread::scope(|scope| (0..TOGETHER).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner();
    assert!(failed.is_empty(), "seeds {failed:?} failed");
}

#[test]
fn a_seed_tells_the_same_story_again() {
    let seed = number("HOSTEL_SEED").unwrap_or(3);
    let (one, other) = (apart("stories", Some(seed)), apart("stories", Some(seed)));
    assert!(one.0, "{}", one.1);
    // The digest of everything that happened is in what is printed.
    assert_eq!(one, other);
}

/// Tells the short scenario with a crash at every await of one machine.
fn sweep(test: &str, victim: sweep::Victim) {
    if std::env::var_os(ALONE).is_none() {
        let (passed, text) = apart(test, None);
        eprintln!("{text}");
        return assert!(passed, "again: the same with HOSTEL_STEP and HOSTEL_TRACE");
    }
    let only = number("HOSTEL_STEP");
    let mut step = 1;
    loop {
        trace::silence(only.is_some_and(|only| only != step));
        let outcome = std::panic::catch_unwind(|| chance::seeded(step, || sweep::tell(victim, step)));
        match outcome.unwrap_or_else(|_| Err("it panicked".to_owned())) {
            Ok(true) if only != Some(step) => step += 1,
            Ok(_) => break,
            Err(wrong) => panic!("crash of {victim:?} after {step} steps (HOSTEL_STEP={step}):\n{wrong}"),
        }
    }
    eprintln!("{victim:?} lost power at each of {step} awaits");
    assert!(only.is_some() || step > 50, "the machine hardly did anything");
}

#[test]
fn a_sender_may_crash_at_every_await() {
    sweep("a_sender_may_crash_at_every_await", Some(0));
}

#[test]
fn a_receiver_may_crash_at_every_await() {
    sweep("a_receiver_may_crash_at_every_await", Some(1));
}

#[test]
fn the_broker_may_crash_at_every_await() {
    sweep("the_broker_may_crash_at_every_await", None);
}
