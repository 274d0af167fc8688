//! Whoever asked decides, with the passphrase: directly, hidden, through somebody else, unrecognised.

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

/// F14: a process that hides from the house asks over HTTP and answers itself, from inside and from outside.
#[test]
fn whoever_cannot_be_recognised_approves_nothing() {
    let scene = Scene::up("");
    for guard in [Some(BOTH[0]), Some(BOTH[1]), None] {
        let question = format!("may I hide ({guard:?})?");
        let facts = json!({"question": question, "hide": true, "decide": true, "is_outside": guard.is_none()});
        let attack = match guard {
            Some(guard) => scene.begin(guard, "deciding.hidden_request", &facts),
            None => scene.begin_outside("deciding.hidden_request", &facts),
        };
        let request = scene.command_with(&question);
        attack.tell("go", &request);
        attack.wait_reached("tried");
        assert_eq!(scene.state(&request), "pending", "{guard:?}");
        assert!(!attack.has_reached("answered"), "{guard:?}");
        attack.tell("enough", "");
        attack.end();
    }
    // The control: the same client does not hide, and somebody else answers.
    let facts = json!({"question": "may I not hide?", "hide": false, "decide": false});
    let attack = scene.begin_outside("deciding.hidden_request", &facts);
    let request = scene.command_with("may I not hide?");
    scene.approve(&request);
    let said = attack.wait_reached("answered");
    assert!(said.contains("Approved"), "{said}");
    attack.tell("go", &request);
    attack.tell("enough", "");
    attack.end();
}

/// Whoever gets out of the house, by `systemd-run --user`, cron or ssh, is no insider any more. Without `strict` an agent's
/// question is answered then, which is documented as a limit. No command is.
#[test]
fn whoever_gets_out_approves_no_command_without_the_passphrase() {
    let scene = Scene::up("");
    let witness = scene.witness("approved");
    let asking = scene.begin(BOTH[1], "rows.again", &json!({"argv": touch(&witness)}));
    let request = scene.command_with(&witness.display().to_string());
    let (session, question) = scene.asking_session();
    let said = scene.outside("deciding.without", &json!({"id": request, "session": session}));
    assert_eq!(scene.state(&request), "pending", "{said}");
    assert!(!witness.exists(), "{said}");
    asking.tell("enough", "");
    asking.end();
    // The control, and the limit: the same calls answer the question.
    let said = scene.outside("deciding.without", &json!({"id": question, "session": session}));
    assert_eq!(scene.state(&question), "approved", "{said}");
}
