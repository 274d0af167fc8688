//! CLIs that misbehave, through both doors: what went wrong is said, and the session can be used again.

use std::fs;
use std::time::{Duration, Instant};

use hostel_tests::procfs::{self, Identity};
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::events::{self, Turn};
use super::native::Trouble;
use super::resident::{GRACE, Resident};

const CLIS: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// A session of either door.
struct Guest {
    id: String,
    agent: &'static str,
    /// Through codecast, with a process for each message; else through zeroclaw, with a warm one.
    by_message: bool,
}

/// What a client was told of a turn.
struct Told {
    /// What went wrong, in all that was said.
    errors: Vec<String>,
    turn: Turn,
}

impl Guest {
    fn name(&self) -> String {
        format!("{} {}", self.agent, if self.by_message { "by message" } else { "warm" })
    }

    /// A turn, as the door's own client sees it, and as it is kept.
    fn turn(&self, house: &Resident, prompt: &str) -> Told {
        let mut errors = Vec::new();
        if self.by_message {
            let events = house.cast().turn(&self.id, prompt);
            assert_eq!(events[0]["type"], "ping", "{}", self.name());
            let told = events.iter().filter(|event| event["type"] == "error");
            errors.extend(told.map(|event| event["message"].as_str().unwrap_or_default().to_owned()));
        } else {
            let mut peer = house.zeroclaw().patient(Duration::from_secs(60));
            match peer.call("session/prompt", json!({"session_id": self.id, "prompt": prompt})) {
                Ok(_) => {}
                Err(Trouble::Refused(_, message)) => errors.push(message),
                Err(trouble) => panic!("{}: {prompt}: {trouble}", self.name()),
            }
        }
        let turns = events::turns_of(&mut house.native(), &self.id);
        Told { errors, turn: turns.into_iter().next_back().expect("a turn") }
    }

    /// The session can be used.
    fn works(&self, house: &Resident) {
        let told = self.turn(house, "say all is well");
        assert_eq!((told.turn.outcome.as_str(), told.errors.len()), ("completed", 0), "{}", self.name());
        assert_eq!(told.turn.text, "all is well", "{}", self.name());
    }
}

/// Sessions with every CLI through both doors.
fn guests(house: &Resident, clis: &[&'static str]) -> Vec<Guest> {
    let work = house.work();
    let mut peer = house.zeroclaw();
    let mut guests = Vec::new();
    for &agent in clis {
        let id = house.cast().make(&json!({"path": work, "cli_type": agent}));
        guests.push(Guest { id, agent, by_message: true });
        let id = peer.make(json!({"agent_alias": agent, "cwd": work}));
        guests.push(Guest { id, agent, by_message: false });
    }
    guests
}

#[test]
fn a_cli_that_dies_is_told_with_its_reason() {
    let house = Resident::start();
    for guest in guests(&house, &CLIS) {
        for (prompt, reason) in [
            ("crash 3", "(code=3, signal=null)"),
            ("crash -9", "killed by signal 9 (SIGKILL)"),
            ("stderr no credit is left", "no credit is left"),
        ] {
            let told = guest.turn(&house, prompt);
            assert_eq!(told.turn.outcome, "failed", "{}: {prompt}: {:?}", guest.name(), told.turn);
            assert!(told.turn.text.contains(reason), "{}: {prompt}: {:?}", guest.name(), told.turn.text);
            let whole = told.errors.iter().any(|error| error.contains(reason));
            assert!(whole, "{}: {prompt}: the client was told {:?}", guest.name(), told.errors);
            guest.works(&house);
        }
    }
}

#[test]
fn garbage_and_bytes_that_are_no_text_disturb_nobody() {
    let house = Resident::start();
    for guest in guests(&house, &CLIS) {
        let told = guest.turn(&house, "say before\ngarbage\nsay after");
        assert_eq!(told.turn.outcome, "completed", "{}: {:?}", guest.name(), told.turn);
        let said = told.turn.pieces.concat() + &told.turn.texts.concat();
        for part in ["before", "after the garbage", "after"] {
            assert!(said.contains(part), "{}: {said:?}", guest.name());
        }
        assert_eq!(told.errors, [""; 0], "{}", guest.name());
        guest.works(&house);
    }
}

#[test]
fn a_line_without_end_is_passed_over_and_said() {
    let house = Resident::start();
    for guest in guests(&house, &["claude", "gemini"]) {
        let before = procfs::resident(house.daemon().pid);
        let told = guest.turn(&house, "say before\nbigline 50000000\nsay after");
        let after = procfs::resident(house.daemon().pid);
        assert_eq!(told.turn.outcome, "completed", "{}: {:.300}", guest.name(), told.turn.text);
        let said = told.turn.pieces.concat();
        assert!(said.starts_with("before") && said.ends_with("big line doneafter"), "{}: {said:?}", guest.name());
        let errors = told.turn.errors();
        assert_eq!(errors.len(), 1, "{}: {errors:?}", guest.name());
        assert!(errors[0].contains("a line of 50000") && errors[0].contains("passed over"), "{}", errors[0]);
        eprintln!("{}: {} MiB before the line, {} MiB after", guest.name(), before >> 20, after >> 20);
        assert!(after < before + (48 << 20), "{}: the line's memory was kept: {before} → {after}", guest.name());
        guest.works(&house);
    }
}

#[test]
fn a_line_that_is_long_but_allowed_arrives_whole() {
    let house = Resident::start();
    for guest in guests(&house, &["claude", "codex"]) {
        let told = guest.turn(&house, "bigline 4000000");
        assert_eq!(told.turn.outcome, "completed", "{}: {:.300}", guest.name(), told.turn.text);
        let longest = told.turn.texts.iter().chain(&told.turn.pieces).map(String::len).max();
        assert_eq!(longest, Some(4_000_000), "{}", guest.name());
        guest.works(&house);
    }
}

#[test]
fn a_cli_that_hangs_is_killed_and_holds_nobody_up() {
    let house = Resident::start();
    let guests = guests(&house, &CLIS);
    let mut native = house.native();
    let other = native.make(json!({"agent_alias": "echo", "cwd": house.work()}));
    native.prompt(&other, "warm up");
    let mut processes = Vec::new();
    for guest in &guests {
        native.send(&guest.id, "hang");
    }
    for guest in &guests {
        let pid = wait::until(wait::LIMIT, "the agent to hang", || {
            let listed = native.listed(&guest.id).ok()?;
            let pid = listed["pid"].as_i64()?;
            // The played CLI has become a shell that sleeps.
            procfs::command_line(i32::try_from(pid).ok()?).starts_with("sleep").then_some(pid)
        });
        processes.extend(Identity::of(i32::try_from(pid).expect("a pid")));
    }
    let since = Instant::now();
    for guest in &guests {
        let interrupted = house.cast().call("session.interrupt", &json!({"sessionId": guest.id})).expect("an answer");
        assert_eq!(interrupted, json!({"interrupted": true, "ok": true}));
    }
    let mut turns = 0;
    while since.elapsed() < GRACE * 2 {
        assert_eq!(native.prompt(&other, "quick")["content"], "echo: quick");
        house.cast().call("health.check", &json!({})).expect("an answer");
        turns += 1;
    }
    eprintln!("while {} agents were being killed another session had {turns} turns", guests.len());
    // Each that waited for one of them would take a grace at least.
    assert!(turns > 3, "another session waited");
    for process in processes {
        process.wait_gone((GRACE * 3).saturating_sub(since.elapsed()) + Duration::from_secs(5));
    }
    for guest in &guests {
        let told = events::turns_of(&mut native, &guest.id);
        assert_eq!(told[0].outcome, "cancelled", "{}", guest.name());
        guest.works(&house);
    }
}

#[test]
fn a_cli_that_lives_on_after_its_last_word_is_ended() {
    let house = Resident::start();
    let mut native = house.native();
    // Each message has its own process, so this one has no business any more.
    let id = house.cast().make(&json!({"path": house.work()}));
    let since = Instant::now();
    let events = house.cast().turn(&id, "lingering");
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert!(!kinds.contains(&"error") && kinds.contains(&"result"), "{kinds:?}");
    assert!(since.elapsed() < Duration::from_secs(30), "the stream ended after {:?}", since.elapsed());
    assert_eq!(events::turns_of(&mut native, &id)[0].outcome, "completed");
    house.wait_empty();
}

#[test]
fn a_cli_that_goes_mute_can_be_stopped() {
    let house = Resident::start();
    for guest in guests(&house, &CLIS) {
        let mut native = house.native();
        native.send(&guest.id, "lingering mute");
        native.attach(&guest.id, 0, true).expect("a session to attach to");
        wait::until_true(wait::LIMIT, "the agent to go mute", || {
            let pid = native.listed(&guest.id).ok().and_then(|listed| listed["pid"].as_i64()).unwrap_or(0);
            procfs::link(i32::try_from(pid).unwrap_or(0), "fd/1").is_some_and(|file| file.ends_with("null"))
        });
        let since = Instant::now();
        native.ask("session/cancel", json!({"session_id": guest.id}));
        let ended = native.ended(1);
        assert_eq!(ended["outcome"], "cancelled", "{}: {ended}", guest.name());
        assert!(since.elapsed() < GRACE * 10, "{}: it took {:?}", guest.name(), since.elapsed());
        guest.works(&house);
    }
}

#[test]
fn a_grandchild_that_holds_the_output_delays_little_and_is_found() {
    let house = Resident::start();
    let mut native = house.native();
    for guest in guests(&house, &["claude", "gemini"]) {
        let since = Instant::now();
        let told = guest.turn(&house, "grandchild");
        let took = since.elapsed();
        assert_eq!(told.turn.outcome, "completed", "{}: {:?}", guest.name(), told.turn);
        let said = told.turn.pieces.concat();
        let pid = said.strip_prefix("grandchild ").and_then(|pid| pid.parse().ok());
        let grandchild = Identity::of(pid.unwrap_or_else(|| panic!("{said:?}"))).expect("it runs");
        assert!(took < Duration::from_secs(20), "{}: the turn took {took:?}", guest.name());
        guest.works(&house);
        native.ask("session/close", json!({"session_id": guest.id}));
        // What the process of an earlier message has left behind is not looked for.
        if guest.by_message {
            grandchild.signal(Signal::KILL);
        }
        grandchild.wait_gone(wait::LIMIT);
    }
    house.wait_empty();
}

#[test]
fn a_directory_that_is_gone_is_named() {
    let house = Resident::start();
    let project = house.work().join("project");
    fs::create_dir(&project).expect("a directory");
    let name = project.display().to_string();
    let mut peer = house.zeroclaw();
    let guests = [
        Guest { id: house.cast().make(&json!({"path": project})), agent: "claude", by_message: true },
        Guest { id: peer.make(json!({"agent_alias": "claude", "cwd": project})), agent: "claude", by_message: false },
    ];
    fs::remove_dir(&project).expect("it is empty");
    for guest in &guests {
        let told = guest.turn(&house, "say hello");
        assert_eq!(told.turn.outcome, "failed", "{}", guest.name());
        assert!(told.errors.iter().any(|error| error.contains(&name)), "{}: {:?}", guest.name(), told.errors);
    }
    fs::create_dir(&project).expect("a directory again");
    for guest in &guests {
        guest.works(&house);
    }
    // A process that runs there goes on when its directory is removed under it.
    fs::remove_dir_all(&project).expect("it can be removed");
    let warm = &guests[1];
    let told = warm.turn(&house, "say still here");
    assert_eq!(told.turn.pieces.concat(), "still here");
    // Where there is nothing to work in, no session is made.
    let refused: Value = match peer.call("session/new", json!({"agent_alias": "claude", "cwd": project})) {
        Err(Trouble::Refused(_, message)) => json!(message),
        other => panic!("{other:?}"),
    };
    assert!(refused.as_str().is_some_and(|message| message.contains(&name)), "{refused}");
    let refused = house.cast().call("session.create", &json!({"path": project})).expect_err("it is gone");
    assert!(refused.to_string().contains(&name), "{refused}");
}

#[test]
fn a_warm_process_that_dies_between_turns_is_replaced() {
    let mut house = Resident::start();
    let mut native = house.native();
    let agents = ["claude", "codex", "gemini", "opencode", "echo"];
    let ids: Vec<String> =
        agents.iter().map(|agent| native.make(json!({"agent_alias": agent, "cwd": house.work()}))).collect();
    for round in ["with a daemon", "without one", "while a turn runs without one"] {
        let mut native = house.native();
        let mut processes = Vec::new();
        for (agent, id) in agents.iter().zip(&ids) {
            assert_eq!(native.prompt(id, "say one")["outcome"], "completed", "{agent} {round}");
            processes.push(house.process_of(id));
        }
        let running = round.starts_with("while");
        for (agent, id) in agents.iter().zip(&ids).filter(|_| running) {
            native.send(id, if *agent == "echo" { "sleep 60" } else { "sleep 61" });
            native.send(id, "say two");
            native.update_of("agent_message_chunk");
        }
        if round != "with a daemon" {
            house.kill();
        }
        processes.iter().for_each(|process| process.signal(Signal::KILL));
        processes.iter().for_each(|process| process.wait_gone(wait::LIMIT));
        if round != "with a daemon" {
            house.serve();
        }
        let mut native = house.native();
        for (agent, id) in agents.iter().zip(&ids) {
            if !running {
                native.send(id, "say two");
            }
            let turns = events::turns_of(&mut native, id);
            let [.., before, last] = turns.as_slice() else { panic!("{agent}: {} turns", turns.len()) };
            assert_eq!((last.prompt.as_str(), last.outcome.as_str()), ("say two", "completed"), "{agent} {round}");
            if running {
                assert_eq!(before.outcome, "failed", "{agent}: {before:?}");
                assert!(before.text.contains("killed by signal 9"), "{agent}: {:?}", before.text);
            }
        }
    }
    let prompts = house.cli_prompts();
    assert_eq!(prompts.iter().filter(|prompt| *prompt == "say two").count(), 12, "every prompt was put once");
}
