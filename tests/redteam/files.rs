//! F9, F16 and F18: the count of wrong passphrases, the digest of the right one, the record.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::place::Place;
use crate::scene::{BOTH, Guard, PASSPHRASE, Scene};

/// What the attacker would like to be the approver's passphrase.
const OTHER: &str = "what the attacker knows";

fn unlock(scene: &Scene, passphrase: &str) -> Result<(), String> {
    let answer = scene.owner().call("approval/unlock", json!({"passphrase": passphrase}));
    answer["error"]["message"].as_str().map_or(Ok(()), |message| Err(message.to_owned()))
}

/// The digest of the attacker's passphrase, as a house of the attacker's own makes it.
fn own_digest(scene: &Scene) -> String {
    let place: &Place = &scene.place;
    let home = place.path().join("attackers");
    let with = |words: &[&str]| {
        let mut command = place.command(&place.hostel);
        command.env("HOSTEL_HOME", &home).args(words).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    place.write("attackers/hostel.toml", "[doors.codecast]\nlisten = \"127.0.0.1:0\"\n[doors.mcp]\nenabled = false\n");
    assert!(with(&["up"]).status().unwrap().success());
    let input = place.write("attackers/passphrase", &format!("{OTHER}\n"));
    let mut set = with(&["approver", "set", "--passphrase-fd", "0"]);
    assert!(set.stdin(fs::File::open(input).unwrap()).status().unwrap().success());
    let digest = fs::read_to_string(home.join("approver")).expect("a digest");
    assert!(with(&["down"]).status().unwrap().success());
    digest
}

/// F16: the digest is replaced, then somebody outside of the house decides with the passphrase of the attacker's.
#[test]
fn a_digest_of_ones_own_decides_nothing() {
    let scene = Scene::up("");
    let digest = own_digest(&scene);
    for guard in BOTH {
        let witness = scene.witness("approved");
        let asking = scene.begin(guard, "rows.again", &json!({"argv": ["touch", witness]}));
        let request = scene.command_with(&witness.display().to_string());
        let said = scene.attack(guard, "rows.replace_digest", &json!({"digest": digest}));
        for restarted in [false, true] {
            if restarted {
                scene.restart();
            }
            let decision = json!({"id": request, "decision": "allow_once", "passphrase": OTHER});
            let answer = scene.owner().call("approval/decide", decision);
            assert!(answer.get("error").is_some(), "{guard:?}, restarted {restarted}: {answer} {said}");
            assert!(!witness.exists(), "{guard:?}, restarted {restarted}");
            assert_eq!(
                unlock(&scene, PASSPHRASE),
                Ok(()),
                "{guard:?}, restarted {restarted}: the approver's counts on"
            );
        }
        let written = said["file"] == "written";
        match guard {
            Guard::Off => assert!(written && scene.is_alarmed(), "{said}"),
            Guard::Auto => assert!(!written || !scene.is_full(), "{said}"),
        }
        asking.tell("enough", "");
        asking.end();
    }
    // The control: the approver's own passphrase decides.
    let witness = scene.witness("approved");
    let asking = scene.begin(Guard::Off, "rows.again", &json!({"argv": ["touch", witness], "unasked": true}));
    let request = scene.command_with(&witness.display().to_string());
    scene.approve(&request);
    assert_eq!(asking.end()["answer"]["status"], "ok");
}

/// F9: guesses are not given back by SQL.
#[test]
fn a_lock_out_is_not_reset() {
    let scene = Scene::up("");
    // The control: before there are five, the right passphrase makes them forgotten.
    assert!(unlock(&scene, "a wrong guess").is_err());
    assert_eq!(unlock(&scene, PASSPHRASE), Ok(()));
    for _ in 0..4 {
        let told = unlock(&scene, "a wrong guess").expect_err("it is wrong");
        assert!(told.contains("more tr"), "{told}");
    }
    assert!(unlock(&scene, "a wrong guess").expect_err("it is wrong").contains("too many"));
    let sql = json!({"sql": ["UPDATE lockout SET wrong = 0, rounds = 0, until_ns = 0"]});
    for guard in BOTH {
        let said = scene.attack(guard, "rows.statements", &sql);
        let told = unlock(&scene, PASSPHRASE).expect_err("it is locked");
        assert!(told.contains("too many"), "{guard:?}: {told} {said}");
        assert_eq!(said["changed"][0] == 1, guard == Guard::Off || !scene.is_full(), "{said}");
    }
    // The house has noticed it, and written the count again as it knows it.
    assert!(scene.is_alarmed());
    scene.restart();
    assert!(unlock(&scene, PASSPHRASE).expect_err("it is locked").contains("too many"));
}

/// F18: records that say that a person agreed.
#[test]
fn records_that_somebody_appended_do_not_verify() {
    let scene = Scene::up("");
    let witness = scene.witness("approved");
    let asking = scene.begin(Guard::Off, "rows.again", &json!({"argv": ["touch", witness], "unasked": true}));
    let request = scene.command_with(&witness.display().to_string());
    scene.approve(&request);
    asking.end();
    assert_eq!(scene.broken(), Value::Null, "the control: the house's own records verify");
    for guard in BOTH {
        let said = scene.attack(guard, "rows.append", &json!({"id": "somebody"}));
        let foreign = scene.records().iter().any(|record| record["approval"] == "somebody");
        let written = said["written"].as_array().is_some_and(|all| all.iter().any(Value::is_number));
        match guard {
            Guard::Auto => assert!(!written || !scene.is_full(), "{said}"),
            Guard::Off => assert!(written, "{said}"),
        }
        if written {
            let broken = scene.broken();
            let what = broken["what"].as_str().unwrap_or_default();
            assert!(what.contains("not written by the house"), "{guard:?}: {broken} {said}");
            assert!(!scene.place.hostel(&["audit", "verify"]).status.success());
        } else {
            assert!(!foreign && scene.broken() == Value::Null, "{guard:?}: {said}");
        }
    }
}
