//! The keeper between a write to a journal and the note of it: the daemon dies meanwhile, or the keeper itself.

use std::time::{Duration, Instant};

use hostel_tests::chatter::{Checker, Lines};
use hostel_tests::client::{Client, base64};
use hostel_tests::frames::Transcript;
use hostel_tests::house::{House, Options, path_text};
use hostel_tests::syncpoints::SyncPoints;
use hostel_tests::wait;
use serde_json::json;

use super::has_points;
use crate::kills::{self, Killing};
use crate::sessions::events;
use crate::sessions::resident::Resident;

/// The daemon dies while the keeper is held here; the keeper goes on.
pub(super) const DAEMON_DIES: &[&str] =
    &["keeper.process.spawned", "keeper.output.appended", "keeper.input.applied", "keeper.exit.written"];

/// The keeper itself dies here.
pub(super) const KEEPER_DIES: &[&str] = &[
    "keeper.process.spawned",
    "keeper.output.appended",
    "keeper.input.applied",
    "keeper.exit.written",
    "keeper.journal.made",
    "keeper.mark.written",
];

fn listened() -> (House, SyncPoints) {
    let mut house = House::prepare(Options::default());
    let points = SyncPoints::listen(house.path());
    house.add_variable(points.variable());
    house.serve();
    (house, points)
}

#[test]
fn the_daemon_dies_while_the_keeper_is_at_a_point() {
    if !has_points() {
        return;
    }
    let (house, points) = listened();
    let keeper = house.keeper();
    kills::storm(house, false, |house, shared, _| {
        let mut killing = Killing::default();
        // Twice in turn: the second time on a daemon that has taken over from a dead one.
        for point in DAEMON_DIES.iter().chain(DAEMON_DIES) {
            points.hold_next(point);
            let met = wait::attempt(wait::LIMIT, || {
                points.met_within(Duration::ZERO).map(Some).or_else(|| shared.failure().map(|_| None))
            });
            // A panic here would leave the others waiting for an end.
            if met.flatten() != Some(keeper) {
                shared.fail(format!("{point}: {:?} instead of the keeper; {}", met.flatten(), points.explain()));
                break;
            }
            house.kill();
            points.disarm();
            let since = Instant::now();
            house.serve();
            killing.restarts.push(since.elapsed());
            killing.kills += 1;
        }
        points.disarm();
        killing
    });
}

#[test]
fn the_keeper_dies_at_a_point() {
    if !has_points() {
        return;
    }
    for point in KEEPER_DIES {
        match *point {
            "keeper.mark.written" => dies_with_a_mark(point),
            _ => dies_with_processes(point),
        }
    }
}

/// Every process ends with the keeper, and what was seen of each is what is kept; nothing is seen twice.
fn dies_with_processes(point: &str) {
    let (mut house, points) = listened();
    let mut client = house.connect();
    let record = house.path().join("record");
    client.spawn_child("chatter", &["chatter", path_text(&record), "7", "0"]);
    client.spawn("done", "sh", &["-c", "echo finished; exit 3"]);
    let done = client.follow("done");
    let mut seen = Transcript::default();
    client.follow_until("chatter", &mut seen, |so_far| so_far.last_seq >= 10);
    let keeper = house.keeper();
    points.kill_next(point);
    provoke(&house, point);
    assert_eq!(points.met(), keeper, "another process than the keeper was at {point}");
    points.disarm();
    client.follow_until("chatter", &mut seen, |so_far| so_far.exit.is_some());
    assert_eq!(seen.exit, Some(-1), "{point}: the chatter's end");
    let mut checker = Checker::new(Lines::new("out", 7));
    checker.take(&seen.stdout).unwrap_or_else(|reason| panic!("{point}: {reason}"));
    // A new daemon finds the same.
    house.kill();
    house.serve();
    let mut client = house.connect();
    client.reattach("chatter", 0);
    let again = client.follow("chatter");
    assert!(again.stdout == seen.stdout && again.stderr == seen.stderr, "{point}: the journal changed");
    assert_eq!((again.last_seq, again.exit), (seen.last_seq, Some(-1)), "{point}");
    client.reattach("done", 0);
    let again = client.follow("done");
    assert_eq!((again.stdout, again.exit), (done.stdout, Some(3)), "{point}");
    client.spawn("new", "echo", &["alive"]);
    assert_eq!(client.follow("new").stdout, b"alive\n", "{point}");
}

/// Has the keeper come to a point soon.
fn provoke(house: &House, point: &str) {
    let mut other = house.connect();
    other.allow_torn_end();
    let spawn = |other: &mut Client, words: &str| {
        let params = json!({"id": "provoked", "command": "sh", "args": ["-c", words]});
        other.try_begin("process.spawn", &params.to_string()).expect("a request");
    };
    match point {
        // The chatter prints all the time.
        "keeper.output.appended" => {}
        "keeper.input.applied" => {
            let params = format!(r#"{{"id":"chatter","data":"{}","offset":0}}"#, base64(b"x\n"));
            other.try_begin("process.stdin", &params).expect("a request");
        }
        "keeper.journal.made" => spawn(&mut other, "exec sleep 100"),
        "keeper.exit.written" => spawn(&mut other, "echo x; exit 4"),
        _ => spawn(&mut other, "true"),
    }
}

/// The mark of a prompt is written and its agent never gets the bytes: the turn comes to an end, and the prompt is not
/// put twice.
fn dies_with_a_mark(point: &str) {
    let house = Resident::start_with_points("");
    let work = house.work();
    let mut native = house.native();
    let session = native.make(json!({"agent_alias": "claude", "cwd": work, "mode": "auto"}));
    native.prompt(&session, "say first");
    let keeper = house.keeper();
    house.points().kill_next(point);
    native.send(&session, "say second");
    assert_eq!(house.points().met(), keeper, "another process than the keeper was at {point}");
    house.points().disarm();
    native.send(&session, "say third");
    let turns = events::turns_of(&mut native, &session);
    let outcomes: Vec<&str> = turns.iter().map(|turn| turn.outcome.as_str()).collect();
    assert_eq!((outcomes[0], outcomes[2]), ("completed", "completed"), "{turns:?}");
    let put = house.cli_prompts().iter().filter(|prompt| *prompt == "say second").count();
    assert!(put <= 1, "the prompt was put {put} times");
    let expected = if outcomes[1] == "completed" { 1 } else { 0 };
    assert_eq!(put, expected, "{turns:?}");
}
