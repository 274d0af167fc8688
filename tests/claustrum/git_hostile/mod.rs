//! Repositories whose configuration names programs (finding F10).
//!
//! An attacker who may write a repository has every setting that makes git run a program name one that leaves a trace and
//! answers the attacker's own question. The daemon's git must not run it, and must answer as if the setting were not
//! there. What each setting would do is shown by the person's own git, for which it is made.

mod scene;
mod settings;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use hostel_tests::wait;
use scene::Scene;
use serde_json::json;
use settings::{SETTINGS, Setting};

/// Asks everything of git that the door offers, with this setting in place.
fn try_setting(scene: &Scene, setting: &Setting) {
    let repository = scene.repository(setting.name);
    let expected = repository.answers("before");
    assert!(expected.contains(r#""changes":["M a.txt","?? new"]"#), "{expected}");
    (setting.make)(&repository);
    let answers = repository.answers("after");
    scene.check_harmless(setting.name);
    if setting.keeps_answers {
        assert_eq!(answers, expected, "the answers of git.* with {}", setting.name);
    }
    // The control: the person's own git runs the program, so the setting is a real one.
    if let Some(command) = setting.runs_at {
        repository.person(command);
        assert_ne!(scene.take_trace(), "", "{}: `git {}` did not run the program", setting.name, command.join(" "));
    }
}

#[test]
fn no_setting_of_a_repository_makes_the_daemon_run_a_program() {
    let scene = Scene::start(&[]);
    for setting in SETTINGS {
        try_setting(&scene, setting);
    }
    // The program is what it claims to be: run by the person, it answers the question.
    let repository = scene.repository("at-last");
    repository.config("core.fsmonitor", &scene.evil());
    scene.arm();
    repository.person(&["status"]);
    wait::eventually("the answer of the person", || scene.question() == "approved");
}

/// The settings change all the time while git runs, so nothing that is looked up beforehand helps.
#[test]
fn a_setting_that_appears_while_git_runs_is_not_obeyed() {
    let scene = Scene::start(&[]);
    let repository = scene.repository("races");
    let config = repository.path().join(".git/config");
    let plain = fs::read_to_string(&config).unwrap();
    let evil = scene.evil();
    let hostile = format!("{plain}[filter \"x\"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n");
    fs::write(repository.path().join(".git/info/attributes"), "*.txt filter=x\n").unwrap();
    let draft = repository.path().join(".git/draft");
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut texts = [&hostile, &plain].into_iter().cycle();
            while !finished.load(Ordering::Relaxed) {
                fs::write(&draft, texts.next().unwrap()).unwrap();
                fs::rename(&draft, &config).unwrap();
            }
        });
        for round in 0..40 {
            let status = repository.ask("git.status", &json!({"path": repository.path()}));
            assert_eq!(status, r#"{"isRepo":true,"clean":false,"changes":["M a.txt","?? new"]}"#);
            let (branch, tree) = (format!("b{round}"), repository.beside("tree"));
            let wanted = json!({"baseRepo": repository.path(), "branchName": branch, "worktreePath": tree});
            let made = repository.ask("git.worktree_create", &wanted);
            assert!(made.starts_with(r#"{"success":true"#), "{made}");
            assert_eq!(fs::read_to_string(tree.join("a.txt")).unwrap(), "one\n");
            let removed = json!({"baseRepo": repository.path(), "worktreePath": tree});
            assert_eq!(repository.ask("git.worktree_remove", &removed), r#"{"success":true}"#);
        }
        finished.store(true, Ordering::Relaxed);
    });
    scene.check_harmless("a filter that comes and goes");
}

/// A daemon that was started in an environment full of programs for git.
#[test]
fn variables_of_the_daemon_name_no_program_for_git() {
    let scene = Scene::start(&[
        "GIT_CONFIG_PARAMETERS",
        "GIT_EXTERNAL_DIFF",
        "GIT_SSH_COMMAND",
        "GIT_SSH",
        "GIT_PAGER",
        "GIT_EDITOR",
        "GIT_ASKPASS",
        "GIT_PROXY_COMMAND",
        "GIT_TEMPLATE_DIR",
    ]);
    let repository = scene.repository("variables");
    let answers = repository.answers("after");
    assert!(answers.contains(r#""changes":["M a.txt","?? new"]"#), "{answers}");
    scene.check_harmless("variables of the daemon");
}

/// A git that runs the program itself: what the daemon starts is inside the house, also when it has left git's tree and
/// has given up everything that can be given up.
#[test]
fn what_runs_below_the_daemons_git_decides_nothing() {
    for way in ["", "env -i ", "env -i setsid --fork "] {
        let scene = Scene::start_with_wrapper(way);
        let repository = scene.repository("wrapped");
        scene.arm();
        let status = repository.ask("git.status", &json!({"path": repository.path()}));
        assert_eq!(status, r#"{"isRepo":true,"clean":false,"changes":["M a.txt","?? new"]}"#);
        let heard = scene.wait_for_answer();
        assert!(heard.contains("inside"), "{way}: {heard}");
        assert_eq!(scene.question(), "pending", "{way}");
        assert_ne!(scene.take_trace(), "", "{way}: the program did not run");
    }
}

/// The login shell is the daemon's child as well, and profiles belong to whoever may write them.
#[test]
fn what_a_profile_starts_decides_nothing() {
    let scene = Scene::start_with_profile();
    let heard = scene.wait_for_answer();
    assert!(heard.contains("inside"), "{heard}");
    assert_eq!(scene.question(), "pending");
}
