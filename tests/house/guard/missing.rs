//! A machine that does not allow a complete guard: the house starts and says so, and `strict` refuses.

use std::process::Command;

use hostel_tests::process::run;

use super::place::{Place, text};

/// A user namespace in which no further one can be made, and in which the user is nobody special.
const WITHOUT_NAMESPACES: &str = "echo 0 >/proc/sys/user/max_user_namespaces && \
    exec setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all -- \"$0\" \"$@\"";

/// A command of the user where there are no namespaces.
pub(crate) fn without_namespaces(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command("unshare");
    command.args(["--map-current-user", "--keep-caps", "sh", "-c", WITHOUT_NAMESPACES]);
    command.arg(&place.hostel).args(arguments);
    command
}

/// Whether such a place can be made here; says loudly if not.
pub(crate) fn can_be_without(place: &Place) -> bool {
    let mut command = place.command("unshare");
    command.args(["--map-current-user", "--keep-caps", "sh", "-c", WITHOUT_NAMESPACES, "true"]);
    let can = run(command).status.success();
    if !can {
        hostel_tests::skip("a place without namespaces cannot be made here");
    }
    can
}

#[test]
fn a_house_without_a_complete_guard_starts_and_says_so() {
    let place = Place::new();
    if !can_be_without(&place) {
        return;
    }
    let up = run(without_namespaces(&place, &["up"]));
    let said = text(&up);
    assert!(up.status.success(), "{said}");
    assert!(said.contains("Guard of agents: ") && said.contains("no view: a user namespace cannot be made"), "{said}");
    let status = place.json(&["up"])["status"]["guard"].clone();
    assert_eq!(status["setting"], "auto");
    assert!(["scopes", "none"].contains(&status["active"].as_str().unwrap()), "{status}");
    assert!(status["why_not_stronger"].as_str().unwrap().contains("no view"), "{status}");
    // The agent runs, with what can be had.
    assert_eq!(place.script("echo works"), "works");
    let session = place.json(&["sessions"])["sessions"][0].clone();
    assert_eq!((&session["guard"]["active"], &session["guard"]["setting"]), (&status["active"], &status["setting"]));
    assert!(place.good(&["sessions", "show", session["session_id"].as_str().unwrap()]).contains("no view"));
    let doctor = text(&place.hostel(&["doctor"]));
    assert!(doctor.contains("no view: a user namespace cannot be made"), "{doctor}");
    if status["active"] == "scopes" {
        let daemon = place.sandbox.daemons()[0];
        assert_eq!(place.script(&format!("kill -0 {} 2>/dev/null || echo refused", daemon.pid)), "refused");
    }
}

#[test]
fn a_strict_agent_is_refused_where_there_is_no_complete_guard() {
    let place = Place::new();
    if !can_be_without(&place) {
        return;
    }
    place.settings("", "guard = \"strict\"");
    let up = run(without_namespaces(&place, &["up"]));
    assert!(up.status.success(), "{}", text(&up));
    let refused = place.hostel(&["run", "--agent", "fake", "tool echo ran >ran"]);
    let said = text(&refused);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("the guard is `strict` and this machine does not allow it: no view: "), "{said}");
    assert!(!place.work().join("ran").exists());
    // Others are not concerned.
    assert_eq!(place.script_of("bare", "echo works"), "works");
}

/// With a complete guard `strict` is no different.
#[test]
fn a_strict_agent_runs_where_there_is_one_and_off_means_off() {
    let place = Place::up("", "guard = \"strict\"");
    if !place.is_full() {
        return;
    }
    assert_eq!(place.script("test -e $HOSTEL_HOME/state.db || echo hidden"), "hidden");
    assert_eq!(place.script_of("bare", "test -e $HOSTEL_HOME/state.db && echo there"), "there");
    let sessions = place.json(&["sessions"])["sessions"].clone();
    let of = |agent: &str| {
        let session = sessions.as_array().unwrap().iter().find(|session| session["agent_alias"] == agent).unwrap();
        session["guard"].clone()
    };
    assert_eq!((&of("fake")["setting"], &of("fake")["active"]), (&"strict".into(), &"full".into()));
    assert_eq!((&of("bare")["setting"], &of("bare")["active"]), (&"off".into(), &"none".into()));
    assert_eq!(of("bare")["why_not_stronger"], "the setting is `off`");
    let doctor = text(&place.hostel(&["doctor"]));
    assert!(doctor.contains("the agent bare runs without one"), "{doctor}");
}

/// A view protects what is there when it is made. `strict` does not rely on a path that is not, `auto` does with a warning.
#[test]
fn a_strict_agent_is_refused_while_a_path_that_was_named_does_not_exist() {
    let place = Place::new();
    place.settings("hide = [\"~/.aws\"]", "guard = \"strict\"\n[agents.auto]\nkind = \"echo\"");
    place.start();
    if !place.is_full() {
        return;
    }
    let path = place.path().join("home/.aws");
    let refused = place.hostel(&["run", "--agent", "fake", "tool echo ran >ran"]);
    let said = text(&refused);
    assert!(!refused.status.success() && !place.work().join("ran").exists(), "{said}");
    let reason =
        format!("the guard is `strict` and `{}`, which `guard.hide` or `guard.read_only` names", path.display());
    assert!(said.contains(&reason), "{said}");
    assert!(place.good(&["run", "--agent", "auto", "works"]).contains("works"));
    let absent = format!("`{}` does not exist", path.display());
    let doctor = text(&place.hostel(&["doctor"]));
    assert!(doctor.contains(&absent) && place.sandbox.log().contains(&absent), "{doctor}");
    std::fs::create_dir(&path).unwrap();
    place.own(&path);
    assert_eq!(place.script("echo works"), "works");
    assert!(!text(&place.hostel(&["doctor"])).contains(&absent));
}
