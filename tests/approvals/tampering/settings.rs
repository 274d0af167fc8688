//! Settings that were loosened behind the daemon's back.

use std::fs;

use hostel_tests::wait;
use serde_json::json;

use super::attacker::SETTINGS;
use crate::support::house::{Asked, House, PASSPHRASE};

const RULE: &str = "\n[[approvals.rules]]\nname = \"everything\"\naction = \"allow\"\nargv = [\"true\", \"**\"]\n";

/// Writes the settings and restarts the daemon, as a crash and a person would.
fn restart_with(house: &House, more: &str) {
    house.crash();
    write(house, more);
    house.start();
}

fn write(house: &House, more: &str) {
    let base = "[doors.codecast]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(house.home().join("hostel.toml"), format!("{base}{SETTINGS}{more}")).expect("the settings are written");
}

fn confirm(house: &House) {
    let outcome = house.hostel_with(&["approver", "confirm", "--passphrase-fd", "0"], &format!("{PASSPHRASE}\n"));
    assert_eq!(outcome.code, 0, "{outcome:?}");
}

/// Asks for `true`; gives the answer if nobody had to be asked.
fn unasked(house: &House, name: &str) -> Result<(), Asked> {
    let asked = house.ask_run(name, &["true"]);
    let answered = wait::eventually("an answer or a question", || {
        let waits = !house.pending().is_empty();
        let answered = house.kinds().iter().any(|kind| kind == "finished") && asked.is_answered();
        if waits || answered { Ok(answered) } else { Err("neither".to_owned()) }
    });
    if answered { Ok(()) } else { Err(asked) }
}

fn deny_all(house: &House) {
    for waiting in house.pending() {
        house.decide(waiting["id"].as_str().expect("an id"), "reject");
    }
}

#[test]
fn a_rule_that_allows_something_new_waits_for_the_approver() {
    let house = House::guarded();
    restart_with(&house, RULE);
    assert!(unasked(&house, "too-early").is_err(), "the rule applies");
    deny_all(&house);
    let status = house.native().ask("approver/status", json!({}));
    assert_eq!(status["unconfirmed"], json!(["the rule `everything` allows something new"]));
    assert!(house.kinds().contains(&"settings_rejected".to_owned()));
    assert!(house.hostel(&["doctor"]).out.contains("not in force"), "the doctor does not say so");
    confirm(&house);
    assert!(unasked(&house, "in-force").is_ok(), "the rule does not apply");
    assert!(house.kinds().contains(&"settings_confirmed".to_owned()));
    // What was confirmed stays so.
    house.crash();
    house.start();
    assert!(unasked(&house, "still").is_ok());
    // And stricter settings apply at once.
    restart_with(&house, "");
    assert!(unasked(&house, "gone").is_err());
    deny_all(&house);
}

#[test]
fn strict_is_not_switched_off_by_a_file() {
    let house = House::guarded_with("[approvals]\nstrict = true\n");
    restart_with(&house, "");
    assert_eq!(house.native().ask("approver/status", json!({}))["strict"], true);
    // Nor by a file and a row.
    house.crash();
    house.sql("UPDATE policy SET text = replace(text, '\"strict\":true', '\"strict\":false')");
    house.start();
    assert_eq!(house.native().ask("approver/status", json!({}))["strict"], true);
    house.wait_tampered("settings");
    confirm(&house);
    assert_eq!(house.native().ask("approver/status", json!({}))["strict"], false);
}

#[test]
fn after_a_lost_key_rules_apply_once_the_passphrase_was_shown() {
    let house = House::guarded_with(RULE);
    assert!(unasked(&house, "before").is_ok(), "the rule was there when the passphrase was set");
    // The endorsement of the settings follows the passphrase a moment later.
    wait::until_true(wait::LIMIT, "the settings to be endorsed", || {
        house.kinds().iter().any(|kind| kind == "endorsed")
    });
    house.lose_key(|_| {});
    assert!(unasked(&house, "after").is_err(), "nothing proves that the rule applied before");
    assert!(house.alarms().iter().any(|alarm| alarm.contains("hostel approver confirm")), "{:?}", house.alarms());
    // Any use of the passphrase proves it.
    deny_all(&house);
    wait::eventually("the rule to apply", || {
        let status = house.native().ask("approver/status", json!({}));
        if status["unconfirmed"] == json!([]) { Ok(()) } else { Err(status.to_string()) }
    });
    assert!(unasked(&house, "proved").is_ok());
}

#[test]
fn after_a_lost_key_a_forged_row_proves_nothing() {
    let house = House::guarded();
    wait::until_true(wait::LIMIT, "the settings to be endorsed", || {
        house.kinds().iter().any(|kind| kind == "endorsed")
    });
    house.lose_key(|house| {
        write(house, RULE);
        let rule = r#"[{"name":"everything","action":"allow","requester":null,"session":null,"cwd":null,"tool":null,"argv":["true","**"],"privileged":null}]"#;
        house.sql(&format!(
            "UPDATE policy SET text = replace(text, '\"rules\":[]', '\"rules\":{rule}'), \
             endorsed = replace(endorsed, '\"rules\":[]', '\"rules\":{rule}')"
        ));
    });
    assert!(unasked(&house, "early").is_err(), "the forged rule applies");
    deny_all(&house);
    house.wait_tampered("settings");
    assert!(unasked(&house, "late").is_err(), "the forged rule applies once the passphrase was shown");
    deny_all(&house);
}

#[test]
fn after_a_lost_key_settings_that_were_endorsed_earlier_prove_nothing() {
    let endorsed = |house: &House, times: usize| {
        wait::eventually(&format!("{times} endorsements"), || {
            let kinds = house.kinds();
            if kinds.iter().filter(|kind| *kind == "endorsed").count() >= times {
                Ok(())
            } else {
                Err(format!("{kinds:?}"))
            }
        });
    };
    let house = House::guarded_with(RULE);
    endorsed(&house, 1);
    let early = house.copy_row("policy", "one = 1");
    restart_with(&house, "");
    confirm(&house);
    endorsed(&house, 2);
    house.lose_key(|house| {
        house.put_back(&early);
        write(house, RULE);
    });
    assert!(unasked(&house, "early").is_err(), "the earlier rule applies");
    deny_all(&house);
    house.wait_tampered("settings");
    assert!(unasked(&house, "late").is_err(), "the earlier rule applies once the passphrase was shown");
    deny_all(&house);
}

#[test]
fn without_a_passphrase_a_change_is_recorded_and_told() {
    let house = House::up_with(SETTINGS, &[]);
    restart_with(&house, RULE);
    assert!(unasked(&house, "applies").is_ok());
    assert!(house.kinds().contains(&"settings_changed".to_owned()));
    assert!(house.alarms().iter().any(|alarm| alarm.contains("less of people")), "{:?}", house.alarms());
}
