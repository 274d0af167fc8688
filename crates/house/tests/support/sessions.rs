//! Sessions of a test's own, under daemons that can vanish at any instant.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Event, Hosting, Kind, Mode, Outcome};
use hostel_guard::Guard;
use hostel_house::approvals::{Approval, ApprovalOptions, Approvals, Claim, Face, Rule};
use hostel_house::processes::Processes;
use hostel_house::sessions::{
    AgentLimits, AgentSpec, Entry, MailLimits, MeshPolicy, NewSession, NextEvents, Prompt, Session, SessionOptions,
    Sessions, Status,
};
use hostel_house::store::{self, Store};
use hostel_peer::Peer;
use hostel_syncpoint::SyncPoint;

use super::{TestHouse, keeper_program, limit, until, until_closed, within};

/// What a claude made of a few lines of shell can say.
const WORDS: &str = r#"
init() { printf '{"type":"system","subtype":"init","session_id":"sdk-1","model":"m1"}\n'; }
say() { printf '{"type":"assistant","message":{"content":[{"type":"text","text":"%s"}]}}\n' "$1"; }
result() { printf '{"type":"result","subtype":"success","is_error":false,"session_id":"sdk-1","result":"%s"}\n' "$1"; }
ask() {
  printf '{"type":"control_request","request_id":"%s","request":{"subtype":"can_use_tool","tool_name":"Bash",' "$1"
  printf '"input":{"command":"%s"},"tool_use_id":""}}\n' "$2"
}
"#;

/// A warm claude: what it does with each line it reads is a list of cases of `case`.
pub(crate) fn claude(cases: &str) -> Vec<String> {
    let script = format!(
        "{WORDS}\nwhile IFS= read -r line; do case \"$line\" in\n{cases}\n*) init; say ok; result ok;; esac; done"
    );
    ["sh", "-c", &script, "claude"].map(str::to_owned).to_vec()
}

/// A claude for one message that does this.
pub(crate) fn claude_once(script: &str) -> Vec<String> {
    ["sh", "-c", &format!("{WORDS}\n{script}"), "claude"].map(str::to_owned).to_vec()
}

pub(crate) fn agent(alias: &str, kind: Kind, command: Vec<String>) -> AgentSpec {
    AgentSpec {
        alias: alias.to_owned(),
        kind,
        command,
        env: Vec::new(),
        model: None,
        mode: None,
        cwd: None,
        limits: AgentLimits::default(),
        guard: Guard::off(),
    }
}

/// The echo agent, and a claude of that command.
pub(crate) fn options(script: Vec<String>) -> SessionOptions {
    let echo = vec![keeper_program().to_str().unwrap().to_owned(), "echo-agent".to_owned()];
    SessionOptions {
        agents: vec![
            agent("echo", Kind::Echo, echo),
            agent("script", Kind::Claude, script),
            agent("missing", Kind::Claude, vec!["no-such-program-anywhere".to_owned()]),
        ],
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        queue: 3,
        warm: 2,
        idle: Duration::from_secs(600),
        turn_limit: Duration::from_secs(60),
        stop_grace: Duration::from_secs(2),
        line_limit: 1 << 20,
        prompt_limit: 8 << 20,
        keep_archived: Duration::from_secs(3600),
        mesh: MeshPolicy::Off,
        mail: MailLimits::default(),
        own_file: None,
    }
}

/// A house as one daemon has it, on threads that end with it.
pub(crate) struct Daemon {
    runtime: tokio::runtime::Runtime,
    pub(crate) processes: Processes,
    pub(crate) sessions: Sessions,
    pub(crate) approvals: Approvals,
    pub(crate) store: Store,
}

impl Daemon {
    pub(crate) fn start(place: &TestHouse, options: SessionOptions) -> Self {
        Self::start_with_rules(place, options, Vec::new())
    }

    pub(crate) fn start_with_rules(place: &TestHouse, options: SessionOptions, rules: Vec<Rule>) -> Self {
        Self::start_with(place, options, |consent| consent.rules = rules)
    }

    pub(crate) fn start_with(
        place: &TestHouse,
        options: SessionOptions,
        change: impl FnOnce(&mut ApprovalOptions),
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (processes, sessions, approvals, store) = runtime.block_on(async {
            let processes = place.open().await;
            let store = store::open(&place.path().join("state.db")).unwrap();
            let mut consent = ApprovalOptions::new(place.path().join("approver"), processes.clone());
            change(&mut consent);
            let approvals = Approvals::open(store.clone(), consent).await.unwrap();
            let sessions = Sessions::open(store.clone(), processes.clone(), approvals.clone(), options).await.unwrap();
            (processes, sessions, approvals, store)
        });
        Self { runtime, processes, sessions, approvals, store }
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Ends wherever it is. A killed process takes its threads with it; here the writer has to be waited for.
    pub(crate) fn vanish(self) {
        let Daemon { runtime, processes, sessions, approvals, store } = self;
        runtime.shutdown_timeout(Duration::from_secs(5));
        drop((processes, sessions, approvals));
        until_closed(&store.close());
    }

    /// Ends with its keeper.
    pub(crate) fn end(self) {
        self.run(self.processes.stop_keeper(Duration::ZERO)).unwrap();
        self.vanish();
    }

    pub(crate) fn session(&self, agent: &str, hosting: Hosting, cwd: &Path) -> Arc<Session> {
        self.run(self.sessions.create(new_session("s", agent, hosting, cwd))).unwrap()
    }

    /// The state of the newest process on disk.
    pub(crate) async fn stored_process(&self) -> String {
        let state = "SELECT state FROM agent_processes ORDER BY created_ns DESC LIMIT 1";
        let read = move |connection: &rusqlite::Connection| connection.query_row(state, [], |row| row.get(0));
        self.store.read(read).await.unwrap()
    }

    /// The number of the last event on disk.
    pub(crate) async fn last_stored_event(&self) -> u64 {
        let read = |connection: &rusqlite::Connection| {
            connection.query_row("SELECT coalesce(max(last_seq), 0) FROM events", [], |row| row.get::<_, i64>(0))
        };
        self.store.read(read).await.unwrap().cast_unsigned()
    }

    /// From now on the database takes nothing, or takes everything again.
    pub(crate) fn refuse_writes(&self, refuse: bool) {
        let mut sql = String::new();
        for table in ["sessions", "turns", "events", "agent_processes", "approvals", "mail", "mail_places"] {
            for action in ["INSERT", "UPDATE", "DELETE"] {
                let name = format!("refuse_{table}_{action}");
                sql += &match refuse {
                    true => format!(
                        "CREATE TEMP TRIGGER {name} BEFORE {action} ON {table}
                         BEGIN SELECT RAISE(ABORT, 'no room'); END;"
                    ),
                    false => format!("DROP TRIGGER {name};"),
                };
            }
        }
        self.run(self.store.write(SyncPoint::NONE, move |transaction| transaction.execute_batch(&sql))).unwrap();
    }
}

/// Keeps the writer of the database busy until what this gives is dropped.
pub(crate) async fn hold_writer(store: &Store) -> std::sync::mpsc::Sender<()> {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (begun, began) = tokio::sync::oneshot::channel();
    let busy = store.submit(SyncPoint::NONE, move |_| {
        begun.send(()).ok();
        held.recv().ok();
        Ok(())
    });
    drop(busy.await.unwrap());
    began.await.unwrap();
    hold
}

pub(crate) fn new_session(id: &str, agent: &str, hosting: Hosting, cwd: &Path) -> NewSession {
    NewSession {
        id: Some(id.to_owned()),
        name: None,
        agent: agent.to_owned(),
        cwd: Some(cwd.to_owned()),
        // Only there claude is spoken to in lines when a process is made for one message.
        mode: Some(if hosting == Hosting::Warm { Mode::Ask } else { Mode::Auto }),
        model: None,
        hosting,
        door: "test",
        owner: None,
        env: Vec::new(),
        approval_wait: Duration::from_secs(600),
        mesh: None,
        maker: None,
    }
}

pub(crate) fn prompt(text: &str) -> Prompt {
    Prompt { text: text.to_owned(), door: "test" }
}

/// Every event after `after` up to one that is wanted.
pub(crate) async fn follow_until(session: &Session, after: u64, wanted: impl Fn(&Event) -> bool) -> Vec<Arc<Entry>> {
    let mut events = session.events(after);
    let mut all: Vec<Arc<Entry>> = Vec::new();
    loop {
        let next = match tokio::time::timeout(limit(), events.next()).await {
            Ok(next) => next.unwrap(),
            Err(_) => panic!("no event came after {all:?}"),
        };
        let NextEvents::Entries(entries) = next else { panic!("{next:?} after {all:?}") };
        for entry in entries {
            let found = wanted(&entry.event);
            all.push(entry);
            if found {
                return all;
            }
        }
    }
}

/// Every event after `after` up to the end of the turn.
pub(crate) async fn follow(session: &Session, after: u64, turn: u64) -> Vec<Arc<Entry>> {
    follow_until(session, after, |event| matches!(event, Event::TurnEnded { turn: ended, .. } if *ended == turn)).await
}

pub(crate) fn end_of(entries: &[Arc<Entry>]) -> (Outcome, String) {
    match &entries.last().unwrap().event {
        Event::TurnEnded { outcome, text, .. } => (*outcome, text.clone()),
        other => panic!("{other:?} is no end"),
    }
}

pub(crate) async fn ask(session: &Arc<Session>, text: &str) -> (Outcome, String) {
    let sent = session.send(prompt(text)).await.unwrap();
    end_of(&follow(session, sent.after_seq, sent.turn).await)
}

/// What has been said in whole blocks.
pub(crate) fn said(entries: &[Arc<Entry>]) -> Vec<&str> {
    entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Somebody who may decide.
pub(crate) fn a_person() -> Claim {
    Claim { face: Face::Socket, peer: Peer::own(), label: "a test".to_owned() }
}

/// The question that is open, once there is one.
pub(crate) async fn question(approvals: &Approvals) -> Approval {
    let mut changed = approvals.changed();
    loop {
        if let Some(approval) = approvals.pending().pop() {
            return approval;
        }
        within("a question", changed.changed()).await.unwrap();
    }
}

pub(crate) async fn until_idle(session: &Session) {
    until("the session is idle", async || (session.status(), session.info()), |(status, _)| *status != Status::Busy)
        .await;
}

/// Everything there is, with numbers that rise by one from 1.
pub(crate) async fn history(sessions: &Sessions, id: &str) -> Vec<Arc<Entry>> {
    let last = sessions.stored(id).await.unwrap().unwrap().last_seq;
    let mut events = sessions.stored_events(id, 0).await.unwrap().unwrap();
    let mut all: Vec<Arc<Entry>> = Vec::new();
    while events.position() < last {
        match events.next().await.unwrap() {
            NextEvents::Entries(entries) => all.extend(entries),
            other => panic!("{other:?} after {:?}", all.last()),
        }
    }
    let numbers: Vec<u64> = all.iter().map(|entry| entry.seq).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    all
}
