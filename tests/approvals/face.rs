//! The full-screen inbox on a real terminal, against a real daemon and against a house that shows hostile things.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)] // test code

use crate::support;

use std::path::Path;

use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::fake::Fake;
use support::house::{House, PASSPHRASE};
use support::screen::Screen;
use support::terminal::OnTerminal;

fn face(house: &House, columns: u16, rows: u16) -> OnTerminal {
    OnTerminal::start(&house.command(&["approvals"]), columns, rows)
}

#[test]
fn a_request_is_read_and_approved_with_the_passphrase() {
    let house = House::with_passphrase();
    let mut face = face(&house, 80, 24);
    face.until("Nothing waits for an answer.");
    // Typed ahead: it answers nothing that comes later.
    face.press("yyyyyn");
    let asked = house.ask_run("one", &["echo", "hello there"]);
    face.until("1  hello␣there");
    face.until("1 waits · locked");
    assert_eq!(face.look(|screen| screen.rung), 1);
    face.press_until("y", "Passphrase of the approver");
    face.press("guessed it\r");
    face.until("4 more tries before a");
    face.press(&format!("{PASSPHRASE}\r"));
    face.until("Nothing waits for an answer.");
    face.until("unlocked");
    assert_eq!(asked.answer()["status"], "ok");

    // Asked once: the next answer needs none.
    let asked = house.ask_run("two", &["true"]);
    face.until("command   0  true");
    face.press_until("n", "Nothing waits");
    assert_eq!(asked.answer()["status"], "denied");
    face.press("q");
    assert_eq!(face.finish(), 0);
    assert!(face.is_cooked());
    face.until_true("the terminal as it was", |screen| !screen.alternate && !screen.hidden);
    assert!(!String::from_utf8_lossy(&face.raw()).contains(PASSPHRASE));
}

#[test]
fn a_long_request_is_scrolled_to_its_end_before_it_can_be_approved() {
    let house = House::with_passphrase();
    let mut words = vec!["true".to_owned()];
    words.extend((0..60).map(|number| format!("word-{number}")));
    let asked = house.ask("one", &json!({"pipeline": [words]}));
    let mut face = face(&house, 80, 24);
    face.until("scroll to the end before you approve");
    // Unlocked beforehand, so that nothing but the end is missing.
    face.press("u");
    face.until("Passphrase of the approver");
    face.press(&format!("{PASSPHRASE}\r"));
    face.until("unlocked");
    face.press_until("y", "read it to its end first");
    assert_eq!(house.pending().len(), 1);
    face.press_often(" ", "60  word-59");
    face.press("\x1b[F");
    face.until(" left  100%");
    face.press_until("y", "Nothing waits");
    assert_eq!(asked.answer()["status"], "ok");
}

#[test]
fn grants_and_rules_are_reached_by_keys() {
    let house = House::with_passphrase();
    house.ask_run("one", &["true"]);
    let mut face = face(&house, 80, 24);
    face.until("command   0  true");
    face.press("w");
    face.until("there are no rules: everything is asked");
    face.press("\x1b");
    face.until_true("the dialog is gone", |screen| !screen.text().contains("Why it waits"));
    face.press("?");
    face.until("deny it and say why");
    face.press("\x1b");
    face.press_until("g", "Approve, and the same again");
    face.press("\x7f5");
    face.until("minutes  15");
    face.press_until("\r", "Passphrase of the approver");
    face.press(&format!("{PASSPHRASE}\r"));
    face.until("approved, grant 1");
    let grant = &house.json(&["approvals", "grants", "--json"])["grants"][0];
    assert_eq!((&grant["scope"], &grant["argv"]), (&json!("session"), &Value::Null), "{grant}");
    assert_eq!(house.ask_run("two", &["true"]).answer()["status"], "ok");
}

#[test]
fn it_survives_the_daemons_restart_and_asks_again() {
    let house = House::with_passphrase();
    let mut face = face(&house, 80, 24);
    face.until("Nothing waits");
    face.press("u");
    face.until("Passphrase of the approver");
    face.press(&format!("{PASSPHRASE}\r"));
    face.until("unlocked");
    house.crash();
    face.until("looking for home");
    face.until("No house answers.");
    house.start();
    face.until("nothing waits · locked");
    let asked = house.ask_run("one", &["true"]);
    face.until("command   0  true");
    face.press_until("y", "Passphrase of the approver");
    face.press(&format!("{PASSPHRASE}\r"));
    face.until("Nothing waits");
    assert_eq!(asked.answer()["status"], "ok");
}

#[test]
fn narrow_screens_resizes_signals_and_no_colour() {
    let house = House::with_passphrase();
    house.ask_run("one", &["echo", "hello"]);
    let mut command = house.command(&["approvals"]);
    command.env("NO_COLOR", "1");
    let mut face = OnTerminal::start(&command, 40, 24);
    face.until("  1  hello");
    face.until(" y n g w ? q");
    face.resize(20, 5);
    face.until("This window is too");
    face.press("y");
    face.resize(120, 40);
    face.until("end of the request");
    face.resize(80, 24);
    face.until("y approve  n deny");
    println!("{}", face.look(Screen::framed));
    assert!(!face.look(|screen| screen.coloured), "NO_COLOR is heeded");
    assert_eq!(house.pending().len(), 1);
    face.signal(Signal::TERM);
    assert_eq!(face.finish(), 0);
    assert!(face.is_cooked());
    face.until_true("the terminal as it was", |screen| !screen.alternate && !screen.hidden);
}

#[test]
fn without_a_passphrase_it_says_what_to_do() {
    let house = House::up();
    let mut face = face(&house, 80, 24);
    face.until("Nothing waits");
    house.ask_run("one", &["true"]);
    face.until("1 waits · no passphrase");
    face.press_until("y", "hostel approver set");
    assert_eq!(house.pending().len(), 1);
}

/// Every string of the corpus, with the file it stands in.
fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("approvals/hostile");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut strings = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        for line in std::fs::read_to_string(&file).unwrap().lines().filter(|line| !line.starts_with('#')) {
            strings.push((name.clone(), serde_json::from_str(line).unwrap()));
        }
    }
    strings
}

#[test]
fn hostile_strings_never_change_what_is_seen() {
    let scratch = tempfile::tempdir().unwrap();
    let fake = Fake::listen(&scratch.path().join("home"));
    let mut command = std::process::Command::new(hostel_tests::binary::hostel());
    hostel_tests::sandbox::set_base_environment(&mut command, scratch.path());
    command.arg("approvals").env("HOSTEL_HOME", scratch.path().join("home"));
    command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").current_dir(scratch.path());
    let face = OnTerminal::start(&command, 80, 24);
    face.until("Nothing waits for an answer.");
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut captures = String::new();
    for (number, (file, hostile)) in corpus().into_iter().enumerate() {
        let id = format!("{number:08}-0000-4000-8000-000000000000");
        fake.show(json!([{
            "id": id, "kind": "pipeline", "state": "pending", "digest": id, "created_at": 1, "expires_at": 0,
            "summary": hostile, "reason": hostile, "requester": {"door": hostile, "session": format!("entry {number} {hostile}"),
                "host": hostile, "client": hostile, "program": hostile, "cwd": hostile, "pid": 7},
            "subject": {"cwd": hostile, "privileged": false, "env": [{"name": hostile, "value": hostile}],
                "stages": [{"argv": ["tool", hostile, "last"], "file": {"path": hostile, "target": hostile, "inode": 1}}]},
        }]));
        wait::eventually("the entry to be shown", || {
            fake.heard("approval/shown").last().is_some_and(|params| params["id"] == id)
        });
        let entry: String = format!("entry␣{number}␣").chars().take(12).collect();
        // There is no such file, which is told once it was looked for.
        let looked = |screen: &Screen| hostile.is_empty() || screen.text().contains("has changed");
        face.until_true("this entry", |screen| screen.settled && screen.row(1).contains(&entry) && looked(screen));
        face.look(|screen| {
            let named: String = format!("{hostile:?}").chars().take(100).collect();
            let capture = format!("{file}, {number}: {named}\n{}\n", screen.framed());
            println!("{capture}");
            captures.push_str(&capture);
            // Our own rows are where they belong, whatever is between them.
            assert!(screen.row(0).starts_with(" hostel approvals"), "{}", screen.framed());
            assert_eq!(screen.row(2), "─".repeat(80));
            assert_eq!(screen.row(3), " Run this?");
            assert!(screen.row(23).starts_with(" y approve  n deny"), "{}", screen.framed());
            let rows: Vec<String> = (3..22).map(|row| screen.row(row)).collect();
            let command = rows.iter().position(|row| row.starts_with(" command   0  tool"));
            // What matters is on the first page, or the page says that there is more.
            assert!(command.is_some() || screen.row(22).contains("scroll to the end"), "{}", screen.framed());
            // Every row of the page begins in our own columns.
            for row in &rows {
                let label: String = row.chars().skip(1).take(10).collect();
                let ours = label.starts_with("  ")
                    || label.trim().is_empty()
                    || ["Run this?", "command", "file", "as", "env", "because", "session", "process", "request", "───"]
                        .iter()
                        .any(|word| label.trim_end().starts_with(word))
                    || label.starts_with(['▲', '△']);
                assert!(ours, "{row}\n{}", screen.framed());
            }
            let words: String = rows.join("\n").split(" command ").nth(1).unwrap_or_default().to_owned();
            let words = words.split("\n file").next().unwrap_or_default().to_owned();
            if let Some((_, other)) = seen.iter().find(|(shown, _)| *shown == words && !words.is_empty()) {
                assert_eq!(*other, hostile, "two commands look the same:\n{words}");
            }
            // What does not fit on the page is seen by scrolling.
            if screen.row(22).contains("scroll") {
                return;
            }
            seen.push((words, hostile.clone()));
        });
    }
    // Also where the output of a test that passes is not shown.
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile-captures.txt");
    std::fs::write(&file, captures).unwrap();
    println!("captures of the screen are in {}", file.display());
    assert!(seen.len() > 150, "{}", seen.len());
}
