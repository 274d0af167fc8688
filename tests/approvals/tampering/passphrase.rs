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
