//! A full disk under the journal: the child is held back, nothing is dropped, and it goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hostel_tests::client::Trouble;
use hostel_tests::frames::{Payload, Transcript};
use hostel_tests::house::{self, House, Options, path_text};
use hostel_tests::wait;

/// A small file system of its own, unmounted at the end.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn mount(path: &Path, size: &str) -> Result<Self, String> {
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"])
            .arg(path)
            .output()
            .map_err(|error| format!("mount cannot be run ({error})"))?;
        if output.status.success() {
            return Ok(Self { path: path.to_path_buf() });
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a keeper that is just being killed may still have a file open.
        let status = Command::new("umount").arg("-l").arg(&self.path).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot unmount {}", self.path.display());
    }
}

/// A house whose journal lies on a disk of this size; nothing where mounting is not allowed.
fn house_on_small_disk(size: &str) -> Option<(House, SmallDisk)> {
    // The first daemon makes the house's directory and shows its name.
    let mut house = House::start();
    let keeper = house.keeper();
    house.stop();
    keeper.signal(rustix::process::Signal::KILL);
    keeper.wait_gone(wait::LIMIT);
    let journal = house.house_directory().join("journal");
    match SmallDisk::mount(&journal, size) {
        Ok(disk) => {
            house.serve();
            Some((house, disk))
        }
        Err(reason) => {
            eprintln!("\n==== SKIPPED: the full-disk test needs a tmpfs and cannot mount one: {reason} ====\n");
            None
        }
    }
}

/// The state `hostel ps` tells of a process.
fn state_of(house: &House, name: &str) -> String {
    let output = house::run(house.hostel(&["ps", "-a", "--json"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "hostel ps --json: {}{text}", String::from_utf8_lossy(&output.stderr));
    find_state(&serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")), name)
        .unwrap_or_else(|| panic!("hostel ps --json does not list {name}: {text}"))
}

fn find_state(value: &serde_json::Value, name: &str) -> Option<String> {
    if value["name"] == name
        && let Some(state) = value["state"].as_str()
    {
        return Some(state.to_owned());
    }
    match value {
        serde_json::Value::Array(items) => items.iter().find_map(|item| find_state(item, name)),
        serde_json::Value::Object(members) => members.values().find_map(|member| find_state(member, name)),
        _ => None,
    }
}

#[test]
fn a_full_disk_holds_the_child_and_loses_nothing() {
    let Some((house, disk)) = house_on_small_disk("64m") else { return };
    let filler = disk.path.join("filler");
    fs::write(&filler, vec![0_u8; 56 << 20]).expect("the disk takes the filler");
    let mut client = house.connect();
    let total: u64 = 24 << 20;
    let progress = house.path().join("progress");
    client.spawn_child("flood", &["numbers", &total.to_string(), path_text(&progress)]);
    let mut transcript = Transcript::default();
    // Frames come until the disk is full, and then no more.
    loop {
        match client.try_frame_of("flood", Duration::from_secs(3)) {
            Ok(frame) => transcript.push(&frame),
            Err(Trouble::Late(_)) => break,
            Err(Trouble::Closed) => panic!("the connection was closed"),
        }
    }
    assert!(transcript.exit.is_none(), "24 MiB went onto a disk with 8 MiB free");
    assert!((transcript.stdout.len() as u64) < total);
    let printed = || fs::read_to_string(&progress).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let stuck = printed();
    assert!(stuck < total, "the child was not held back");
    assert_eq!(state_of(&house, "flood"), "held");
    // Everything else goes on.
    assert_eq!(client.ask("server.ping", "{}"), r#"{"pong":true}"#);
    let mut other = house.connect();
    other.reattach("flood", 0);
    let mut replay = Transcript::default();
    other.follow_until("flood", &mut replay, |so_far| so_far.last_seq == transcript.last_seq);
    assert!(replay.stdout == transcript.stdout, "the replay of a full disk differs");
    assert_eq!(printed(), stuck, "the child went on although the disk is full");

    fs::remove_file(&filler).expect("space returns");
    client.follow_until("flood", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!((transcript.stdout.len() as u64, transcript.exit), (total, Some(0)));
    for (number, word) in transcript.stdout.chunks_exact(8).enumerate() {
        assert_eq!(u64::from_le_bytes(word.try_into().expect("eight bytes")), number as u64);
    }
    other.follow_until("flood", &mut replay, |so_far| so_far.exit.is_some());
    assert!(replay.stdout == transcript.stdout);
}

#[test]
fn a_daemon_killed_while_the_disk_is_full_changes_nothing() {
    let Some((mut house, disk)) = house_on_small_disk("32m") else { return };
    let filler = disk.path.join("filler");
    fs::write(&filler, vec![0_u8; 28 << 20]).expect("the disk takes the filler");
    let mut client = house.connect();
    let total: u64 = 12 << 20;
    client.spawn_child("flood", &["numbers", &total.to_string()]);
    wait::until_true(wait::LIMIT, "the child to be held", || state_of(&house, "flood") == "held");
    house.kill();
    house.serve();
    let mut client = house.connect();
    assert_eq!(state_of(&house, "flood"), "held");
    assert!(client.reattach("flood", u64::MAX).contains(r#""running":true"#));
    // A held child can be killed, and what it had said is still there.
    let mut second = house.connect();
    second.spawn("after", "true", &[]);
    fs::remove_file(&filler).expect("space returns");
    let mut reader = house.connect();
    reader.begin("process.reattach", r#"{"id":"flood","fromSeq":0}"#);
    let mut bytes = 0_u64;
    let mut seq = 0;
    loop {
        let frame =
            reader.try_frame_of("flood", wait::LIMIT).unwrap_or_else(|trouble| panic!("{trouble} after {bytes} bytes"));
        seq += 1;
        assert_eq!(frame.seq, seq);
        match frame.payload {
            Payload::Output(_, data) => bytes += data.len() as u64,
            Payload::Exit(code) => {
                assert_eq!((code, bytes), (0, total));
                break;
            }
        }
    }
    assert_eq!(second.follow("after").exit, Some(0));
}

#[test]
fn a_held_child_can_be_killed() {
    let Some((house, disk)) = house_on_small_disk("16m") else { return };
    let filler = disk.path.join("filler");
    fs::write(&filler, vec![0_u8; 14 << 20]).expect("the disk takes the filler");
    let mut client = house.connect();
    client.spawn_child("flood", &["numbers", &(64_u64 << 20).to_string()]);
    wait::until_true(wait::LIMIT, "the child to be held", || state_of(&house, "flood") == "held");
    let mut killer = house.connect();
    let result = killer.ask("process.killAndWait", r#"{"id":"flood","signal":"KILL","timeoutMs":5000}"#);
    assert!(result.starts_with(r#"{"found":true,"died":"#), "{result}");
    fs::remove_file(&filler).expect("space returns");
    let mut transcript = Transcript::default();
    client.follow_until("flood", &mut transcript, |so_far| so_far.exit.is_some());
    assert_eq!(transcript.exit, Some(-1));
    for (number, word) in transcript.stdout.chunks_exact(8).enumerate() {
        assert_eq!(u64::from_le_bytes(word.try_into().expect("eight bytes")), number as u64);
    }
}

#[test]
fn a_house_can_be_prepared_for_the_small_disk() {
    // Where mounting is forbidden the tests above say so and pass; this one shows that the rest of
    // their way (stop, find the directory, start again) works in any case.
    let mut house = House::start_with(Options::default());
    house.stop();
    assert!(house.house_directory().join("journal").is_dir());
    house.serve();
    assert_eq!(house.connect().ask("server.ping", "{}"), r#"{"pong":true}"#);
}
