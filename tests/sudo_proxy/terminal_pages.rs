//! Questions of `sudo-proxy` that do not fit on the screen: everything is shown before anybody can agree.

use std::time::Duration;

use hostel_tests::sudo_proxy::{Client, Daemon, Options, moment};
use hostel_tests::wait;
use serde_json::{Value, json};

const QUESTION: &str = "default=N) ";
const MORE: &str = "n denies ";

/// A request that is fresh.
fn request(id: &str, argv: &[String], more: &Value) -> String {
    let mut request = json!({"id": id, "session": "tests", "time": format!("{}Z", moment::from_now(0)),
        "pipeline": [argv], "privileged": false, "version": "1.2.0"});
    request.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    format!("{request}\n")
}

/// Sends a request and waits for its first page.
fn ask(daemon: &mut Daemon, line: &str) -> (Client, usize, String) {
    let start = daemon.terminal().length();
    let mut client = daemon.connect();
    client.send(line.as_bytes()).expect("the door reads");
    let shown = daemon.terminal().wait(start, wait::limit(), |text| text.ends_with(MORE) || text.ends_with(QUESTION));
    (client, daemon.terminal().length(), shown.expect("a page"))
}

/// Presses a key and waits for what comes of it.
fn press(daemon: &mut Daemon, start: &mut usize, key: &str) -> String {
    daemon.terminal().press(key);
    let ends = |text: &str| [MORE, QUESTION, "next page. "].iter().any(|end| text.ends_with(end));
    let shown = daemon.terminal().wait(*start, wait::limit(), ends).expect("a page");
    *start = daemon.terminal().length();
    shown
}

fn status(client: &mut Client) -> String {
    let answer: Value = serde_json::from_str(&client.line(wait::limit()).expect("an answer")).expect("JSON");
    answer["status"].as_str().expect("a status").to_owned()
}

/// Rows that a page takes on a screen of 80 columns. What is painted after a key first ends the row of the key.
fn rows(page: &str) -> usize {
    let page = page.strip_prefix("\r\n").expect("the end of the row before");
    page.lines().map(|line| line.trim_end().chars().count().div_ceil(80).max(1)).sum()
}

/// Words of a command, each different.
fn words(count: usize) -> Vec<String> {
    std::iter::once("echo".to_owned()).chain((0..count).map(|number| format!("word-{number}"))).collect()
}

#[test]
fn a_long_command_is_shown_to_its_end_before_a_key_agrees() {
    let mut daemon = Daemon::start(Options::default());
    let (mut client, mut at, first) = ask(&mut daemon, &request("long", &words(600), &json!({})));
    assert!(first.contains("Command: echo word-0 word-1 ") && first.contains("page 1 of "), "{first}");
    assert!(!first.contains("hidden"), "{first}");
    // Agreeing counts on no page but the last.
    for key in ["y", "Y", "a"] {
        let told = press(&mut daemon, &mut at, key);
        assert!(told.contains("This is not all of it; Space shows the next page."), "{told}");
    }
    client.silent(Duration::from_millis(200)).expect("nobody has agreed");
    let mut all = first;
    while !all.ends_with(QUESTION) {
        assert!(all.lines().count() < 2000, "it ends");
        let page = press(&mut daemon, &mut at, " ");
        assert!(rows(&page) <= 24, "a page fits on the screen: {} rows\n{page}", rows(&page));
        all.push_str(&page);
    }
    for word in words(600) {
        assert!(all.contains(&word), "{word} was not shown");
    }
    assert!(all.contains("Resolves: /usr/bin/echo"));
    daemon.terminal().press("y");
    assert_eq!(status(&mut client), "ok");
}

#[test]
fn every_field_is_shown_in_full() {
    let mut daemon = Daemon::start(Options::default());
    let long = |letter: &str| format!("{}.end-of-{letter}", letter.repeat(3_000));
    let more = json!({"env": {"LANG": long("l")}, "reason": long("r"), "session": long("s"), "host": long("h")});
    let (mut client, mut at, mut all) = ask(&mut daemon, &request(&long("i"), &words(1), &more));
    let mut pages = 1;
    while !all.ends_with(QUESTION) {
        assert!(pages < 200, "it ends");
        pages += 1;
        all.push_str(&press(&mut daemon, &mut at, "\r"));
    }
    let text: String = all.chars().filter(|letter| !letter.is_whitespace()).collect();
    for letter in ["l", "r", "s", "h", "i"] {
        let count = text.matches(letter).count();
        assert!(text.contains(&format!("end-of-{letter}")) && count >= 3_000, "{letter}: {count}");
    }
    assert!(pages > 5 && !text.contains("hidden"));
    daemon.terminal().press("n");
    assert_eq!(status(&mut client), "denied");
}

#[test]
fn any_other_key_on_a_page_denies() {
    let mut daemon = Daemon::start(Options::default());
    for (number, key) in ["n", "\x1b", "q", "x"].into_iter().enumerate() {
        let (mut client, _, first) = ask(&mut daemon, &request(&format!("key-{number}"), &words(600), &json!({})));
        assert!(first.ends_with(MORE));
        daemon.terminal().press(key);
        assert_eq!(status(&mut client), "denied", "{key:?}");
    }
}

#[test]
fn who_leaves_takes_all_pages_away() {
    let mut daemon = Daemon::start(Options::default());
    let (client, start, _) = ask(&mut daemon, &request("gone", &words(600), &json!({})));
    drop(client);
    daemon.terminal().wait(start, wait::limit(), |text| text.contains("→ Withdrawn")).expect("an end");
    let (mut client, _, shown) = ask(&mut daemon, &request("next", &words(1), &json!({})));
    assert!(shown.ends_with(QUESTION));
    daemon.terminal().press("y");
    assert_eq!(status(&mut client), "ok");
}
