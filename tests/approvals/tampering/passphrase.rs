//! The digest of the passphrase, and the count of wrong ones.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hostel_tests::wait;
use serde_json::json;

use crate::support::house::{House, PASSPHRASE};

const OTHER: &str = "what the attacker knows";

/// Whether a passphrase is taken, and what is said.
fn unlock(house: &House, passphrase: &str) -> Result<(), String> {
    let answer = house.native().call("approval/unlock", json!({"passphrase": passphrase}));
    match answer["error"]["message"].as_str() {
        None => Ok(()),
        Some(message) => Err(message.to_owned()),
    }
}

/// The digest of the attacker's passphrase, as another house of theirs has made it.
fn other_digest() -> String {
    let attackers = House::up();
    attackers.native().ask("approver/set", json!({"passphrase": OTHER}));
    fs::read_to_string(attackers.home().join("approver")).expect("a digest")
}

fn replace_file(house: &House, digest: &str) {
    let file = house.home().join("approver");
    fs::write(&file, digest).expect("the file can be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
}

#[test]
fn a_digest_that_is_replaced_is_not_taken() {
    let house = House::guarded();
    let digest = other_digest();
    replace_file(&house, &digest);
    assert!(unlock(&house, OTHER).is_err(), "the attacker's passphrase is taken");
    assert_eq!(unlock(&house, PASSPHRASE), Ok(()), "the approver's counts on");
    // It is noticed without anybody's doing, at the latest after half a minute.
    house.ask_run("something", &["true"]);
    house.wait_tampered("approver_file");
    // The file alone does not survive a restart either.
    house.crash();
    house.start();
    assert!(unlock(&house, OTHER).is_err());
    assert_eq!(unlock(&house, PASSPHRASE), Ok(()));
}

#[test]
fn a_digest_that_is_replaced_while_the_daemon_is_down_is_not_taken() {
    let house = House::guarded();
    let digest = other_digest();
    house.crash();
    replace_file(&house, &digest);
    house.sql(&format!("UPDATE approver SET digest = '{}'", digest.trim()));
    house.start();
    assert!(unlock(&house, OTHER).is_err(), "the attacker's passphrase is taken");
    house.wait_tampered("approver");
}

/// The passphrase was used, and the audit has what proves it.
fn endorsed_house() -> House {
    let house = House::guarded();
    wait::until_true(wait::LIMIT, "an endorsement", || house.kinds().contains(&"endorsed".to_owned()));
    house
}

fn approver_tampered(house: &House) -> bool {
    let is_it = |record: &serde_json::Value| record["kind"] == "tampered" && record["body"]["what"] == "approver";
    house.records().iter().any(is_it)
}

#[test]
fn a_passphrase_is_not_chosen_by_whoever_ends_the_keeper() {
    let house = endorsed_house();
    let digest = other_digest();
    house.lose_key(|house| {
        replace_file(house, &digest);
        house.sql(&format!("UPDATE approver SET digest = '{0}', previous = '{0}'", digest.trim()));
    });
    for _ in 0..3 {
        let refused = unlock(&house, OTHER).expect_err("the attacker's passphrase is taken");
        assert!(refused.contains("behind the house's back") && refused.contains("hostel approver set"), "{refused}");
    }
    assert!(approver_tampered(&house) && !house.alarms().is_empty());
    // Nor by another restart, which finds the key that it left.
    house.crash();
    house.start();
    assert!(unlock(&house, OTHER).is_err(), "the attacker's passphrase is taken");
    let told = unlock(&house, PASSPHRASE).expect_err("its digest is gone");
    assert!(told.contains("hostel approver set"), "{told}");
    let refused = house.native().call("approver/set", json!({"passphrase": OTHER, "old": OTHER}));
    assert!(refused["error"].is_object(), "{refused}");
    // The approver puts it right.
    house.native().ask("approver/set", json!({"passphrase": PASSPHRASE, "old": PASSPHRASE}));
    assert_eq!(unlock(&house, PASSPHRASE), Ok(()));
    let changed = house.records().into_iter().find(|record| record["kind"] == "approver_changed").expect("a record");
    assert_eq!(changed["body"]["proved_by"], "endorsement");
    // From then on it is proved again.
    wait::until_true(wait::LIMIT, "another endorsement", || {
        house.kinds().iter().rev().take_while(|kind| *kind != "approver_changed").any(|kind| kind == "endorsed")
    });
    house.lose_key(|_| {});
    assert_eq!(unlock(&house, PASSPHRASE), Ok(()));
}

#[test]
fn a_passphrase_is_not_removed_by_whoever_ends_the_keeper() {
    for row in ["DELETE FROM approver", "UPDATE approver SET digest = NULL, previous = NULL"] {
        for (file, plant) in [(true, false), (false, false), (true, true)] {
            let house = endorsed_house();
            let digest = other_digest();
            house.lose_key(|house| {
                house.sql(row);
                if file {
                    fs::remove_file(house.home().join("approver")).expect("the file is there");
                }
                if plant {
                    replace_file(house, &digest);
                }
            });
            let told = format!("{row} {file} {plant}");
            let set = house.native().call("approver/set", json!({"passphrase": OTHER}));
            assert!(set["error"].is_object(), "{told}: {set}");
            assert!(unlock(&house, OTHER).is_err(), "{told}");
            let is_recorded = |record: &serde_json::Value| record["kind"] == "tampered";
            assert!(house.records().iter().any(is_recorded), "{told}: {:?}", house.records());
        }
    }
}

#[test]
fn a_proof_that_was_exchanged_with_the_digest_is_noticed() {
    let attackers = House::up();
    attackers.native().ask("approver/set", json!({"passphrase": OTHER}));
    wait::until_true(wait::LIMIT, "an endorsement", || attackers.kinds().contains(&"endorsed".to_owned()));
    let theirs = attackers.records().into_iter().find(|record| record["kind"] == "endorsed").expect("a record");
    let digest = fs::read_to_string(attackers.home().join("approver")).expect("a digest");
    let house = endorsed_house();
    house.lose_key(|house| {
        replace_file(house, &digest);
        house.sql(&format!("UPDATE approver SET digest = '{0}', previous = '{0}'", digest.trim()));
        house.sql("DROP TRIGGER audit_is_not_changed");
        house.sql(&format!("UPDATE audit SET body = '{}' WHERE kind = 'endorsed'", theirs["body"]));
    });
    assert!(unlock(&house, OTHER).is_err(), "the attacker's passphrase is taken");
    house.wait_tampered("approver");
}

#[test]
fn control_the_passphrase_counts_after_a_lost_key() {
    let house = endorsed_house();
    for _ in 0..2 {
        house.lose_key(|_| {});
        assert_eq!(unlock(&house, PASSPHRASE), Ok(()));
        house.crash();
        house.start();
        assert_eq!(unlock(&house, PASSPHRASE), Ok(()));
    }
    house.check_peace();
}

#[test]
fn a_passphrase_is_not_set_or_removed_by_a_file() {
    let house = House::up();
    let digest = other_digest();
    replace_file(&house, &digest);
    assert_eq!(house.native().ask("approver/status", json!({}))["set"], false);
    house.crash();
    house.start();
    assert_eq!(house.native().ask("approver/status", json!({}))["set"], false);
    assert!(unlock(&house, OTHER).is_err());
    fs::remove_file(house.home().join("approver")).expect("the file is there");
    house.set_passphrase();
    house.crash();
    fs::remove_file(house.home().join("approver")).expect("the file is there");
    house.start();
    assert_eq!(unlock(&house, PASSPHRASE), Ok(()), "it counts without its file");
}

#[test]
fn control_a_passphrase_is_changed_in_every_house_that_is_up() {
    let house = House::guarded();
    let input = house.path().join("both");
    fs::write(&input, format!("{OTHER}\n")).expect("a file");
    let old = house.path().join("old");
    fs::write(&old, format!("{PASSPHRASE}\n")).expect("a file");
    let program = hostel_tests::binary::hostel();
    let command = house.command(&[]);
    let words = format!(
        "exec {} approver set --passphrase-fd 3 --old-passphrase-fd 4 3< {} 4< {}",
        program.display(),
        input.display(),
        old.display()
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &words]).envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = hostel_tests::house::run(shell);
    assert!(output.status.success(), "{output:?}");
    assert!(unlock(&house, PASSPHRASE).is_err());
    assert_eq!(unlock(&house, OTHER), Ok(()));
    house.crash();
    house.start();
    assert_eq!(unlock(&house, OTHER), Ok(()));
    house.check_peace();
}

/// Guesses until no passphrase is taken any more.
fn lock_out(house: &House) {
    for _ in 0..5 {
        assert!(unlock(house, "a wrong guess").is_err());
    }
    assert!(unlock(house, PASSPHRASE).expect_err("it is locked").contains("too many"), "not locked out");
}

#[test]
fn a_lock_out_is_not_reset_by_sql() {
    let house = House::guarded();
    lock_out(&house);
    house.sql("UPDATE lockout SET wrong = 0, rounds = 0, until_ns = 0");
    assert!(unlock(&house, PASSPHRASE).expect_err("it is locked").contains("too many"));
    house.ask_run("something", &["true"]);
    house.wait_tampered("lockout");
    house.crash();
    house.sql("UPDATE lockout SET wrong = 0, rounds = 0, until_ns = 0");
    house.start();
    assert!(unlock(&house, PASSPHRASE).expect_err("it is locked").contains("too many"));
}

#[test]
fn a_count_of_an_earlier_time_is_not_taken() {
    let house = House::guarded();
    let clean = house.copy_row("lockout", "one = 1");
    for _ in 0..4 {
        assert!(unlock(&house, "a wrong guess").is_err());
    }
    house.crash();
    house.put_back(&clean);
    house.start();
    assert!(unlock(&house, PASSPHRASE).expect_err("it is locked").contains("too many"), "it was reset");
    house.wait_tampered("lockout");
}

#[test]
fn control_wrong_passphrases_are_counted_over_a_restart_and_forgiven_by_the_right_one() {
    let house = House::guarded();
    for _ in 0..4 {
        assert!(unlock(&house, "a wrong guess").is_err());
    }
    house.crash();
    house.start();
    assert_eq!(unlock(&house, PASSPHRASE), Ok(()));
    wait::until_true(wait::LIMIT, "peace", || house.alarms().is_empty());
    house.check_peace();
}
