//! The program killed at each of its sync points in turn: between a write and its acknowledgement.
//!
//! Every test here has a list of the points that it kills at; each kill is checked to have happened at that point, and
//! then the guarantees are checked as after a kill at a random time. A point of the program that is in no list fails
//! `every_point_is_killed_at`.

mod anchors;
mod commands;
mod consent;
mod keeper;
mod lifecycle;
mod mail;
mod mesh;
mod sessions;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hostel_tests::wait;
use serde_json::Value;

use crate::sessions::native::{Native, Trouble};
use crate::sessions::resident::Resident;

/// Each test and the points that it kills at.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("keeper::the_daemon_dies_while_the_keeper_is_at_a_point", keeper::DAEMON_DIES),
    ("keeper::the_keeper_dies_at_a_point", keeper::KEEPER_DIES),
    ("sessions::turns_go_on", sessions::STORM),
    ("lifecycle::sessions_are_what_they_were_told_to_be", lifecycle::POINTS),
    ("consent::commands_run_once", consent::COMMANDS),
    ("consent::decisions_count_once", consent::DECISIONS),
    ("anchors::a_decision_counts_once_wherever_its_write_is_cut_off", anchors::WRITES),
    ("anchors::trust_is_the_same_after_a_kill", anchors::TRUST),
    ("sessions::a_long_answer_is_kept_whole", sessions::LONG),
    ("commands::the_registry_of_hosts_is_whole", commands::POINTS),
    ("mail::messages_become_prompts_once", mail::POINTS),
    ("mesh::messages_arrive_once", mesh::MESSAGES),
    ("mesh::starts_lose_nothing", mesh::STARTS),
    ("mesh::requests_are_carried_out_once", mesh::REQUESTS),
    ("mesh::what_is_shared_is_there_once", mesh::SHARED),
    ("mesh::a_rotation_of_keys_is_finished_or_given_up", mesh::ROTATION),
    ("mesh::beginning::a_beginning_is_finished_later", mesh::beginning::BEGINNING),
    ("mesh::later::what_came_before_its_key_is_told_once", mesh::later::OPENED),
    ("mesh::later::what_the_broker_turns_away_arrives_once", mesh::later::TURNED_AWAY),
    ("mesh::later::an_earlier_key_is_handed_on_once", mesh::later::HANDED_ON),
];

#[test]
fn every_point_is_killed_at() {
    let mut scenarios: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (scenario, points) in SCENARIOS {
        for point in *points {
            scenarios.entry(point).or_default().push(scenario);
        }
    }
    let known: BTreeMap<&str, &str> = hostel_syncpoint::points::ALL.iter().copied().collect();
    let unknown: Vec<&&str> = scenarios.keys().filter(|point| !known.contains_key(*point)).collect();
    assert!(unknown.is_empty(), "tests name points that do not exist: {unknown:?}");
    let missing: Vec<_> = known.iter().filter(|(point, _)| !scenarios.contains_key(*point)).collect();
    assert!(missing.is_empty(), "no test kills the program at these points: {missing:#?}");
}

/// Whether the program under test has points at all.
fn has_points() -> bool {
    if cfg!(debug_assertions) {
        return true;
    }
    eprintln!("skipped: sync points are compiled out without debug assertions");
    false
}

/// Waits until the daemon has died at the armed point, and starts another; gives how long the start took.
fn restart_after_death(house: &mut Resident, point: &str) -> Duration {
    assert_eq!(house.points().met(), house.daemon(), "another process than the daemon was at {point}");
    house.points().disarm();
    house.kill();
    let since = Instant::now();
    house.serve();
    since.elapsed()
}

/// Asks for something and has the daemon die at a point meanwhile: the asker hears nothing. The daemon runs again
/// afterwards.
fn die_while_asked(house: &mut Resident, point: &str, native: &mut Native, method: &str, params: Value) {
    house.points().kill_next(point);
    let shown = params.to_string();
    let id = native.begin(method, params).expect("a request");
    restart_after_death(house, point);
    match native.finish(id) {
        Err(Trouble::Lost) => {}
        other => panic!("{method} {shown} was answered although the daemon died at {point}: {other:?}"),
    }
}

/// Has a daemon that is starting die at a point; none runs afterwards.
fn die_while_starting(house: &mut Resident, point: &str) {
    house.points().kill_next(point);
    let mut command = house.hostel(&["up", "--foreground"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("hostel can be started");
    let died = house.points().met();
    assert_eq!(died.pid, i32::try_from(child.id()).expect("a pid"), "another process was at {point}");
    child.wait().expect("our own child can be reaped");
    house.points().disarm();
}

/// Waits until a condition holds that an answer of the daemon tells.
fn until(what: &str, probe: impl FnMut() -> bool) {
    wait::until_true(wait::LIMIT, what, probe);
}
