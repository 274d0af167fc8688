//! F3 and F7: the keeper, and the rights of sessions.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hostel_tests::wait;
use serde_json::json;

use crate::place::text;
use crate::scene::{BOTH, Guard, PASSPHRASE, Scene};

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

/// The daemon's place at the keeper is taken by hostel's own program, which runs inside and has another library loaded.
#[test]
fn nobody_inside_takes_the_daemons_place() {
    let scene = Scene::up("");
    let (_, question) = scene.asking_session();
    for guard in BOTH {
        let (daemon, keeper) = (scene.daemon_pid(), scene.keeper_pid());
        let facts = json!({"daemon": daemon, "library": "libm.so.6"});
        let said = scene.attack(guard, "house.take_place", &facts);
        if guard == Guard::Auto && scene.is_full() {
            assert_eq!(scene.daemon_pid(), daemon, "{said}");
        } else {
            assert_ne!(said["up"]["code"], 0, "{said}");
            assert!(scene.place.sandbox.daemons().is_empty(), "{said}");
        }
        // The control: the same program of the owner's is taken for the daemon, and gets the key.
        scene.place.start();
        assert_eq!((scene.keeper_pid(), scene.state(&question).as_str()), (keeper, "pending"), "{guard:?}: {said}");
        assert!(!scene.records().iter().any(|record| record["kind"] == "key_lost"), "{guard:?}: {said}");
    }
}

/// Nothing is told to somebody who has put a socket in the place of the house's, the approver's passphrase least of all.
#[test]
fn nobody_inside_poses_as_the_daemon() {
    let scene = Scene::up("");
    let input = scene.place.write("passphrase", &format!("{PASSPHRASE}\n"));
    for guard in BOTH {
        let witness = scene.witness("approved");
        let asking = scene.begin_outside("rows.again", &json!({"argv": ["touch", witness], "unasked": true}));
        let request = scene.command_with(&witness.display().to_string());
        let approve = || {
            let mut command = scene.place.command(&scene.place.hostel);
            command.args(["approvals", "approve", &request, "--yes", "--passphrase-fd", "0"]);
            command.stdin(fs::File::open(&input).unwrap()).output().unwrap()
        };
        let attack = scene.begin(guard, "house.pose", &json!({}));
        attack.wait_reached("posing");
        let first = approve();
        attack.tell("enough", "");
        let said = attack.end();
        assert_eq!(said["heard"], "", "{guard:?}: not even a greeting: {said}");
        let is_hidden = guard == Guard::Auto && scene.is_full();
        assert_eq!(first.status.success(), is_hidden, "{guard:?}: {said}: {}", text(&first));
        // The control: the same words reach the daemon itself.
        if !is_hidden {
            let again = approve();
            assert!(again.status.success(), "{guard:?}: {}", text(&again));
        }
        assert_eq!(asking.end()["answer"]["status"], "ok", "{guard:?}");
    }
}

/// A session or a process gets the name by which a person means another one: the digits that every message shows.
#[test]
fn no_name_is_taken_for_anothers_id() {
    for guard in BOTH {
        let scene = Scene::up("");
        let (victim, _) = scene.asking_session();
        let process = scene.place.json(&["run", "-d", "--", "sleep", "600"])["id"].as_str().expect("an id").to_owned();
        let (session, started) = (&victim[..8], &process[..8]);
        let commands: [&[&str]; 2] = [&["sessions", "show", session], &["logs", started]];
        for words in commands {
            assert!(scene.place.hostel(words).status.success(), "the control: {words:?}");
        }
        let said = scene.attack(guard, "house.squat", &json!({"session": session, "process": started}));
        for words in commands {
            let refused = scene.place.hostel(words);
            assert!(!refused.status.success() && text(&refused).contains("means several"), "{words:?}: {said}");
        }
        let refused = scene.place.hostel(&["send", session, "for the other one"]);
        assert!(!refused.status.success(), "{guard:?}: {}", text(&refused));
        let refused = scene.place.hostel(&["kill", started]);
        assert!(!refused.status.success(), "{guard:?}: {}", text(&refused));
        // The whole id means one.
        let commands: [&[&str]; 2] = [&["sessions", "show", &victim], &["kill", &process]];
        for words in commands {
            let output = scene.place.hostel(words);
            assert!(output.status.success(), "{guard:?}: {words:?}: {}", text(&output));
        }
    }
}
