//! Agents launched into a mesh: what is done inside is done by the session, peers see it beside its host, and it is gone
//! with the command that launched it, however that ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

mod messages;
mod support;

use std::process::Stdio;

use hostel_tests::sudo_proxy::Terminal;
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Launched, pair};

#[test]
fn what_is_done_inside_is_done_by_the_session() {
    let (alice, bob) = pair();
    let mut review = Launched::start(&alice, "review");
    review.verb("send bob 'from inside'", "sent to bob");
    let sent = bob.wait_received("from inside");
    let seen = bob.wait_peer("review");
    assert_eq!(seen["memberPubkey"], alice.key().as_str(), "a sibling of the member: {seen}");
    assert_ne!(sent["sender_pubkey"], alice.key().as_str());
    assert_eq!(sent["sender_pubkey"], seen["pubkey"]);
    // From outside it is the member who speaks.
    alice.good(&["send", "bob", "from outside"]);
    assert_eq!(bob.wait_received("from outside")["sender_pubkey"], alice.key().as_str());

    // What is for the session is in its mailbox, what is for the host is not.
    bob.good(&["send", "alice/review", "just for review"]);
    bob.good(&["send", "alice", "just for alice"]);
    alice.wait_received("just for review");
    alice.wait_received("just for alice");
    let inbox = review.verb("inbox --json", "just for review");
    assert!(!inbox.contains("just for alice"), "{inbox}");

    // A name is one session's.
    let (code, told) = alice.code(&["launch", "--agent", "echo", "--name", "review", "-p", "hi"]);
    assert_eq!((code, told.contains("--name NAME")), (6, true), "{told}");

    assert_eq!(alice.tokens(), 1);
    assert!(review.end().success());
    assert_eq!(alice.tokens(), 0);
    bob.wait_no_peer("review");
    let rows: Value = serde_json::from_str(&alice.0.succeed(&["--json", "sessions", "--all"])).unwrap();
    let text = rows.to_string();
    assert!(text.contains("archived") && !text.contains("\"live\""), "{text}");
}

#[test]
fn it_is_gone_with_its_command() {
    let (alice, bob) = pair();
    for (name, signal) in [("killed", Signal::KILL), ("ended", Signal::TERM), ("hung-up", Signal::HUP)] {
        let mut launched = Launched::with(&alice, name, &["--messages", "on"]);
        launched.verb("send bob hello", "sent to bob");
        bob.wait_peer(name);
        launched.signal(signal);
        let status = wait::until(wait::LIMIT, "the end of the command", || launched.child.try_wait().unwrap());
        if signal != Signal::KILL {
            assert_eq!(status.code(), Some(1), "{name}");
        }
        bob.wait_no_peer(name);
    }
    // Of one that was killed the house still has the session, and the mailbox is nobody's.
    let old = alice.session("killed")["session_id"].clone();
    bob.good(&["send", "alice/killed", "nobody is there"]);
    alice.wait_received("nobody is there");
    // What it left is taken away by the next, whose mailbox it is, and who is given what comes from then on.
    let mut next = Launched::with(&alice, "killed", &["--messages", "on"]);
    next.verb("inbox --json", "nobody is there");
    assert_eq!(alice.tokens(), 1);
    bob.good(&["send", "alice/killed", "somebody is there"]);
    next.wait("somebody is there");
    assert_eq!(alice.letters(), ["somebody is there"]);
    let rows = alice.house().ask("session/list", json!({}))["sessions"].as_array().unwrap().clone();
    let row = rows.iter().find(|row| row["name"] == "killed" && row["session_id"] != old).unwrap();
    let shown = alice.0.succeed(&["--json", "sessions", "mesh", row["session_id"].as_str().unwrap()]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["addresses"], json!([{"mesh": "lab", "address": "alice/killed"}]));
    assert!(next.end().success());
}

#[test]
fn it_stays_itself_while_the_daemon_dies() {
    let (alice, bob) = pair();
    let mut review = Launched::start(&alice, "review");
    review.verb("send bob first", "sent to bob");
    bob.wait_received("first");
    alice.kill_mesh_daemon();
    // It has no other voice: nothing goes out as somebody else meanwhile.
    review.verb("send bob lost 2>&1", "no daemon is up");
    bob.good(&["send", "alice/review", "meanwhile"]);
    alice.good(&["daemon", "up", "--mesh", "lab"]);
    let seen = bob.wait_peer("review");
    review.verb("send bob second", "sent to bob");
    let sent = bob.wait_received("second");
    assert_ne!(sent["sender_pubkey"], alice.key().as_str());
    assert_eq!(seen["memberPubkey"], alice.key().as_str());
    alice.wait_received("meanwhile");
    review.verb("inbox --json 2>&1", "meanwhile");
    assert!(review.end().success());
}

#[test]
fn on_a_terminal_it_asks_until_there_is_nothing_more() {
    let (alice, bob) = pair();
    let (mut terminal, slave) = Terminal::open();
    let (input, output, errors) = (slave.try_clone().unwrap(), slave.try_clone().unwrap(), slave);
    let mut child = alice
        .command()
        .args(["launch", "--agent", "echo", "--name", "talk", "first words"])
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .spawn()
        .unwrap();
    terminal.wait(0, wait::LIMIT, |shown| shown.contains("alice/talk")).unwrap();
    let shown = terminal.wait(0, wait::LIMIT, |shown| shown.contains("first words") && shown.ends_with("> ")).unwrap();
    let before = terminal.length();
    assert!(shown.contains("mesh `lab`"), "{shown}");
    terminal.press("more words\n");
    terminal
        .wait(before, wait::LIMIT, |shown| shown.matches("more words").count() >= 2 && shown.ends_with("> "))
        .unwrap();
    // What is written to it is shown to who sits there.
    let before = terminal.length();
    bob.good(&["send", "alice/talk", "knock knock"]);
    terminal.wait(before, wait::LIMIT, |shown| shown.contains("knock knock") && shown.ends_with("> ")).unwrap();
    terminal.press("/quit\n");
    let status = wait::until(wait::LIMIT, "the end of the command", || child.try_wait().unwrap());
    assert!(status.success());
}

#[test]
fn one_turn_and_its_answer() {
    let (alice, bob) = pair();
    let output = alice.command().args(["launch", "--agent", "echo", "-p", "just this"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("just this"), "{output:?}");
    assert_eq!(alice.tokens(), 0);
    let failed = alice.code(&["launch", "--agent", "fake", "-p", "fail on purpose"]);
    assert_eq!(failed.0, 8, "{}", failed.1);
    for (words, code, told) in [
        (&["launch", "--agent", "nobody", "-p", "x"][..], 9, "there is no agent `nobody`"),
        (&["launch", "-p", " "], 3, "empty"),
        (&["launch", "--name", "a/b", "-p", "x"], 3, "cannot be a name"),
        (&["--mesh", "other", "launch", "-p", "x"], 5, "no mesh `other`"),
    ] {
        let (found, text) = alice.code(words);
        assert!(found == code && text.contains(told), "{words:?}: {found} {text}");
    }
    bob.good(&["daemon", "down", "--mesh", "lab"]);
    let (code, text) = bob.code(&["launch", "--no-start", "--agent", "echo", "-p", "x"]);
    assert!(code == 4 && text.contains("daemon up --mesh lab"), "{code} {text}");
    // `hostel` has the exit codes of all its verbs.
    assert_eq!(alice.0.hostel(&["mesh", "launch", "--agent", "nobody", "-p", "x"]).status.code(), Some(1));
}
