//! Daemons that vanish in the middle of turns: what follows them goes on without losing or repeating anything, and
//! nothing that somebody has seen becomes something else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Decision, Event, Hosting, Outcome};
use hostel_house::sessions::{Cause, Entry, NextEvents, Scope, SessionOptions};
use parking_lot::Mutex;
use support::sessions::{Daemon, a_person, claude, claude_once, history, options, prompt, said, until_idle};
use support::{TestHouse, until};

/// Everything that was ever seen, by number.
type Seen = Arc<Mutex<BTreeMap<u64, Arc<Entry>>>>;

/// Looks on as long as the daemon lives.
async fn look_on(daemon: &Daemon, seen: Seen) {
    let session = daemon.sessions.get("s").unwrap();
    let mut events = session.events(0);
    tokio::spawn(async move {
        while let Ok(NextEvents::Entries(entries)) = events.next().await {
            let mut seen = seen.lock();
            for entry in entries {
                if let Some(known) = seen.get(&entry.seq) {
                    assert_eq!(*known, entry, "an event has changed");
                }
                seen.insert(entry.seq, entry);
            }
        }
    });
}

struct Storm {
    agent: &'static str,
    hosting: Hosting,
    options: SessionOptions,
    prompt: &'static str,
    /// Prompts that wait from the beginning; more follow while daemons are still to vanish.
    prompts: u64,
    lives: u64,
    /// The last words of the agent after its last turn, if it speaks between turns.
    last_words: Option<fn(u64) -> String>,
    /// Answers whatever is asked.
    approves: bool,
    /// Stops what runs when a daemon begins, in every so many lives.
    interrupts: Option<u64>,
}

impl Storm {
    /// How many turns there were, and everything there is in the end.
    fn run(mut self) -> (u64, Vec<Arc<Entry>>) {
        self.options.queue = self.prompts as usize;
        let place = TestHouse::new();
        let seen = Seen::default();
        let mut daemon = Daemon::start(&place, self.options.clone());
        let session = daemon.session(self.agent, self.hosting, place.path());
        let mut turns = 0;
        for _ in 0..self.prompts {
            turns = daemon.run(session.send(prompt(self.prompt))).unwrap().turn;
        }
        drop(session);
        let mut cut = 0;
        for life in 0..self.lives {
            daemon.run(look_on(&daemon, Arc::clone(&seen)));
            self.approve(&daemon);
            if self.interrupts.is_some_and(|every| life % every == 0) {
                let session = daemon.sessions.get("s").unwrap();
                daemon.run(session.interrupt(Scope::Running, Cause::ClientRpc));
            }
            // However quick the agent is, there is something left to be done.
            let session = daemon.sessions.get("s").unwrap();
            if session.info().running_turn.is_none() && session.info().queued == 0 {
                turns = daemon.run(session.send(prompt(self.prompt))).unwrap().turn;
            }
            // Any instant will do; these are spread.
            std::thread::sleep(Duration::from_millis(1 + (life * 7919) % 23));
            cut += u64::from(session.info().running_turn.is_some());
            drop(session);
            daemon.vanish();
            daemon = Daemon::start(&place, self.options.clone());
        }
        daemon.run(look_on(&daemon, Arc::clone(&seen)));
        self.approve(&daemon);
        let session = daemon.sessions.get("s").unwrap();
        daemon.run(until_idle(&session));
        let all = match self.last_words {
            None => daemon.run(history(&daemon.sessions, "s")),
            Some(words) => daemon.run(until(
                "the agent has said all it has to say",
                async || history(&daemon.sessions, "s").await,
                |all| said(all).last() == Some(&words(turns).as_str()),
            )),
        };
        for (seq, entry) in seen.lock().iter() {
            assert_eq!(all.get(*seq as usize - 1), Some(entry), "an event has changed");
        }
        let lives = self.lives;
        eprintln!("{cut} of {lives} daemons vanished in the middle of one of {turns} turns");
        assert!(cut > 0, "no daemon vanished in the middle of a turn");
        drop(session);
        daemon.end();
        (turns, all)
    }

    fn approve(&self, daemon: &Daemon) {
        if !self.approves {
            return;
        }
        let approvals = daemon.approvals.clone();
        daemon.run(async move {
            tokio::spawn(async move {
                let mut changed = approvals.changed();
                loop {
                    for approval in approvals.pending() {
                        drop(approvals.decide(&approval.id, Decision::AllowOnce, &a_person()).await);
                    }
                    if changed.changed().await.is_err() {
                        return;
                    }
                }
            });
        });
    }
}

/// Each turn has its beginning, its end, and between them what it must have said, and all of it in order.
fn check(all: &[Arc<Entry>], turns: u64, pieces: &[String]) {
    for turn in 1..=turns {
        let of_turn: Vec<&Event> = all.iter().filter(|entry| entry.turn == turn).map(|entry| &entry.event).collect();
        assert!(matches!(of_turn.first(), Some(Event::TurnStarted { .. })), "turn {turn}: {:?}", of_turn.first());
        let Some(Event::TurnEnded { outcome, text, .. }) = of_turn.last() else { panic!("turn {turn} has no end") };
        assert_eq!(*outcome, Outcome::Completed, "turn {turn}: {text}");
        let said: Vec<String> = of_turn
            .iter()
            .filter_map(|event| match event {
                Event::TextDelta { text } => Some(text.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(said, pieces, "turn {turn}");
    }
    check_ends(all, turns);
}

/// One end each.
fn check_ends(all: &[Arc<Entry>], turns: u64) {
    let ends = all.iter().filter_map(|entry| match &entry.event {
        Event::TurnEnded { turn, .. } => Some(*turn),
        _ => None,
    });
    let mut ends: Vec<u64> = ends.collect();
    // That of a prompt which was cancelled while it waited may come after that of its successor.
    ends.sort_unstable();
    assert_eq!(ends, (1..=turns).collect::<Vec<_>>());
}

fn counted(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number} ")).collect()
}

#[test]
fn warm_turns_survive_their_daemons() {
    let storm = Storm {
        agent: "echo",
        hosting: Hosting::Warm,
        options: options(Vec::new()),
        prompt: "stream 300",
        prompts: 20,
        last_words: None,
        lives: 40,
        approves: false,
        interrupts: None,
    };
    let (turns, all) = storm.run();
    check(&all, turns, &counted(300));
}

#[test]
fn processes_per_message_survive_their_daemons() {
    let script = r#"init
i=0; while [ $i -lt 60 ]; do
  printf '{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s "}}}\n' $i
  i=$((i+1)); sleep 0.002; done
result said"#;
    let storm = Storm {
        agent: "script",
        hosting: Hosting::PerMessage,
        options: options(claude_once(script)),
        prompt: "go",
        prompts: 6,
        last_words: None,
        lives: 40,
        approves: false,
        interrupts: None,
    };
    let (turns, all) = storm.run();
    check(&all, turns, &counted(60));
}

#[test]
fn words_that_nobody_asked_for_survive_the_daemons() {
    // It says something more after every answer, at once or a little later.
    let script = claude(
        r#"*'"content":"go"'*) n=$((n+1)); init; say "a$n"; sleep 0.01; say "b$n"; result b
            [ $((n%3)) = 0 ] && sleep 0.02; init; say "c$n"; [ $((n%3)) = 1 ] && sleep 0.01; say "d$n"; result d;;"#,
    );
    let storm = Storm {
        agent: "script",
        hosting: Hosting::Warm,
        options: options(script),
        prompt: "go",
        prompts: 20,
        last_words: Some(|turns| format!("d{turns}")),
        lives: 40,
        approves: false,
        interrupts: None,
    };
    let (turns, all) = storm.run();
    check_ends(&all, turns);
    let expected: Vec<String> =
        (1..=turns).flat_map(|n| ["a", "b", "c", "d"].map(|word| format!("{word}{n}"))).collect();
    assert_eq!(said(&all), expected);
}

#[test]
fn questions_survive_the_daemons_and_are_answered_once() {
    // It asks three times in a turn, always under the same id.
    let script = claude(
        r#"*'"content":"go"'*) n=$((n+1)); i=1; init; ask 1 "ls $n";;
        *'"behavior":"allow"'*) say "$n.$i"; i=$((i+1)); if [ $i -le 3 ]; then ask 1 "ls $n"; else result x; fi;;"#,
    );
    let storm = Storm {
        agent: "script",
        hosting: Hosting::Warm,
        options: options(script),
        prompt: "go",
        prompts: 20,
        last_words: None,
        lives: 50,
        approves: true,
        interrupts: None,
    };
    let (turns, all) = storm.run();
    check_ends(&all, turns);
    let expected: Vec<String> = (1..=turns).flat_map(|n| [1, 2, 3].map(|i| format!("{n}.{i}"))).collect();
    assert_eq!(said(&all), expected);
    for (what, wanted) in [
        ("asked", (|event| matches!(event, Event::PermissionAsked { .. })) as fn(&Event) -> bool),
        ("answered", |event| matches!(event, Event::PermissionAnswered { .. })),
    ] {
        assert_eq!(all.iter().filter(|entry| wanted(&entry.event)).count() as u64, 3 * turns, "{what}");
    }
}

#[test]
fn turns_that_are_stopped_end_once_whichever_daemon_sees_to_it() {
    let storm = Storm {
        agent: "echo",
        hosting: Hosting::Warm,
        options: options(Vec::new()),
        prompt: "sleep 0.05",
        prompts: 20,
        last_words: None,
        lives: 60,
        approves: false,
        interrupts: Some(2),
    };
    let (turns, all) = storm.run();
    check_ends(&all, turns);
    let stopped = |entry: &&Arc<Entry>| matches!(entry.event, Event::TurnEnded { outcome: Outcome::Cancelled, .. });
    assert!(all.iter().filter(stopped).count() > 0, "nothing was stopped");
    assert!(!all.iter().any(|entry| matches!(entry.event, Event::TurnEnded { outcome: Outcome::Failed, .. })));
}
