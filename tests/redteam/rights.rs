//! F3 and F7: the keeper, and the rights of sessions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hostel_tests::wait;
use serde_json::json;

use crate::scene::{BOTH, PASSPHRASE, Scene};

#[test]
fn nobody_inside_replaces_the_keeper() {
    let scene = Scene::up("");
    let evil = scene.place.write("work/evil", "");
    let identity = |scene: &Scene| {
        let keeper = scene.keeper();
        (keeper["pid"].clone(), keeper["since_ns"].clone())
    };
    let before = identity(&scene);
    for guard in BOTH {
        let witness = scene.witness("evil-ran");
        fs::write(&evil, format!("#!/bin/sh\ntouch '{}'\nexit 0\n", witness.display())).unwrap();
        fs::set_permissions(&evil, fs::Permissions::from_mode(0o755)).unwrap();
        let said = scene.attack(guard, "house.replace_keeper", &json!({"evil": evil}));
        assert_eq!(identity(&scene), before, "{guard:?}: {said}");
        assert!(!witness.exists(), "{guard:?}: {said}");
        let daemon = scene.daemon_pid();
        let said = scene.attack(guard, "house.end_house", &json!({}));
        assert_eq!((identity(&scene), scene.daemon_pid()), (before.clone(), daemon), "{guard:?}: {said}");
    }
    // The owner may, with the program of the house; what it hosts goes on.
    let (_, question) = scene.asking_session();
    let upgraded = scene.owner().ask("keeper/upgrade", json!({}));
    assert_eq!(upgraded["pid"], before.0, "{upgraded}");
    assert_eq!(scene.state(&question), "pending");
}

/// An agent that must ask raises its own mode or mesh policy, or has a session made that need not ask.
#[test]
fn an_agent_gives_itself_and_others_no_rights() {
    let scene = Scene::up("");
    for guard in BOTH {
        let (victim, _) = scene.asking_session();
        let witness = scene.witness("unasked");
        let facts = json!({"session": victim, "witness": witness});
        let said = scene.begin_in(guard, "ask", "house.raise_rights", &facts).end();
        let own = said["own"].as_array().and_then(|own| own.first()).and_then(|id| id.as_str()).expect("its session");
        for session in [own, &victim] {
            let now = scene.session(session);
            assert_eq!((&now["mode"], &now["mesh"]), (&json!("ask"), &json!("off")), "{guard:?}: {said}");
        }
        let list = scene.owner().ask("session/list", json!({"all": true}));
        for session in list["sessions"].as_array().expect("sessions") {
            let limits = (session["mode"].as_str(), session["mesh"].as_str());
            assert_eq!(limits, (Some("ask"), Some("off")), "{guard:?}: {session}");
        }
        // The sessions that it did get ask before they do anything.
        let made = said["made"].to_string().matches("session_id").count();
        assert!(made > 0, "{guard:?}: none of its own was made: {said}");
        wait::eventually("their questions", || {
            let asked = scene.pending().iter().filter(|one| one.to_string().contains("unasked")).count();
            if asked >= made { Ok(()) } else { Err(format!("{asked} of {made}")) }
        });
        assert!(!witness.exists(), "{guard:?}: {said}");
        scene.owner().ask("session/close", json!({"session_id": victim}));
    }
    // The owner may, by the same methods, and then nobody is asked.
    let witness = scene.witness("unasked");
    let (session, attack) =
        scene.begin_asking(BOTH[0], "rules.nothing", &json!({}), &format!("touch {}", witness.display()));
    attack.end();
    let question = scene.question_of(&session);
    scene.owner().ask("session/configure", json!({"session_id": session, "mode": "auto", "mesh": "ask"}));
    let now = scene.session(&session);
    assert_eq!((&now["mode"], &now["mesh"]), (&json!("auto"), &json!("ask")));
    scene.approve_tool(&session, &question);
    scene.wait_for(&witness);
    let again = scene.witness("unasked");
    let prompt = format!("ask touch {}", again.display());
    scene.owner().ask("session/send", json!({"session_id": session, "prompt": prompt}));
    scene.wait_for(&again);
}

/// With `strict` not even the owner raises a mode without the passphrase.
#[test]
fn strict_wants_the_passphrase_for_a_mode_and_for_every_answer() {
    let scene = Scene::up("[approvals]\nstrict = true\n");
    let (session, question) = scene.asking_session();
    let facts = json!({"id": question, "session": session});
    // Whoever gets out of the house, by `systemd-run --user`, cron or ssh, is no insider any more.
    let said = scene.outside("deciding.without", &facts);
    assert_eq!(scene.state(&question), "pending", "{said}");
    let raise = json!({"session_id": session, "mode": "auto"});
    let refused = scene.owner().call("session/configure", raise.clone());
    assert_eq!(scene.session(&session)["mode"], "ask", "{refused}");
    // The control: with the passphrase the same process decides and raises.
    let said = scene.outside("deciding.with_passphrase", &facts);
    assert_eq!(scene.state(&question), "approved", "{said}");
    let mut raise = raise;
    raise["passphrase"] = PASSPHRASE.into();
    scene.owner().ask("session/configure", raise);
    assert_eq!(scene.session(&session)["mode"], "auto");
}
