//! Journals that take room, that are damaged, and commands that wait for room.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use crate::common;

use std::io::BufRead as _;
use std::io::BufReader;
use std::process::Stdio;

use common::House;

#[test]
fn space_is_shown_and_given_back() {
    let house = House::up();
    house.hostel(["run", "--name", "talker", "--", "sh", "-c", "head -c 100000 /dev/zero"]);
    let usage = house.json(["--json", "df"]);
    assert!(usage["houses"][0]["usage"]["bytes"].as_u64().unwrap() >= 100_000);
    assert!(house.hostel(["df"]).out.contains("talker"));
    let would = house.hostel(["gc", "--dry-run", "--all"]).out;
    assert!(would.contains("1 journal would be removed, 1"), "{would}");
    assert!(house.hostel(["gc"]).out.ends_with("0 journals removed, 0 B\n"));
    let refused = house.hostel(["gc", "--all"]);
    assert!(refused.err.contains("there is nobody to ask whether 1 journal may go"), "{}", refused.err);
    assert!(refused.err.contains("--yes"), "{}", refused.err);
    let removed = house.hostel(["gc", "--all", "--yes"]).out;
    assert_eq!(removed, would.replace("would be removed", "removed"));
    assert_eq!(house.json(["--json", "ps", "-a"])["processes"].as_array().unwrap().len(), 0);
}

#[test]
fn a_damaged_journal_is_named_and_kept() {
    let house = House::up();
    house.hostel(["run", "--name", "talker", "--", "sh", "-c", "echo hello"]);
    let whole = house.hostel(["journal", "verify"]);
    assert_eq!((whole.code, whole.out.as_str()), (0, "1 journal, 3 records: 0 damaged\n"), "{whole:?}");
    let id = house.json(["--json", "ps", "-a"])["processes"][0]["id"].as_str().unwrap().to_owned();
    let file = house.home().join("journal").join(format!("{id}.j"));
    let bytes = std::fs::read(&file).unwrap();

    // What was printed: only its checksum tells.
    let at = bytes.windows(6).position(|window| window == b"hello\n").unwrap();
    let mut damaged = bytes.clone();
    damaged[at] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let found = house.hostel(["journal", "verify", &id]);
    assert_eq!(found.code, 1, "{found:?}");
    assert!(found.out.contains("payload does not fit its checksum"), "{found:?}");
    assert!(found.out.ends_with("1 journal, 3 records: 1 damaged\n"), "{found:?}");

    // What names the process: a daemon that starts cannot read it, says so, and keeps it.
    let mut damaged = bytes;
    damaged[70] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    house.hostel(["down"]);
    let up = house.hostel(["up"]);
    assert_eq!(up.code, 0, "{up:?}");
    assert!(up.out.contains("1 journal cannot be read; nothing of it was removed"), "{up:?}");
    let doctor = house.hostel(["doctor"]);
    assert!(doctor.out.contains("cannot be read"), "{doctor:?}");
    let kept: Vec<_> =
        std::fs::read_dir(house.home().join("journal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(kept.iter().any(|path| std::fs::read(path).unwrap() == damaged), "{kept:?}");
}

#[test]
fn a_command_that_waits_for_room_says_so_and_can_be_killed() {
    let house = House::new();
    let up = house.hostel(["up", "--set", "journal.quota=4MiB"]);
    assert_eq!(up.code, 0, "{up:?}");
    let mut run = house.command();
    run.args(["run", "--name", "endless", "--", "yes"]);
    let mut run = run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // One process may have a quarter of the quota.
    let mut told = String::new();
    let mut stderr = BufReader::new(run.stderr.take().unwrap());
    stderr.read_line(&mut told).unwrap();
    assert!(told.contains("is held and waits: a quota of the journals is used up"), "{told}");
    assert!(told.contains("hostel gc"), "{told}");
    assert!(house.hostel(["ps"]).out.contains("held"));
    assert_eq!(house.hostel(["df"]).code, 0);
    assert!(house.hostel(["doctor"]).out.contains("wait for room in the journal"));
    assert_eq!(house.hostel(["kill", "-s", "KILL", "endless"]).code, 0);
    assert_eq!(run.wait().unwrap().code(), Some(137));
    assert_eq!(house.hostel(["run", "--", "echo", "hello"]).out, "hello\n");
}
