//! The keeper killed or replaced in the middle of turns.

use std::time::{Duration, Instant};

use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::json;

use super::events;
use super::resident::Resident;

const AGENTS: [&str; 5] = ["claude by message", "claude", "codex", "gemini", "echo"];

fn sessions(house: &Resident) -> Vec<String> {
    let work = house.work();
    let mut native = house.native();
    let mut ids = vec![house.cast().make(&json!({"path": work}))];
    ids.extend(AGENTS[1..].iter().map(|agent| native.make(json!({"agent_alias": agent, "cwd": work}))));
    ids
}

fn prompt(agent: &str, count: u64) -> String {
    if agent == "echo" { "sleep 2".to_owned() } else { format!("slow {count} 20") }
}

/// Waits until every agent has said something in its latest turn.
fn wait_for_words(house: &Resident, ids: &[String], turn: u64) {
    for id in ids {
        let mut native = house.native();
        native.attach(id, 0, true).expect("a session to attach to");
        loop {
            let update = native.update_of("agent_message_chunk");
            if update["turn"] == turn {
                break;
            }
        }
    }
}

#[test]
fn a_keeper_that_dies_fails_its_turns_and_the_sessions_go_on() {
    let mut house = Resident::start();
    let ids = sessions(&house);
    for (round, with_daemon) in [(0, false), (1, true)] {
        let mut native = house.native();
        for (agent, id) in AGENTS.iter().zip(&ids) {
            native.send(id, &prompt(agent, 10_000));
            native.send(id, &format!("say after {round}"));
        }
        wait_for_words(&house, &ids, 2 * round + 1);
        let keeper = house.keeper();
        let held = house.held();
        if with_daemon {
            house.kill();
        }
        let since = Instant::now();
        keeper.signal(Signal::KILL);
        keeper.wait_gone(wait::LIMIT);
        if with_daemon {
            house.serve();
        }
        let mut native = house.native();
        for (agent, id) in AGENTS.iter().zip(&ids) {
            let turns = events::turns_of(&mut native, id);
            let [.., failed, after] = turns.as_slice() else { panic!("{agent}: {} turns", turns.len()) };
            assert_eq!(failed.outcome, "failed", "{agent}: {:?}", failed.text);
            assert!(failed.text.contains("its keeper died"), "{agent}: {:?}", failed.text);
            assert_eq!(after.outcome, "completed", "{agent}: {after:?}");
            assert!(after.text.ends_with(&format!("after {round}")), "{agent}: {:?}", after.text);
        }
        eprintln!("the sessions were usable {:.1?} after the keeper's death", since.elapsed());
        for process in held {
            process.wait_gone(wait::LIMIT);
        }
    }
    let prompts = house.cli_prompts();
    for round in 0..2 {
        let count = prompts.iter().filter(|prompt| **prompt == format!("say after {round}")).count();
        assert_eq!(count, 4, "every queued prompt was put once: {prompts:?}");
    }
    for id in &ids {
        house.native().ask("session/close", json!({"session_id": id}));
    }
    house.wait_empty();
}

#[test]
fn a_keeper_that_is_replaced_in_the_middle_of_turns_is_not_noticed() {
    let mut house = Resident::start();
    let ids = sessions(&house);
    let mut native = house.native();
    let count = 100;
    for (agent, id) in AGENTS.iter().zip(&ids) {
        native.send(id, &prompt(agent, count));
        native.send(id, "say after");
    }
    wait_for_words(&house, &ids, 1);
    let keeper = house.keeper();
    let mut upgrades = 0;
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(1500) {
        house.upgrade_keeper();
        upgrades += 1;
        if upgrades == 2 {
            house.restart();
        }
    }
    eprintln!("{upgrades} upgrades of the keeper during turns");
    assert_eq!(house.keeper(), keeper, "the keeper's process changed");
    let mut native = house.native();
    for (agent, id) in AGENTS.iter().zip(&ids) {
        let turns = events::turns_of(&mut native, id);
        let expected: Vec<String> = match *agent {
            "echo" => vec!["sleeping".to_owned(), " done".to_owned()],
            _ => (0..count).map(|number| format!("{number} ")).collect(),
        };
        assert_eq!(turns[0].pieces, expected, "{agent}");
        assert_eq!((turns[0].errors().len(), turns[0].outcome.as_str()), (0, "completed"), "{agent}");
        assert_eq!(turns[1].outcome, "completed", "{agent}");
        assert_eq!(turns.len(), 2, "{agent}");
    }
}
