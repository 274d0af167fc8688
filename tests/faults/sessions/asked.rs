//! Questions of agents and the daemon's death: what was asked stays asked, what was answered reaches the agent once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use hostel_tests::random::{self, Random};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::events;
use super::native::{Native, Trouble};
use super::resident::Resident;

/// A session whose agent asks.
struct Asker {
    letter: char,
    id: String,
}

impl Asker {
    /// A prompt that makes it ask for leave to leave a trace.
    fn prompt(&self, house: &Resident, round: usize) -> String {
        match self.letter {
            'e' => "approve".to_owned(),
            _ => format!("ask echo {} >> {}", self.mark(round), house.work().join("traces").display()),
        }
    }

    fn mark(&self, round: usize) -> String {
        format!("{}{round}", self.letter)
    }
}

/// claude, codex, gemini and echo in a warm process, and claude with a process for each message.
fn askers(house: &Resident) -> Vec<Asker> {
    let work = house.work();
    let mut native = house.native();
    let mut warm = |agent: &str| native.make(json!({"agent_alias": agent, "cwd": work, "mode": "ask"}));
    vec![
        Asker { letter: 'a', id: house.cast().make(&json!({"path": work, "mode": "ask"})) },
        Asker { letter: 'b', id: warm("claude") },
        Asker { letter: 'c', id: warm("codex") },
        Asker { letter: 'd', id: warm("gemini") },
        Asker { letter: 'e', id: warm("echo") },
    ]
}

/// The approvals that are pending, by session.
fn pending(native: &mut Native) -> Result<BTreeMap<String, String>, Trouble> {
    let list = native.call("approval/list", json!({}))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let approvals = list["approvals"].as_array().into_iter().flatten();
    Ok(approvals.map(|approval| (text(&approval["session_id"]), text(&approval["id"]))).collect())
}

fn wait_for_questions(house: &Resident, count: usize) -> BTreeMap<String, String> {
    let mut native = house.native();
    wait::until(wait::LIMIT, "every agent to ask", || {
        pending(&mut native).ok().filter(|pending| pending.len() == count)
    })
}

fn decision(session: &str, approval: &str, word: &str) -> Value {
    json!({"session_id": session, "request_id": approval, "decision": word})
}

/// Answers whatever is still open.
fn answer_all(house: &Resident, asked: &BTreeMap<String, String>, word: &str) {
    let mut native = house.native();
    let open = pending(&mut native).expect("the list of approvals");
    assert!(open.iter().all(|(session, id)| asked.get(session) == Some(id)), "{open:?} is not among {asked:?}");
    for (session, approval) in open {
        native.ask("session/approve", decision(&session, &approval, word));
    }
}

#[test]
fn questions_survive_the_daemon_and_are_answered_once() {
    let seed = random::seed();
    eprintln!("seed {seed} (repeat with HOSTEL_SEED={seed})");
    let mut random = Random::new(seed);
    let mut house = Resident::start();
    let askers = askers(&house);
    let rounds = 12;
    let mut expected = BTreeSet::new();
    for round in 0..rounds {
        let mut native = house.native();
        for asker in &askers {
            native.send(&asker.id, &asker.prompt(&house, round));
            native.send(&asker.id, &format!("say after {}", asker.mark(round)));
        }
        drop(native);
        let asked = wait_for_questions(&house, askers.len());
        let word = if round % 4 == 3 { "reject" } else { "allow_once" };
        match round % 4 {
            // The daemon dies while everybody waits.
            0 | 3 => {
                house.restart();
                assert_eq!(pending(&mut house.native()).expect("the list"), asked, "the questions after a restart");
            }
            // The answers were taken, and the daemon dies before or while the agents are told.
            1 => {
                answer_all(&house, &asked, word);
                thread::sleep(Duration::from_micros(random.below(15_000)));
                house.restart();
            }
            // The daemon dies while the answers are on their way to it.
            _ => {
                let mut native = house.native();
                for (session, approval) in &asked {
                    native.begin("session/approve", decision(session, approval, word)).expect("a request");
                }
                thread::sleep(Duration::from_micros(random.below(8_000)));
                house.restart();
            }
        }
        answer_all(&house, &asked, word);
        for asker in &askers {
            events::turns_of(&mut house.native(), &asker.id);
        }
        assert_eq!(pending(&mut house.native()).expect("the list"), BTreeMap::new());
        if word == "allow_once" {
            expected.extend(askers.iter().filter(|asker| asker.letter != 'e').map(|asker| asker.mark(round)));
        }
    }
    // A tool that ran twice would have left two traces.
    let text = fs::read_to_string(house.work().join("traces")).expect("the traces");
    let mut traces: Vec<&str> = text.lines().collect();
    traces.sort_unstable();
    assert_eq!(traces, expected.iter().collect::<Vec<_>>());
    check_turns(&house, &askers, rounds);
    for asker in &askers {
        house.native().ask("session/close", json!({"session_id": asker.id}));
    }
    house.wait_empty();
}

fn check_turns(house: &Resident, askers: &[Asker], rounds: usize) {
    let mut native = house.native();
    for asker in askers {
        let turns = events::turns_of(&mut native, &asker.id);
        assert_eq!(turns.len(), 2 * rounds, "{}", asker.letter);
        for (round, pair) in turns.chunks(2).enumerate() {
            let [asking, after] = pair else { panic!("two turns a round") };
            let told = format!("{}: {asking:?}", asker.letter);
            assert_eq!((asking.count("permission_asked"), asking.count("permission_answered")), (1, 1), "{told}");
            assert_eq!(asking.count("permission_withdrawn"), 0, "{told}");
            let said = asking.pieces.concat();
            match (round % 4 == 3, asker.letter) {
                (false, 'e') => assert_eq!(said, "approved", "{told}"),
                (false, _) => assert_eq!(said, "tool said: ", "{told}"),
                (true, _) => assert!(!said.contains("tool said") && !said.contains("approved"), "{told}"),
            }
            assert_eq!(asking.outcome, "completed", "{told}");
            assert_eq!(after.outcome, "completed", "{}: {after:?}", asker.letter);
            let (echo, mark) = (if asker.letter == 'e' { "echo: say " } else { "" }, asker.mark(round));
            assert_eq!(after.pieces.concat(), format!("{echo}after {mark}"), "{}", asker.letter);
        }
    }
    let all = native.ask("approval/list", json!({"all": true, "limit": 1000}));
    let states: Vec<&str> =
        all["approvals"].as_array().expect("a list").iter().filter_map(|one| one["state"].as_str()).collect();
    assert_eq!(states.len(), rounds * askers.len());
    assert!(states.iter().all(|state| ["approved", "denied"].contains(state)), "{states:?}");
}
