//! Stopping and the daemon's death: a turn that was to stop stops, whoever has to see to it.

use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::procfs::Identity;
use hostel_tests::random::{self, Random};
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::events;
use super::native::{Native, Trouble};
use super::resident::{GRACE, Resident};

const AGENTS: [&str; 5] = ["claude by message", "claude", "codex", "gemini", "echo"];

fn sessions(house: &Resident) -> Vec<String> {
    let work = house.work();
    let mut native = house.native();
    let mut ids = vec![house.cast().make(&json!({"path": work}))];
    ids.extend(AGENTS[1..].iter().map(|agent| native.make(json!({"agent_alias": agent, "cwd": work}))));
    ids
}

/// A turn that takes very long.
fn long_prompt(agent: &str) -> &'static str {
    if agent == "echo" { "sleep 600" } else { "slow 60000 10" }
}

/// Watches a session until its agent has said something, and gives what was seen.
fn watch_beginning(native: &mut Native, session: &str, since: u64) -> Vec<Value> {
    native.attach(session, since, true).expect("a session to attach to");
    let mut seen = Vec::new();
    while !seen.iter().any(|update: &Value| update["type"] == "agent_message_chunk") {
        seen.push(native.update().expect("an update"));
    }
    seen
}

/// What comes without waiting.
fn drain(native: &mut Native, seen: &mut Vec<Value>) {
    while let Ok(update) = native.update_until(Instant::now() + Duration::from_millis(300)) {
        seen.push(update);
    }
}

#[test]
fn an_interrupt_before_a_kill_still_stops_the_turn_after_it() {
    let seed = random::seed();
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed})");
    let mut random = Random::new(seed);
    let mut house = Resident::start();
    let ids = sessions(&house);
    let rounds = 6;
    for round in 0..rounds {
        let mut watchers = Vec::new();
        for (agent, id) in AGENTS.iter().zip(&ids) {
            let mut native = house.native();
            let since = native.listed(id).expect("it is listed")["last_seq"].as_u64().expect("a number");
            native.send(id, long_prompt(agent));
            native.send(id, &format!("say after {round}"));
            let seen = watch_beginning(&mut native, id, since);
            watchers.push((native, since, seen));
        }
        let mut native = house.native();
        let processes: Vec<Identity> = ids.iter().map(|id| house.process_of(id)).collect();
        // Every other time the agents are frozen, so that it is certainly the next daemon that stops them.
        let frozen = round % 2 == 0;
        if frozen {
            processes.iter().for_each(|process| process.signal(Signal::STOP));
        }
        for id in &ids {
            native.ask("session/cancel", json!({"session_id": id}));
        }
        thread::sleep(Duration::from_micros(random.below(if frozen { 25_000 } else { 3_000 })));
        house.kill();
        for (native, _, seen) in &mut watchers {
            drain(native, seen);
        }
        house.serve();
        processes.iter().for_each(|process| process.signal(Signal::CONT));
        let since = Instant::now();
        let mut native = house.native();
        for ((agent, id), (_, before, seen)) in AGENTS.iter().zip(&ids).zip(&watchers) {
            events::turns_of(&mut native, id);
            // Nothing that somebody has seen may become something else.
            native.attach(id, *before, false).expect("a replay");
            for update in seen {
                assert_eq!(native.update().expect("the replay goes on"), *update, "{agent}, round {round}");
            }
            native.update_of("replay_complete");
        }
        let took = since.elapsed();
        assert!(took < GRACE * 2 + Duration::from_secs(10), "stopping took {took:?}");
    }
    for (agent, id) in AGENTS.iter().zip(&ids) {
        let turns = events::turns_of(&mut house.native(), id);
        assert_eq!(turns.len(), 2 * rounds, "{agent}");
        for pair in turns.chunks(2) {
            assert_eq!(pair[0].outcome, "cancelled", "{agent}: {:?}", pair[0].text);
            assert!(pair[0].text.contains("client_rpc"), "{agent}: {}", pair[0].text);
            assert_eq!(pair[1].outcome, "completed", "{agent}: {:?}", pair[1]);
        }
        house.native().ask("session/close", json!({"session_id": id}));
    }
    house.wait_empty();
}

#[test]
fn an_interrupt_of_everything_takes_the_queue_along_across_a_kill() {
    let mut house = Resident::start();
    let ids = sessions(&house);
    let mut native = house.native();
    for (agent, id) in AGENTS.iter().zip(&ids) {
        native.send(id, long_prompt(agent));
        for number in 0..3 {
            native.send(id, &format!("say never {number}"));
        }
        watch_beginning(&mut house.native(), id, 0);
    }
    for id in &ids {
        assert_eq!(native.ask("session/interrupt", json!({"session_id": id}))["interrupted"], true);
    }
    house.restart();
    let mut native = house.native();
    for (agent, id) in AGENTS.iter().zip(&ids) {
        events::turns_of(&mut native, id);
        native.prompt(id, "say at last");
        let turns = events::turns_of(&mut native, id);
        let outcomes: Vec<&str> = turns.iter().map(|turn| turn.outcome.as_str()).collect();
        assert_eq!(outcomes, ["cancelled", "cancelled", "cancelled", "cancelled", "completed"], "{agent}");
    }
    assert!(house.cli_prompts().iter().all(|prompt| !prompt.contains("never")), "a cancelled prompt ran");
}

#[test]
fn an_agent_that_ignores_signals_is_killed_by_the_next_daemon() {
    let mut house = Resident::start();
    let mut ids = sessions(&house);
    // The built-in agent does not know how to hang.
    ids.pop();
    let mut native = house.native();
    let mut processes: Vec<Identity> = Vec::new();
    for id in &ids {
        native.send(id, "hang");
        watch_beginning(&mut house.native(), id, 0);
        processes.push(house.process_of(id));
    }
    for id in &ids {
        native.ask("session/cancel", json!({"session_id": id}));
    }
    house.restart();
    let since = Instant::now();
    let mut native = house.native();
    // Whoever has to wait for a stubborn agent, it is nobody else.
    let other = native.make(json!({"agent_alias": "echo", "cwd": house.work()}));
    assert_eq!(native.prompt(&other, "quick")["content"], "echo: quick");
    let waited = since.elapsed();
    let nobody_waited = waited < GRACE || processes.iter().any(|process| process.alive());
    assert!(nobody_waited, "another session had to wait for {waited:?}");
    for process in &processes {
        process.wait_gone(GRACE * 3 + Duration::from_secs(5));
    }
    for (agent, id) in AGENTS.iter().zip(&ids) {
        native.prompt(id, "say again");
        let turns = events::turns_of(&mut native, id);
        assert_eq!((turns[0].outcome.as_str(), turns[1].outcome.as_str()), ("cancelled", "completed"), "{agent}");
    }
}

#[test]
fn a_session_that_was_being_closed_is_closed_by_the_next_daemon() {
    let mut house = Resident::start();
    let ids = sessions(&house);
    let mut native = house.native();
    for (agent, id) in AGENTS.iter().zip(&ids) {
        native.send(id, long_prompt(agent));
        native.send(id, "say never");
        watch_beginning(&mut house.native(), id, 0);
    }
    let mut closer = house.native();
    for id in &ids {
        closer.begin("session/close", json!({"session_id": id})).expect("a request");
    }
    // Of the first it is known that it is archived; the others may be anywhere.
    wait::until_true(wait::LIMIT, "the first session to be archived", || {
        native.listed(&ids[0]).is_ok_and(|listed| listed["standing"] == "archived")
    });
    house.restart();
    let mut native = house.native();
    for id in &ids {
        match native.call("session/close", json!({"session_id": id})) {
            Ok(_) | Err(Trouble::Refused(..)) => {}
            Err(trouble) => panic!("{trouble}"),
        }
        assert_eq!(native.listed(id).expect("it is listed")["standing"], "archived");
    }
    house.wait_empty();
    for (agent, id) in AGENTS.iter().zip(&ids) {
        let turns = events::turns_of(&mut native, id);
        assert_eq!(turns.len(), 2, "{agent}");
        assert!(turns.iter().all(|turn| turn.outcome == "cancelled"), "{agent}: {turns:?}");
    }
    assert!(house.cli_prompts().iter().all(|prompt| !prompt.contains("never")), "a cancelled prompt ran");
}
