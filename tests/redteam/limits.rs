//! The mark is a limit of file locks, and every process of the user can lower that of another one. Whoever is lowered may
//! be refused; nobody is trusted for it.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};

use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::place::text;
use crate::scene::{BOTH, Guard, PASSPHRASE, Scene};

fn kill(pid: i32) {
    if let Some(process) = Identity::of(pid) {
        process.signal(Signal::KILL);
        process.wait_gone(wait::LIMIT);
    }
}

/// Whether a program said that a process has the limits of a hosted one.
fn names_the_limit(output: &Output) -> bool {
    text(output).contains("limit of file locks")
}

/// A command of the person's that waits in a shell until it is let go on.
struct Waiting(Child);

impl Waiting {
    fn begin(scene: &Scene, words: &[&str]) -> Self {
        let mut command: Command = scene.place.command("sh");
        let input = scene.place.write("passphrase", &format!("{PASSPHRASE}\n"));
        command.args(["-c", "echo ready; read go; input=$1; shift; exec \"$@\" <\"$input\"", "sh"]).arg(input);
        command.arg(&scene.place.hostel).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 6]).expect("the shell says that it is there");
        Waiting(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn go_on(mut self) -> Output {
        self.0.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
        self.0.wait_with_output().expect("an end")
    }
}

/// A command that somebody outside asks for, and that is approved by nobody yet.
fn asked(scene: &Scene) -> (crate::scene::Attack, std::path::PathBuf, String) {
    let witness = scene.witness("approved");
    let asking = scene.begin_outside("rows.again", &json!({"argv": ["touch", witness], "unasked": true}));
    let request = scene.command_with(&witness.display().to_string());
    (asking, witness, request)
}

/// The keeper is lowered to nothing, so that nobody is below it; then something speaks to it that is marked and does not
/// descend from it.
#[test]
fn a_lowered_keeper_lets_nobody_in() {
    let scene = Scene::up("");
    for guard in BOTH {
        let (daemon, keeper) = (scene.daemon_pid(), scene.keeper_pid());
        let lowered = scene.attack(guard, "limits.lower", &json!({"targets": [keeper]}));
        // The control: the daemon goes on with its keeper, and a person decides.
        let (asking, _, request) = asked(&scene);
        scene.approve(&request);
        assert_eq!(asking.end()["answer"]["status"], "ok", "{guard:?}: {lowered}");
        let facts = json!({"daemon": daemon, "library": "libm.so.6"});
        let said = scene.begin_left_behind("limits.take_the_daemons_place", &facts).end();
        let greeted = said["greeted"].as_str().unwrap_or_default();
        assert_eq!(greeted, "", "{guard:?}: the keeper let it in: {lowered} {said}");
        assert_ne!(said["up"]["code"], 0, "{guard:?}: {lowered} {said}");
        assert!(scene.place.sandbox.daemons().is_empty(), "{guard:?}: {said}");
        // The owner's daemon refuses that keeper as well, and says why; without it the house is what it was.
        let refused = scene.place.hostel(&["up"]);
        if lowered["limits"][0] == json!([0, 0]) {
            assert!(!refused.status.success() && names_the_limit(&refused), "{guard:?}: {}", text(&refused));
            assert!(text(&refused).contains(&keeper.to_string()), "it is named: {}", text(&refused));
            kill(keeper);
            scene.place.start();
        }
        let (asking, witness, request) = asked(&scene);
        scene.approve(&request);
        assert_eq!(asking.end()["answer"]["status"], "ok", "{guard:?}");
        assert!(witness.exists());
    }
}

/// The daemon is lowered to the attacker's own limit, its keeper is ended, and the attacker answers in the keeper's place.
#[test]
fn a_lowered_daemon_takes_no_false_keeper() {
    let scene = Scene::up("");
    for guard in BOTH {
        let (daemon, keeper) = (scene.daemon_pid(), scene.keeper_pid());
        // In the guard the keeper cannot be ended; then it is somebody's who is marked and left behind.
        let facts = json!({"daemon": daemon, "keeper": keeper});
        let lowered = scene.attack(guard, "limits.lower", &json!({"targets": [daemon]}));
        let attack = scene.begin_left_behind("limits.false_keeper", &facts);
        attack.wait_reached("answering");
        attack.wait_reached("met");
        wait::eventually("an alarm", || scene.is_alarmed());
        // Nobody outside takes that daemon for one any more, and it is said why.
        let refused = scene.place.hostel(&["sessions"]);
        assert!(!refused.status.success() && names_the_limit(&refused), "{guard:?}: {}", text(&refused));
        kill(daemon);
        // Nor does a new daemon take the false keeper.
        let refused = scene.place.hostel(&["up"]);
        assert!(!refused.status.success() && names_the_limit(&refused), "{guard:?}: {}", text(&refused));
        attack.tell("enough", "");
        let said = attack.end();
        assert_eq!(said["heard"], "", "{guard:?}: not even a greeting: {lowered} {said}");
        // The control: the house comes back with a keeper of its own.
        scene.place.start();
        let (asking, _, request) = asked(&scene);
        scene.approve(&request);
        assert_eq!(asking.end()["answer"]["status"], "ok", "{guard:?}");
    }
}

/// The limit of a person's shell is lowered, and the attacker answers in the daemon's place.
#[test]
fn a_lowered_shell_tells_nobody_the_passphrase() {
    let scene = Scene::up("");
    for guard in BOTH {
        let (asking, witness, request) = asked(&scene);
        let words = ["approvals", "approve", &request, "--yes", "--passphrase-fd", "0"];
        let person = Waiting::begin(&scene, &words);
        let attack = scene.begin(guard, "limits.pose_hidden", &json!({"targets": [person.pid()]}));
        attack.wait_reached("posing");
        let refused = person.go_on();
        attack.tell("enough", "");
        let said = attack.end();
        assert_eq!(said["heard"], "", "{guard:?}: not even a greeting: {said}");
        let is_lowered = said["lowered"]["limits"][0].is_array();
        assert!(guard == Guard::Off || !scene.is_full() || !is_lowered, "{guard:?}: {said}");
        assert_eq!(refused.status.success(), !is_lowered, "{guard:?}: {}: {said}", text(&refused));
        if is_lowered {
            assert!(names_the_limit(&refused), "{guard:?}: {}", text(&refused));
            assert!(!witness.exists() && scene.state(&request) == "pending", "{guard:?}: {said}");
            // The control: the same words in another shell.
            let approved = Waiting::begin(&scene, &words).go_on();
            assert!(approved.status.success(), "{guard:?}: {}", text(&approved));
        }
        assert_eq!(asking.end()["answer"]["status"], "ok", "{guard:?}");
    }
    // A daemon that is started in such a shell would be nobody's.
    scene.place.good(&["down"]);
    let person = Waiting::begin(&scene, &["up"]);
    let facts = json!({"targets": [person.pid()]});
    let said = scene.begin_outside("limits.lower", &facts).end();
    assert_eq!(said["limits"][0], json!([0, 0]));
    let refused = person.go_on();
    assert!(!refused.status.success() && names_the_limit(&refused), "{}", text(&refused));
    assert!(scene.place.sandbox.daemons().is_empty());
    let started = Waiting::begin(&scene, &["up"]).go_on();
    assert!(started.status.success(), "{}", text(&started));
}

/// In a guard the limits of other processes can be read and not changed; without one they can be changed.
#[test]
fn in_a_guard_nobody_elses_limits_change() {
    let scene = Scene::up("");
    for guard in BOTH {
        let person = Waiting::begin(&scene, &["ps"]);
        let said = scene.attack(guard, "limits.processor_time", &json!({"target": person.pid()}));
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", person.pid())).expect("its limits");
        let time = limits.lines().find(|line| line.starts_with("Max cpu time")).expect("a line");
        let is_changed = !time.contains("unlimited");
        assert_eq!(is_changed, guard == Guard::Off || !scene.is_full(), "{guard:?}: {said}: {time}");
        assert_eq!(said["own"], 7200, "{guard:?}: its own it may change: {said}");
        assert!(person.go_on().status.success(), "{guard:?}");
    }
}

/// What works still: a house that somebody runs inside a hosted process on purpose. Nobody decides there, nor ends it but
/// by a signal.
#[test]
fn a_house_inside_a_hosted_process_has_to_be_meant() {
    let scene = Scene::up("");
    let inner = scene.place.work().join("inner");
    let said = scene.attack(Guard::Off, "limits.house_inside", &json!({"inner": inner}));
    let has = |way: &str, part: &str, words: &str| said[way][part].as_str().is_some_and(|text| text.contains(words));
    assert!(said["unsaid"]["code"] != 0 && has("unsaid", "said", "HOSTEL_NESTED"), "{said}");
    assert!(!has("unsaid", "out", "is up in"), "{said}");
    for way in ["said", "hosted"] {
        assert!(has(way, "out", "is up in"), "{way}: {said}");
        assert_eq!(said[format!("{way}: list")]["code"], 0, "{way}: {said}");
        assert_ne!(said[format!("{way}: down")]["code"], 0, "{way}: {said}");
    }
    assert_eq!(scene.broken(), Value::Null);
}
