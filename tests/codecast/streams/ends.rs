//! How turns and sessions end: interrupted early and late, destroyed, without a CLI, with one that lingers.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use hostel_tests::codecast::{Connection, Daemon, Options};
use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::streams::{WAIT_FOR_GO, go};

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[test]
fn an_interrupt_between_accept_and_spawn_counts() {
    let daemon = Daemon::start();
    for _ in 0..20 {
        let session = daemon.create("claude");
        // The head of the answer means that the message was taken; the CLI may not run yet.
        let mut stream = daemon.send(&session, "sleep 600");
        let answer = daemon.call("session.interrupt", &json!({"sessionId": session})).result();
        assert_eq!(answer, json!({"ok": true, "interrupted": true}));
        let events = stream.events();
        assert_eq!(kinds(&events).last(), Some(&"interrupted"), "{events:?}");
        assert!(!kinds(&events).contains(&"error"), "{events:?}");
    }
}

#[test]
fn a_question_waits_as_long_as_the_settings_say() {
    let settings = "[sessions]\napproval_wait = \"1s\"\n".to_owned();
    let daemon = Daemon::start_with(Options { settings, ..Options::default() });
    let session = daemon.create("echo");
    let events = daemon.send(&session, "approve").events();
    let asked = events.iter().find(|event| event["subtype"] == "permission_request").expect("a question");
    assert_eq!(asked["timeout_secs"], 1);
    let said: String = events
        .iter()
        .filter(|event| event["type"] == "partial")
        .filter_map(|event| event["content"].as_str())
        .collect();
    assert_eq!(said, "denied");
}

/// A daemon that gives a CLI this long to stop by itself.
fn with_grace(grace: &str) -> Daemon {
    let settings = format!("[sessions]\nstop_grace = \"{grace}\"\n");
    Daemon::start_with(Options { settings, ..Options::default() })
}

/// Begins a turn that does not end, of a CLI that hears no signal, and gives the CLI's process.
fn begin_to_hang(daemon: &Daemon, session: &str) -> (Connection, Identity) {
    let mut stream = daemon.send(session, "hang");
    while stream.event().expect("the turn goes on")["type"] != "partial" {}
    let log = daemon.cli_log();
    let start = log.iter().rfind(|line| line["event"] == "start").expect("a CLI was started");
    let pid = i32::try_from(start["pid"].as_i64().expect("a pid")).expect("a pid");
    (stream, Identity::of(pid).expect("the CLI runs"))
}

#[test]
fn a_cli_that_does_not_listen_is_killed() {
    let daemon = with_grace("1s");
    let session = daemon.create("claude");
    let (mut stream, cli) = begin_to_hang(&daemon, &session);
    assert_eq!(daemon.call("session.destroy", &json!({"sessionId": session})).result(), json!({"ok": true}));
    assert!(!cli.alive(), "the CLI is gone when destroy answers");
    assert_eq!(stream.events(), Vec::<Value>::new());
}

#[test]
fn nobody_waits_for_a_cli_that_does_not_listen() {
    let daemon = with_grace("1h");
    let session = daemon.create("claude");
    let (_stream, cli) = begin_to_hang(&daemon, &session);
    std::thread::scope(|scope| {
        let destroying = scope.spawn(|| daemon.call("session.destroy", &json!({"sessionId": session})).result());
        wait::eventually("the session to be gone from the list", || daemon.listed(&session).is_none());
        // Everything else goes on meanwhile.
        let other = daemon.create("echo");
        assert_eq!(daemon.send(&other, "hello").events().len(), 4);
        assert_eq!(daemon.call("health.check", &json!({})).result()["ok"], true);
        assert!(!destroying.is_finished());
        cli.signal(Signal::KILL);
        assert_eq!(destroying.join().unwrap(), json!({"ok": true}));
    });
}

#[test]
fn an_interrupt_reaches_a_cli_that_does_not_listen() {
    let daemon = with_grace("1s");
    let session = daemon.create("gemini");
    let (mut stream, _) = begin_to_hang(&daemon, &session);
    let answer = daemon.call("session.interrupt", &json!({"sessionId": session})).result();
    assert_eq!(answer["interrupted"], true);
    let events = stream.events();
    assert_eq!(kinds(&events).last(), Some(&"interrupted"), "{events:?}");
}

#[test]
fn the_call_that_interrupts_does_not_wait() {
    let daemon = with_grace("1h");
    let session = daemon.create("gemini");
    let (_stream, cli) = begin_to_hang(&daemon, &session);
    let answer = daemon.call("session.interrupt", &json!({"sessionId": session})).result();
    assert_eq!(answer["interrupted"], true);
    assert!(cli.alive());
}

#[test]
fn a_cli_that_lingers_after_its_last_word_holds_up_nobody_else() {
    let daemon = Daemon::start();
    let session = daemon.create("claude");
    let stream = daemon.send(&session, "lingering");
    let other = daemon.create("echo");
    assert_eq!(daemon.send(&other, "hello").events().len(), 4);
    assert_eq!(daemon.call("session.destroy", &json!({"sessionId": session})).result()["ok"], true);
    drop(stream);
}

#[test]
fn a_grandchild_that_holds_the_pipe_does_not_hold_the_stream() {
    let daemon = Daemon::start();
    let session = daemon.create("claude");
    // The stream ends, although the grandchild lives for longer than any test may take.
    let events = daemon.send(&session, "grandchild").events();
    assert!(kinds(&events).contains(&"result"), "{events:?}");
}

#[test]
fn a_missing_cli_is_named_with_what_to_do() {
    let daemon = Daemon::start_with(Options { no_clis: true, ..Options::default() });
    for agent in ["claude", "codex", "gemini", "opencode"] {
        let session = daemon.create(agent);
        let events = daemon.send(&session, "hello").events();
        assert_eq!(kinds(&events), ["error"], "{events:?}");
        let message = events[0]["message"].as_str().unwrap();
        assert!(message.contains(agent), "{message}");
        assert_eq!(daemon.listed(&session).unwrap()["status"], "idle");
    }
}

#[test]
fn a_full_queue_says_so_and_keeps_what_it_has() {
    let settings = "[sessions]\nqueue = 2\n".to_owned();
    let daemon = Daemon::start_with(Options { settings, ..Options::default() });
    let session = daemon.create("claude");
    let mut stream = daemon.send(&session, WAIT_FOR_GO);
    for position in [1, 2] {
        let events = daemon.send(&session, &format!("number {position}")).events();
        assert_eq!(events, [json!({"type": "queued", "position": position})]);
    }
    let events = daemon.send(&session, "one too many").events();
    assert_eq!(kinds(&events), ["error"], "{events:?}");
    assert!(events[0]["message"].as_str().unwrap().contains('2'), "{events:?}");
    go(&daemon);
    let texts: Vec<Value> = stream
        .events()
        .into_iter()
        .filter(|event| event["type"] == "text")
        .map(|event| event["content"].clone())
        .collect();
    assert!(texts.ends_with(&[json!("you said: number 1"), json!("you said: number 2")]), "{texts:?}");
}

#[test]
fn queued_messages_get_the_mode_and_model_of_their_moment() {
    let daemon = Daemon::start();
    let session = daemon.create("claude");
    let mut stream = daemon.send(&session, WAIT_FOR_GO);
    assert_eq!(daemon.send(&session, "model").events(), [json!({"type": "queued", "position": 1})]);
    daemon.call("session.set_model", &json!({"sessionId": session, "model": "the-new-one"})).result();
    go(&daemon);
    let texts: Vec<Value> = stream
        .events()
        .into_iter()
        .filter(|event| event["type"] == "text")
        .map(|event| event["content"].clone())
        .collect();
    assert_eq!(texts.last(), Some(&json!("the-new-one")), "{texts:?}");
}

#[test]
fn another_user_does_not_shut_the_owner_out() {
    if !rustix::process::geteuid().is_root() {
        hostel_tests::skip("only root can be another user");
        return;
    }
    let settings = "[limits]\nconnections = 16\n".to_owned();
    let daemon = Daemon::start_with(Options { settings, ..Options::default() });
    let script = format!(
        "import os, socket, sys\n\
         os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
         held = [socket.socket() for _ in range(100)]\n\
         for s in held: s.connect(('127.0.0.1', {}))\n\
         print('held', flush=True); sys.stdin.read()\n",
        daemon.address().port()
    );
    let mut python = std::process::Command::new("python3");
    python.args(["-c", &script]).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3");
    let mut line = String::new();
    BufReader::new(python.stdout.as_mut().expect("its output")).read_line(&mut line).expect("a line");
    assert_eq!(line, "held\n");
    assert_eq!(daemon.call("health.check", &json!({})).result()["ok"], true);
    drop(python.stdin.take());
    python.wait().expect("it ends");
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        hostel_tests::skip("only root can be another user");
        return;
    }
    let daemon = Daemon::start();
    let script = format!(
        "import os, socket\n\
         os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
         s = socket.socket(); s.connect(('127.0.0.1', {}))\n\
         body = b'{{\"method\":\"health.check\"}}'\n\
         s.sendall(b'POST /rpc HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n'\n\
         \x20   b'Connection: close\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(body) + body)\n\
         print(s.makefile('rb').read().decode())\n",
        daemon.address().port()
    );
    let mut python = std::process::Command::new("python3");
    python.args(["-c", &script]);
    daemon.set_environment(&mut python);
    python.current_dir("/");
    let output = hostel_tests::house::run(python);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("HTTP/1.1 403 "), "{output:?}");
    assert!(said.trim().ends_with("Forbidden: this daemon belongs to another user; start your own"), "{output:?}");
}
