//! Whoever asked decides, with the passphrase: directly, hidden, through somebody else, unrecognised.

use std::fs;

use serde_json::{Value, json};

use crate::scene::{BOTH, Scene};

fn touch(witness: &std::path::Path) -> Value {
    json!(["touch", witness])
}

/// Directly, after a double fork without parents, variables and limits, and with a connection that is handed to a process
/// outside of the house.
#[test]
fn whoever_asked_approves_nothing() {
    let scene = Scene::up("");
    for guard in BOTH {
        let witness = scene.witness("approved");
        let meeting = scene.witness("meeting");
        let outside = scene.begin_outside("deciding.receive", &json!({"meeting": meeting}));
        outside.wait_reached("meeting");
        let facts = json!({"argv": touch(&witness), "meeting": meeting, "waits": true});
        let attack = scene.begin(guard, "deciding.own_request", &facts);
        let request = scene.command_with(&witness.display().to_string());
        outside.tell("go", &request);
        attack.tell("go", &request);
        attack.wait_reached("tried");
        assert_eq!(scene.state(&request), "pending", "{guard:?}: {:?}", scene.records().last());
        assert!(!witness.exists(), "{guard:?}");
        let received = outside.end();
        assert_eq!(received.to_string().matches("jsonrpc").count(), 6, "nothing was handed over: {received}");
        // The passphrase is still what it was, and the person decides by the same method.
        attack.tell("enough", "");
        scene.approve(&request);
        let said = attack.end();
        assert_eq!(said["answer"]["status"], "ok", "{guard:?}: {said}");
        assert!(witness.exists());
    }
    assert_eq!(scene.broken(), Value::Null);
}

/// F14: a process that hides from the house asks over HTTP and decides itself, from inside and from outside.
#[test]
fn whoever_cannot_be_recognised_approves_nothing() {
    let scene = Scene::up("");
    let argv = |witness: &std::path::Path| json!({"argv": touch(witness), "hide": true, "decide": true});
    let attacks = BOTH.map(Some).into_iter().chain([None]);
    for guard in attacks {
        let witness = scene.witness("approved");
        let attack = match guard {
            Some(guard) => scene.begin(guard, "deciding.hidden_request", &argv(&witness)),
            None => scene.begin_outside("deciding.hidden_request", &argv(&witness)),
        };
        let request = scene.command_with(&witness.display().to_string());
        attack.tell("go", &request);
        attack.wait_reached("tried");
        assert_eq!(scene.state(&request), "pending", "{guard:?}");
        assert!(!witness.exists(), "{guard:?}");
        attack.tell("enough", "");
        attack.end();
    }
    // The control: the same client does not hide, and somebody else decides.
    let witness = scene.witness("approved");
    let facts = json!({"argv": touch(&witness), "hide": false, "decide": false});
    let attack = scene.begin_outside("deciding.hidden_request", &facts);
    let request = scene.command_with(&witness.display().to_string());
    scene.approve(&request);
    scene.wait_for(&witness);
    let said = attack.wait_reached("executed");
    assert!(!said.contains("denied"), "{said}");
    attack.tell("go", &request);
    attack.wait_reached("tried");
    attack.tell("enough", "");
    attack.end();
    assert!(fs::metadata(&witness).is_ok());
}
