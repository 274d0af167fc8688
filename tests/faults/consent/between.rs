//! The daemon killed at any moment between a decision and the answer to the client: a command runs once, or its client
//! is told that it did not. Never twice.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use hostel_tests::random::{self, Random};
use serde_json::Value;

use super::askers::{Askers, traces, tracing};
use super::inbox;

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
        thread::sleep(Duration::from_micros(random.below(40_000)));
        house.restart();
        // Those whose decision did not come in time are decided now; those that were decided cannot be again.
        let mut person = inbox::person(&house);
        for approval in asked.values() {
            inbox::decide(&mut person, approval, "allow_once");
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
    assert!(ran > 0);
    inbox::check_audit(&mut house.native());
    house.wait_empty();
}
