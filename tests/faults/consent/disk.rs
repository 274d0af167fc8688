//! A full disk under the database: what cannot be put on record is not asked, not decided and not run.

use std::fs;
use std::thread;
use std::time::Duration;

use hostel_tests::wait;
use serde_json::json;

use super::askers::{Askers, traces, tracing};
use super::inbox::{self, Decided};
use crate::sessions::disk::{Cramped, house_on_small_disk};
use crate::sessions::native::Trouble;

#[test]
fn a_full_disk_runs_nothing_that_is_not_on_record() {
    let Some(mut cramped) = house_on_small_disk(inbox::SETTINGS) else { return };
    let Cramped { house, disk } = &mut cramped;
    house.native().ask("approver/set", json!({"passphrase": inbox::PASSPHRASE}));
    let file = house.work().join("traces");
    let ids = inbox::names("before", 3);
    let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, "true")).collect();
    let askers = Askers::send(&inbox::door(house), &requests);
    let asked = inbox::wait_for(house, &ids);
    let mut person = inbox::person(house);
    disk.fill();

    // A few pages may be free within the database: something may still fit, but not for ever.
    let mut fitted = 0;
    let refused = loop {
        let id = format!("full-{fitted}");
        let long = format!("true {}", "x".repeat(60_000));
        let asking = Askers::send(&inbox::door(house), &[tracing(&id, &file, &long)]);
        let waits = wait::attempt(wait::LIMIT, || {
            let listed = person.call("approval/list", json!({})).ok()?;
            let waits = listed["approvals"].to_string().contains(&format!("echo {id} "));
            (waits || asking.is_answered(&id)).then_some(waits)
        });
        if waits == Some(false) {
            break asking.answer(&id);
        }
        fitted += 1;
        assert!(fitted < 200, "a full disk takes whatever comes");
    };
    assert_eq!(refused["status"], "error", "{refused}");
    assert!(refused["message"].as_str().is_some_and(|text| text.contains("state.db")), "{refused}");

    // A decision that cannot be written is none.
    let (mut decided, mut undecided) = (Vec::new(), Vec::new());
    for (id, approval) in &asked {
        match person.call("approval/decide", json!({"id": approval, "decision": "allow_once"})) {
            Ok(_) => decided.push(id.clone()),
            Err(Trouble::Refused(_, message)) => {
                assert!(message.contains("state.db"), "{message}");
                undecided.push(id.clone());
            }
            Err(trouble) => panic!("{trouble}"),
        }
    }
    eprintln!("{fitted} requests and {} decisions fitted on the full disk", decided.len());
    for id in &undecided {
        assert!(!askers.is_answered(id), "{id} was answered");
        assert!(!traces(&file).contains(id), "{id} ran, and nobody's decision is on record");
    }

    // A daemon that dies now finds everything it had taken, and what was not decided can be.
    house.kill();
    disk.empty();
    house.serve();
    let mut person = inbox::person(house);
    for (id, approval) in &asked {
        let again = inbox::decide(&mut person, approval, "allow_once");
        assert_eq!(again == Decided::Counted, undecided.contains(id), "{id}: {again:?}");
        let answer = askers.answer(id);
        let count = traces(&file).iter().filter(|trace| *trace == id).count();
        match answer["status"].as_str() {
            Some("ok") => assert_eq!(count, 1, "{answer}"),
            _ => assert_eq!(count, 0, "{answer}"),
        }
        assert!(answer["status"] == "ok" || decided.contains(id), "{answer}");
    }
    inbox::check_audit(&mut person);
}

/// The end of a command that cannot be put on record is not forgotten with the daemon, and the command does not run again.
#[test]
fn a_command_that_ends_on_a_full_disk_does_not_run_again() {
    let Some(mut cramped) = house_on_small_disk(inbox::SETTINGS) else { return };
    let Cramped { house, disk } = &mut cramped;
    house.native().ask("approver/set", json!({"passphrase": inbox::PASSPHRASE}));
    let (file, gate) = (house.work().join("traces"), house.work().join("gate"));
    let ids = inbox::names("ends", 3);
    let then = format!("until [ -e {} ]; do sleep 0.02; done", gate.display());
    let requests: Vec<_> = ids.iter().map(|id| tracing(id, &file, &then)).collect();
    let askers = Askers::send(&inbox::door(house), &requests);
    let asked = inbox::wait_for(house, &ids);
    let mut person = inbox::person(house);
    for approval in asked.values() {
        assert_eq!(inbox::decide(&mut person, approval, "allow_once"), Decided::Counted);
    }
    wait::until_true(wait::LIMIT, "every command to run", || traces(&file).len() == ids.len());
    disk.fill();
    fs::write(&gate, "").expect("a file elsewhere");
    // Whether the clients hear of it now or later, the daemon has had the time to forget it.
    let held = house.held();
    for process in held {
        process.wait_gone(wait::LIMIT);
    }
    thread::sleep(Duration::from_millis(500));
    house.kill();
    disk.empty();
    house.serve();
    let again = askers.repeat(&inbox::door(house), &ids);
    for id in &ids {
        askers.answer(id);
        again.answer(id);
    }
    assert_eq!(traces(&file), ids, "each ran once");
    inbox::check_audit(&mut house.native());
}
