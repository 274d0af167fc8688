//! A full or slow disk under the database: what cannot be kept is refused, and what was taken is there when space
//! returns.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use hostel_tests::procfs::Identity;
use hostel_tests::wait;
use serde_json::json;

use super::events;
use super::native::Trouble;
use super::resident::{GRACE, Resident};

/// A small file system of its own.
pub(crate) struct SmallDisk {
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

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Takes every page there is.
    pub(crate) fn fill(&self) {
        let mut file = File::create(self.filler()).expect("a file");
        for size in [1 << 20, 4096] {
            let block = vec![0; size];
            while file.write_all(&block).is_ok() {}
        }
    }

    pub(crate) fn empty(&self) {
        fs::remove_file(self.filler()).expect("space returns");
    }
}

/// A house on a small disk: its processes end before the disk is unmounted, its directory goes after that.
pub(crate) struct Cramped {
    pub(crate) house: Resident,
    pub(crate) disk: SmallDisk,
}

impl Drop for Cramped {
    fn drop(&mut self) {
        self.house.end();
        // Lazily: a process that is just being killed may still have a file open.
        let status = Command::new("umount").arg("-l").arg(&self.disk.path).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot unmount {}", self.disk.path.display());
    }
}

/// A house whose database, but not its journal, lies on a small disk; nothing where mounting is not allowed.
pub(crate) fn house_on_small_disk(settings: &str) -> Option<Cramped> {
    let house = Resident::prepare(settings);
    let journal = house.path().join("journal");
    let settings = house.home().join("hostel.toml");
    let text = fs::read_to_string(&settings).expect("the settings");
    match SmallDisk::mount(&house.home(), "24m") {
        Ok(disk) => {
            let more = format!("[journal]\ndir = \"{}\"\n", journal.display());
            let mut cramped = Cramped { house, disk };
            fs::write(&settings, text + &more).expect("the settings again");
            cramped.house.serve();
            Some(cramped)
        }
        Err(reason) => {
            eprintln!("\n==== SKIPPED: the full-disk test needs a tmpfs and cannot mount one: {reason} ====\n");
            None
        }
    }
}

#[test]
fn a_full_disk_refuses_what_it_cannot_keep_and_loses_nothing_it_took() {
    let Some(mut cramped) = house_on_small_disk("") else { return };
    let Cramped { house, disk } = &mut cramped;
    let mut native = house.native();
    let (work, pieces) = (house.work(), 400);
    let id = native.make(json!({"agent_alias": "claude", "cwd": work}));
    let cast = house.cast().make(&json!({"path": work}));
    native.prompt(&id, "say warm");
    // A turn runs and another waits when the disk fills up.
    native.send(&id, &format!("slow {pieces} 10"));
    native.send(&id, "say queued before");
    native.attach(&id, 0, true).expect("a session to attach to");
    native.update_of("turn_complete");
    native.update_of("agent_message_chunk");
    disk.fill();

    let mut other = house.native();
    let no_room = |trouble: Result<serde_json::Value, Trouble>| match trouble {
        Err(Trouble::Refused(_, message)) => assert!(message.contains("state.db"), "{message}"),
        other => panic!("it was taken: {other:?}"),
    };
    // A few pages may be free within the database: something may still fit, but not for ever.
    let mut made = Vec::new();
    let refused = loop {
        match other.call("session/new", json!({"agent_alias": "echo", "cwd": work})) {
            Ok(new) => made.push(new["session_id"].as_str().expect("an id").to_owned()),
            refused => break refused,
        }
        assert!(made.len() < 5000, "a full disk takes whatever comes");
    };
    no_room(refused);
    let long = format!("say {}", "x".repeat(100_000));
    no_room(other.call("session/send", json!({"session_id": id, "prompt": long})));
    let refused = house.cast().call("session.create", &json!({"path": work})).expect_err("there is no room");
    assert!(refused.to_string().contains("state.db"), "{refused}");
    let events = house.cast().turn(&cast, &long);
    assert!(events.len() == 1 && events[0]["type"] == "error", "{events:?}");
    // Reading goes on.
    assert_eq!(other.listed(&id).expect("the list")["agent_alias"], "claude");

    // A daemon that dies now finds everything it had taken.
    house.kill();
    disk.empty();
    house.serve();
    let mut native = house.native().patient(Duration::from_secs(60));
    let turns = events::turns_of(&mut native, &id);
    let prompts: Vec<&str> = turns.iter().map(|turn| turn.prompt.as_str()).collect();
    assert_eq!(prompts, ["say warm", &format!("slow {pieces} 10"), "say queued before"]);
    let expected: Vec<String> = (0..pieces).map(|number| format!("{number} ")).collect();
    assert_eq!(turns[1].pieces, expected);
    assert!(turns.iter().all(|turn| turn.outcome == "completed"), "{turns:?}");
    for id in &made {
        assert_eq!(native.listed(id).expect("a session that was made is there")["turns"], 0);
    }
    assert_eq!(native.prompt(&id, "say at last")["content"], "at last");
    assert_eq!(house.cli_prompts().iter().filter(|prompt| prompt.contains("xxx")).count(), 0, "a refused prompt ran");
}

#[test]
fn a_turn_outlasts_a_full_disk_without_a_restart() {
    let Some(Cramped { house, disk }) = &house_on_small_disk("") else { return };
    let mut native = house.native().patient(Duration::from_secs(60));
    let id = native.make(json!({"agent_alias": "gemini", "cwd": house.work()}));
    native.send(&id, "slow 100 10");
    native.send(&id, "stream 30000");
    native.send(&id, "say the last");
    native.attach(&id, 0, true).expect("a session to attach to");
    native.update_of("agent_message_chunk");
    disk.fill();
    // The first turn cannot be ended on disk: others see that nothing moves, and no other session suffers for it.
    wait::until_true(wait::LIMIT, "the agent to be done", || house.cli_log().iter().any(|line| line["event"] == "end"));
    assert_eq!(house.native().ask("session/list", json!({}))["sessions"].as_array().map(Vec::len), Some(1));
    disk.empty();
    let ended: Vec<_> = (1..=3).map(|turn| native.ended(turn)).collect();
    assert!(ended.iter().all(|end| end["outcome"] == "completed"), "{ended:?}");
    let turns = events::turns_of(&mut native, &id);
    for (turn, count) in turns.iter().zip([100, 30_000]) {
        let expected: Vec<String> = (0..count).map(|number| format!("{number} ")).collect();
        assert!(turn.pieces == expected, "{} pieces, {count} were said", turn.pieces.len());
    }
    assert_eq!(turns[2].text, "the last");
}

/// The agents are long gone when the disk takes their words at last: they are heard to the end all the same.
#[test]
fn a_disk_that_holds_everybody_up_costs_no_answer() {
    let house = Resident::start();
    let mut native = house.native().patient(Duration::from_secs(60));
    // More than may be on its way to the disk at once, so that the rest is still unread when the process is gone.
    let prompt = format!("sleep 1\n{}say the last", "bigline 600000\n".repeat(6));
    let ids: Vec<String> = (0..3).map(|_| house.cast().make(&json!({"path": house.work()}))).collect();
    let mut agents = Vec::new();
    for id in &ids {
        native.send(id, &prompt);
        let pid = wait::until(wait::LIMIT, "the agent to run", || native.listed(id).ok()?["pid"].as_i64());
        agents.extend(i32::try_from(pid).ok().and_then(Identity::of));
    }
    let mut database = rusqlite::Connection::open(house.home().join("state.db")).expect("the database");
    database.busy_timeout(wait::LIMIT).expect("a setting");
    let slow = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).expect("the lock");
    for agent in agents {
        agent.wait_gone(wait::LIMIT);
    }
    // That much time has to pass: longer than a process that is gone has for its last words.
    thread::sleep(GRACE * 2);
    drop(slow);
    for id in &ids {
        native.attach(id, 0, true).expect("a session to attach to");
        let ended = native.ended(1);
        assert_eq!(ended["outcome"], "completed", "{ended}");
        let turns = events::turns_of(&mut native, id);
        let lengths: Vec<usize> = turns[0].texts.iter().map(String::len).filter(|length| *length == 600_000).collect();
        assert_eq!(lengths.len(), 6, "long answers of {id}");
        assert!(turns[0].text.ends_with("the last") || turns[0].texts.concat().ends_with("the last"));
    }
}
