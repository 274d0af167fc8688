//! F2 and F2b: files that are swapped after they were shown.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::scene::{Attack, BOTH, Scene};

/// A directory of the user's, gone with the test.
fn directory(scene: &Scene, within: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir_in(Path::new(within)).unwrap();
    scene.place.own(directory.path());
    directory
}

/// Lets one request of the attacker's be shown, then swapped, then approved.
fn approve_swapped(scene: &Scene, attack: &Attack, step: &str, word: &str) {
    attack.wait_reached(&format!("{step}-asked"));
    let request = scene.command_with(word);
    attack.tell(&format!("{step}-shown"), "");
    attack.wait_reached(&format!("{step}-swapped"));
    scene.decide(&request, "allow_once");
    hostel_tests::wait::eventually("the decision", || scene.state(&request) != "pending");
}

#[test]
fn what_was_shown_is_what_runs() {
    let scene = Scene::up("");
    let (memory, disk) = (directory(&scene, "/dev/shm"), directory(&scene, "/var/tmp"));
    for guard in BOTH {
        let (good, evil) = (scene.witness("x-good"), scene.witness("x-evil"));
        let evil = evil.with_file_name(format!("{}", evil.file_name().unwrap().display()));
        assert_eq!(good.as_os_str().len(), evil.as_os_str().len(), "as long as the other: it is written over it");
        let facts = json!({"good": good, "evil": evil, "places": [["memory", memory.path()], ["disk", disk.path()]]});
        let attack = scene.begin(guard, "exact.swaps", &facts);
        for step in ["memory", "disk", "interpreter"] {
            // The control: the same request while nobody swaps anything.
            let word = format!("-{step}-");
            approve_swapped(&scene, &attack, &format!("{step}-control"), &word);
            scene.wait_for(&good);
            fs::remove_file(&good).unwrap();
            approve_swapped(&scene, &attack, step, &word);
        }
        approve_swapped(&scene, &attack, "rewrite", "rewrite-rewrite-");
        let said = attack.end();
        assert!(!evil.exists(), "{guard:?}: {said}");
        // The script that was rewritten while it ran did what it was approved for.
        assert!(good.exists() && said["rewrite"]["rewritten"] == true, "{guard:?}: {said}");
        assert_eq!(said["memory"]["unseen"], true, "the attack is what it claims to be: {said}");
        fs::remove_file(&good).unwrap();
    }
}

/// Root does not run what the requester can change because somebody said yes.
#[test]
fn root_runs_nothing_of_the_requesters_for_a_yes() {
    let scene = Scene::up("");
    for guard in BOTH {
        let evil = scene.witness("evil");
        let attack = scene.begin(guard, "exact.privileged", &json!({"evil": evil}));
        let ways = ["program", "argument", "process", "directory", "path", "wrapper", "option", "cluster", "many"];
        for step in ways {
            let request = scene.command_with("for-root-");
            let answer = scene.decide(&request, "allow_once");
            assert!(answer.get("error").is_some(), "{guard:?}, {step}: {answer}");
            scene.check_not_approved(&request, step);
            attack.tell(&format!("{step}-decided"), "");
            hostel_tests::wait::eventually("the request to be over", || scene.state(&request) != "pending");
        }
        attack.end();
        assert!(!evil.exists());
    }
}
