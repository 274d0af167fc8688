//! Rules and grants where they are applied: in the write that stores a request.

use std::time::Duration;

use hostel_agents::Decision;
use hostel_house::approvals::{
    Action, Approval, Covered, DecideError, Glob, GrantTerms, NewRequest, Requester, RunState, Scope, State, Subject,
};
use hostel_house::pipelines::Privilege;
use hostel_peer::PeerInfo;
use hostel_syncpoint::SyncPoint;

use super::house::{House, command, pipeline, request, requester, root_command, rule, terminal, with_passphrase};
use crate::support::until;

fn terms() -> GrantTerms {
    GrantTerms {
        scope: Scope::Session,
        covered: Covered::Exact,
        lasts: Duration::from_secs(600),
        count: None,
        privileged: false,
    }
}

fn patterns(words: &[&str]) -> Covered {
    Covered::Argv(words.iter().map(|word| Glob::new(word).unwrap()).collect())
}

fn of_tree(root: (u32, u64), session: &str, new: NewRequest) -> NewRequest {
    let peer = PeerInfo { root_pid: root.0, root_started: root.1, ..PeerInfo::default() };
    let requester = Requester { session: session.to_owned(), peer: Some(peer), ..requester() };
    NewRequest { requester, ..new }
}

async fn granted(house: &House, new: NewRequest, terms: GrantTerms) -> (Approval, u64) {
    let asked = house.ask(new).await;
    assert_eq!(asked.state, State::Pending);
    house.approvals.decide_with_grant(&asked.id, terms, &terminal()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_decide_at_once_and_are_recorded() {
    let house = House::with(|options| {
        options.rules = vec![rule("fine", Action::Allow, &["true"]), rule("never", Action::Deny, &["rm", "**"])];
    })
    .await;
    let allowed = house.ask(command(&["true"])).await;
    assert_eq!((allowed.state, allowed.run, allowed.rule.as_str()), (State::Approved, RunState::Due, "fine"));
    assert_eq!((allowed.runs.len(), allowed.decider.as_str()), (1, "rule fine"));
    let denied = house.ask(command(&["rm", "-rf", "/"])).await;
    assert_eq!((denied.state, denied.run, denied.rule.as_str()), (State::Denied, RunState::None, "never"));
    assert!(matches!(&denied.decision, Some(Decision::Reject(_))));
    assert!(denied.runs.is_empty());
    assert_eq!(house.ask(root_command(&["true"])).await.state, State::Pending);
    assert_eq!(house.ask(root_command(&["rm"])).await.state, State::Denied);
    assert_eq!(house.approvals.pending().len(), 1);
    for id in [&allowed.id, &denied.id] {
        assert_eq!(house.records(id).await, ["requested", "decided"]);
        assert!(house.approve(id).await.is_err());
    }
    let found = house.get(&allowed.id).await;
    assert_eq!((found.state, found.rule, found.runs), (State::Approved, allowed.rule, allowed.runs));
}

#[tokio::test(flavor = "multi_thread")]
async fn why_tells_every_rule_that_was_looked_at() {
    let house = House::with(|options| {
        options.rules = vec![
            rule("fine", Action::Allow, &["cat", "*"]),
            rule("never", Action::Deny, &["rm", "**"]),
            hostel_house::approvals::Rule {
                session: Some(Glob::new("beta").unwrap()),
                ..rule("b", Action::Ask, &["**"])
            },
        ];
    })
    .await;
    let asked = house.ask(request(Subject::Pipeline(pipeline(&[&["cat", "x"], &["sh"]], Privilege::None)))).await;
    let why = house.approvals.why(&asked.id).await.unwrap().unwrap();
    assert_eq!((why.action, why.rule.as_str()), (Action::Ask, ""));
    assert_eq!(why.decided, "it waits for a person");
    let looked: Vec<(&str, bool, &str)> =
        why.looked.iter().map(|one| (one.rule.as_str(), one.matched, one.because.as_str())).collect();
    assert_eq!(
        looked,
        [
            ("fine", true, "it matches stage 0 only"),
            ("never", false, "word 0 of the command does not fit `rm`"),
            ("b", false, "the session is `alpha`, not `beta`"),
        ]
    );
    house.approve(&asked.id).await.unwrap();
    let why = house.approvals.why(&asked.id).await.unwrap().unwrap();
    assert_eq!(why.decided, "it was approved by a person: the terminal");
    let denied = house.ask(command(&["rm", "x"])).await;
    let why = house.approvals.why(&denied.id).await.unwrap().unwrap();
    assert_eq!((why.decided.as_str(), why.rule.as_str()), ("it was denied by rule never", "never"));
    assert_eq!((why.looked[1].matched, why.looked[1].because.as_str()), (true, "it matches"));
    assert!(house.approvals.why("nothing").await.unwrap().is_none());
    let question = Subject::Question { text: "May I?".to_owned(), details: String::new() };
    let question = house.ask(request(question)).await;
    let looked = house.approvals.why(&question.id).await.unwrap().unwrap().looked;
    assert!(looked.iter().all(|one| !one.matched), "{looked:?}");
    assert_eq!((looked[0].rule.as_str(), looked[0].because.as_str()), ("fine", "it is about commands"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_answers_the_same_again() {
    let house = House::new().await;
    let (asked, grant) = granted(&house, command(&["make", "test"]), terms()).await;
    assert_eq!((asked.state, asked.rule.as_str()), (State::Approved, ""));
    let again = house.ask(command(&["make", "test"])).await;
    assert_eq!((again.state, again.rule), (State::Approved, format!("grant {grant}")));
    assert_eq!((again.run, again.runs.len()), (RunState::Due, 1));
    assert_ne!(again.runs, asked.runs);
    for other in [
        command(&["make", "tests"]),
        root_command(&["make", "test"]),
        NewRequest { requester: Requester { session: "beta".to_owned(), ..requester() }, ..command(&["make", "test"]) },
        NewRequest { requester: Requester { door: "mcp".to_owned(), ..requester() }, ..command(&["make", "test"]) },
    ] {
        assert_eq!(house.ask(other.clone()).await.state, State::Pending, "{other:?}");
    }
    assert_eq!(house.records(&asked.id).await, ["requested", "decided", "granted"]);
    let list = house.approvals.grants().await.unwrap();
    assert_eq!((list.len(), list[0].no, list[0].used, list[0].uses_left), (1, grant, 1, None));
    assert_eq!(list[0].decider, "the terminal");
    // It is on disk.
    let house = house.restart().await;
    assert_eq!(house.ask(command(&["make", "test"])).await.state, State::Approved);
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counted_grant_is_used_up_exactly() {
    let house = House::new().await;
    let (_, grant) = granted(&house, command(&["true"]), GrantTerms { count: Some(10), ..terms() }).await;
    let mut many = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let approvals = house.approvals.clone();
        many.spawn(async move { approvals.request(command(&["true"])).await.unwrap() });
    }
    let all = many.join_all().await;
    assert_eq!(all.iter().filter(|one| one.state == State::Approved).count(), 10);
    assert_eq!(house.approvals.pending().len(), 40);
    assert!(house.approvals.grants().await.unwrap().is_empty());
    let house = house.restart().await;
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
    let of_grant = all.iter().filter(|one| one.rule == format!("grant {grant}")).count();
    assert_eq!(of_grant, 10);
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_disk_refuses_uses_nothing_up() {
    let house = House::new().await;
    granted(&house, command(&["true"]), GrantTerms { count: Some(1), ..terms() }).await;
    let refuse = "CREATE TEMP TRIGGER refuse BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no room'); END";
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(refuse)).await.unwrap();
    house.approvals.request(command(&["true"])).await.unwrap_err();
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch("DROP TRIGGER refuse")).await.unwrap();
    assert_eq!(house.approvals.grants().await.unwrap()[0].uses_left, Some(1));
    assert_eq!(house.ask(command(&["true"])).await.state, State::Approved);
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_ends() {
    let house = House::new().await;
    let (_, grant) =
        granted(&house, command(&["true"]), GrantTerms { lasts: Duration::from_millis(1), ..terms() }).await;
    until("the grant has ended", async || house.approvals.grants().await.unwrap(), Vec::is_empty).await;
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
    // Before its end it can be taken back, by who may.
    let (_, other) = granted(&house, command(&["sleep"]), terms()).await;
    assert_ne!(other, grant);
    let socket = hostel_house::approvals::Claim { face: hostel_house::approvals::Face::Socket, ..terminal() };
    assert!(matches!(house.approvals.revoke(other, &socket).await, Err(DecideError::Refused(_))));
    assert!(matches!(
        house.approvals.revoke(other, &with_passphrase("not one is set")).await,
        Err(DecideError::NoPassphraseSet)
    ));
    let (_, third) = granted(&house, command(&["cat"]), terms()).await;
    assert_eq!(house.ask(command(&["sleep"])).await.rule, format!("grant {other}"), "one does not end another");
    assert!(house.approvals.revoke(other, &terminal()).await.unwrap());
    assert!(!house.approvals.revoke(other, &terminal()).await.unwrap());
    assert_eq!(house.ask(command(&["sleep"])).await.state, State::Pending);
    let answered = house.ask(command(&["cat"])).await;
    assert_eq!((answered.state, answered.rule), (State::Approved, format!("grant {third}")), "the others stay");
    let records = house.approvals.audit().show(0, 100).await.unwrap();
    assert_eq!(records.iter().filter(|record| record.kind == "revoked").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_for_a_tree_of_processes() {
    let house = House::new().await;
    let requester = GrantTerms { scope: Scope::Requester, ..terms() };
    granted(&house, of_tree((10, 100), "alpha", command(&["true"])), requester).await;
    let asks = async |root, session| house.ask(of_tree(root, session, command(&["true"]))).await.state;
    assert_eq!(asks((10, 100), "alpha").await, State::Approved);
    // What a session calls itself does not matter then, another tree does, and so does a number given away again.
    assert_eq!(asks((10, 100), "beta").await, State::Approved);
    assert_eq!(asks((11, 100), "alpha").await, State::Pending);
    assert_eq!(asks((10, 101), "alpha").await, State::Pending);
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_for_a_wording() {
    let house = House::new().await;
    let wording = GrantTerms { covered: patterns(&["git", "log", "**"]), ..terms() };
    granted(&house, command(&["git", "log", "-1"]), wording).await;
    for words in [&["git", "log"][..], &["git", "log", "--stat", "main"]] {
        assert_eq!(house.ask(command(words)).await.state, State::Approved, "{words:?}");
    }
    for words in [&["git", "push"][..], &["git"], &["git-log", "log"], &["sh", "-c", "git log"]] {
        assert_eq!(house.ask(command(words)).await.state, State::Pending, "{words:?}");
    }
    // The same words under other conditions are something else.
    let mut other = pipeline(&[&["git", "log"]], Privilege::None);
    other.env.push(("HOME".to_owned(), "/tmp/evil".to_owned()));
    assert_eq!(house.ask(request(Subject::Pipeline(other))).await.state, State::Pending);
    let mut other = pipeline(&[&["git", "log"]], Privilege::None);
    other.forward_agent = true;
    assert_eq!(house.ask(request(Subject::Pipeline(other))).await.state, State::Pending);
    let both = pipeline(&[&["git", "log"], &["sh"]], Privilege::None);
    assert_eq!(house.ask(request(Subject::Pipeline(both))).await.state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_that_make_no_sense_are_refused_and_decide_nothing() {
    let house = House::new().await;
    let plain = house.ask(command(&["git", "log"])).await;
    let root = house.ask(root_command(&["true"])).await;
    let nobody = NewRequest { requester: Requester { session: String::new(), ..requester() }, ..command(&["true"]) };
    let nobody = house.ask(nobody).await;
    let cases = [
        (&plain.id, GrantTerms { lasts: Duration::ZERO, ..terms() }),
        (&plain.id, GrantTerms { lasts: Duration::from_secs(25 * 3600), ..terms() }),
        (&plain.id, GrantTerms { count: Some(0), ..terms() }),
        (&plain.id, GrantTerms { covered: patterns(&["git", "push"]), ..terms() }),
        (&plain.id, GrantTerms { covered: patterns(&["*", "log"]), ..terms() }),
        (&plain.id, GrantTerms { covered: patterns(&["**"]), ..terms() }),
        (&plain.id, GrantTerms { covered: patterns(&[]), ..terms() }),
        (&root.id, terms()),
        (&nobody.id, terms()),
    ];
    for (id, terms) in cases {
        let refused = house.approvals.decide_with_grant(id, terms.clone(), &terminal()).await;
        assert!(matches!(refused, Err(DecideError::Refused(_))), "{terms:?}: {refused:?}");
        assert_eq!(house.get(id).await.state, State::Pending);
    }
    let tool = Subject::Tool { tool: "Read".to_owned(), input: hostel_agents::Raw::null() };
    let tool = house.ask(request(tool)).await;
    let socket = hostel_house::approvals::Claim { face: hostel_house::approvals::Face::Socket, ..terminal() };
    let refused = house.approvals.decide_with_grant(&tool.id, terms(), &socket).await;
    assert!(matches!(refused, Err(DecideError::Refused(_))), "{refused:?}");
    assert!(house.approvals.grants().await.unwrap().is_empty());
    // Root is covered if that is said, and then nothing else is.
    let said = GrantTerms { privileged: true, ..terms() };
    house.approvals.decide_with_grant(&root.id, said, &terminal()).await.unwrap();
    assert_eq!(house.ask(root_command(&["true"])).await.state, State::Approved);
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_denies_comes_before_any_grant() {
    let house = House::new().await;
    granted(&house, command(&["rm", "x"]), terms()).await;
    let house = house.restart_with(|options| options.rules = vec![rule("never", Action::Deny, &["rm", "**"])]).await;
    assert_eq!(house.ask(command(&["rm", "x"])).await.state, State::Denied);
    // One that only asks is answered by it.
    let house = house.restart_with(|options| options.rules = vec![rule("look", Action::Ask, &["rm", "**"])]).await;
    assert_eq!(house.ask(command(&["rm", "x"])).await.state, State::Approved);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_grant_has_two_barriers() {
    let always = async |house: &House, new: NewRequest| {
        let asked = house.ask(new).await;
        house.approvals.decide(&asked.id, Decision::AllowAlways, &terminal()).await.unwrap()
    };
    // Not eligible: "always" is this once.
    let house = House::new().await;
    assert_eq!(always(&house, command(&["true"])).await.state, State::Approved);
    assert!(!house.approvals.session_grant().given() && !house.approvals.session_grant().eligible());
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
    // Eligible: nobody has said "always" yet.
    let house = house.restart_with(|options| options.eligible = true).await;
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
    let once = house.ask(command(&["true"])).await;
    house.approve(&once.id).await.unwrap();
    assert!(!house.approvals.session_grant().given());
    // "Always" to anything root does is a refusal, and gives nothing.
    let root = always(&house, root_command(&["true"])).await;
    assert_eq!((root.state, root.run), (State::Denied, RunState::None));
    assert!(!house.approvals.session_grant().given());
    let given = always(&house, command(&["true"])).await;
    assert!(house.approvals.session_grant().given());
    assert_eq!(house.records(&given.id).await, ["requested", "decided", "granted"]);
    let unasked = house.ask(command(&["anything", "else"])).await;
    assert_eq!((unasked.state, unasked.rule.as_str()), (State::Approved, "session grant"));
    assert_eq!(house.ask(root_command(&["true"])).await.state, State::Pending);
    let elsewhere = NewRequest { requester: Requester { door: "mcp".to_owned(), ..requester() }, ..command(&["true"]) };
    assert_eq!(house.ask(elsewhere).await.state, State::Pending);
    // It is gone with the daemon.
    let house = house.restart().await;
    assert!(!house.approvals.session_grant().given());
    assert_eq!(house.ask(command(&["true"])).await.state, State::Pending);
    let house = house.restart_with(|options| options.rules = vec![rule("never", Action::Deny, &["rm"])]).await;
    always(&house, command(&["true"])).await;
    assert_eq!(house.ask(command(&["rm"])).await.state, State::Denied);
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_always_gives_the_session_grant() {
    let house = House::with(|options| options.eligible = true).await;
    let once = house.ask(command(&["true"])).await;
    house.approve(&once.id).await.unwrap();
    assert_eq!(house.records(&once.id).await, ["requested", "decided"]);
    assert_eq!(
        (house.approvals.session_grant().given(), house.ask(command(&["true"])).await.state),
        (false, State::Pending)
    );
    let always = house.ask(command(&["false"])).await;
    house.approvals.decide(&always.id, Decision::AllowAlways, &terminal()).await.unwrap();
    assert_eq!(house.records(&always.id).await, ["requested", "decided", "granted"]);
    assert_eq!(
        (house.approvals.session_grant().given(), house.ask(command(&["true"])).await.state),
        (true, State::Approved)
    );
}
