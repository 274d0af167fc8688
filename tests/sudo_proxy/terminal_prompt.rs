//! The question of `sudo-proxy` on its terminal: what it shows, which keys answer it, and what takes it away.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use hostel_tests::sudo_proxy::{Client, Daemon, Options, moment};
use hostel_tests::wait;
use serde_json::{Value, json};

const QUESTION: &str = "default=N) ";

/// A request that is fresh.
fn request(id: &str, pipeline: &Value, more: &Value) -> String {
    let mut request = json!({
        "id": id,
        "session": "tests",
        "time": format!("{}Z", moment::from_now(0)),
        "pipeline": pipeline,
        "privileged": false,
        "version": "1.2.0",
    });
    let fields = more.as_object().expect("an object");
    request.as_object_mut().expect("an object").extend(fields.clone());
    format!("{request}\n")
}

/// Sends a request and waits until its question stands there.
fn ask(daemon: &mut Daemon, line: &str) -> (Client, String) {
    let start = daemon.terminal().length();
    let mut client = daemon.connect();
    client.send(line.as_bytes()).expect("the door reads");
    let shown = daemon.terminal().wait(start, wait::limit(), |text| text.ends_with(QUESTION)).expect("a question");
    (client, shown)
}

fn answer(client: &mut Client) -> Value {
    serde_json::from_str(&client.line(wait::limit()).expect("an answer")).expect("JSON")
}

fn status(client: &mut Client) -> String {
    answer(client)["status"].as_str().expect("a status").to_owned()
}

/// Waits for a text on the terminal after `start`.
fn see(daemon: &mut Daemon, start: usize, wanted: &str) -> String {
    let seen = daemon.terminal().wait(start, wait::limit(), |text| text.contains(wanted));
    seen.unwrap_or_else(|text| panic!("no {wanted:?}: {text}"))
}

#[test]
fn every_line_is_in_its_place() {
    let mut daemon = Daemon::start(Options::default());
    let more = json!({"host": "box", "reason": "to see | it's; there", "env": {"TZ": "UTC", "LANG": "a b"}});
    let line =
        request("the-id", &json!([["echo", "a b", "|", "$HOME", "it's", ""], ["cat"], ["no-such-program"]]), &more);
    let (mut client, shown) = ask(&mut daemon, &line);
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    let fixed = |line: &str| ["Process:", "Time:", "Env:"].iter().all(|label| !line.starts_with(label));
    let shown: Vec<&str> = lines.iter().copied().filter(|line| fixed(line)).collect();
    assert_eq!(
        shown,
        [
            "",
            "━━━ Privilege Request ━━━",
            "From:    tests @ box",
            "Client:  sudo-proxy 1.2.0",
            "ID:      the-id",
            "Reason:  to see | it's; there",
            "Command: echo 'a␣b' '|' '$HOME' 'it'\\''s' '' | cat | no-such-program",
            "Resolves: /usr/bin/echo",
            "Resolves: /usr/bin/cat",
            "Warning:  no-such-program not found in PATH",
            "Execute? [y/N] (60s timeout, default=N)",
        ]
    );
    let env = lines.iter().find_map(|line| line.strip_prefix("Env:     ")).expect("variables");
    let names: Vec<&str> = env.split(' ').filter_map(|variable| Some(variable.split_once('=')?.0)).collect();
    assert_eq!(names, ["HOME", "LANG", "LOGNAME", "PATH", "TZ", "USER"], "all of them: {env}");
    assert!(env.contains(" LANG=a␣b ") && env.contains(" TZ=UTC "), "{env}");
    let labels: Vec<&str> = lines.iter().filter_map(|line| line.split_once(':').map(|(label, _)| label)).collect();
    assert_eq!(labels[..6], ["From", "Client", "Process", "Time", "ID", "Reason"]);
    daemon.terminal().press("n");
    assert_eq!(answer(&mut client), json!({"id": "the-id", "status": "denied", "version": "1.2.0"}));
}

#[test]
fn one_key_answers_and_every_other_one_refuses() {
    let mut daemon = Daemon::start(Options::default());
    for (number, (key, expected, label)) in [
        ("y", "ok", "→ Approved"),
        ("Y", "ok", "→ Approved"),
        ("a", "ok", "→ Approved"),
        ("n", "denied", "→ Denied"),
        ("\r", "denied", "→ Denied"),
        ("\x1b", "denied", "→ Denied"),
        (" ", "denied", "→ Denied"),
        ("é", "denied", "→ Denied"),
    ]
    .into_iter()
    .enumerate()
    {
        let (mut client, _) = ask(&mut daemon, &request(&format!("key-{number}"), &json!([["true"]]), &json!({})));
        let start = daemon.terminal().length();
        daemon.terminal().press(key);
        assert_eq!(status(&mut client), expected, "{key:?}");
        see(&mut daemon, start, label);
    }
}

#[test]
fn for_root_only_one_key_agrees() {
    let mut daemon = Daemon::start(Options { flags: vec!["--unattended-eligible".to_owned()], ..Options::default() });
    for (number, (key, expected)) in [("a", "denied"), ("A", "denied"), ("n", "denied")].into_iter().enumerate() {
        let line = request(&format!("root-{number}"), &json!([["true"]]), &json!({"privileged": true}));
        let (mut client, shown) = ask(&mut daemon, &line);
        assert!(shown.contains("Execute as root? [y/N] (60s timeout, default=N)"), "{shown}");
        assert!(!shown.contains("a = approve"), "{shown}");
        daemon.terminal().press(key);
        assert_eq!(status(&mut client), expected, "{key:?}");
    }
}

#[test]
fn what_was_typed_before_does_not_answer() {
    let mut daemon = Daemon::start(Options::default());
    daemon.terminal().press("yyyy\ny");
    // The terminal echoes what is typed while nobody asks.
    daemon.terminal().wait(0, wait::limit(), |text| text.matches('y').count() >= 5).expect("an echo");
    let (mut client, _) = ask(&mut daemon, &request("ahead", &json!([["true"]]), &json!({})));
    client.silent(Duration::from_millis(300)).expect("nothing was answered");
    daemon.terminal().press("n");
    assert_eq!(status(&mut client), "denied");
}

#[test]
fn nobody_answers() {
    let settings = "[doors.sudo-proxy]\napproval_wait = \"3500ms\"\n".to_owned();
    let mut daemon = Daemon::start(Options { settings, ..Options::default() });
    let start = daemon.terminal().length();
    let (mut client, shown) = ask(&mut daemon, &request("late", &json!([["true"]]), &json!({})));
    assert!(shown.contains("(4s timeout, default=N)"), "{shown}");
    assert_eq!(answer(&mut client), json!({"id": "late", "status": "timeout", "version": "1.2.0"}));
    see(&mut daemon, start, "→ Timeout");
    // And the next one is asked.
    let (mut client, _) = ask(&mut daemon, &request("next", &json!([["true"]]), &json!({})));
    daemon.terminal().press("y");
    assert_eq!(status(&mut client), "ok");
}

#[test]
fn who_leaves_takes_the_question_away() {
    let mut daemon = Daemon::start(Options::default());
    let marker = daemon.work().join("ran");
    let (client, _) = ask(&mut daemon, &request("gone", &json!([["touch", marker]]), &json!({})));
    let start = daemon.terminal().length();
    drop(client);
    see(&mut daemon, start, "→ Withdrawn");
    daemon.terminal().press("y");
    let (mut client, _) = ask(&mut daemon, &request("next", &json!([["true"]]), &json!({})));
    daemon.terminal().press("y");
    assert_eq!(status(&mut client), "ok");
    assert!(!marker.exists());
}

#[test]
fn a_key_for_a_question_that_was_taken_away_does_not_answer_the_next() {
    let mut daemon = Daemon::start(Options::default());
    let marker = daemon.work().join("ran");
    let (harmless, _) = ask(&mut daemon, &request("harmless", &json!([["true"]]), &json!({})));
    let mut harmful = daemon.connect();
    harmful.send(request("harmful", &json!([["touch", marker]]), &json!({})).as_bytes()).expect("the door reads");
    // It stands in line, and the first makes room for it at the moment the key is pressed.
    harmful.silent(Duration::from_millis(200)).expect("nobody answered");
    let start = daemon.terminal().length();
    drop(harmless);
    see(&mut daemon, start, "Resolves:");
    daemon.terminal().press("y");
    daemon.terminal().wait(start, wait::limit(), |text| text.ends_with(QUESTION)).expect("a question");
    harmful.silent(Duration::from_millis(200)).expect("nobody answered");
    daemon.terminal().press("n");
    assert_eq!(status(&mut harmful), "denied");
    assert!(!marker.exists());
}

#[test]
fn one_question_at_a_time_and_the_clock_starts_when_it_is_shown() {
    let settings = "[doors.sudo-proxy]\napproval_wait = \"3s\"\n".to_owned();
    let mut daemon = Daemon::start(Options { settings, ..Options::default() });
    let (mut first, _) = ask(&mut daemon, &request("first", &json!([["true"]]), &json!({})));
    let start = daemon.terminal().length();
    let mut second = daemon.connect();
    second.send(request("second", &json!([["true"]]), &json!({})).as_bytes()).expect("the door reads");
    // The first takes almost all its time; the second has all of its own after that.
    first.silent(Duration::from_secs(2)).expect("nobody answered");
    assert_eq!(daemon.terminal().painted(start), "");
    daemon.terminal().press("y");
    assert_eq!(status(&mut first), "ok");
    let shown = daemon.terminal().wait(start, wait::limit(), |text| text.ends_with(QUESTION)).expect("a question");
    assert!(shown.contains("(3s timeout"), "{shown}");
    second.silent(Duration::from_millis(1500)).expect("its clock began when it was shown");
    daemon.terminal().press("y");
    assert_eq!(status(&mut second), "ok");
}

#[test]
fn what_a_command_printed_is_shown_in_part_and_harmless() {
    let mut daemon = Daemon::start(Options::default());
    let script = "printf '\\033[2Jfake\\n━━━ Privilege Request ━━━\\n'; head -c 300000 /dev/zero | tr '\\0' z; echo; \
                  echo four; echo oh >&2; exit 3";
    let (mut client, _) = ask(&mut daemon, &request("echo", &json!([["sh", "-c", script]]), &json!({})));
    let start = daemon.terminal().length();
    daemon.terminal().press("y");
    assert_eq!(status(&mut client), "ok");
    let shown = see(&mut daemon, start, "│ oh");
    assert!(shown.contains("exit 3\r\n== stdout == (first 3 lines, truncated)\r\n│ ⟨ESC⟩[2Jfake\r\n│ ━━━"), "{shown}");
    assert!(shown.contains("== stderr == (1 lines)\r\n│ oh"), "{shown}");
    assert!(shown.len() < 3_000 && !shown.contains('\x1b') && !shown.contains("four"), "{shown}");
}

#[test]
fn requests_run_beside_an_open_question() {
    let mut daemon = Daemon::start(Options { flags: vec!["--unattended-eligible".to_owned()], ..Options::default() });
    let (mut client, shown) = ask(&mut daemon, &request("give", &json!([["true"]]), &json!({})));
    assert!(shown.contains("a = approve and allow unprivileged on this host for this session (not saved)"), "{shown}");
    assert!(shown.ends_with("Execute? [y/N/a] (60s timeout, default=N) "), "{shown}");
    let start = daemon.terminal().length();
    daemon.terminal().press("a");
    assert_eq!(status(&mut client), "ok");
    see(&mut daemon, start, "→ Approved (unattended for this session)");
    // A question about root stands there; nothing else is painted below it meanwhile.
    let (mut root, _) = ask(&mut daemon, &request("root", &json!([["true"]]), &json!({"privileged": true})));
    let start = daemon.terminal().length();
    let mut unasked = daemon.connect();
    unasked.send(request("unasked", &json!([["echo", "hi"]]), &json!({})).as_bytes()).expect("the door reads");
    let answered = answer(&mut unasked);
    assert_eq!((&answered["status"], &answered["stdout"]), (&json!("ok"), &json!("aGkK")));
    assert_eq!(daemon.terminal().painted(start), "");
    assert!(daemon.printed().contains("[unasked] [unattended] echo hi"), "{}", daemon.printed());
    daemon.terminal().press("n");
    assert_eq!(status(&mut root), "denied");
    let after = see(&mut daemon, start, "│ hi");
    let (denied, banner) = (after.find("→ Denied").expect("an end"), after.find("▶ echo hi").expect("a banner"));
    assert!(denied < banner, "{after}");
}

/// Words that look like others, hide, or turn their surroundings round; and how they are painted.
const HOSTILE: [(&str, &str); 10] = [
    ("ra\u{443}pal", "'ra⟨U+0443⟩pal'"),
    ("e\u{301}", "'e⟨U+0301⟩'"),
    ("\u{5d0}\u{5d1}", "'⟨U+05D0⟩⟨U+05D1⟩'"),
    ("\u{65e5}\u{672c}", "'⟨U+65E5⟩⟨U+672C⟩'"),
    ("\u{ff0f}etc", "'⟨U+FF0F⟩etc'"),
    ("a\tb", "'a⟨TAB⟩b'"),
    ("<b>&amp;", "'<b>&amp;'"),
    ("\u{1f600}", "'⟨U+1F600⟩'"),
    ("\u{27e8}ESC\u{27e9}", "'⟨U+27E8⟩ESC⟨U+27E9⟩'"),
    ("x; rm -rf /", "'x;␣rm␣-rf␣/'"),
];

#[test]
fn no_word_passes_for_another() {
    let mut daemon = Daemon::start(Options::default());
    for (number, (word, painted)) in HOSTILE.into_iter().enumerate() {
        let (mut client, shown) =
            ask(&mut daemon, &request(&format!("odd-{number}"), &json!([["echo", word]]), &json!({})));
        let command = shown.lines().find_map(|line| line.strip_prefix("Command: ")).expect("a command");
        assert_eq!(command.trim_end(), format!("echo {painted}"), "{word:?}");
        let start = daemon.terminal().length();
        daemon.terminal().press("n");
        assert_eq!(status(&mut client), "denied");
        see(&mut daemon, start, "━━━━━━━━━━━━━━━━━━━━━━━━━\r\n");
    }
    // What steers or is not seen at all does not even become a question.
    let start = daemon.terminal().length();
    for (number, word) in
        ["\u{1b}[2J", "\u{9b}H", "\u{202e}", "\u{200b}", "\u{2066}", "\u{feff}", "\u{7f}"].iter().enumerate()
    {
        let mut client = daemon.connect();
        let line = request(&format!("bad-{number}"), &json!([["echo", word]]), &json!({}));
        client.send(line.as_bytes()).expect("the door reads");
        let answered = answer(&mut client);
        assert_eq!(answered["message"], "pipeline[0][1] contains forbidden control/bidi characters", "{word:?}");
    }
    assert_eq!(daemon.terminal().painted(start), "");
}
