//! Very many events, and readers who do not read: memory stays bounded, nobody else waits, nothing is lost.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::procfs;
use hostel_tests::wait;
use rustix::process::Signal;
use serde_json::json;

use super::events;
use super::native::Native;
use super::resident::Resident;

/// More memory than the daemon may need for any of this, over what it needs at rest.
const ROOM: u64 = 64 << 20;

fn is_big() -> bool {
    env::var("HOSTEL_TEST_BIG").is_ok_and(|value| value == "1")
}

/// 200,000 events by default, a million with `HOSTEL_TEST_BIG=1`.
fn many() -> u64 {
    if is_big() { 1_000_000 } else { 200_000 }
}

/// How long a reader stops reading: a few seconds by default, a minute with `HOSTEL_TEST_BIG=1`.
fn pause() -> Duration {
    Duration::from_secs(if is_big() { 60 } else { 4 })
}

/// The most memory a process had while something went on.
struct Peak<'a> {
    stop: &'a AtomicBool,
    most: &'a AtomicU64,
}

impl Drop for Peak<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Watches a process's memory while `work` is done, and gives how much it grew at most.
fn growth<T>(pid: i32, work: impl FnOnce() -> T) -> (u64, T) {
    let before = procfs::resident(pid);
    let (stop, most) = (AtomicBool::new(false), AtomicU64::new(before));
    let result = thread::scope(|scope| {
        let peak = Peak { stop: &stop, most: &most };
        let (stop, most) = (peak.stop, peak.most);
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                most.fetch_max(procfs::resident(pid), Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let result = work();
        drop(peak);
        result
    });
    (most.load(Ordering::SeqCst) - before, result)
}

fn number_in(line: &[u8], name: &str) -> Option<u64> {
    let text = str::from_utf8(line).expect("lines are text");
    let (_, rest) = text.split_once(name)?;
    rest[..rest.find(|letter: char| !letter.is_ascii_digit())?].parse().ok()
}

/// Reads updates up to the end of a turn; their numbers must follow each other. Gives how many there were.
fn read_turn(native: &mut Native, first: u64, mut between: impl FnMut(u64)) -> u64 {
    let mut last = first;
    let mut count = 0;
    loop {
        let line = native.line(Instant::now() + Duration::from_secs(60)).expect("an update");
        let Some(seq) = number_in(line, r#""seq":"#) else { continue };
        assert!(seq > last, "after event {last} came {seq}");
        // Text is said in pieces and again as a whole, which is not told twice: at most one number is left out.
        assert!(seq <= last + 3, "after event {last} came {seq}");
        last = seq;
        count += 1;
        if find(line, br#""type":"turn_complete""#) {
            return count;
        }
        between(count);
    }
}

fn find(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

#[test]
fn very_many_events_with_nobody_to_read_them() {
    let house = Resident::start();
    let mut native = house.native();
    let id = native.make(json!({"agent_alias": "claude", "cwd": house.work()}));
    native.prompt(&id, "say warm");
    let before = native.listed(&id).expect("it is listed")["last_seq"].as_u64().expect("a number");
    let since = Instant::now();
    let (grown, ()) = growth(house.daemon().pid, || {
        native.send(&id, &format!("event {}", many()));
        wait::until_true(Duration::from_secs(300), "the turn to end", || {
            native.listed(&id).is_ok_and(|listed| listed["status"] == "idle")
        });
    });
    let took = since.elapsed();
    eprintln!("{} events in {took:.1?} with nobody to read them, the daemon grew by {} MiB", many(), grown >> 20);
    assert!(grown < ROOM, "the daemon grew by {} MiB", grown >> 20);
    let mut reader = house.native();
    reader.attach(&id, before, true).expect("a replay");
    let (grown, count) = growth(house.daemon().pid, || read_turn(&mut reader, before, |_| {}));
    // With the words that say how many there were, the turn's start and its end.
    assert!((many()..many() + 20).contains(&count), "{count} updates of {} events", many());
    eprintln!("the replay of {count} updates let the daemon grow by {} MiB", grown >> 20);
    assert!(grown < ROOM, "the daemon grew by {} MiB", grown >> 20);
}

#[test]
fn very_many_events_with_a_reader_who_is_slow() {
    let house = Resident::start();
    let mut native = house.native();
    let id = native.make(json!({"agent_alias": "claude", "cwd": house.work()}));
    let other = native.make(json!({"agent_alias": "echo", "cwd": house.work()}));
    native.prompt(&other, "warm up");
    let events = many() / 4;
    let (grown, (count, slowest)) = growth(house.daemon().pid, || {
        let mut reader = house.native();
        reader.attach(&id, 0, true).expect("a session to attach to");
        native.send(&id, &format!("event {events}"));
        let mut slowest = Duration::ZERO;
        let count = read_turn(&mut reader, 0, |count| {
            // Now and then it does something else for a while.
            if count % (events / 40) == 0 {
                let asked = Instant::now();
                assert_eq!(native.prompt(&other, "quick")["content"], "echo: quick");
                slowest = slowest.max(asked.elapsed());
                thread::sleep(Duration::from_millis(50));
            }
        });
        (count, slowest)
    });
    assert!((events..events + 20).contains(&count), "{count} updates of {events} events");
    eprintln!("{count} updates read slowly: the daemon grew by {} MiB, others waited {slowest:?} at most", grown >> 20);
    assert!(grown < ROOM, "the daemon grew by {} MiB", grown >> 20);
    assert!(slowest < Duration::from_secs(10), "a turn of another session took {slowest:?}");
}

#[test]
fn clients_who_stop_reading_for_a_while_lose_nothing_and_hold_up_nobody() {
    let house = Resident::start();
    let mut native = house.native();
    let pieces = 100_000_u64;
    // One client for each door, of a session each; both stop after the first pieces.
    let cast = house.cast().make(&json!({"path": house.work()}));
    let mut stream = house.cast().send(&cast, &format!("stream {pieces}")).expect("a stream");
    let mut received = Vec::new();
    while received.len() < 10 {
        let event = stream.event().expect("the stream goes on").expect("it is not over");
        received.extend(event["content"].as_str().filter(|_| event["type"] == "partial").map(str::to_owned));
    }
    let claw = native.make(json!({"agent_alias": "gemini", "cwd": house.work()}));
    let mut peer = house.zeroclaw().patient(Duration::from_secs(120));
    let prompt = peer.begin("session/prompt", json!({"session_id": claw, "prompt": format!("stream {pieces}")}));
    let prompt = prompt.expect("a request");
    peer.update().expect("a first update");

    let other = native.make(json!({"agent_alias": "echo", "cwd": house.work()}));
    native.prompt(&other, "warm up");
    let mut slowest = Duration::ZERO;
    let since = Instant::now();
    let (grown, ()) = growth(house.daemon().pid, || {
        while since.elapsed() < pause() {
            let asked = Instant::now();
            assert_eq!(native.prompt(&other, "quick")["content"], "echo: quick");
            slowest = slowest.max(asked.elapsed());
        }
        // The agents do not wait for their readers.
        wait::until_true(Duration::from_secs(120), "both turns to end", || {
            [&cast, &claw].iter().all(|id| native.listed(id).is_ok_and(|listed| listed["status"] == "idle"))
        });
    });
    eprintln!(
        "two readers stood still for {:.1?}: others waited {slowest:?} at most, the daemon grew by {} MiB",
        since.elapsed(),
        grown >> 20
    );
    assert!(slowest < Duration::from_secs(10), "a turn of another session took {slowest:?}");
    assert!(grown < ROOM, "the daemon grew by {} MiB", grown >> 20);

    while let Some(event) = stream.event().expect("the stream goes on to its end") {
        received.extend(event["content"].as_str().filter(|_| event["type"] == "partial").map(str::to_owned));
    }
    assert_eq!(received.len() as u64, pieces, "every piece once");
    let expected = (0..pieces).map(|number| format!("{number} "));
    assert!(expected.eq(received), "the pieces are not what was said");

    let answer = peer.finish(prompt).expect("an answer");
    let expected: String = (0..pieces).map(|number| format!("{number} ")).collect();
    assert!(answer["content"] == expected.as_str(), "the answer is not what was said");
    let mut said = String::new();
    loop {
        let update = peer.update().expect("an update");
        match update["type"].as_str() {
            Some("agent_message_chunk") => said.push_str(update["text"].as_str().unwrap_or_default()),
            Some("turn_complete") => break,
            _ => {}
        }
    }
    assert!(said.ends_with(&expected[expected.len() / 2..]), "the updates are not what was said");
}

#[test]
fn a_large_prompt_arrives_whole_across_kills() {
    let mut house = Resident::start();
    let mut native = house.native();
    let agents = ["claude", "codex", "gemini"];
    let mut ids: Vec<String> =
        agents.iter().map(|agent| native.make(json!({"agent_alias": agent, "cwd": house.work()}))).collect();
    for id in &ids {
        native.prompt(id, "say warm");
    }
    ids.push(house.cast().make(&json!({"path": house.work()})));
    let length = 3_000_000;
    let prompt = format!("count {}", "x".repeat(length));
    for round in 0..3_u64 {
        // Agents that are frozen do not read: what they are told is stuck on its way, in several pieces.
        let frozen: Vec<_> = ids[..3].iter().map(|id| house.process_of(id)).collect();
        frozen.iter().for_each(|process| process.signal(Signal::STOP));
        let mut native = house.native();
        for id in &ids {
            native.send(id, &prompt);
        }
        thread::sleep(Duration::from_millis(20 * round));
        house.restart();
        frozen.iter().for_each(|process| process.signal(Signal::CONT));
        thread::sleep(Duration::from_millis(30 * round));
        house.restart();
        let mut native = house.native();
        for id in &ids {
            let turns = events::turns_of(&mut native, id);
            assert_eq!(turns.last().map(|turn| turn.text.clone()), Some(format!("counted {length}")), "round {round}");
        }
    }
    let got = house.cli_prompts().iter().filter(|prompt| prompt.starts_with("count")).count();
    assert_eq!(got, 12, "every prompt was put once");
}
