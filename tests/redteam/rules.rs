//! F5: rules that name who asks.

use serde_json::json;

use crate::place::text;
use crate::scene::{BOTH, Scene};

/// What a deployment program would be called.
const WORD: &str = "/usr/local/bin/deploy";

fn rule(name: &str, more: &str) -> String {
    format!("[[approvals.rules]]\nname = \"{name}\"\naction = \"allow\"\n{more}\n")
}

#[test]
fn no_text_of_a_request_satisfies_a_rule() {
    let named = rule("named", &format!("requester = {WORD:?}\nargv = [\"touch\", \"**named*\"]"));
    let door = rule("door", "requester = \"sudo-proxy\"\nargv = [\"touch\", \"**door*\"]");
    let scene = Scene::up(&(named + &door));
    for guard in BOTH {
        let witness = scene.witness("named");
        let attack = scene.begin(guard, "rules.text", &json!({"argv": ["touch", witness], "word": WORD}));
        attack.wait_reached("asked");
        // Each place is a request that waits, but those that the door refuses.
        hostel_tests::wait::eventually("the requests", || {
            let waiting = scene.pending().len();
            if waiting >= 5 { Ok(()) } else { Err(waiting.to_string()) }
        });
        assert!(!witness.exists(), "{guard:?}: {:?}", scene.pending());
        attack.tell("enough", "");
        let said = attack.end();
        assert!(!witness.exists(), "{guard:?}: {said}");
        // The control: what the house itself establishes satisfies a rule.
        let allowed = scene.witness("door");
        let said = scene.attack(guard, "rules.plain", &json!({"argv": ["touch", allowed]}));
        assert!(said["status"] == "ok" && allowed.exists(), "{guard:?}: {said}");
        hostel_tests::wait::eventually("what waits to be withdrawn", || scene.pending().is_empty());
    }
}

/// F5b: any process can pass for a program, so no rule allows root because of one.
#[test]
fn no_rule_allows_root_because_of_a_program() {
    let scene = Scene::up("");
    let settings = scene.place.home().join("hostel.toml");
    let before = std::fs::read_to_string(&settings).unwrap();
    let root = |requester: &str| {
        let rule = rule("root", &format!("requester = {requester:?}\nprivileged = true\nargv = [\"true\"]"));
        scene.place.write("hostel/hostel.toml", &format!("{before}{rule}"));
        scene.place.good(&["down"]);
        scene.place.hostel(&["up"])
    };
    let refused = root("/usr/bin/python3");
    assert!(!refused.status.success(), "the rule is taken: {}", text(&refused));
    assert!(text(&refused).contains("root"), "{}", text(&refused));
    // The control: the door is no program, and the same rule is taken.
    scene.place.write("hostel/hostel.toml", &before);
    scene.place.start();
    let taken = root("sudo-proxy");
    assert!(taken.status.success(), "{}", text(&taken));
}

/// F5b: the program is borrowed all the same. For what is not root's that is documented as a limit.
#[test]
fn a_borrowed_program_brings_nobody_root() {
    let real = |program: &str| std::fs::canonicalize(program).unwrap().display().to_string();
    let trusted = real("/usr/bin/sleep");
    // By the whole path, and by a pattern that would fit anybody.
    let named = rule("named", &format!("requester = {trusted:?}\nargv = [\"touch\", \"**borrowed*\"]"));
    let anybody = rule("anybody", "requester = \"**\"\nargv = [\"touch\", \"**borrowed*\"]");
    let python = rule("python", "requester = \"**/python3*\"\nargv = [\"touch\", \"**honest*\"]");
    let scene = Scene::up(&(named + &anybody + &python));
    for guard in BOTH {
        let witness = scene.witness("borrowed");
        let facts = json!({"argv": ["touch", witness], "trusted": trusted, "more": {"privileged": true}});
        let attack = scene.begin(guard, "rules.borrowed", &facts);
        attack.wait_reached("asked");
        let request = scene.command_with(&witness.display().to_string());
        assert_eq!(scene.state(&request), "pending", "{guard:?}");
        attack.tell("enough", "");
        attack.end();
        assert!(!witness.exists(), "{guard:?}");
        // The control: a rule that names the program of an honest requester is satisfied.
        let allowed = scene.witness("honest");
        let said = scene.attack(guard, "rules.plain", &json!({"argv": ["touch", allowed]}));
        assert!(said["status"] == "ok" && allowed.exists(), "{guard:?}: {said}");
    }
}
