//! Many sessions at once, and queues that are full.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::wait;
use serde_json::json;

use super::native::Trouble;
use super::resident::Resident;

/// How many sessions there are at once.
const SESSIONS: usize = 200;

/// How many clients make them.
const CLIENTS: usize = 20;

#[test]
fn two_hundred_sessions_at_once_are_all_answered() {
    let house = Resident::start();
    let since = Instant::now();
    let all: Mutex<BTreeSet<String>> = Mutex::default();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (house, all) = (&house, &all);
            scope.spawn(move || {
                let by_cast = client % 2 == 0;
                let cast = house.cast();
                let mut peer = house.zeroclaw().patient(Duration::from_secs(120));
                let work = house.work();
                let ids: Vec<String> = (0..SESSIONS / CLIENTS)
                    .map(|_| match by_cast {
                        true => cast.make(&json!({"path": work, "cli_type": "echo"})),
                        false => peer.make(json!({"agent_alias": "echo", "cwd": work})),
                    })
                    .collect();
                // All of them at once, then what became of each.
                if by_cast {
                    let streams: Vec<_> = ids
                        .iter()
                        .map(|id| (id, cast.send(id, &format!("hello {id}")).expect("the message is taken")))
                        .collect();
                    for (id, mut stream) in streams {
                        let mut said = String::new();
                        while let Some(event) = stream.event().expect("the stream goes on to its end") {
                            assert_ne!(event["type"], "error", "{event}");
                            if event["type"] == "partial" {
                                said.push_str(event["content"].as_str().unwrap_or_default());
                            }
                        }
                        assert_eq!(said, format!("echo: hello {id}"));
                    }
                } else {
                    let asked: Vec<_> = ids
                        .iter()
                        .map(|id| {
                            let params = json!({"session_id": id, "prompt": format!("hello {id}")});
                            (id, peer.begin("session/prompt", params).expect("a request"))
                        })
                        .collect();
                    for (id, request) in asked {
                        let answer = peer.finish(request).unwrap_or_else(|trouble| panic!("{id}: {trouble}"));
                        assert_eq!(answer["content"], format!("echo: hello {id}"));
                    }
                }
                all.lock().expect("nobody panics while holding it").extend(ids);
            });
        }
    });
    let took = since.elapsed();
    let all = all.into_inner().expect("nobody panicked while holding it");
    assert_eq!(all.len(), SESSIONS);
    let mut native = house.native().patient(Duration::from_secs(60));
    let listed = native.ask("session/list", json!({"limit": 1000}));
    let listed = listed["sessions"].as_array().expect("a list");
    let ids: BTreeSet<String> = listed.iter().filter_map(|one| one["session_id"].as_str().map(str::to_owned)).collect();
    assert_eq!(ids, all);
    assert!(listed.iter().all(|one| one["turns"] == 1 && one["status"] == "idle"), "{listed:?}");
    // Of the warm ones no more stay than may.
    wait::until_true(wait::LIMIT, "the processes that are too many to go", || house.held().len() <= 16);
    eprintln!("{SESSIONS} sessions were made and answered within {took:.1?}");
    thread::scope(|scope| {
        let ids: Vec<&String> = all.iter().collect();
        for some in ids.chunks(SESSIONS / CLIENTS) {
            let mut peer = house.native().patient(Duration::from_secs(60));
            let some: Vec<String> = some.iter().map(|id| (*id).clone()).collect();
            scope.spawn(move || {
                for id in some {
                    peer.ask("session/close", json!({"session_id": id}));
                }
            });
        }
    });
    house.wait_empty();
}

#[test]
fn a_full_queue_is_said_exactly_and_empties_again() {
    let house = Resident::start_with("queue = 3\n");
    let mut native = house.native();
    let id = house.cast().make(&json!({"path": house.work(), "cli_type": "echo"}));
    let running = native.send(&id, "sleep 60");
    wait::until_true(wait::LIMIT, "the turn to run", || {
        native.listed(&id).is_ok_and(|listed| listed["running_turn"] == running)
    });
    for place in 1..=3 {
        let events = house.cast().turn(&id, &format!("hello {place}"));
        assert_eq!(events, [json!({"type": "queued", "position": place})]);
    }
    let events = house.cast().turn(&id, "one too many");
    let full = "3 prompts are waiting already; wait for an answer, or interrupt";
    assert_eq!(events, [json!({"type": "error", "message": full})]);
    for method in ["session/send", "session/prompt"] {
        let refused = native.call(method, json!({"session_id": id, "prompt": "one too many"}));
        assert_eq!(refused, Err(Trouble::Refused(-32002, full.to_owned())), "{method}");
    }
    // Other sessions have their own queues.
    let other = native.make(json!({"agent_alias": "echo", "cwd": house.work()}));
    assert_eq!(native.prompt(&other, "quick")["content"], "echo: quick");
    native.ask("session/cancel", json!({"session_id": id}));
    native.attach(&id, 0, true).expect("a session to attach to");
    for turn in 1..=4 {
        let ended = native.ended(turn);
        let outcome = if turn == 1 { "cancelled" } else { "completed" };
        assert_eq!(ended["outcome"], outcome, "{ended}");
    }
    assert_eq!(native.prompt(&id, "again")["content"], "echo: again");
    assert_eq!(native.listed(&id).expect("it is listed")["turns"], 5, "a refused prompt left something behind");
}
