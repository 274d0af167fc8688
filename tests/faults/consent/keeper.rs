//! The keeper killed: with it goes the only knowledge of what was started.

use std::thread;
use std::time::Duration;

use hostel_tests::random::{self, Random};
use hostel_tests::wait;
use rustix::process::Signal;

use super::askers::{Askers, traces, tracing};
use super::inbox::{self, Decided};

#[test]
fn a_command_whose_keeper_dies_is_reported_lost_and_not_started_again() {
    let mut house = inbox::house();
    let file = house.work().join("traces");
    for with_daemon in [false, true] {
        let ids = inbox::names(&format!("lost{}", u8::from(with_daemon)), 3);
        let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, "sleep 600")).collect();
        let askers = Askers::send(&inbox::door(&house), &requests);
        let asked = inbox::wait_for(&house, &ids);
        let mut person = inbox::person(&house);
        for approval in asked.values() {
            assert_eq!(inbox::decide(&mut person, approval, "allow_once"), Decided::Counted);
        }
        let count = |ids: &[String]| traces(&file).iter().filter(|trace| ids.contains(trace)).count();
        wait::until_true(wait::LIMIT, "every command to run", || count(&ids) == ids.len());
        let (keeper, held) = (house.keeper(), house.held());
        if with_daemon {
            house.kill();
        }
        keeper.signal(Signal::KILL);
        keeper.wait_gone(wait::LIMIT);
        if with_daemon {
            house.serve();
        }
        for id in &ids {
            let answer = askers.answer(id);
            assert_eq!(answer["status"], "error", "{answer}");
            assert!(answer["message"].as_str().is_some_and(|text| text.contains("keeper")), "{answer}");
        }
        for process in held {
            process.wait_gone(wait::LIMIT);
        }
        assert_eq!(count(&ids), ids.len(), "each ran once");
    }
    inbox::check_audit(&mut house.native());
}

#[test]
fn both_killed_after_a_decision_never_run_it_twice() {
    let seed = random::seed();
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed})");
    let mut random = Random::new(seed);
    let mut house = inbox::house();
    let file = house.work().join("traces");
    let (mut ran, mut unknown) = (0, 0);
    for round in 0..8 {
        let ids = inbox::names(&format!("both{round}"), 3);
        // They print nothing and leave no journal: only the keeper knows them.
        let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, "true")).collect();
        let askers = Askers::send(&inbox::door(&house), &requests);
        let asked = inbox::wait_for(&house, &ids);
        let mut person = inbox::person(&house);
        for approval in asked.values() {
            person
                .begin("approval/decide", serde_json::json!({"id": approval, "decision": "allow_once"}))
                .expect("sent");
        }
        thread::sleep(Duration::from_micros(random.below(20_000)));
        let keeper = house.keeper();
        house.kill();
        keeper.signal(Signal::KILL);
        keeper.wait_gone(wait::LIMIT);
        house.serve();
        // Without the key nothing proves what was asked either: who has no answer yet asks again, under a number of its own.
        let mut person = inbox::person(&house);
        wait::until_true(wait::LIMIT, "every request to be answered", || {
            for approval in inbox::pending(&mut person, &ids).expect("a list").values() {
                inbox::decide(&mut person, approval, "allow_once");
            }
            ids.iter().all(|id| askers.is_answered(id))
        });
        for id in &ids {
            let answer = askers.answer(id);
            let count = traces(&file).iter().filter(|trace| *trace == id).count();
            match answer["status"].as_str() {
                Some("ok") => {
                    assert_eq!(count, 1, "{answer}");
                    ran += 1;
                }
                _ => {
                    assert!(count <= 1, "it ran {count} times: {answer}");
                    assert!(answer["message"].as_str().is_some_and(|text| text.contains("not")), "{answer}");
                    unknown += 1;
                }
            }
        }
    }
    eprintln!("{ran} commands ran, of {unknown} it was said that they did not or that it is not known");
    inbox::check_audit(&mut house.native());
}
