//! A house whose database is gone: a new record begins, and that is told.

use serde_json::Value;

use crate::support::house::House;

const RULES: &str = "[[approvals.rules]]\nname = \"all\"\naction = \"allow\"\nargv = [\"sh\", \"**\"]\n";

fn alarms(house: &House) -> Vec<String> {
    let status = house.json(&["approver", "status", "--json"]);
    let alarms = status["alarms"].as_array().unwrap();
    alarms.iter().map(|alarm| alarm["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn rules_of_a_new_house_are_told_of_and_a_plain_house_is_quiet() {
    let house = House::up_with(RULES, &[]);
    let expected = "there was no state.db: a new record begins; 1 rule in hostel.toml allows without asking; \
                    no passphrase is set";
    assert_eq!(alarms(&house), [expected]);
    // It begins once.
    house.crash();
    house.start();
    assert_eq!(alarms(&house), [""; 0]);
    assert_eq!(alarms(&House::up()), [""; 0]);
}

/// The attack of the penetration test: the house forgets what was recorded and who the approver is.
#[test]
fn a_record_that_was_removed_is_missed() {
    let house = House::with_passphrase();
    assert_eq!(house.hostel(&["run", "--", "true"]).code, 0);
    assert_eq!(house.hostel(&["down"]).code, 0);
    for name in ["state.db", "state.db-wal", "state.db-shm", "approver"] {
        std::fs::remove_file(house.home().join(name)).ok();
    }
    let settings = house.home().join("hostel.toml");
    let before = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, before + RULES).unwrap();
    let up = house.hostel(&["up"]);
    assert_eq!(up.code, 0, "{up:?}");
    let missing =
        "so the record of that house is missing; 1 rule in hostel.toml allows without asking; no passphrase is set";
    assert!(up.out.contains("alarm there was no state.db: a new record begins") && up.out.contains(missing), "{up:?}");
    let up: Value = house.json(&["up", "--json"]);
    assert!(up["alarms"][0]["text"].as_str().unwrap().ends_with(missing), "{up}");
    let recorded = house.hostel(&["audit", "show"]).out;
    assert!(recorded.contains("tampered") && recorded.contains("record"), "{recorded}");
    let log = std::fs::read_to_string(house.home().join("log/daemon.log")).unwrap();
    assert!(log.contains("ALARM: there was no state.db"), "{log}");
}
