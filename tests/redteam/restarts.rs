//! What an attacker gains by killing the daemon and the keeper: an old database, a forged row, looser settings.

use std::fs;

use serde_json::{Value, json};

use crate::scene::{BOTH, Guard, PASSPHRASE, Scene};

/// A copy of the database of when a grant was valid is put back under a daemon that the attacker starts.
#[test]
fn an_earlier_database_brings_no_grant_back() {
    let scene = Scene::up("");
    for guard in BOTH {
        let trace = scene.witness("trace");
        fs::write(&trace, "").unwrap();
        scene.place.own(&trace);
        let argv = json!(["sh", "-c", format!("echo ran >>{}", trace.display())]);
        let ask = json!({"argv": argv, "more": {"session": format!("{guard:?}")}, "unasked": true});
        let first = scene.begin(guard, "rows.again", &ask);
        let request = scene.command_with(&trace.display().to_string());
        let terms = json!({"scope": "session", "seconds": 3600});
        let decision = json!({"id": request, "decision": "allow_once", "grant": terms, "passphrase": PASSPHRASE});
        let grant = scene.owner().ask("approval/decide", decision)["grant"].as_u64().expect("a grant");
        assert_eq!(first.end()["answer"]["status"], "ok");
        // The control: a restart in good faith keeps the grant.
        scene.restart();
        assert_eq!(scene.attack(guard, "rows.again", &ask)["answer"]["status"], "ok", "{guard:?}");
        let copy = json!({"copy": scene.witness("copy"), "table": "grants", "condition": format!("no = {grant}")});
        let copied = scene.attack(guard, "rows.copy", &copy);
        scene.owner().ask("approval/revoke", json!({"grant": grant, "passphrase": PASSPHRASE}));
        let daemon = scene.daemon_pid();
        let mut restore = copy.clone();
        restore["daemon"] = daemon.into();
        // The end of the daemon may end what the owner's command shows, but not the session.
        let attack = scene.begin(guard, "rows.restore_database", &restore);
        let said = attack.end();
        scene.place.start();
        let mut ask = ask.clone();
        ask["unasked"] = json!(false);
        let again = scene.begin(guard, "rows.again", &ask);
        scene.command_with(&trace.display().to_string());
        again.tell("enough", "");
        again.end();
        assert_eq!(fs::read_to_string(&trace).unwrap().lines().count(), 2, "{guard:?}: {said}");
        match guard {
            Guard::Off => assert!(copied["whole"] == "copied" && scene.is_alarmed(), "{copied} {said}"),
            Guard::Auto => assert!(daemon == scene.daemon_pid() || !scene.is_full(), "{said}"),
        }
        scene.deny_all();
    }
}

/// An approval is forged, then everybody who could remember is killed.
#[test]
fn a_forged_approval_does_not_outlive_the_keeper() {
    let scene = Scene::up("");
    for guard in BOTH {
        let forged = forge_and_kill(&scene, guard, false);
        assert_eq!(forged.answer["status"], "denied", "{guard:?}: {forged:?}");
        scene.check_not_approved(&forged.request, "after the keeper's death");
        if guard == Guard::Off {
            assert!(scene.is_alarmed(), "{forged:?}");
        }
        assert_eq!(scene.broken(), Value::Null, "{guard:?}: {forged:?}");
    }
}

/// The record of the decision is forged as well. Nobody can tell the row from an honest one then, but nothing runs and the
/// record does not verify.
#[test]
fn a_forged_record_that_outlives_the_keeper_does_not_verify() {
    let scene = Scene::up("");
    for guard in BOTH {
        assert_eq!(scene.broken(), Value::Null, "the control: the house's own records verify");
        let forged = forge_and_kill(&scene, guard, true);
        assert_ne!(forged.answer["status"], "ok", "{guard:?}: {forged:?}");
        let is_whole = scene.broken() == Value::Null;
        assert_eq!(is_whole, guard == Guard::Auto && scene.is_full(), "{guard:?}: {forged:?}");
        assert_eq!(scene.place.hostel(&["audit", "verify"]).status.success(), is_whole, "{guard:?}");
    }
}

/// What became of a request that was approved by nobody.
#[derive(Debug)]
struct Forged {
    request: String,
    answer: Value,
    _said: Option<Value>,
}

/// Forges the approval of a command, with or without the record of the decision, and kills daemon and keeper. A client that
/// asked outside of the house comes back for the answer.
fn forge_and_kill(scene: &Scene, guard: Guard, records: bool) -> Forged {
    let witness = scene.witness("forged");
    let asking = scene.begin_outside("rows.insist", &json!({"argv": ["touch", witness]}));
    let request = scene.command_with(&witness.display().to_string());
    let (daemon, keeper) = (scene.daemon_pid(), scene.keeper_pid());
    let forge = json!({
        "id": request, "daemon": daemon, "keeper": keeper, "records": records,
        "sql": ["UPDATE approvals SET state = 'approved', decision = '\"allow_once\"', runs = randomblob(16), \
            keeper = :keeper, run = 'due', decided_ns = created_ns + 1 WHERE id = :id"],
    });
    let said = scene.begin(guard, "rows.kill_both", &forge).end_anyhow();
    let is_safe = guard == Guard::Auto && scene.is_full();
    if !is_safe {
        scene.wait_end(daemon);
        scene.wait_end(keeper);
    }
    scene.place.start();
    if is_safe {
        assert_eq!((scene.daemon_pid(), scene.keeper_pid()), (daemon, keeper), "{said:?}");
        scene.deny_all();
    }
    let answer = asking.end()["answer"].clone();
    assert!(!witness.exists(), "{guard:?}: {answer} {said:?}");
    Forged { request, answer, _said: said }
}

/// A rule that allows everything is written into the settings, `strict` is taken out, and the daemon is killed.
#[test]
fn looser_settings_do_not_apply_by_themselves() {
    let scene = Scene::up("[approvals]\nstrict = true\n");
    for guard in BOTH {
        let witness = scene.witness("allowed");
        let rule = "\n[[approvals.rules]]\nname = \"everything\"\naction = \"allow\"\nargv = [\"touch\", \"**\"]\n";
        let facts = json!({"rule": rule, "daemon": scene.daemon_pid()});
        let said = scene.begin(guard, "rows.settings", &facts).end_anyhow();
        if guard == Guard::Off {
            scene.wait_end(facts["daemon"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap());
        }
        scene.place.start();
        let asking = scene.begin_outside("rows.again", &json!({"argv": ["touch", witness]}));
        scene.command_with(&witness.display().to_string());
        assert!(!witness.exists(), "{guard:?}: {said:?}");
        assert_eq!(scene.owner().ask("approver/status", json!({}))["strict"], true, "{guard:?}: {said:?}");
        asking.tell("enough", "");
        asking.end();
        scene.deny_all();
    }
    // The control: the person confirms what now stands in the file, and it applies.
    scene.owner().ask("approver/confirm", json!({"passphrase": PASSPHRASE}));
    let witness = scene.witness("allowed");
    let said = scene.outside("rows.again", &json!({"argv": ["touch", witness], "unasked": true}));
    assert!(witness.exists(), "{said}");
}
