//! The daemon killed with SIGKILL again and again during the turns of five sessions with queues.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use hostel_tests::random::{self, Random};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::events::{self, Turn};
use super::feeding::{self, Shared, Subject, Way};
use super::native::Native;
use super::resident::Resident;
use super::watching;

/// How often the daemon is killed, unless `HOSTEL_KILLS` says otherwise.
const KILLS: u64 = 50;

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn killing_the_daemon_during_turns_loses_and_repeats_nothing() {
    let kills = setting("HOSTEL_KILLS").unwrap_or(KILLS);
    let end = setting("HOSTEL_MINUTES").map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    run(Resident::start(), |house, shared, random| kill_repeatedly(house, shared, random, kills, end));
}

/// Five sessions with queues while `kill` kills the daemon, which gives how long each restart took; then everything must
/// be there, once and in order.
pub(crate) fn run(mut house: Resident, kill: impl FnOnce(&mut Resident, &Shared, &mut Random) -> Vec<Duration>) {
    let seed = random::seed();
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed})");
    let mut random = Random::new(seed);
    let subjects = subjects(&house);
    let shared = Shared::new(house.home().join("run"), house.work());
    let since = Instant::now();
    let (restarts, views) = thread::scope(|scope| {
        let mut watchers = Vec::new();
        for subject in &subjects {
            let (shared, feeding, restless) = (&shared, random.bits(), random.bits());
            scope.spawn(move || feeding::feed(shared, subject, feeding));
            watchers.push((
                scope.spawn(move || watching::watch(shared, subject, None)),
                scope.spawn(move || watching::watch(shared, subject, Some(restless))),
            ));
        }
        let restarts = kill(&mut house, &shared, &mut random);
        shared.ending.store(true, Ordering::SeqCst);
        let views: Vec<Option<Vec<Value>>> = watchers
            .into_iter()
            .map(|(steady, restless)| {
                restless.join().expect("a watcher does not panic");
                steady.join().expect("a watcher does not panic")
            })
            .collect();
        (restarts, views)
    });
    if let Some(reason) = shared.failure() {
        panic!("after {} kills (seed {seed}): {reason}", restarts.len());
    }
    let mut native = house.native().patient(Duration::from_secs(60));
    let mut figures = Figures::default();
    for (subject, view) in subjects.iter().zip(views) {
        let view = view.expect("a watcher that did not fail gives its view");
        check_log(&mut native, subject, &view, &mut figures);
        check_agent(&house, subject);
    }
    for subject in subjects.iter().filter(|subject| subject.way == Way::Codecast) {
        while feeding::reconnect(&shared, subject).expect("the door answers") > 0 {}
        check_codecast(subject);
    }
    check_rest(&mut native, &house, &subjects);
    report(&shared, restarts, &figures, since.elapsed());
}

fn subjects(house: &Resident) -> Vec<Subject> {
    let work = house.work();
    let mut native = house.native();
    let mut warm = |agent: &str| native.make(json!({"agent_alias": agent, "cwd": work, "mode": "auto"}));
    vec![
        Subject::new('a', house.cast().make(&json!({"path": work})), "claude", Way::Codecast),
        Subject::new('b', warm("claude"), "claude", Way::Native),
        Subject::new('c', warm("codex"), "codex", Way::Native),
        Subject::new('d', warm("gemini"), "gemini", Way::Native),
        Subject::new('e', house.zeroclaw().make(json!({"agent_alias": "echo", "cwd": work})), "echo", Way::Zeroclaw),
    ]
}

fn kill_repeatedly(
    house: &mut Resident,
    shared: &Shared,
    random: &mut Random,
    kills: u64,
    end: Option<Instant>,
) -> Vec<Duration> {
    let mut restarts = Vec::new();
    loop {
        let over = end.map_or(restarts.len() as u64 >= kills, |end| Instant::now() >= end);
        if over || shared.failure().is_some() {
            return restarts;
        }
        wait_for_a_moment(shared, random);
        if random.below(8) == 0 {
            house.upgrade_keeper();
        }
        match random.below(10) {
            0 => house.terminate(),
            _ => house.kill(),
        }
        // Now and then the next one dies as well, while it starts.
        if random.below(5) == 0 {
            house.false_start(Duration::from_micros(random.below(200_000)));
        }
        let since = Instant::now();
        house.serve();
        restarts.push(since.elapsed());
    }
}

/// A moment chosen by the clock, by how much was said, or just when a prompt was taken.
fn wait_for_a_moment(shared: &Shared, random: &mut Random) {
    let by_count = |counter: &std::sync::atomic::AtomicU64, more: u64| {
        let goal = counter.load(Ordering::Relaxed) + more;
        wait::attempt_often(Duration::from_millis(500), Duration::from_millis(1), || {
            (counter.load(Ordering::Relaxed) >= goal).then_some(())
        });
    };
    match random.below(4) {
        0 => thread::sleep(Duration::from_micros(random.below(30_000))),
        1 => thread::sleep(Duration::from_micros(random.below(250_000))),
        2 => by_count(&shared.updates, 1 + random.below(1000)),
        _ => by_count(&shared.acks, 1 + random.below(3)),
    }
}

/// What was looked at.
#[derive(Default)]
struct Figures {
    turns: usize,
    events: usize,
}

/// The kept events: every prompt once, in order, each with exactly its pieces; and what was seen live is what is kept.
fn check_log(native: &mut Native, subject: &Subject, view: &[Value], figures: &mut Figures) {
    let letter = subject.letter;
    let taken = subject.taken.lock().expect("nobody panics while holding it");
    let kept = events::all(native, &subject.id);
    let turns = events::turns(&kept);
    assert_eq!(turns.len(), taken.len(), "{letter}: as many turns as prompts");
    for ((number, turn), prompt) in (1..).zip(&turns).zip(taken.iter()) {
        assert_eq!((turn.number, &turn.prompt), (number, &prompt.text), "{letter}");
        assert_eq!(turn.outcome, "completed", "{letter}: {turn:?}");
        assert_eq!(turn.pieces, prompt.pieces, "{letter}: the pieces of turn {number}, {:?}", prompt.text);
        assert_eq!(turn.errors(), [""; 0], "{letter}: turn {number}");
        check_shape(letter, turn);
    }
    let spent = |name: &str| -> u64 {
        let ends = kept.iter().filter(|event| event.kind == "turn_ended");
        ends.map(|event| event.body["usage"][name].as_u64().unwrap_or(0)).sum()
    };
    let listed = native.listed(&subject.id).expect("the session is listed");
    assert_eq!(listed["usage"]["input_tokens"], spent("input_tokens"), "{letter}: usage is the sum of its turns");
    assert_eq!(listed["usage"]["output_tokens"], spent("output_tokens"), "{letter}: usage is the sum of its turns");
    assert_eq!(listed["last_seq"], kept.len(), "{letter}");

    native.attach(&subject.id, 0, false).expect("a replay");
    for known in view {
        let update = native.update().expect("the replay goes on");
        assert_eq!(*known, update, "{letter}: what was seen live and what is replayed");
    }
    assert_eq!(native.update().expect("an end")["type"], "replay_complete", "{letter}: the watcher missed something");
    figures.turns += turns.len();
    figures.events += kept.len();
}

/// Whole blocks are what their pieces were.
fn check_shape(letter: char, turn: &Turn) {
    if !turn.texts.is_empty() {
        assert_eq!(turn.texts.concat(), turn.pieces.concat(), "{letter}: the whole blocks of turn {}", turn.number);
    }
}

/// What the played CLI itself got: every prompt once, in order, and every tool ran once.
fn check_agent(house: &Resident, subject: &Subject) {
    if subject.agent == "echo" {
        return;
    }
    let letter = subject.letter;
    let taken = subject.taken.lock().expect("nobody panics while holding it");
    let expected: Vec<&str> = taken.iter().map(|prompt| prompt.text.as_str()).collect();
    let own = format!("say {letter}");
    let got: Vec<String> = house.cli_prompts().into_iter().filter(|prompt| prompt.starts_with(&own)).collect();
    assert_eq!(got, expected, "{letter}: the prompts the agent got");
    let log = house.cli_log();
    let pids: BTreeSet<u64> = log
        .iter()
        .filter(|line| line["event"] == "prompt" && line["prompt"].as_str().is_some_and(|text| text.starts_with(&own)))
        .map(|line| line["pid"].as_u64().expect("a pid"))
        .collect();
    let processes = if subject.way == Way::Codecast { expected.len() } else { 1 };
    assert_eq!(pids.len(), processes, "{letter}: the processes that served it");
    let traces: Vec<&str> = taken.iter().filter_map(|prompt| prompt.trace.as_deref()).collect();
    let file = house.work().join(format!("{letter}.traces"));
    assert_eq!(lines(&file), traces, "{letter}: what its tools left behind");
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What the client received in streams and by `session.reconnect`: all of it, whatever came twice.
fn check_codecast(subject: &Subject) {
    let received = subject.received.lock().expect("nobody panics while holding it");
    let content = |kind: &str| -> BTreeSet<&str> {
        let events = received.iter().flatten().filter(|event| event["type"] == kind);
        events.filter_map(|event| event["content"].as_str()).collect()
    };
    let (partial, whole) = (content("partial"), content("text"));
    let taken = subject.taken.lock().expect("nobody panics while holding it");
    for prompt in taken.iter() {
        for piece in prompt.pieces.iter().filter(|piece| *piece != "0 ") {
            assert!(partial.contains(piece.as_str()), "{piece:?} of {:?} was never received", prompt.text);
        }
        for block in prompt.text.lines().filter_map(|line| line.strip_prefix("say ")) {
            assert!(whole.contains(block), "the block {block:?} of {:?} was never received", prompt.text);
        }
    }
    let results = received.iter().flatten().filter(|event| event["type"] == "result").count();
    assert!(results >= taken.len(), "{results} results for {} messages", taken.len());
    for list in received.iter() {
        let strange = list.iter().find(|event| event["type"] == "error" || event["type"] == "interrupted");
        assert!(strange.is_none(), "the client was told {strange:?}");
    }
}

/// Nothing waits, nothing runs, and when the sessions are closed no process is left.
fn check_rest(native: &mut Native, house: &Resident, subjects: &[Subject]) {
    for subject in subjects {
        let listed = native.listed(&subject.id).expect("the session is listed");
        assert_eq!((&listed["status"], &listed["queued"]), (&json!("idle"), &json!(0)), "{listed}");
        assert!(listed.get("running_turn").is_none(), "{listed}");
    }
    assert_eq!(native.ask("approval/list", json!({}))["approvals"], json!([]));
    let started: usize = house.cli_log().iter().filter(|line| line["event"] == "start").count();
    let messages = subjects[0].taken.lock().expect("nobody panics while holding it").len();
    assert_eq!(started, messages + 3, "a process for each message of the first session and one for each warm one");
    assert!(house.held().len() <= 4, "more processes than warm sessions: {:?}", house.held());
    for subject in subjects {
        native.ask("session/close", json!({"session_id": subject.id}));
    }
    house.wait_empty();
}

fn report(shared: &Shared, mut restarts: Vec<Duration>, figures: &Figures, took: Duration) {
    restarts.sort();
    let median = restarts.get(restarts.len() / 2).copied().unwrap_or_default();
    let worst = restarts.last().copied().unwrap_or_default();
    eprintln!(
        "figures: {} kills in {:.1} s, restart median {median:?} worst {worst:?}, {} turns, {} events kept, {} updates \
         watched, {} connections, {} acknowledgements lost, {} streams cut; nothing lost, nothing twice",
        restarts.len(),
        took.as_secs_f64(),
        figures.turns,
        figures.events,
        shared.updates.load(Ordering::Relaxed),
        shared.connections.load(Ordering::Relaxed),
        shared.unsure.load(Ordering::Relaxed),
        shared.cut.load(Ordering::Relaxed),
    );
}
