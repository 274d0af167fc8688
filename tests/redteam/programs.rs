//! F10 and F13: programs that the daemon starts for others.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use hostel_tests::process::run;
use serde_json::json;

use crate::scene::{BOTH, Guard, Scene};

/// F10: a repository names programs, and the daemon's git looks at it, for the attacker and for the owner.
#[test]
fn no_repository_runs_a_program_through_the_daemon() {
    let scene = Scene::up("");
    let (session, _) = scene.asking_session();
    for guard in BOTH {
        let (repository, witness) = (scene.witness("repository"), scene.witness("ran"));
        let program = scene.witness("program");
        let facts = json!({"repository": repository, "program": program, "witness": witness, "session": session});
        scene.attack(guard, "programs.repository", &facts);
        // Making it has run the program, in the attacker's own git.
        fs::remove_file(&witness).ok();
        let said = scene.attack(guard, "programs.look", &facts);
        let status = scene.claustrum("git.status", &json!({"path": repository}));
        let branches = scene.claustrum("git.list_branches", &json!({"path": repository}));
        // The control: git of the daemon's answers the owner.
        assert!(branches.to_string().contains("trunk"), "{branches}");
        assert!(status.get("error").is_none_or(serde_json::Value::is_null), "{status}");
        assert!(!witness.exists(), "{guard:?}: {said} {status}");
        // The attack is what it claims to be: a git that obeys the repository runs the program.
        let mut git = scene.place.command("git");
        git.arg("-C").arg(&repository).arg("status");
        run(git);
        assert!(witness.exists(), "{guard:?}");
    }
}

/// F13: the ssh agent is lent to a machine of the attacker's choice.
#[test]
fn no_tool_call_lends_the_ssh_agent() {
    let emulators = ["x-terminal-emulator", "gnome-terminal", "konsole", "xfce4-terminal", "xterm"];
    let of_system = ["/usr/bin", "/bin", "/usr/local/bin"].map(Path::new);
    if let Some(found) = emulators.iter().find(|name| of_system.iter().any(|place| place.join(name).exists())) {
        eprintln!("skipped: the house would open the terminal emulator `{found}` of this machine");
        return;
    }
    let scene = Scene::prepare("", |place| {
        let recorded = place.path().join("work/terminal");
        let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >{0}.part\nmv {0}.part {0}\n", recorded.display());
        let emulator = place.write("bin/xterm", &text);
        fs::set_permissions(emulator, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", place.path().join("bin").display(), crate::place::PATH);
        place.variable("PATH", &path);
        place.variable("SSH_AUTH_SOCK", "/nonexistent/agent");
        place.variable("DISPLAY", ":99");
    });
    let recorded = scene.place.path().join("work/terminal");
    for guard in BOTH {
        let host = format!("host-{guard:?}.example").to_lowercase();
        let attack = scene.begin(guard, "programs.start_server", &json!({"host": host}));
        match guard {
            // ssh would run outside of the guard: refused at once.
            Guard::Auto if scene.is_full() => {
                attack.wait_reached("answered");
            }
            _ => {
                let question = scene.command_with(&host);
                assert!(!recorded.exists(), "{guard:?}: a terminal was opened unasked");
                // The control: a person agrees, and the connection is made, without the agent.
                if guard == Guard::Off {
                    scene.approve(&question);
                    scene.wait_for(&recorded);
                    let words = fs::read_to_string(&recorded).unwrap();
                    assert!(words.contains(&host), "{words}");
                    assert!(!words.contains("-A") && !words.to_lowercase().contains("forward"), "{words}");
                }
            }
        }
        assert!(guard == Guard::Off || !recorded.exists(), "{guard:?}: a terminal was opened");
        attack.tell("enough", "");
        attack.end();
    }
}

/// A copy of hostel in a directory of the user's own is replaced, and the daemon is started again from it.
#[test]
fn a_guard_keeps_the_program_of_the_house() {
    let scene = Scene::prepare("", |place| {
        let own = place.write("bin/hostel", "");
        fs::copy(&place.hostel, &own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
        place.hostel = own;
    });
    let seen = || {
        let found = fs::metadata(&scene.place.hostel).unwrap();
        (found.ino(), found.len())
    };
    for guard in BOTH {
        let before = seen();
        let said = scene.attack(guard, "programs.replace_program", &json!({}));
        let is_kept = guard == Guard::Auto && scene.is_full();
        assert_eq!(seen() == before, is_kept, "{guard:?}: {said}");
    }
    // The limit without a guard: it is a new build for all that the keeper knows, and gets the key.
    scene.restart();
    assert!(!scene.records().iter().any(|record| record["kind"] == "key_lost"));
}

/// What a person runs later: without a guard, with one, and with one by which it is read-only.
#[test]
fn only_a_setting_keeps_what_a_person_runs_later() {
    let scene = Scene::prepare("[guard]\nread_only = [\"~/.kept\"]\n", |place| {
        for name in [".bashrc", ".kept", "bin/tool"] {
            place.write(&format!("home/{name}"), "good\n");
        }
    });
    let home = scene.place.sandbox.home();
    let paths = [".bashrc", "bin/tool", ".kept"].map(|name| home.join(name));
    for guard in BOTH {
        paths.iter().for_each(|path| fs::write(path, "good\n").unwrap());
        let said = scene.attack(guard, "programs.change_files", &json!({"paths": paths}));
        let is_good = |path: &std::path::PathBuf| fs::read_to_string(path).unwrap() == "good\n";
        let [shell, tool, kept] = &paths;
        assert!(!is_good(shell) && !is_good(tool), "{guard:?}: documented as a limit: {said}");
        assert_eq!(is_good(kept), guard == Guard::Auto && scene.is_full(), "{guard:?}: {said}");
    }
}
