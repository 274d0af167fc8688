//! `hostel approvals approve`: nothing is approved that was not shown in full, and no passphrase is read under a tracer.

use std::fs;
use std::process::Command;

use hostel_tests::wait;
use serde_json::json;

use crate::support::house::{House, PASSPHRASE};
use crate::support::terminal::OnTerminal;

/// A command that takes its passphrase from descriptor 3.
fn with_descriptor(house: &House, words: &[&str]) -> Command {
    let file = house.path().join("passphrase");
    fs::write(&file, format!("{PASSPHRASE}\n")).unwrap();
    let hostel = house.command(words);
    let mut command = house.command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(key, value)| (key.to_owned(), value.map(ToOwned::to_owned))).collect();
    let place = command.get_current_dir().unwrap().to_owned();
    command = Command::new("sh");
    command.args(["-c", "exec \"$@\" --passphrase-fd 3 3<\"$0\""]).arg(&file);
    command.arg(hostel.get_program()).args(hostel.get_args()).env_clear().current_dir(place);
    command.envs(environment.into_iter().filter_map(|(key, value)| Some((key, value?))));
    command
}

/// Everything that was written to a terminal: what has scrolled away as well.
fn raw(terminal: &OnTerminal) -> String {
    String::from_utf8_lossy(&terminal.raw()).into_owned()
}

fn written(terminal: &OnTerminal, text: &str) {
    wait::eventually(&format!("{text} on the terminal"), || {
        let raw = raw(terminal);
        if raw.contains(text) { Ok(()) } else { Err(raw) }
    });
}

#[test]
fn without_a_terminal_it_is_said_what_is_approved() {
    let house = House::with_passphrase();
    let asked = house.ask_run("one", &["printf", "%s", "hello"]);
    let id = house.waiting(1).remove(0);
    let approve = |more: &[&str]| {
        let words = [&["approvals", "approve", id.as_str(), "--passphrase-fd", "0"], more].concat();
        house.hostel_with(&words, &format!("{PASSPHRASE}\n"))
    };
    let digest = house.json(&["approvals", "show", "--json", &id])["digest"].as_str().unwrap().to_owned();
    let shown = house.hostel(&["approvals", "show", &id]).out;
    assert!(shown.contains(&format!("digest    {digest}\n")), "{shown}");

    let unread = approve(&[]);
    assert_eq!((unread.code, unread.out.as_str()), (2, ""), "{unread:?}");
    assert!(unread.err.contains("nobody is at a terminal to read what would be approved"), "{unread:?}");
    assert!(unread.err.contains("`--digest HEX`") && unread.err.contains("`--yes`"), "{unread:?}");
    for (more, what) in [
        (&["--digest", &digest[..11]][..], "12 to 64 hexadecimal digits"),
        (&["--digest", "not a digest"], "12 to 64 hexadecimal digits"),
        (&["--digest", &digest, "8d2f"], "there are several ids"),
        (&["--digest", &digest, "--yes"], "cannot be used with"),
    ] {
        let refused = approve(more);
        assert!(refused.code == 2 && refused.err.contains(what), "{refused:?}");
    }
    let other = approve(&["--digest", "0123456789ab"]);
    assert!(other.code == 1 && other.err.contains("is not the request with the digest 0123456789ab"), "{other:?}");
    assert_eq!(house.pending().len(), 1);

    // The page and the data do not mix.
    let outcome = approve(&["--digest", &digest[..12], "--json"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let data: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(data["approvals"][0]["state"], "approved");
    assert!(outcome.err.starts_with("Run this?\n") && outcome.err.contains("  2  hello\n"), "{outcome:?}");
    assert_eq!(asked.answer()["status"], "ok");
}

#[test]
fn a_person_sees_the_end_before_the_passphrase_counts() {
    let house = House::with_passphrase();
    let words: Vec<String> = (0..60).map(|number| format!("word-{number}")).collect();
    let argv: Vec<&str> = ["true"].into_iter().chain(words.iter().map(String::as_str)).collect();
    let asked = house.ask("one", &json!({"pipeline": [argv]}));
    let id = house.waiting(1).remove(0);

    let mut terminal = OnTerminal::start(&house.command(&["approvals", "approve", &id]), 80, 24);
    written(&terminal, "page 1 of ");
    assert!(!raw(&terminal).contains("word-59"), "{}", raw(&terminal));
    terminal.press("q");
    assert_eq!(terminal.finish(), 1);
    assert!(terminal.is_cooked());
    assert_eq!(house.pending().len(), 1);

    let mut terminal = OnTerminal::start(&house.command(&["approvals", "approve", &id]), 80, 24);
    written(&terminal, "page 1 of ");
    // What is typed here is no passphrase, and none of it is left for the question.
    terminal.press("correct horse");
    written(&terminal, "page 2 of ");
    terminal.press(" ");
    written(&terminal, "page 3 of ");
    terminal.press("\r");
    written(&terminal, "Passphrase of the approver:");
    let seen = raw(&terminal);
    let at = |text: &str| seen.find(text).unwrap_or_else(|| panic!("no {text}: {seen}"));
    assert!(at("word-59\r\n") < at("digest    ") && at("digest    ") < at("Passphrase of"), "{seen}");
    terminal.press(&format!("{PASSPHRASE}\r"));
    assert_eq!(terminal.finish(), 0, "{}", raw(&terminal));
    assert!(terminal.is_cooked());
    assert_eq!(asked.answer()["status"], "ok");
}

#[test]
fn with_a_passphrase_from_elsewhere_a_person_says_yes() {
    let house = House::with_passphrase();
    let asked = house.ask_run("one", &["true"]);
    let id = house.waiting(1).remove(0);
    let command = with_descriptor(&house, &["approvals", "approve", &id]);
    for (key, code) in [("n", 1), ("\r", 1), ("y", 0)] {
        assert_eq!(house.pending().len(), 1);
        let mut terminal = OnTerminal::start(&command, 80, 40);
        terminal.until("Approve this? [y/N]");
        terminal.until("command   0  true");
        terminal.press(key);
        assert_eq!(terminal.finish(), code, "{}", raw(&terminal));
    }
    assert_eq!(asked.answer()["status"], "ok");
}

/// A tracer that is there before the memory of the command is hidden would read the passphrase.
#[test]
fn under_a_tracer_no_passphrase_is_asked_for() {
    let tries = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !tries.is_ok_and(|output| output.status.success()) {
        println!("skipped: strace is not installed or may not trace");
        return;
    }
    let house = House::with_passphrase();
    house.ask_run("one", &["true"]);
    let id = house.waiting(1).remove(0);
    let traced = |command: &Command| {
        let mut traced = Command::new("strace");
        traced.args(["-f", "-o", "/dev/null"]).arg(command.get_program()).args(command.get_args()).env_clear();
        traced.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        traced.current_dir(command.get_current_dir().unwrap());
        traced
    };
    for words in [&["approvals", "approve", &id][..], &["approvals", "deny", &id], &["approver", "confirm"]] {
        let mut terminal = OnTerminal::start(&traced(&house.command(words)), 80, 40);
        assert_eq!(terminal.finish(), 1, "{words:?}: {}", raw(&terminal));
        written(&terminal, "no passphrase is asked for: another program traces this one");
        assert!(!raw(&terminal).contains("Passphrase of the approver:"), "{words:?}: {}", raw(&terminal));
    }
    let mut by_descriptor = traced(&with_descriptor(&house, &["approvals", "approve", &id, "--yes"]));
    let output = by_descriptor.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("another program traces this one"), "{said}");
    assert_eq!(house.pending().len(), 1);
    // The control: the same without a tracer.
    let output = with_descriptor(&house, &["approvals", "approve", &id, "--yes"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
