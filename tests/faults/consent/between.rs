//! The daemon killed at any moment between a decision and the answer to the client: a command runs once, or its client
//! is told that it did not. Never twice.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::random::{self, Random};
use hostel_tests::sudo_proxy::{Daemon, Options};
use hostel_tests::wait;
use serde_json::Value;

use super::askers::{Askers, traces, tracing};
use super::inbox::{self, Decided};

/// Commands that are decided together.
const TOGETHER: usize = 4;

fn rounds() -> usize {
    let kills: usize = std::env::var("HOSTEL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    (kills / 4).max(3)
}

#[test]
fn what_was_decided_runs_once_or_is_said_not_to_have_run() {
    let seed = random::seed();
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed})");
    let mut random = Random::new(seed);
    let mut house = inbox::house();
    let file = house.work().join("traces");
    let (mut ran, mut not_run) = (0, 0);
    // Where the kill met the commands.
    let (mut undecided, mut unstarted, mut started) = (0, 0, 0);
    for round in 0..rounds() {
        let ids = inbox::names(&format!("round{round}"), TOGETHER);
        let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, "sleep 0.01")).collect();
        let askers = Askers::send(&inbox::door(&house), &requests);
        let asked = inbox::wait_for(&house, &ids);
        let mut person = inbox::person(&house);
        // The decisions are on their way, one after the other, and the daemon dies somewhere among them.
        for approval in asked.values() {
            let decision = serde_json::json!({"id": approval, "decision": "allow_once"});
            person.begin("approval/decide", decision).expect("a request");
        }
        // Most of it is over in a few milliseconds; on a busy machine it takes longer.
        let longest = if random.below(3) == 0 { 40_000 } else { 6_000 };
        thread::sleep(Duration::from_micros(random.below(longest)));
        house.kill();
        let before = traces(&file);
        house.serve();
        // Those whose decision did not come in time are decided now; those that were decided cannot be again.
        let mut person = inbox::person(&house);
        for (id, approval) in &asked {
            match inbox::decide(&mut person, approval, "allow_once") {
                Decided::Counted => undecided += 1,
                Decided::Settled if before.contains(id) => started += 1,
                Decided::Settled => unstarted += 1,
            }
        }
        let answers: BTreeMap<&String, Value> = ids.iter().map(|id| (id, askers.answer(id))).collect();
        let left = traces(&file);
        for (id, answer) in &answers {
            let count = left.iter().filter(|trace| trace == id).count();
            match (answer["status"].as_str(), count) {
                (Some("ok"), 1) => ran += 1,
                (Some("error"), 0) => {
                    let message = answer["message"].as_str().unwrap_or_default();
                    assert!(message.contains("not"), "that does not say that it did not run: {answer}");
                    not_run += 1;
                }
                _ => panic!("{id} ran {count} times, and its client heard {answer}"),
            }
        }
        for approval in asked.values() {
            assert_eq!(inbox::get(&mut person, approval)["state"], "approved");
        }
    }
    eprintln!("{ran} commands ran, {not_run} were said not to have run");
    eprintln!("killed before {undecided} decisions, between {unstarted} and their traces, after {started} traces");
    assert!(ran > 0);
    inbox::check_audit(&mut house.native());
    house.wait_empty();
}

/// The same where a key on the terminal of the personality decides.
#[test]
fn what_a_key_decided_runs_once_or_is_said_not_to_have_run() {
    let seed = random::seed();
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed})");
    let mut random = Random::new(seed);
    let mut daemon = Daemon::start(Options::default());
    let file = daemon.work().join("traces");
    let mut ran = 0;
    for round in 0..rounds() / 2 {
        let id = format!("key-{round:02}");
        let askers = Askers::send(&daemon.socket(), &[tracing(&id, &file, "sleep 0.01")]);
        // What is typed before the question is there is dropped: the key is pressed until it was taken.
        press_until(&mut daemon, || askers.is_answered(&id), Some(Duration::from_micros(random.below(400_000))));
        daemon.kill();
        daemon.serve();
        press_until(&mut daemon, || askers.is_answered(&id), None);
        let (answer, count) = (askers.answer(&id), traces(&file).iter().filter(|trace| **trace == id).count());
        match (answer["status"].as_str(), count) {
            (Some("ok"), 1) => ran += 1,
            (Some("error"), 0) => {
                assert!(answer["message"].as_str().is_some_and(|text| text.contains("not")), "{answer}");
            }
            _ => panic!("{id} ran {count} times, and its client heard {answer}"),
        }
    }
    eprintln!("{ran} commands ran");
    assert!(ran > 0);
}

/// Presses `y` again and again, for so long or until it is done.
fn press_until(daemon: &mut Daemon, done: impl Fn() -> bool, time: Option<Duration>) {
    let (begun, limit) = (Instant::now(), time.unwrap_or(wait::LIMIT));
    while !done() && begun.elapsed() < limit {
        daemon.terminal().press("y");
        thread::sleep(Duration::from_millis(60).min(limit.saturating_sub(begun.elapsed())));
    }
    assert!(time.is_some() || done(), "the key was not taken in {limit:?}");
}
