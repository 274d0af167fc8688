//! Daemons that vanish in the middle of turns: what follows them goes on without losing or repeating anything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Event, Hosting, Kind, Mode, Outcome};
use hostel_house::approvals::Approvals;
use hostel_house::processes::Processes;
use hostel_house::sessions::{
    AgentLimits, AgentSpec, Entry, NewSession, NextEvents, Prompt, SessionOptions, Sessions, Status,
};
use hostel_house::store::Store;
use support::{LIMIT, TestHouse, keeper_program};

/// A house as one daemon has it, on threads that end with it.
struct Daemon {
    runtime: tokio::runtime::Runtime,
    processes: Processes,
    sessions: Sessions,
    store: Store,
}

fn options() -> SessionOptions {
    let script = r#"
printf '%s\n' '{"type":"system","subtype":"init","session_id":"sdk-1","model":"m1"}'
i=0; while [ $i -lt 60 ]; do
  printf '{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s "}}}\n' $i
  i=$((i+1)); sleep 0.002; done
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"session_id":"sdk-1","result":"said"}'"#;
    let agent = |alias: &str, kind, command: Vec<String>| AgentSpec {
        alias: alias.to_owned(),
        kind,
        command,
        env: Vec::new(),
        model: None,
        mode: Some(Mode::Auto),
        cwd: None,
        limits: AgentLimits::default(),
    };
    let echo = keeper_program().to_str().unwrap().to_owned();
    SessionOptions {
        agents: vec![
            agent("echo", Kind::Echo, vec![echo, "echo-agent".to_owned()]),
            agent("script", Kind::Claude, ["sh", "-c", script, "claude"].map(str::to_owned).to_vec()),
        ],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        queue: 100,
        warm: 4,
        idle: Duration::from_secs(600),
        turn_limit: Duration::from_secs(600),
        stop_grace: Duration::from_secs(2),
        line_limit: 1 << 20,
        prompt_limit: 4 << 20,
        keep_archived: Duration::from_secs(3600),
    }
}

impl Daemon {
    fn start(place: &TestHouse) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (processes, sessions, store) = runtime.block_on(open(place));
        Self { runtime, processes, sessions, store }
    }

    /// Ends wherever it is. A killed process takes its threads with it; here the writer has to be waited for.
    fn vanish(self) {
        let Daemon { runtime, processes, sessions, store } = self;
        runtime.shutdown_timeout(Duration::from_secs(5));
        drop((processes, sessions));
        let (writer, deadline) = (store.close(), std::time::Instant::now() + LIMIT);
        while writer.strong_count() > 0 {
            assert!(std::time::Instant::now() < deadline, "the writer does not end");
            std::thread::yield_now();
        }
    }
}

async fn open(place: &TestHouse) -> (Processes, Sessions, Store) {
    let processes = place.open().await;
    let store = Store::open(&place.path().join("state.db")).unwrap();
    let approvals = Approvals::open(store.clone()).await.unwrap();
    let sessions = Sessions::open(store.clone(), processes.clone(), approvals, options()).await.unwrap();
    (processes, sessions, store)
}

fn new_session(id: &str, agent: &str, hosting: Hosting, cwd: &Path) -> NewSession {
    NewSession {
        id: Some(id.to_owned()),
        name: None,
        agent: agent.to_owned(),
        cwd: Some(cwd.to_owned()),
        mode: None,
        model: None,
        hosting,
        door: "test",
        owner: None,
        env: Vec::new(),
        approval_wait: Duration::from_secs(600),
    }
}

async fn all_events(sessions: &Sessions, id: &str) -> Vec<Arc<Entry>> {
    let session = sessions.get(id).unwrap();
    let mut events = session.events(0);
    let mut all = Vec::new();
    while session.status() == Status::Busy || events.position() < session.last_seq() {
        let next = tokio::time::timeout(LIMIT, events.next()).await.expect("no event came").unwrap();
        let NextEvents::Entries(entries) = next else { panic!("{next:?}") };
        all.extend(entries);
    }
    all
}

/// Every turn is there once, whole and in order.
fn check(all: &[Arc<Entry>], turns: u64, pieces: &[String]) {
    assert_eq!(all.iter().map(|entry| entry.seq).collect::<Vec<_>>(), (1..=all.len() as u64).collect::<Vec<_>>());
    let mut begun = Vec::new();
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
        let ends = of_turn.iter().filter(|event| matches!(event, Event::TurnEnded { .. })).count();
        assert_eq!(ends, 1, "turn {turn}");
        begun.push(turn);
    }
    assert_eq!(begun.len() as u64, turns);
}

fn storm(agent: &str, hosting: Hosting, prompt: &str, pieces: &[String], turns: u64, lives: u64) {
    let place = TestHouse::new();
    let mut daemon = Daemon::start(&place);
    daemon.runtime.block_on(async {
        let session = daemon.sessions.create(new_session("s", agent, hosting, place.path())).await.unwrap();
        for _ in 0..turns {
            session.send(Prompt { text: prompt.to_owned(), door: "test" }).await.unwrap();
        }
    });
    let mut cut = 0;
    for life in 0..lives {
        // Any instant will do; these are spread.
        std::thread::sleep(Duration::from_millis(1 + (life * 7919) % 23));
        let session = daemon.sessions.get("s").unwrap();
        cut += u64::from(session.info().running_turn.is_some());
        drop(session);
        daemon.vanish();
        daemon = Daemon::start(&place);
    }
    let all = daemon.runtime.block_on(all_events(&daemon.sessions, "s"));
    check(&all, turns, pieces);
    assert!(cut > lives / 4, "only {cut} of {lives} daemons vanished in the middle of a turn");
    daemon.runtime.block_on(daemon.processes.stop_keeper(Duration::ZERO)).unwrap();
    daemon.vanish();
}

#[test]
fn warm_turns_survive_their_daemons() {
    let pieces: Vec<String> = (0..300).map(|number| format!("{number} ")).collect();
    storm("echo", Hosting::Warm, "stream 300", &pieces, 60, 40);
}

#[test]
fn processes_per_message_survive_their_daemons() {
    let pieces: Vec<String> = (0..60).map(|number| format!("{number} ")).collect();
    storm("script", Hosting::PerMessage, "go", &pieces, 6, 40);
}
