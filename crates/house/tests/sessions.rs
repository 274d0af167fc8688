//! Sessions with real processes, a real keeper and a real database.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use hostel_agents::{Decision, Event, Hosting, Outcome};
use hostel_house::approvals::{Action, ApprovalOptions, Approvals, Glob, Rule};
use hostel_house::processes::Processes;
use hostel_house::sessions::{Cause, NewSession, NextEvents, Scope, SendError, Session, Sessions, Status};
use hostel_house::store;
use support::sessions::{a_person, ask, end_of, follow, new_session, options, prompt, question};
use support::{TestHouse, until, within};

struct House {
    place: TestHouse,
    processes: Processes,
    sessions: Sessions,
    approvals: Approvals,
}

impl House {
    async fn new(script: &str) -> Self {
        Self::with_rules(script, Vec::new()).await
    }

    async fn with_rules(script: &str, rules: Vec<Rule>) -> Self {
        let script = ["sh", "-c", script, "claude"].map(str::to_owned).to_vec();
        let place = TestHouse::new();
        let processes = place.open().await;
        let store = store::open(&place.path().join("state.db")).unwrap();
        let mut consent = ApprovalOptions::new(place.path().join("approver"), processes.clone());
        consent.rules = rules;
        let approvals = Approvals::open(store.clone(), consent).await.unwrap();
        let sessions = Sessions::open(store, processes.clone(), approvals.clone(), options(script)).await.unwrap();
        Self { place, processes, sessions, approvals }
    }

    async fn session(&self, agent: &str, hosting: Hosting) -> Arc<Session> {
        let new = NewSession { id: None, ..new_session("", agent, hosting, self.place.path()) };
        self.sessions.create(new).await.unwrap()
    }

    async fn end(self) {
        self.processes.stop_keeper(Duration::ZERO).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_session_answers_turn_after_turn_with_one_process() {
    let house = House::new("").await;
    let session = house.session("echo", Hosting::Warm).await;
    assert_eq!(ask(&session, "hello").await, (Outcome::Completed, "echo: hello".to_owned()));
    let pid = session.info().pid.unwrap();
    assert_eq!(ask(&session, "stream 3").await, (Outcome::Completed, "0 1 2 ".to_owned()));
    assert_eq!(session.info().pid, Some(pid), "the second turn was served by the same process");
    let (outcome, reason) = ask(&session, "fail").await;
    assert_eq!(outcome, Outcome::Failed);
    assert!(!reason.is_empty());
    assert_eq!(ask(&session, "again").await.1, "echo: again");
    let mut seen = Vec::new();
    let mut events = session.events(0);
    while events.position() < session.last_seq() {
        if let NextEvents::Entries(entries) = events.next().await.unwrap() {
            seen.extend(entries.iter().map(|entry| entry.seq));
        }
    }
    assert_eq!(seen, (1..=session.last_seq()).collect::<Vec<_>>());
    assert_eq!(house.sessions.turns(session.id()).await.unwrap().len(), 4);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_wait_in_order_up_to_the_limit() {
    let house = House::new("").await;
    let session = house.session("echo", Hosting::Warm).await;
    // It waits until it may go on, so that the others find the queue as it is.
    let first = session.send(prompt("approve")).await.unwrap();
    assert_eq!((first.turn, first.position), (1, 0));
    let mut last = first;
    for position in 1..=3 {
        last = session.send(prompt(&format!("number {position}"))).await.unwrap();
        assert_eq!(last.position, position);
    }
    let refused = session.send(prompt("one too many")).await;
    assert!(matches!(refused, Err(SendError::QueueFull(3))), "{refused:?}");
    let asked = question(&house.approvals).await;
    house.approvals.decide(&asked.id, Decision::AllowOnce, &a_person()).await.unwrap();
    let events = follow(&session, 0, last.turn).await;
    let answers: Vec<String> = events
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::TurnEnded { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(answers, ["approved", "echo: number 1", "echo: number 2", "echo: number 3"]);
    assert_eq!(session.status(), Status::Idle);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_running_turn_and_leaves_the_process() {
    let house = House::new("").await;
    let session = house.session("echo", Hosting::Warm).await;
    ask(&session, "warm up").await;
    let pid = session.info().pid;
    let sent = session.send(prompt("sleep 1000")).await.unwrap();
    let waiting = session.send(prompt("next")).await.unwrap();
    let mut events = session.events(sent.after_seq);
    loop {
        let NextEvents::Entries(entries) = events.next().await.unwrap() else { panic!("no entries") };
        if entries.iter().any(|entry| matches!(&entry.event, Event::TextDelta { .. })) {
            break;
        }
    }
    assert!(session.interrupt(Scope::Running, Cause::ClientRpc).await);
    let (outcome, text) = end_of(&follow(&session, sent.after_seq, sent.turn).await[..]).clone();
    assert_eq!(outcome, Outcome::Cancelled);
    assert!(text.contains("client_rpc"), "{text}");
    let rest = follow(&session, sent.after_seq, waiting.turn).await;
    assert_eq!(end_of(&rest), (Outcome::Completed, "echo: next".to_owned()));
    assert_eq!(session.info().pid, pid, "the process served the next turn");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_asked_and_their_answer_reaches_the_agent() {
    let house = House::new("").await;
    let session = house.session("echo", Hosting::Warm).await;
    for (decision, answer) in [(Decision::AllowOnce, "approved"), (Decision::Reject(String::new()), "denied")] {
        let mut changed = house.approvals.changed();
        let sent = session.send(prompt("approve")).await.unwrap();
        let approval = loop {
            if let Some(approval) = house.approvals.pending().pop() {
                break approval;
            }
            within("a question", changed.changed()).await.unwrap();
        };
        assert_eq!((approval.session.as_str(), approval.turn), (session.id(), sent.turn));
        house.approvals.decide(&approval.id, decision.clone(), &a_person()).await.unwrap();
        assert!(house.approvals.decide(&approval.id, decision, &a_person()).await.is_err());
        let events = follow(&session, sent.after_seq, sent.turn).await;
        assert_eq!(end_of(&events), (Outcome::Completed, answer.to_owned()));
        let position = |wanted: fn(&Event) -> bool| events.iter().position(|entry| wanted(&entry.event)).unwrap();
        let asked = position(|event| matches!(event, Event::PermissionAsked { .. }));
        let answered = position(|event| matches!(event, Event::PermissionAnswered { .. }));
        assert!(asked < answered);
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_answers_instead_of_a_person() {
    let glob = |text: &str| Some(Glob::new(text).unwrap());
    for (action, answer) in [(Action::Allow, "approved"), (Action::Deny, "denied")] {
        let rule = Rule {
            name: "as ever".to_owned(),
            action,
            requester: glob("echo"),
            session: None,
            cwd: glob("/**"),
            tool: glob("ba[s]h"),
            argv: None,
            env: None,
            privileged: None,
        };
        let house = House::with_rules("", vec![rule]).await;
        let session = house.session("echo", Hosting::Warm).await;
        let sent = session.send(prompt("approve")).await.unwrap();
        let events = follow(&session, sent.after_seq, sent.turn).await;
        assert_eq!(end_of(&events), (Outcome::Completed, answer.to_owned()));
        let asked = house.approvals.list(10).await.unwrap();
        assert_eq!((asked.len(), asked[0].rule.as_str(), asked[0].state.word()), (1, "as ever", answer));
        let why = house.approvals.why(&asked[0].id).await.unwrap().unwrap();
        assert_eq!((why.action, why.looked[0].because.as_str()), (action, "it matches"));
        assert_eq!(house.approvals.audit().verify(None).await.unwrap().records, 1 + 2);
        house.end().await;
    }
}

const ANSWER: &str = r#"
printf '%s\n' '{"type":"system","subtype":"init","session_id":"sdk-1","model":"m1"}'
printf '%s\n' '{"type":"assistant","message":{"content":[{"type":"text","text":"said"}]}}'
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"session_id":"sdk-1","result":"said"}'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn one_process_per_message() {
    let house = House::new(ANSWER).await;
    let session = house.session("script", Hosting::PerMessage).await;
    assert_eq!(ask(&session, "one").await, (Outcome::Completed, "said".to_owned()));
    assert_eq!(ask(&session, "two").await, (Outcome::Completed, "said".to_owned()));
    let info = session.info();
    assert_eq!(info.cli_session_id.as_deref(), Some("sdk-1"));
    assert_eq!((info.model_reported.as_deref(), info.model_chosen), (Some("m1"), None));
    assert_eq!(info.pid, None);
    assert_eq!(house.processes.list().len(), 2);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_says_why() {
    let house = House::new("echo 'no key' >&2; exit 3").await;
    let session = house.session("missing", Hosting::PerMessage).await;
    let (outcome, reason) = ask(&session, "x").await;
    assert_eq!(outcome, Outcome::Failed);
    assert!(reason.starts_with("Failed to spawn no-such-program-anywhere: No such file or directory"), "{reason}");
    assert!(reason.contains("[agents.missing]"), "{reason}");
    let session = house.session("script", Hosting::PerMessage).await;
    let (outcome, reason) = ask(&session, "x").await;
    assert_eq!(outcome, Outcome::Failed);
    assert!(reason.contains("code=3") && reason.contains("no key"), "{reason}");
    assert_eq!(session.status(), Status::Idle);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_its_cli_says_which_and_how_to_get_it() {
    let house = House::new("true").await;
    let refused = async |agent: &str| {
        let new = NewSession { id: None, ..new_session("", agent, Hosting::Warm, house.place.path()) };
        house.sessions.create(new).await.err().unwrap().to_string()
    };
    for (cli, package) in [
        ("claude", "@anthropic-ai/claude-code"),
        ("codex", "@openai/codex"),
        ("gemini", "@google/gemini-cli"),
        ("opencode", "opencode-ai"),
    ] {
        let reason = refused(cli).await;
        assert!(reason.contains(&format!("no `{cli}` on its PATH")), "{reason}");
        assert!(reason.contains(&format!("`npm install -g {package}`")), "{reason}");
        assert!(reason.contains(&format!("[agents.{cli}]")), "{reason}");
    }
    // Neither of these is the name of a program.
    for name in ["acp", "nobody"] {
        assert_eq!(refused(name).await, format!("there is no agent `{name}`; there are: echo, missing, script"));
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stubborn_process_is_killed_with_everything_it_started() {
    let house = House::new("trap '' TERM; setsid sleep 1000 & echo started; while :; do sleep 1; done").await;
    let session = house.session("script", Hosting::PerMessage).await;
    let sent = session.send(prompt("x")).await.unwrap();
    let process = until("the process is there", async || house.processes.list().pop(), Option::is_some).await.unwrap();
    let members = async || process.tree().await.members;
    until("it has started its children", members, |members| members.len() >= 3).await;
    assert!(session.interrupt(Scope::Everything, Cause::ClientRpc).await);
    let (outcome, _) = end_of(&follow(&session, sent.after_seq, sent.turn).await);
    assert_eq!(outcome, Outcome::Cancelled);
    assert!(process.tree().await.members.iter().all(|member| member.zombie));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_takes_nothing_and_can_come_back() {
    let house = House::new("").await;
    let session = house.session("echo", Hosting::Warm).await;
    ask(&session, "one").await;
    let sent = session.send(prompt("sleep 1000")).await.unwrap();
    session.close(Cause::SessionRemoved).await.unwrap();
    assert!(house.sessions.get(session.id()).is_none());
    assert!(matches!(session.send(prompt("x")).await, Err(SendError::Closed)));
    let events = follow(&session, sent.after_seq, sent.turn).await;
    assert_eq!(end_of(&events).0, Outcome::Cancelled);
    assert_eq!(house.processes.running(), 0);
    let again = house.sessions.revive(session.id()).await.unwrap();
    assert_eq!(ask(&again, "back").await.1, "echo: back");
    assert_eq!(again.info().turns, 3);
    assert!(house.sessions.kill(session.id()).await.unwrap());
    assert!(house.sessions.revive(session.id()).await.is_err());
    assert!(house.sessions.delete(session.id()).await.unwrap());
    assert!(house.sessions.stored(session.id()).await.unwrap().is_none());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_idle_processes_make_room() {
    let house = House::new("").await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let session = house.session("echo", Hosting::Warm).await;
        ask(&session, "hello").await;
        sessions.push(session);
    }
    until("no more run than are kept warm", async || house.processes.running(), |running| *running <= 2).await;
    assert_eq!(ask(&sessions[0], "still there").await.1, "echo: still there");
    house.end().await;
}
