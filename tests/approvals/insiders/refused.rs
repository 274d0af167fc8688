//! What is not allowed is refused, at every door, to a hosted command, an agent's process and one that hides.

use std::collections::BTreeSet;

use serde_json::json;

use super::attempts::{self, Attempt, Targets};
use super::home::{Doors, Home};

/// Methods that answer with a list instead of a refusal: it has nothing of others.
const LISTS: [&str; 6] =
    ["process/list", "approval/list", "session/list", "status", "session.list", "monitor.sessions"];

/// Tries everything and finds that nothing of the owner's has changed.
fn attack(home: &Home, doors: &Doors, what: &str) {
    let targets = Targets::of(home);
    let before = targets.state(home);
    let mut tried: Vec<(&str, Vec<Attempt>)> = vec![
        ("native", attempts::native(doors, &targets)),
        ("zeroclaw", attempts::zeroclaw(doors, &targets)),
        ("codecast", attempts::codecast(doors, home, &targets)),
    ];
    if doors.has_claustrum() {
        tried.push(("claustrum", attempts::claustrum(doors, home)));
    }
    for (door, attempts) in &tried {
        for attempt in attempts {
            assert!(attempt.is_refused(), "{what}, {door} {}: {}", attempt.method, attempt.answer);
        }
    }
    assert_eq!(targets.state(home), before, "{what}");
    lists(doors, &targets, what);
    // Every method that is not allowed was tried: a new one in the table needs an attempt here.
    tried.retain(|(door, _)| *door != "native");
    for (door, attempts) in tried {
        covers(door, attempts.iter().map(|attempt| attempt.method));
    }
    let native = attempts::native(doors, &targets);
    covers("native", native.iter().map(|attempt| attempt.method));
}

fn covers<'a>(door: &str, methods: impl Iterator<Item = &'a str>) {
    let tried: BTreeSet<&str> = methods.chain(LISTS).collect();
    for rule in ["denied", "own only"] {
        for method in attempts::in_document(door, rule) {
            assert!(tried.contains(method.as_str()), "{door} {method} is {rule}, and no attempt was made");
        }
    }
}

/// Lists have nothing of the owner's.
fn lists(doors: &Doors, targets: &Targets, what: &str) {
    let mut native = doors.native();
    let answers = [
        native.ask("process/list", json!({})),
        native.ask("approval/list", json!({"all": true})),
        native.ask("session/list", json!({"all": true})),
        native.ask("status", json!({})),
        doors.zeroclaw().ask("session/list", json!({})),
        doors.codecast("session.list", &json!({})),
        doors.codecast("monitor.sessions", &json!({})),
    ];
    for answer in answers {
        let text = answer.to_string();
        for id in [&targets.session, &targets.question, &targets.agent, &targets.command] {
            assert!(!text.contains(id.as_str()), "{what}: {text}");
        }
    }
}

#[test]
fn a_hosted_command_is_refused_what_the_table_denies() {
    let home = Home::start("");
    let doors = home.hosted("plain", "exec $RELAY");
    assert!(doors.has_claustrum());
    attack(&home, &doors, "a hosted command");
}

#[test]
fn an_agents_process_is_refused_what_the_table_denies() {
    let home = Home::start("guard = \"off\"\n");
    let (doors, _) = home.agent("agent", "ask");
    assert!(doors.has_claustrum());
    attack(&home, &doors, "an agent's process");
}

/// The guard hides the claustrum socket. At the other doors the table counts as without a guard.
#[test]
fn an_agents_process_under_its_guard_is_refused_what_the_table_denies() {
    let home = Home::start("");
    let (doors, session) = home.agent("agent", "ask");
    let active = home.session(&session)["guard"]["active"].clone();
    let hides = active == "full" || active == "view";
    assert_eq!(doors.has_claustrum(), !hides, "the guard is {active}");
    attack(&home, &doors, "an agent's process under its guard");
}

/// Without parents, a terminal session, variables and the usual limits.
#[test]
fn a_process_that_hides_is_refused_what_the_table_denies() {
    let home = Home::start("");
    let hidden = "env -i setsid --fork prlimit --nofile=777 $RELAY; exec sleep 900";
    attack(&home, &home.hosted("hidden", hidden), "a process that hides");
}

/// The sudo-proxy door is not closed by a process inside, and is by somebody outside.
#[test]
fn the_sudo_proxy_door_is_closed_from_outside_only() {
    let home = Home::start("");
    let inside = home.hosted("plain", "exec $RELAY");
    let request = |id: &str, action: &str| {
        let time = format!("{}Z", hostel_tests::sudo_proxy::moment::from_now(0));
        json!({"id": id, "time": time, "action": action, "privileged": false})
    };
    let refused = inside.sudo(&request("a", "stop"));
    assert!(refused.to_string().contains("inside this house"), "{refused}");
    assert_eq!(inside.sudo(&request("b", "ping"))["status"], "ok");
    let stopped = home.owner().sudo(&request("c", "stop"));
    assert_eq!(stopped["status"], "ok", "{stopped}");
}

/// The same calls work for the owner of the house.
#[test]
fn the_owner_may_do_all_of_it() {
    let home = Home::start("");
    let owner = home.owner();
    let targets = Targets::of(&home);
    for attempt in attempts::sessions_without_waiting(&owner, &targets) {
        assert!(!attempt.answer.to_string().contains("inside this house"), "{}: {}", attempt.method, attempt.answer);
    }
    // What was tried with the session has ended it; the rest is about others.
    let targets = Targets { agent: targets.command.clone(), ..targets };
    for attempt in attempts::codecast(&owner, &home, &targets) {
        assert!(!attempt.answer.to_string().contains("inside this house"), "{}: {}", attempt.method, attempt.answer);
    }
    let mut native = home.native();
    let data = attempts::base64(b"hello\n");
    assert_eq!(native.ask("process/stdin", json!({"id": targets.command, "data": data}))["applied"], 6);
    native.ask("process/close_stdin", json!({"id": targets.command}));
    assert_eq!(native.ask("process/kill", json!({"id": targets.command, "wait_ms": 10000}))["died"], true);
    native.ask("approval/unlock", json!({"passphrase": super::home::PASSPHRASE}));
    for method in ["audit/show", "journal/usage", "journal/gc", "approval/grants", "process/strays", "keeper/upgrade"] {
        native.ask(method, json!({}));
    }
}
