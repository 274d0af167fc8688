//! `hostel approver|approvals|audit` against a real daemon: the passphrase, answers, grants, rules, the record.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use hostel_tests::wait;
use serde_json::{Value, json};
use support::house::{House, PASSPHRASE};
use support::terminal::OnTerminal;

fn set(house: &House, words: &[&str], input: &str) -> (i32, String) {
    let outcome = house.hostel_with(&[&["approver"], words].concat(), input);
    (outcome.code, outcome.err)
}

#[test]
fn the_passphrase_is_set_changed_and_removed() {
    let house = House::up();
    let status = house.hostel(&["approver", "status"]);
    assert_eq!((status.code, status.out.as_str()), (0, "no passphrase is set\n"), "{status:?}");
    assert!(status.err.contains("`hostel approver set`"), "{status:?}");

    let set_it = ["set", "--passphrase-fd", "0"];
    assert_eq!(set(&house, &set_it, "\n"), (2, "hostel: the passphrase is empty\n".to_owned()));
    let (code, said) = set(&house, &set_it, "short\n");
    assert!(code == 2 && said.starts_with("hostel: the passphrase has fewer than 8 characters"), "{said}");
    // Nobody is there to be asked.
    let unasked = house.hostel(&["approver", "set"]);
    assert_eq!(unasked.code, 1, "{unasked:?}");
    assert!(unasked.err.contains("no terminal; give it with `--passphrase-fd N`"), "{unasked:?}");
    assert_eq!(
        house.json(&["approver", "status", "--json"]),
        json!({"set": false, "strict": false, "alarms": [], "unconfirmed": []})
    );

    house.set_passphrase();
    assert_eq!(house.json(&["approver", "status", "--json"])["set"], true);
    let file = house.home().join("approver");
    let stored = std::fs::read_to_string(&file).unwrap();
    assert!(stored.starts_with("$argon2id$") && !stored.contains(PASSPHRASE), "{stored}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);

    // The old one is needed to change it.
    let old = house.path().join("old");
    std::fs::write(&old, "not the one\n").unwrap();
    let change = |new: &str| {
        let script = format!("exec \"$0\" approver set --passphrase-fd 0 --old-passphrase-fd 3 3<{}", old.display());
        let mut command = std::process::Command::new("sh");
        let hostel = house.command(&[]);
        command.arg("-c").arg(script).arg(hostel.get_program());
        command.envs(hostel.get_envs().filter_map(|(key, value)| Some((key, value?))));
        let input = house.path().join("new");
        std::fs::write(&input, new).unwrap();
        command.stdin(std::fs::File::open(&input).unwrap());
        let output = hostel_tests::house::run(command);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = change("another passphrase\n");
    assert!(code == 1 && said.contains("that is not the approver's passphrase; 4 more tries"), "{said}");
    std::fs::write(&old, PASSPHRASE).unwrap();
    assert_eq!(change("another passphrase\n").0, 0);
    let (code, said) = set(&house, &["clear", "--passphrase-fd", "0"], &format!("{PASSPHRASE}\n"));
    assert!(code == 1 && said.contains("not the approver's passphrase"), "{said}");
    assert_eq!(set(&house, &["clear", "--passphrase-fd", "0"], "another passphrase\n").0, 0);
    assert!(!file.exists());
    assert_eq!(house.hostel(&["approver", "clear"]).code, 1);
}

#[test]
fn without_a_passphrase_nobody_answers_and_it_is_said_what_to_do() {
    let house = House::up();
    // An agent's question waits in any case; a command would be refused at once, as nobody could answer it.
    assert_eq!(house.hostel(&["run", "-d", "approve"]).code, 0);
    let id = house.waiting(1).remove(0);
    for verb in ["approve", "deny"] {
        let outcome = house.answer(&[verb, &id]);
        assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
        assert_eq!(
            outcome.err,
            "hostel: no passphrase is set, so nobody can answer from here; set one with `hostel approver set`\n"
        );
    }
    house.set_passphrase();
    assert_eq!(house.answer(&["deny", &id]).code, 0);
}

#[test]
fn requests_are_listed_shown_approved_and_denied() {
    let house = House::with_passphrase();
    let first = house.ask("one", &json!({"pipeline": [["printf", "a b|%s", "x"]], "env": {"LANG": "C"}}));
    let id = house.waiting(1).remove(0);
    let list = house.hostel(&["approvals"]);
    assert!(list.out.contains("project-alpha") && list.out.contains("printf 'a␣b|%s' x"), "{list:?}");
    let shown = house.hostel(&["approvals", "show", &id[..8]]);
    for line in [
        "command   0  printf\n          1  a␣b|%s\n          2  x\n",
        "file      /usr/bin/printf, inode ",
        "as        you, in /\n",
        "LANG=C  ",
        "because   a test\n",
        "session   project-alpha on workstation, by sudo-proxy\n",
        "digest    ",
        "house     home\n",
    ] {
        assert!(shown.out.contains(line), "{line}: {}", shown.out);
    }
    let row = house.json(&["approvals", "show", "--json", &id]);
    assert_eq!(row["kind"], "pipeline");
    assert_eq!(row["subject"]["stages"][0]["argv"], json!(["printf", "a b|%s", "x"]));
    assert_eq!(row["subject"]["env"][1], json!({"name": "LANG", "value": "C"}), "{row}");
    assert_eq!(row["subject"]["stages"][0]["file"]["digest"].as_str().unwrap().len(), 64);

    let wrong = house.hostel_with(&["approvals", "approve", &id, "--yes", "--passphrase-fd", "0"], "guessed it\n");
    assert_eq!((wrong.code, wrong.out.as_str()), (1, ""), "{wrong:?}");
    assert!(wrong.err.starts_with("Run this?\n") && wrong.err.contains("  1  a␣b|%s\n"), "the page first: {wrong:?}");
    let end = "house     home\n\nhostel: that is not the approver's passphrase; 4 more tries before a pause\n";
    assert!(wrong.err.ends_with(end), "{wrong:?}");
    assert_eq!(house.pending().len(), 1);

    let outcome = house.answer(&["approve", &id[..8]]);
    assert_eq!((outcome.code, outcome.out.contains("allowed once: printf 'a␣b|%s' x")), (0, true), "{outcome:?}");
    let answer = first.answer();
    assert_eq!((&answer["status"], &answer["stages"][0]["exit_code"]), (&json!("ok"), &json!(0)), "{answer}");

    let outcome = house.answer(&["deny", &id]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.err.contains("cannot be answered any more, it is approved by unix:pid="), "{outcome:?}");
    let shown = wait::eventually("the outcome", || {
        let shown = house.hostel(&["approvals", "show", &id]);
        shown.out.contains("outcome   exit 0").then_some(shown)
    });
    assert!(shown.out.contains("state     approved by unix:pid="), "{shown:?}");

    // Several at once, as data.
    let others = [house.ask_run("two", &["true"]), house.ask_run("three", &["true"])];
    let ids = house.waiting(2);
    let outcome = house.answer(&["deny", &ids[0], &ids[1], "--json"]);
    let rows: Value = serde_json::from_str(&outcome.out).unwrap();
    let states: Vec<&Value> = rows["approvals"].as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["denied", "denied"], "{outcome:?}");
    assert!(others.iter().all(|asked| asked.answer()["status"] == "denied"));
    assert_eq!(house.json(&["approvals", "list", "--all", "--json"])["approvals"].as_array().unwrap().len(), 3);
}

#[test]
fn the_passphrase_is_asked_for_on_the_terminal_and_not_shown() {
    let house = House::with_passphrase();
    let asked = house.ask_run("one", &["true"]);
    let id = house.waiting(1).remove(0);
    let mut terminal = OnTerminal::start(&house.command(&["approvals", "approve", &id]), 80, 24);
    terminal.until("Passphrase of the approver:");
    terminal.press(&format!("{PASSPHRASE}x\x7f\r"));
    assert_eq!(terminal.finish(), 0);
    terminal.until("allowed once: true");
    assert!(!terminal.text().contains("correct"), "{}", terminal.text());
    assert!(terminal.is_cooked());
    assert_eq!(asked.answer()["status"], "ok");

    // Ctrl-C leaves the terminal as it was.
    house.ask_run("two", &["true"]);
    let id = house.waiting(1).remove(0);
    let mut terminal = OnTerminal::start(&house.command(&["approvals", "approve", &id]), 80, 24);
    terminal.until("Passphrase of the approver:");
    terminal.press("corr\x03");
    assert_eq!(terminal.finish(), 1);
    assert!(terminal.is_cooked());
    assert_eq!(house.pending().len(), 1);

    // A new one is typed twice.
    let mut terminal = OnTerminal::start(&house.command(&["approver", "set"]), 80, 24);
    terminal.until("Passphrase in force:");
    terminal.press(&format!("{PASSPHRASE}\r"));
    terminal.until("New passphrase of the approver:");
    terminal.press("another passphrase\r");
    terminal.until("The same again:");
    terminal.press("another passphrasf\r");
    terminal.until("the two are not the same; nothing was changed");
    assert_eq!(terminal.finish(), 1);
}

#[test]
fn grants_answer_in_advance_until_they_are_used_up_or_revoked() {
    let house = House::with_passphrase();
    let first = house.ask_run("one", &["true"]);
    let id = house.waiting(1).remove(0);
    let outcome = house.answer(&["approve", &id, "--for", "10m", "--count", "1"]);
    assert_eq!((outcome.code, outcome.out.contains("allowed once, grant 1: true")), (0, true), "{outcome:?}");
    assert_eq!(first.answer()["status"], "ok");
    let grants = house.json(&["approvals", "grants", "--json"]);
    let grant = &grants["grants"][0];
    assert_eq!(
        (&grant["scope"], &grant["session"], &grant["uses_left"]),
        (&json!("session"), &json!("project-alpha"), &json!(1)),
        "{grant}"
    );
    // The same again is not asked; once more is.
    assert_eq!(house.ask_run("two", &["true"]).answer()["status"], "ok");
    let row = &house.json(&["approvals", "list", "--all", "--json"])["approvals"][0];
    assert_eq!((&row["state"], &row["rule"]), (&json!("approved"), &json!("grant 1")), "{row}");
    house.ask_run("three", &["true"]);
    let id = house.waiting(1).remove(0);
    assert_eq!(house.json(&["approvals", "grants", "--json"])["grants"], json!([]));

    let outcome = house.answer(&["approve", &id, "--for", "1h", "--argv", "true", "--argv", "**"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(house.ask_run("four", &["true", "and", "more"]).answer()["status"], "ok");
    let listed = house.hostel(&["approvals", "grants"]);
    assert!(listed.out.contains("session project-alph") && listed.out.contains("true '**'"), "{listed:?}");
    let outcome = house.answer(&["revoke", "2"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "grant 2 has ended\n"), "{outcome:?}");
    house.ask_run("five", &["true", "and", "more"]);
    let id = house.waiting(1).remove(0);
    let outcome = house.answer(&["revoke", "2"]);
    assert!(outcome.err.contains("there is no grant 2 in force"), "{outcome:?}");
    for (words, said) in [
        (&["--for", "25h"][..], "a grant lasts from a second to 24 hours"),
        (&["--argv", "false"], "does not cover the request"),
        (&["--for", "soon"], "is not a duration"),
    ] {
        let outcome = house.answer(&[&["approve", id.as_str()], words].concat());
        assert!(outcome.code != 0 && outcome.err.contains(said), "{outcome:?}");
    }
}

#[test]
fn rules_are_applied_shown_and_explained() {
    let house = House::up_with(
        "[[approvals.rules]]\nname = \"harmless\"\naction = \"allow\"\nargv = [\"true\", \"**\"]\n\
         [[approvals.rules]]\nname = \"never\"\naction = \"deny\"\nargv = [\"rm\", \"**\"]\n",
        &[],
    );
    house.set_passphrase();
    assert_eq!(house.ask_run("one", &["true", "x"]).answer()["status"], "ok");
    assert_eq!(house.ask_run("two", &["rm", "-rf", "x"]).answer()["status"], "denied");
    house.ask_run("three", &["echo"]);
    let id = house.waiting(1).remove(0);
    let why = house.hostel(&["approvals", "why", &id]);
    assert_eq!(why.code, 0, "{why:?}");
    assert!(why.out.starts_with("it waits for a person\n"), "{why:?}");
    assert!(why.out.contains("· allow  harmless: ") && why.out.contains("· deny   never: "), "{why:?}");
    let all = house.json(&["approvals", "list", "--all", "--json"]);
    let denied = all["approvals"].as_array().unwrap().iter().find(|row| row["state"] == "denied").unwrap().clone();
    let why = house.json(&["approvals", "why", "--json", denied["id"].as_str().unwrap()]);
    assert_eq!((&why["why"]["rule"], &why["why"]["steps"][1]["matched"]), (&json!("never"), &json!(true)), "{why}");
    let shown = house.hostel(&["config", "show"]);
    assert!(shown.out.contains("harmless: action = \"allow\", argv = [\"true\", \"**\"]"), "{shown:?}");
}

#[test]
fn the_record_is_shown_verified_and_found_to_be_tampered_with() {
    let house = House::with_passphrase();
    let asked = house.ask_run("one", &["echo", "tamper-with-me"]);
    let id = house.waiting(1).remove(0);
    house.hostel_with(&["approvals", "approve", &id, "--yes", "--passphrase-fd", "0"], "guessed it\n");
    assert_eq!(house.answer(&["approve", &id]).code, 0);
    assert_eq!(asked.answer()["status"], "ok");
    let shown = wait::eventually("the whole story", || {
        let shown = house.hostel(&["audit", "show"]);
        shown.out.contains("finished").then_some(shown)
    });
    let mut rest = shown.out.as_str();
    for kind in ["approver_set", "requested", "wrong_passphrase", "decided", "started", "finished"] {
        let at = rest.find(kind).unwrap_or_else(|| panic!("{kind} in order: {}", shown.out));
        rest = &rest[at..];
    }
    assert!(!shown.out.contains(PASSPHRASE) && !shown.out.contains("guessed it"), "{shown:?}");
    let lines = house.hostel(&["audit", "show", "--json", "--since", "2"]).out;
    let records: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records[0]["no"], 3);
    assert!(records.windows(2).all(|pair| pair[1]["previous"] == pair[0]["digest"]), "{lines}");
    let verified = house.hostel(&["audit", "verify"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let (summary, segments) = verified.out.split_once('\n').unwrap();
    assert!(summary.starts_with("home: ") && summary.ends_with(" records, intact"), "{verified:?}");
    assert!(segments.starts_with("  records 1 to ") && segments.lines().count() == 1, "{verified:?}");

    assert_eq!(house.hostel(&["down"]).code, 0);
    // Somebody who may write to the file changes what was decided.
    let database = rusqlite::Connection::open(house.home().join("state.db")).unwrap();
    let triggers: Vec<String> = {
        let mut names = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for trigger in triggers {
        database.execute(&format!("DROP TRIGGER {trigger}"), []).unwrap();
    }
    let number: i64 = database
        .query_row("SELECT no FROM audit WHERE kind = 'requested' AND body LIKE '%tamper-with-me%'", [], |row| {
            row.get(0)
        })
        .unwrap();
    let changed = "UPDATE audit SET body = replace(body, 'tamper-with-me', 'harmless') WHERE no = ?";
    assert_eq!(database.execute(changed, [number]).unwrap(), 1);
    drop(database);
    house.start();
    let verified = house.hostel(&["audit", "verify"]);
    assert_eq!(verified.code, 1, "{verified:?}");
    assert!(verified.out.starts_with(&format!("home: record {number} is not as it was written: ")), "{verified:?}");
    let verified = house.hostel(&["audit", "verify", "--json"]);
    let found: Value = serde_json::from_str(&verified.out).unwrap();
    assert_eq!((verified.code, &found["ok"]), (1, &json!(false)));
    assert_eq!(found["houses"][0]["broken"]["no"], number, "{found}");
}

#[test]
fn wrong_passphrases_lead_to_a_pause() {
    let house = House::up_with("[approvals.lockout]\nattempts = 2\nwait = \"1h\"\nlongest = \"1h\"\n", &[]);
    house.set_passphrase();
    house.ask_run("one", &["true"]);
    let id = house.waiting(1).remove(0);
    let guess = || house.hostel_with(&["approvals", "approve", &id, "--yes", "--passphrase-fd", "0"], "guessed it\n");
    assert!(guess().err.contains("1 more tries"));
    assert!(guess().err.contains("too many wrong passphrases"));
    // Not even the right one, and also after a restart.
    assert!(house.answer(&["approve", &id]).err.contains("too many wrong passphrases"));
    house.crash();
    house.start();
    let outcome = house.hostel_with(&["approver", "clear", "--passphrase-fd", "0"], &format!("{PASSPHRASE}\n"));
    assert!(outcome.err.contains("too many wrong passphrases"), "{outcome:?}");
    assert!(outcome.err.contains("`hostel audit show`"), "{outcome:?}");
}
