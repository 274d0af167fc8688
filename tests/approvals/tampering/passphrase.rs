//! The digest of the passphrase, and the count of wrong ones.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use dryoc::classic::crypto_pwhash::{PasswordHashAlgorithm, crypto_pwhash};
use dryoc::classic::crypto_sign::crypto_sign_seed_keypair;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hostel_tests::wait;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::attacker::hex;
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

/// What the attacker would like to be allowed.
const ALLOWING: &str = "\n[[approvals.rules]]\nname = \"all\"\naction = \"allow\"\nargv = [\"true\"]\n";

fn set_row(house: &House, digest: &str) {
    house.sql(&format!("UPDATE approver SET digest = '{0}', previous = '{0}'", digest.trim()));
}

fn append_rule(house: &House) {
    let settings = house.home().join("hostel.toml");
    let before = fs::read_to_string(&settings).expect("settings");
    fs::write(&settings, before + ALLOWING).expect("the settings can be written");
}

/// After an attack that appended records: nobody has become the approver, nothing is allowed unasked, the record says so,
/// and the approver puts it right.
fn check_that_nothing_was_gained(house: &House) {
    assert_eq!(house.native().ask("approver/status", json!({}))["set"], true, "the passphrase is gone");
    // Right after a lost key one wrong passphrase leads to a pause, so the approver comes first.
    let told = unlock(house, PASSPHRASE).expect_err("the stored digest does not count");
    assert!(told.contains("hostel approver set"), "{told}");
    assert!(unlock(house, OTHER).is_err(), "the attacker's passphrase is taken");
    for more in [json!({}), json!({"old": OTHER})] {
        let mut params = json!({"passphrase": OTHER});
        params.as_object_mut().expect("members").extend(more.as_object().expect("members").clone());
        let set = house.native().call("approver/set", params);
        assert!(set["error"].is_object(), "the attacker sets a passphrase: {set}");
    }
    let asked = house.ask_run("by-rule", &["true"]);
    house.waiting(1);
    assert!(!asked.is_answered(), "it ran by a rule that nobody confirmed");
    assert!(approver_tampered(house) && !house.alarms().is_empty());
    let (broken, segments) = house.verify();
    let what = broken["what"].as_str().unwrap_or_default();
    assert!(what.contains("not signed with the passphrase"), "{broken} {segments}");
    assert_ne!(house.hostel(&["audit", "verify"]).code, 0);
    // Nor does another restart help, with the key that this one has left or without.
    house.crash();
    house.start();
    assert!(unlock(house, OTHER).is_err(), "the attacker's passphrase is taken");
    house.native().ask("approver/set", json!({"passphrase": PASSPHRASE, "old": PASSPHRASE}));
    assert_eq!(unlock(house, PASSPHRASE), Ok(()));
    house.lose_key(|_| {});
    assert_eq!(unlock(house, PASSPHRASE), Ok(()), "the approver has gone on from there");
    assert!(unlock(house, OTHER).is_err());
}

#[test]
fn a_passphrase_is_not_removed_by_a_record_that_somebody_appended() {
    let house = endorsed_house();
    house.lose_key(|house| {
        house.append_segment(&[("approver_cleared", &|_, _| json!({"who": "me"}))]);
        house.sql("UPDATE approver SET digest = NULL, previous = NULL");
        fs::remove_file(house.home().join("approver")).expect("the file is there");
        append_rule(house);
    });
    check_that_nothing_was_gained(&house);
}

#[test]
fn a_passphrase_is_not_set_by_records_that_somebody_appended() {
    let attackers = House::up();
    attackers.native().ask("approver/set", json!({"passphrase": OTHER}));
    let digest = fs::read_to_string(attackers.home().join("approver")).expect("a digest");
    let theirs = attackers.records().into_iter().find(|record| record["kind"] == "approver_set").expect("a record");
    for body in [json!({"who": "me"}), theirs["body"].clone()] {
        let house = endorsed_house();
        house.lose_key(|house| {
            let cleared = |_: i64, _: &[u8; 32]| json!({"who": "me"});
            let set = |_: i64, _: &[u8; 32]| body.clone();
            house.append_segment(&[("approver_cleared", &cleared), ("approver_set", &set)]);
            replace_file(house, &digest);
            set_row(house, &digest);
            append_rule(house);
        });
        check_that_nothing_was_gained(&house);
    }
}

/// An endorsement of a segment with the attacker's passphrase, as the house makes them; with a key and a signature, as this
/// version makes them, or without, as earlier ones did.
fn own_endorsement(first: i64, public: &[u8; 32], has_key: bool) -> Value {
    let (salt, memory, passes) = ([5; 16], 8192, 1);
    let mut key = [0; 32];
    crypto_pwhash(&mut key, OTHER.as_bytes(), &salt, passes, memory, PasswordHashAlgorithm::Argon2id13).expect("a key");
    let mac = |parts: &[&[u8]]| -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length");
        for part in [b"hostel endorsement 1".as_slice()].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    };
    let about = [hex(public), hex(&Sha256::digest("settings"))];
    let proof = mac(&[b"approver", &first.to_le_bytes(), about[0].as_bytes(), about[1].as_bytes()]);
    let proof = json!({"salt": hex(&salt), "memory": memory, "passes": passes, "about": about, "mac": hex(&proof)});
    let mut body = json!({"segment": first, "proof": proof});
    if has_key {
        let (signs, _) = crypto_sign_seed_keypair(&mac(&[b"signatures of the approver"]));
        body["key"] = json!({"salt": hex(&salt), "memory": memory, "passes": passes, "public": hex(&signs)});
        body["signature"] = json!(hex(&[1; 64]));
    }
    body
}

#[test]
fn a_passphrase_is_not_endorsed_by_a_record_that_somebody_appended() {
    let attackers = House::up();
    attackers.native().ask("approver/set", json!({"passphrase": OTHER}));
    let digest = fs::read_to_string(attackers.home().join("approver")).expect("a digest");
    for has_key in [false, true] {
        let house = endorsed_house();
        house.lose_key(|house| {
            house.append_segment(&[("endorsed", &|first, public| own_endorsement(first, public, has_key))]);
            replace_file(house, &digest);
            set_row(house, &digest);
            append_rule(house);
        });
        check_that_nothing_was_gained(&house);
    }
}

/// The approver changes and removes the passphrase, and the key is lost after each change.
#[test]
fn control_changes_of_the_passphrase_count_after_lost_keys() {
    const THIRD: &str = "a third passphrase";
    let house = House::guarded();
    let lose = |right: &str, wrong: &str| {
        house.lose_key(|_| {});
        assert_eq!(unlock(&house, right), Ok(()));
        assert!(unlock(&house, wrong).is_err(), "{wrong} is taken");
        assert_eq!(unlock(&house, right), Ok(()));
    };
    // Before the endorsement, which is written in the background, and after it.
    lose(PASSPHRASE, OTHER);
    wait::until_true(wait::LIMIT, "an endorsement", || house.kinds().contains(&"endorsed".to_owned()));
    lose(PASSPHRASE, OTHER);
    house.native().ask("approver/set", json!({"passphrase": OTHER, "old": PASSPHRASE}));
    lose(OTHER, PASSPHRASE);
    house.native().ask("approver/clear", json!({"passphrase": OTHER}));
    house.lose_key(|_| {});
    assert_eq!(house.native().ask("approver/status", json!({}))["set"], false);
    house.native().ask("approver/set", json!({"passphrase": THIRD}));
    lose(THIRD, OTHER);
    // The keeper dies while the daemon lives, which seals everything anew.
    house.kill_keeper();
    wait::until_true(wait::LIMIT, "another key", || {
        house.alarms().iter().any(|alarm| alarm.starts_with("the keeper died"))
    });
    house.native().ask("approver/set", json!({"passphrase": PASSPHRASE, "old": THIRD}));
    house.native().ask("approver/confirm", json!({"passphrase": PASSPHRASE}));
    lose(PASSPHRASE, THIRD);
    assert!(!house.kinds().iter().any(|kind| kind == "tampered"), "{:?}", house.records());
    assert_eq!(house.verify().0, Value::Null);
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
