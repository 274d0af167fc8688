//! Clients that leave, that do not come back after a restart, and that come back while their command runs.

use std::fs;
use std::time::Duration;

use hostel_tests::wait;

use super::askers::{Askers, traces, tracing};
use super::inbox::{self, Decided};

/// Clients have ten seconds to come back; the rest is for a busy machine.
const COME_BACK: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(25);

#[test]
fn who_does_not_come_back_is_withdrawn_and_nothing_runs() {
    let mut house = inbox::house();
    let file = house.work().join("traces");
    let ids = inbox::names("gone", 6);
    let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, "true")).collect();
    let askers = Askers::send_once(&inbox::door(&house), &requests);
    let asked = inbox::wait_for(&house, &ids);
    house.restart();
    let since = std::time::Instant::now();
    for id in &ids {
        askers.wait_lost(id);
    }
    // They are there for a while, and a person may even agree: to what nobody waits for any more.
    assert_eq!(inbox::wait_for(&house, &ids), asked);
    let mut person = inbox::person(&house);
    let (late, rest) =
        asked.iter().next().map(|(_, approval)| approval).zip(Some(asked.values().skip(1))).expect("some");
    assert_eq!(inbox::decide(&mut person, late, "allow_once"), Decided::Counted);
    for approval in rest {
        let kept = wait::until(PATIENCE, "a request to be withdrawn", || {
            Some(inbox::get(&mut person, approval)).filter(|kept| kept["state"] != "pending")
        });
        assert_eq!(kept["state"], "withdrawn", "{kept}");
    }
    assert!(since.elapsed() > COME_BACK - Duration::from_secs(2), "after {:?} already", since.elapsed());
    // Who comes back now comes too late.
    let again = Askers::send(&inbox::door(&house), &requests[1..]);
    for id in &ids[1..] {
        let answer = again.answer(id);
        assert!(answer["message"].as_str().is_some_and(|text| text.contains("duplicate")), "{answer}");
    }
    let kept = wait::until(PATIENCE, "what was approved to be put aside", || {
        Some(inbox::get(&mut person, late)).filter(|kept| !kept["outcome"].is_null())
    });
    assert_eq!(kept["state"], "approved", "{kept}");
    assert!(kept["outcome"].to_string().contains("not_run"), "{kept}");
    assert_eq!(traces(&file), [] as [&str; 0], "something ran");
    inbox::check_audit(&mut person);
}

#[test]
fn who_leaves_withdraws_and_nothing_runs() {
    let house = inbox::house();
    let file = house.work().join("traces");
    let ids = inbox::names("left", 6);
    let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, "true")).collect();
    let askers = Askers::send(&inbox::door(&house), &requests);
    let asked = inbox::wait_for(&house, &ids);
    let mut person = inbox::person(&house);
    askers.leave();
    for approval in asked.values() {
        let kept = wait::until(wait::LIMIT, "a request to be withdrawn", || {
            Some(inbox::get(&mut person, approval)).filter(|kept| kept["state"] != "pending")
        });
        assert_eq!(kept["state"], "withdrawn", "{kept}");
        assert_eq!(inbox::decide(&mut person, approval, "allow_once"), Decided::Settled);
    }
    assert_eq!(traces(&file), [] as [&str; 0], "something ran");
    inbox::check_audit(&mut person);
}

#[test]
fn a_command_that_runs_outlives_the_daemon_and_its_client_hears_the_end() {
    let mut house = inbox::house();
    let (file, gate) = (house.work().join("traces"), house.work().join("gate"));
    let ids = inbox::names("runs", 5);
    let then = format!("echo before; until [ -e {} ]; do sleep 0.02; done; echo after", gate.display());
    let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, &then)).collect();
    let askers = Askers::send(&inbox::door(&house), &requests);
    let asked = inbox::wait_for(&house, &ids);
    let mut person = inbox::person(&house);
    for approval in asked.values() {
        assert_eq!(inbox::decide(&mut person, approval, "allow_once"), Decided::Counted);
    }
    wait::until_true(wait::LIMIT, "every command to run", || traces(&file).len() == ids.len());
    house.restart();
    house.restart();
    assert!(ids.iter().all(|id| !askers.is_answered(id)), "somebody was answered while it runs");
    fs::write(&gate, "").expect("a file");
    for id in &ids {
        let answer = askers.answer(id);
        assert_eq!(answer["status"], "ok", "{answer}");
        let output = base64_simd::STANDARD.decode_to_vec(answer["stdout"].as_str().expect("output"));
        assert_eq!(output.expect("base64"), b"before\nafter\n");
    }
    assert_eq!(traces(&file), ids, "each ran once");
    house.wait_empty();
    inbox::check_audit(&mut house.native());
}

#[test]
fn a_command_that_nobody_comes_back_for_is_ended() {
    let mut house = inbox::house();
    let file = house.work().join("traces");
    let ids = inbox::names("left", 3);
    let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, "sleep 600")).collect();
    let askers = Askers::send_once(&inbox::door(&house), &requests);
    let asked = inbox::wait_for(&house, &ids);
    let mut person = inbox::person(&house);
    for approval in asked.values() {
        assert_eq!(inbox::decide(&mut person, approval, "allow_once"), Decided::Counted);
    }
    wait::until_true(wait::LIMIT, "every command to run", || traces(&file).len() == ids.len());
    house.restart();
    drop(askers);
    let mut native = house.native();
    for approval in asked.values() {
        let kept = wait::until(PATIENCE, "a command to be ended", || {
            Some(inbox::get(&mut native, approval)).filter(|kept| !kept["outcome"].is_null())
        });
        assert!(kept["outcome"].to_string().contains("killed"), "{kept}");
    }
    house.wait_empty();
    assert_eq!(traces(&file), ids, "each ran once");
    inbox::check_audit(&mut native);
}
