//! Nobody approves themselves.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use hostel_agents::{Decision, Raw};
use hostel_house::approvals::{Claim, DecideError, Face, Kind, NewRequest, Passphrase, Requester, State, Subject};
use hostel_house::pipelines::Privilege;
use hostel_peer::{Ends, Peer, PeerInfo, start_of};

use super::house::{House, command, connected, pipeline, request, requester, root_command, with_passphrase};

const RIGHT: &str = "correct horse";

/// A process, and one that it started; ended with the test.
struct Family {
    parent: Child,
    child: u32,
}

impl Family {
    /// The younger one as `how` starts it: it prints its number and waits.
    fn start(how: &str) -> Self {
        let mut parent =
            Command::new("sh").args(["-c", how]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(parent.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Family { child: line.trim().parse().unwrap(), parent }
    }

    fn decider(&self) -> Peer {
        local(self.child)
    }

    /// Whoever asks, as the top of a tree of its own.
    fn requester(&self) -> Requester {
        let pid = self.parent.id();
        let started = start_of(pid).unwrap();
        let peer = PeerInfo { pid, started, root_pid: pid, root_started: started, ..PeerInfo::default() };
        Requester { peer: Some(peer), ..requester() }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_raw(self.child as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        self.parent.kill().ok();
        self.parent.wait().ok();
    }
}

fn local(pid: u32) -> Peer {
    Peer::of_process(pid)
}

async fn with_approver() -> House {
    let house = House::new().await;
    let right = Passphrase::new(RIGHT.to_owned());
    house.approvals.approver().set(right, None, &Peer::own(), "me").await.unwrap();
    house
}

async fn decide(house: &House, id: &str, peer: Peer) -> Result<State, DecideError> {
    let claim = Claim { peer, ..with_passphrase(RIGHT) };
    house.approvals.decide(id, Decision::AllowOnce, &claim).await.map(|approval| approval.state)
}

fn refused(outcome: &Result<State, DecideError>) -> bool {
    matches!(outcome, Err(DecideError::Refused(_)))
}

const CHILD: &str = "sleep 1000 & echo $!; read line";
const SETSID: &str = "setsid sleep 1000 & echo $!; read line";
const GRANDCHILD: &str = "sh -c 'sleep 1000 & echo $!; wait' & read line";

#[tokio::test(flavor = "multi_thread")]
async fn the_requesters_own_tree_does_not_decide_even_with_the_passphrase() {
    let house = with_approver().await;
    for how in [CHILD, SETSID, GRANDCHILD] {
        let family = Family::start(how);
        let asked = house.ask(NewRequest { requester: family.requester(), ..command(&["true"]) }).await;
        for peer in [family.decider(), local(family.parent.id())] {
            let outcome = decide(&house, &asked.id, peer).await;
            assert!(refused(&outcome), "{how}: {outcome:?}");
        }
        assert_eq!(house.get(&asked.id).await.state, State::Pending);
        // Somebody else may; the parent of whoever asks among them.
        assert_eq!(decide(&house, &asked.id, local(std::process::id())).await.unwrap(), State::Approved);
        let kinds = house.records(&asked.id).await;
        assert_eq!(kinds, ["requested", "refused", "refused", "decided"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_another_tree_decides() {
    let house = with_approver().await;
    let (asker, other) = (Family::start(CHILD), Family::start(CHILD));
    let asked = house.ask(NewRequest { requester: asker.requester(), ..command(&["true"]) }).await;
    assert_eq!(decide(&house, &asked.id, other.decider()).await.unwrap(), State::Approved);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_inside_the_house_decides_nothing_and_costs_no_attempt() {
    let house = with_approver().await;
    let agent = Family::start(CHILD);
    house.neighbours.inside.lock().insert(agent.child);
    let asked = house.ask(command(&["true"])).await;
    for text in [RIGHT, "wrong", "wrong", "wrong", "wrong", "wrong", "wrong"] {
        let claim = Claim { peer: agent.decider(), ..with_passphrase(text) };
        let outcome = house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await;
        assert!(matches!(outcome, Err(DecideError::Refused(_))), "{outcome:?}");
    }
    let inside = agent.decider();
    let approver = house.approvals.approver();
    let passphrase = || Passphrase::new(RIGHT.to_owned());
    assert!(matches!(approver.unlock(&passphrase(), &inside, "x").await, Err(DecideError::Refused(_))));
    assert!(matches!(approver.clear(passphrase(), &inside, "x").await, Err(DecideError::Refused(_))));
    let set = approver.set(Passphrase::new("battery staple".to_owned()), Some(passphrase()), &inside, "x").await;
    assert!(matches!(set, Err(DecideError::Refused(_))), "{set:?}");
    let revoke = house.approvals.revoke(1, &Claim { peer: inside, ..with_passphrase(RIGHT) }).await;
    assert!(matches!(revoke, Err(DecideError::Refused(_))), "{revoke:?}");
    // The person is not locked out by any of it.
    assert_eq!(decide(&house, &asked.id, Peer::own()).await.unwrap(), State::Approved);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_or_is_another_by_now_decides_nothing() {
    let house = with_approver().await;
    let asked = house.ask(command(&["true"])).await;
    let mut gone = Command::new("sleep").arg("1000").spawn().unwrap();
    let peer = local(gone.id());
    gone.kill().unwrap();
    gone.wait().unwrap();
    for peer in [peer, local(gone.id()), Peer::unknown()] {
        let outcome = decide(&house, &asked.id, peer.clone()).await;
        assert!(refused(&outcome), "{peer:?}: {outcome:?}");
    }
    assert_eq!(house.get(&asked.id).await.state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn which_way_decides_what() {
    let house = with_approver().await;
    let tool = Subject::Tool { tool: "Bash".to_owned(), input: Raw::null() };
    let question = Subject::Question { text: "May I?".to_owned(), details: String::new() };
    let pkexec = Subject::Pipeline(pipeline(&[&["true"]], Privilege::Pkexec));
    let plain = command(&["true"]).subject;
    let root = root_command(&["true"]).subject;
    let elsewhere = |new: NewRequest| {
        let requester = Requester { door: "mcp".to_owned(), ..requester() };
        NewRequest { requester, ..new }
    };
    let unlock =
        house.approvals.approver().unlock(&Passphrase::new(RIGHT.to_owned()), &Peer::own(), "me").await.unwrap();
    // By socket, terminal, pkexec, and with the passphrase.
    let cases = [
        (request(tool), [true, false, false, true]),
        (request(question), [false, false, false, true]),
        (request(plain.clone()), [false, true, false, true]),
        (request(root), [false, true, false, true]),
        (request(pkexec), [false, true, true, true]),
        (elsewhere(request(plain)), [false, false, false, true]),
    ];
    for (new, may) in cases {
        let faces = [Face::Socket, Face::Terminal, Face::Pkexec, Face::Unlocked(unlock.clone())];
        for (face, may) in faces.into_iter().zip(may) {
            let asked = house.ask(new.clone()).await;
            let claim = Claim { face: face.clone(), peer: Peer::own(), label: "x".to_owned() };
            let outcome = house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await;
            match may {
                true => assert_eq!(outcome.unwrap().state, State::Approved, "{face:?} {new:?}"),
                false => assert!(matches!(outcome, Err(DecideError::Refused(_))), "{face:?} {new:?}: {outcome:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elsewhere_with_a_token_decides_about_tools() {
    let house = House::new().await;
    let asked = house.ask(request(Subject::Tool { tool: "Bash".to_owned(), input: Raw::null() })).await;
    let ends = Ends { theirs: "192.0.2.1:1234".parse().unwrap(), ours: "192.0.2.2:443".parse().unwrap() };
    let peer = Peer::of_tcp(ends);
    let claim = Claim { face: Face::Socket, peer, label: "elsewhere".to_owned() };
    assert_eq!(house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await.unwrap().state, State::Approved);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_does_not_make_a_process_of_the_house_a_person() {
    let house = House::new().await;
    let asked = house.ask(request(Subject::Tool { tool: "Bash".to_owned(), input: Raw::null() })).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, theirs) = listener.accept().unwrap();
    let peer = Peer::of_tcp(Ends { theirs, ours: server.local_addr().unwrap() });
    let claim = Claim { face: Face::Socket, peer, label: "over TCP".to_owned() };
    house.neighbours.inside.lock().insert(std::process::id());
    let inside = house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await;
    assert!(matches!(inside, Err(DecideError::Refused(_))), "{inside:?}");
    house.neighbours.inside.lock().clear();
    // Likewise the requester's own tree.
    let (pid, started) = (std::process::id(), start_of(std::process::id()).unwrap());
    let peer = PeerInfo { pid, started, root_pid: pid, root_started: started, ..PeerInfo::default() };
    let tool = request(Subject::Tool { tool: "Bash".to_owned(), input: Raw::null() });
    let own = house.ask(NewRequest { requester: Requester { peer: Some(peer), ..requester() }, ..tool }).await;
    let by_itself = house.approvals.decide(&own.id, Decision::AllowOnce, &claim).await;
    assert!(matches!(by_itself, Err(DecideError::Refused(_))), "{by_itself:?}");
    assert_eq!(house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await.unwrap().state, State::Approved);
    // Who has hung up is nobody.
    drop(client);
    let asked = house.ask(request(Subject::Tool { tool: "Bash".to_owned(), input: Raw::null() })).await;
    let nobody = house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await;
    assert!(matches!(nobody, Err(DecideError::Refused(_))), "{nobody:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_anybody_could_decide() {
    let house = House::new().await;
    assert!(house.approvals.someone_can_decide(Kind::Tool));
    assert!(!house.approvals.someone_can_decide(Kind::Privileged));
    let face = house.approvals.face();
    assert!(house.approvals.someone_can_decide(Kind::Privileged));
    drop(face);
    assert!(!house.approvals.someone_can_decide(Kind::Pipeline));
    let right = Passphrase::new(RIGHT.to_owned());
    house.approvals.approver().set(right, None, &Peer::own(), "me").await.unwrap();
    assert!(house.approvals.someone_can_decide(Kind::Pipeline));
    let strict = House::with(|options| options.strict = true).await;
    assert!(!strict.approvals.someone_can_decide(Kind::Tool));
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_attempts_do_not_fill_the_audit() {
    let house = House::new().await;
    let asked = house.ask(root_command(&["true"])).await;
    let claim = Claim { face: Face::Socket, peer: Peer::unknown(), label: "somebody".to_owned() };
    for _ in 0..200 {
        house.approvals.decide(&asked.id, Decision::AllowOnce, &claim).await.unwrap_err();
    }
    let count = house.records(&asked.id).await.len();
    assert!((2..=61).contains(&count), "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_unrecognised_asked_is_decided_at_the_terminal_of_the_house_only() {
    let house = with_approver().await;
    let other = Family::start(CHILD);
    let nobody = requester();
    assert_eq!(nobody.peer, None);
    let asked = house.ask(NewRequest { requester: nobody, ..connected("one", &["true"]) }).await;
    let outcome = decide(&house, &asked.id, other.decider()).await;
    assert!(
        matches!(&outcome, Err(DecideError::Refused(why)) if why.contains("could not be recognised")),
        "{outcome:?}"
    );
    let elsewhere = Ends { theirs: "192.0.2.1:1234".parse().unwrap(), ours: "192.0.2.2:443".parse().unwrap() };
    assert!(refused(&decide(&house, &asked.id, Peer::of_tcp(elsewhere)).await));
    let terminal = Claim { face: Face::Terminal, peer: Peer::own(), label: "the terminal".to_owned() };
    let decided = house.approvals.decide(&asked.id, Decision::AllowOnce, &terminal).await.unwrap();
    assert_eq!(decided.state, State::Approved);
    // What an agent asks comes by no connection: who may decide at all is no agent.
    let tool = request(Subject::Tool { tool: "Bash".to_owned(), input: Raw::null() });
    let asked = house.ask(tool).await;
    assert_eq!(decide(&house, &asked.id, other.decider()).await.unwrap(), State::Approved);
}
