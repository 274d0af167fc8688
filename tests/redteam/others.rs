//! What belongs to others: transcripts, commands that run, places in the inbox.

use std::fs;

use hostel_tests::wait;
use serde_json::{Value, json};

use crate::scene::{BOTH, Guard, Scene};

/// What stands in a transcript and nowhere else.
const SECRET: &str = "mellon-in-the-transcript";

#[test]
fn nobody_reads_another_session_through_a_door() {
    let scene = Scene::up("");
    let (session, question) = scene.asking_session();
    scene.owner().ask("session/send", json!({"session_id": session, "prompt": SECRET}));
    scene.approve_tool(&session, &question);
    wait::eventually("the answer", || scene.messages(&session).matches(SECRET).count() >= 2);
    let (process, name) = scene.agent_process(&session);
    let facts = json!({"session": session, "question": question, "process": process, "name": name});
    for guard in BOTH {
        let told = scene.attack(guard, "others.read_doors", &facts).to_string();
        assert!(!told.contains(SECRET) && !told.contains(&question), "{guard:?}: {told}");
        // By the files: a limit without a guard.
        let told = scene.attack(guard, "others.read_files", &facts).to_string();
        assert_eq!(told.contains(SECRET), guard == Guard::Off || !scene.is_full(), "{guard:?}");
    }
    // The control: the owner reads it by the same calls.
    let told = scene.outside("others.read_doors", &facts).to_string();
    assert!(told.matches(SECRET).count() > 2, "{told}");
}

/// A command of the owner's, and one that a person approved for somebody else.
#[test]
fn nobody_feeds_or_ends_the_commands_of_others() {
    let scene = Scene::up("");
    let (heard, approved) = (scene.witness("heard"), scene.witness("approved"));
    let script = format!("while read -r line; do echo $line >>{}; done", heard.display());
    let spawned = scene.owner().ask("process/spawn", json!({"argv": ["sh", "-c", script], "name": "owned"}));
    let command = spawned["id"].as_str().expect("an id").to_owned();
    let gate = scene.witness("gate");
    let script = format!("until test -e {}; do sleep 0.02; done; touch {}", gate.display(), approved.display());
    let asking = scene.begin_outside("rows.again", &json!({"argv": ["sh", "-c", script], "unasked": true}));
    let request = scene.command_with(&approved.display().to_string());
    scene.approve(&request);
    let stage = wait::eventually("the approved command to run", || {
        let listed = scene.owner().ask("process/list", json!({}));
        let rows = listed["processes"].as_array()?.clone();
        let found =
            rows.iter().find(|row| row["id"] != command.as_str() && row["state"] == "running" && !is_agent(row))?;
        Some(found.clone())
    });
    let processes = json!([[command, "owned"], [stage["id"], stage["name"]],]);
    for guard in BOTH {
        let said = scene.attack(guard, "others.disturb", &json!({"processes": processes}));
        assert!(!heard.exists(), "{guard:?}: {said}");
        for id in [command.as_str(), stage["id"].as_str().unwrap()] {
            assert_eq!(scene.process(id)["state"], "running", "{guard:?}: {said}");
        }
    }
    // The control: the owner feeds and ends its own by the same methods, and the approved command comes to its end.
    let data = base64_simd::STANDARD.encode_to_string(b"hello\n");
    scene.owner().ask("process/stdin", json!({"id": command, "data": data}));
    wait::content(&heard, "what it heard", |text| text == "hello\n");
    assert_eq!(scene.owner().ask("process/kill", json!({"id": command, "wait_ms": 10000}))["died"], true);
    fs::write(&gate, "").unwrap();
    assert_eq!(asking.end()["answer"]["status"], "ok");
    assert!(approved.exists());
}

fn is_agent(row: &Value) -> bool {
    row["name"].as_str().is_some_and(|name| ["echo-", "bare-", "fake-"].iter().any(|agent| name.starts_with(agent)))
}

/// The inbox is filled: each request is refused or on record, and others are still asked.
#[test]
fn a_full_inbox_loses_nothing() {
    let scene = Scene::up("");
    let requested = || scene.records().iter().filter(|record| record["kind"] == "requested").count();
    for guard in BOTH {
        let before = requested();
        let facts = json!({"connections": 6, "each": 100, "commands": 80});
        let attack = scene.begin(guard, "others.fill", &facts);
        let sent: usize = attack.wait_reached("sent").parse().unwrap();
        wait::eventually("every request to be refused or on record", || {
            let refused: usize = attack.wait_reached("refused").parse().unwrap();
            let recorded = requested() - before;
            let is_whole = refused > 0 && recorded > 0 && recorded + refused == sent;
            if is_whole { Ok(()) } else { Err(format!("{recorded} recorded and {refused} refused of {sent}")) }
        });
        let records = scene.records();
        for row in scene.pending() {
            let is_recorded = |record: &Value| record["approval"] == row["id"] && record["kind"] == "requested";
            assert!(records.iter().any(is_recorded), "{guard:?}: it waits without a record: {row}");
        }
        // The control: another session's question reaches the person.
        let (session, question) = scene.asking_session();
        scene.approve_tool(&session, &question);
        assert_eq!(scene.state(&question), "approved");
        attack.tell("enough", "");
        attack.end();
        wait::eventually("what waited to be withdrawn", || {
            let left = scene.pending().len();
            if left == 0 { Ok(()) } else { Err(left.to_string()) }
        });
        // Likewise another client's command.
        let witness = scene.witness("others");
        let asking = scene.begin_outside("rows.again", &json!({"argv": ["touch", witness], "unasked": true}));
        scene.approve(&scene.command_with(&witness.display().to_string()));
        assert_eq!(asking.end()["answer"]["status"], "ok", "{guard:?}");
    }
    assert_eq!(scene.broken(), Value::Null);
}
