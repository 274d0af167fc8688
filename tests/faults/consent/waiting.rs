//! Twenty commands that wait for an answer when the daemon is killed, and whose clients come back.

use std::collections::BTreeSet;
use std::thread;

use serde_json::json;

use super::askers::{Askers, traces, tracing};
use super::inbox::{self, Decided};

const COMMANDS: usize = 20;

#[test]
fn twenty_commands_survive_a_kill_and_each_is_answered_once() {
    let mut house = inbox::house();
    let file = house.work().join("traces");
    let ids = inbox::names("wait", COMMANDS);
    let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, &format!("echo out {id}"))).collect();
    let askers = Askers::send(&inbox::door(&house), &requests);
    let asked = inbox::wait_for(&house, &ids);

    for kill in ["first", "second"] {
        house.restart();
        assert_eq!(inbox::wait_for(&house, &ids), asked, "what waits after the {kill} kill");
        assert!(ids.iter().all(|id| !askers.is_answered(id)), "somebody was answered");
    }
    assert_eq!(traces(&file), [] as [&str; 0], "something ran that nobody agreed to");

    // Two people answer each at the same time, with opposite words.
    let counted: Vec<BTreeSet<&String>> = thread::scope(|scope| {
        let answer = |word: &'static str| {
            let (house, asked) = (&house, &asked);
            scope.spawn(move || {
                let mut person = inbox::person(house);
                let decided =
                    asked.iter().filter(|(_, approval)| inbox::decide(&mut person, approval, word) == Decided::Counted);
                decided.map(|(id, _)| id).collect()
            })
        };
        let people = [answer("allow_once"), answer("reject")];
        people.into_iter().map(|person| person.join().expect("a person")).collect()
    });
    let (approved, refused) = (&counted[0], &counted[1]);
    assert_eq!(approved.len() + refused.len(), COMMANDS, "{counted:?}");
    assert!(approved.is_disjoint(refused));
    for id in &ids {
        let answer = askers.answer(id);
        if approved.contains(id) {
            assert_eq!(answer["status"], "ok", "{answer}");
            assert_eq!(answer["stages"][0]["exit_code"], 0, "{answer}");
            let output = base64_simd::STANDARD.decode_to_vec(answer["stdout"].as_str().expect("output"));
            assert_eq!(output.expect("base64"), format!("out {id}\n").into_bytes());
        } else {
            assert_eq!(answer["status"], "denied", "{answer}");
        }
    }
    assert_eq!(traces(&file), approved.iter().map(|id| id.as_str()).collect::<Vec<_>>(), "each ran once");

    // Nothing of it can be answered or run again.
    let replay = askers.repeat(&inbox::door(&house), &ids);
    for id in &ids {
        let answer = replay.answer(id);
        assert_eq!(answer["message"], json!(format!("duplicate request id: {id}")), "{answer}");
    }
    house.restart();
    let mut person = inbox::person(&house);
    for approval in asked.values() {
        assert_eq!(inbox::decide(&mut person, approval, "allow_once"), Decided::Settled);
    }
    // Another process hears nothing of it, neither with the same bytes nor with others under the same id.
    let same = askers.repeat(&inbox::door(&house), &ids);
    let other = Askers::send(&inbox::door(&house), &requests);
    for (replay, id) in [&same, &other].into_iter().flat_map(|replay| ids.iter().map(move |id| (replay, id))) {
        let answer = replay.answer(id);
        assert_eq!(answer["message"], json!(format!("duplicate request id: {id}")), "{answer}");
    }
    assert_eq!(traces(&file).len(), approved.len(), "something ran again");
    inbox::check_audit(&mut person);
}
