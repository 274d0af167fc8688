//! The real inbox and the real pipelines under the operations of the model: clients that come, repeat themselves, leave
//! and come back, people who race to decide, daemons that vanish in the middle of all that and come back with other
//! rules, a keeper that dies. What is on disk, what ran and what everybody was told must be something that the model
//! allows.
//!
//! Commands are real children that leave a trace each; the database is a real one, opened anew by every daemon.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use crate::property;
use crate::support;

use std::cell::Cell;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hostel_agents::Decision;
use hostel_house::approvals::{
    Claim, Covered, DecideError, Face, Glob, GrantTerms, Life, NewRequest, Requester, SUDO_PROXY, Scope, Subject,
};
use hostel_house::pipelines::{PlanRequest, plan};
use hostel_models::approvals::allowed::{Allowed, Event, Seen, Terms};
use hostel_models::approvals::steps::Action;
use hostel_models::approvals::world::{Client, Kind, Rules, Verdict, World};
use hostel_peer::Peer;
use property::daemon::{Daemon, kill_keeper, standing};
use property::visit::{Told, Visit, Wish};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::pipelines::Place;

/// What is done.
#[derive(Clone, Debug)]
enum Deed {
    Send { request: usize, line: usize, same_bytes: bool },
    Leave { request: usize, line: usize },
    Decide { request: usize, verdicts: Vec<Verdict> },
    RequesterDecides { request: usize },
    Nothing,
    KeeperDies,
}

/// What is done, and whether the daemon vanishes meanwhile.
#[derive(Clone, Debug)]
struct Step {
    deed: Deed,
    /// Microseconds until the daemon vanishes, and the rules and the eligibility of the next.
    death: Option<(u32, Rules, bool)>,
}

/// A whole life of a house.
#[derive(Clone, Debug)]
struct Story {
    privileged: [bool; 2],
    short: [bool; 2],
    rules: Rules,
    eligible: bool,
    /// A grant for one request is there from the beginning.
    granted: bool,
    steps: Vec<Step>,
}

fn rules() -> impl Strategy<Value = Rules> {
    prop_oneof![3 => Just(Rules::Ask), 1 => Just(Rules::Allow), 1 => Just(Rules::Deny)]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![3 => Just(Verdict::Yes), 1 => Just(Verdict::No), 1 => Just(Verdict::Always)]
}

fn deed() -> impl Strategy<Value = Deed> {
    let line = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
    prop_oneof![
        6 => (0..2_usize, line.clone(), prop::bool::weighted(0.8))
            .prop_map(|(request, line, same_bytes)| Deed::Send { request, line, same_bytes }),
        2 => (0..2_usize, line).prop_map(|(request, line)| Deed::Leave { request, line }),
        5 => (0..2_usize, prop::collection::vec(verdict(), 1..=2))
            .prop_map(|(request, verdicts)| Deed::Decide { request, verdicts }),
        1 => (0..2_usize).prop_map(|request| Deed::RequesterDecides { request }),
        1 => Just(Deed::Nothing),
        1 => Just(Deed::KeeperDies),
    ]
}

fn story() -> impl Strategy<Value = Story> {
    let death = prop::option::weighted(0.35, (0..30_000_u32, rules(), any::<bool>()));
    let step = (deed(), death).prop_map(|(deed, death)| Step { deed, death });
    let privileged = prop_oneof![2 => Just([false, false]), 1 => Just([true, false]), 1 => Just([false, true])];
    let short = prop_oneof![4 => Just([false, false]), 1 => Just([true, false])];
    (privileged, short, rules(), any::<bool>(), any::<bool>(), prop::collection::vec(step, 4..14)).prop_map(
        |(privileged, short, rules, eligible, granted, steps)| Story {
            privileged,
            short,
            rules,
            eligible,
            granted,
            steps,
        },
    )
}

/// A story while it is played.
struct Play {
    place: Place,
    daemon: Option<Daemon>,
    allowed: Allowed,
    terms: Terms,
    privileged: [bool; 2],
    visits: [[Option<Visit>; 2]; 2],
    clients: [[Client; 2]; 2],
    credited: [u8; 2],
    keeper_died: bool,
    /// Somebody who is taken for every client.
    requester: Child,
}

impl Drop for Play {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.run(daemon.processes.stop_keeper(Duration::ZERO)).ok();
            daemon.vanish();
        }
        self.requester.kill().ok();
        self.requester.wait().ok();
    }
}

impl Play {
    fn begin(story: &Story) -> Self {
        let place = Place::new();
        let mut requester = Command::new("sleep");
        // Longer than any story.
        requester.arg("100000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let requester = requester.spawn().unwrap();
        if story.granted {
            let before = Daemon::start(&place, Rules::Ask, false, requester.id());
            before.run(give_grant(&before));
            before.vanish();
        }
        let daemon = Daemon::start(&place, story.rules, story.eligible, requester.id());
        let kinds = story.privileged.map(|privileged| if privileged { Kind::Privileged } else { Kind::Plain });
        Play {
            daemon: Some(daemon),
            allowed: Allowed::new(World::new(kinds, u8::from(story.granted), true)),
            terms: Terms { rules: story.rules, eligible: story.eligible, short: story.short },
            privileged: story.privileged,
            visits: Default::default(),
            clients: [[Client::NotYet; 2]; 2],
            credited: [0; 2],
            keeper_died: false,
            place,
            requester,
        }
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("a daemon")
    }

    fn wish(&self, request: usize, same_bytes: bool) -> Wish {
        let (id, trace) = (format!("request-{request}"), self.trace(request));
        let script = format!("echo {id} >> {}; sleep 0.00{}", trace.display(), request * 9);
        Wish {
            id,
            argv: vec!["sh".to_owned(), "-c".to_owned(), script],
            privileged: self.privileged[request],
            life: Life::Fixed(Duration::from_millis(if self.terms.short[request] { 25 } else { 600_000 })),
            salt: u8::from(!same_bytes),
        }
    }

    fn trace(&self, request: usize) -> std::path::PathBuf {
        self.place.path().join(format!("trace-{request}"))
    }

    /// Takes a step on both sides and compares.
    fn step(&mut self, step: &Step) {
        let mut verdicts = Vec::new();
        let event = match &step.deed {
            Deed::Send { request, line, same_bytes } => self.send(*request, *line, *same_bytes),
            Deed::Leave { request, line } => self.leave(*request, *line),
            Deed::KeeperDies if !self.keeper_died => {
                self.keeper_died = true;
                kill_keeper(&self.place);
                Event::KeeperDies
            }
            Deed::Decide { request, verdicts: said } => {
                verdicts.clone_from(said);
                Event::Decide(*request, &verdicts)
            }
            Deed::RequesterDecides { request } => {
                self.requester_decides(*request);
                Event::Nothing
            }
            Deed::Nothing | Deed::KeeperDies => Event::Nothing,
        };
        match step.death {
            None => {
                self.decide(event, None);
                self.allowed.happen(event, self.terms);
            }
            Some((micros, rules, eligible)) => {
                self.decide(event, Some(Duration::from_micros(u64::from(micros))));
                let next = Terms { rules, eligible, ..self.terms };
                self.allowed.happen_until_death(event, self.terms, next);
                self.restart(next);
            }
        }
        self.compare(&step.deed);
    }

    fn send(&mut self, request: usize, line: usize, same_bytes: bool) -> Event<'static> {
        let first = self.clients[request][0] != Client::NotYet;
        let may = match (line, self.clients[request][line]) {
            (0, Client::NotYet | Client::Cut) => true,
            // One request is repeated, and only once it was sent.
            (_, Client::NotYet | Client::Cut) => request == 0 && first,
            _ => false,
        };
        if !may {
            return Event::Nothing;
        }
        // Who was cut off sends what it sent before.
        let before = self.visits[request][line].as_ref().map(|visit| visit.same_bytes);
        let same_bytes = match (self.clients[request][line], before) {
            (Client::Cut, Some(before)) => before,
            _ => same_bytes || line == 0,
        };
        let wish = self.wish(request, same_bytes);
        let daemon = self.daemon();
        let visit = daemon.run(async { Visit::begin(&daemon.house, wish, same_bytes) });
        self.visits[request][line] = Some(visit);
        self.clients[request][line] = Client::Connected;
        Event::Step(Action::Send { request, line, same_bytes })
    }

    fn leave(&mut self, request: usize, line: usize) -> Event<'static> {
        match self.clients[request][line] {
            Client::Connected => {
                if let Some(visit) = &self.visits[request][line] {
                    visit.leave();
                }
            }
            Client::Cut => {}
            Client::NotYet | Client::Gone => return Event::Nothing,
        }
        self.clients[request][line] = Client::Gone;
        Event::Step(Action::Leave(request, line))
    }

    /// People decide, all at once; the daemon may have only so much time for it, and for whatever else goes on.
    fn decide(&mut self, event: Event<'_>, time: Option<Duration>) {
        let daemon = self.daemon.as_ref().expect("a daemon");
        let (request, verdicts) = match event {
            Event::Decide(request, verdicts) => (request, verdicts),
            _ => (0, &[] as &[Verdict]),
        };
        let id = format!("request-{request}");
        let told = daemon.run(async {
            let begun = Instant::now();
            let deciding = async {
                let Some(found) = daemon.found(&id).await else { return 0 };
                let asked: Vec<_> =
                    verdicts.iter().map(|verdict| tokio::spawn(say(daemon, &found.id, *verdict))).collect();
                let mut told = 0;
                for one in asked {
                    match one.await.unwrap() {
                        Ok(_) => told += 1,
                        Err(DecideError::Settled(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                told
            };
            let Some(time) = time else { return deciding.await };
            let told = tokio::time::timeout(time, deciding).await.unwrap_or(0);
            // The instant at which the daemon vanishes is the story's.
            tokio::time::sleep(time.saturating_sub(begun.elapsed())).await;
            told
        });
        self.credited[request] += told;
    }

    fn requester_decides(&self, request: usize) {
        let daemon = self.daemon();
        let refused = daemon.run(async {
            let found = daemon.found(&format!("request-{request}")).await?;
            Some(daemon.requester_decides(&found.id).await)
        });
        match refused {
            None | Some(Err(DecideError::Refused(_) | DecideError::Settled(_))) => {}
            Some(other) => panic!("the requester decided: {other:?}"),
        }
    }

    /// The daemon vanishes; who had no answer was cut off.
    fn restart(&mut self, next: Terms) {
        let daemon = self.daemon.take().expect("a daemon");
        daemon.vanish();
        for request in 0..2 {
            for line in 0..2 {
                let told = self.visits[request][line].as_ref().and_then(Visit::told);
                let client = &mut self.clients[request][line];
                *client = match (*client, told) {
                    (Client::Connected, Some(_)) | (Client::Gone, _) if line == 1 => Client::NotYet,
                    (Client::Connected, Some(_)) => Client::Gone,
                    (Client::Connected, None) => Client::Cut,
                    (other, _) => other,
                };
            }
        }
        self.terms = next;
        self.daemon = Some(Daemon::start(&self.place, next.rules, next.eligible, self.requester.id()));
    }

    /// Waits until the house is in a state that the model allows.
    fn compare(&mut self, deed: &Deed) {
        let deadline = Instant::now() + support::limit();
        let exact = !self.keeper_died;
        loop {
            let seen = self.look();
            if let Some(seen) = &seen
                && self.allowed.agree(seen, exact)
            {
                return;
            }
            if Instant::now() > deadline {
                panic!("after {deed:?} there is {seen:#?}, the model has {}", self.allowed.describe());
            }
            std::thread::sleep(support::POLL_INTERVAL);
        }
    }

    /// What there is, once nothing is under way.
    fn look(&mut self) -> Option<[Seen; 2]> {
        for request in 0..2 {
            for line in 0..2 {
                let Some(visit) = &self.visits[request][line] else { continue };
                let client = self.clients[request][line];
                let ends = match (client, line, visit.told()) {
                    (Client::Connected | Client::Gone, 1, Some(_)) => Client::NotYet,
                    (Client::Connected, 0, Some(_)) => Client::Gone,
                    (Client::Connected, _, None) if !visit.waits() => return None,
                    // It has left, and the daemon has not noticed.
                    (Client::Gone, _, None) if visit.is_of(self.daemon()) => return None,
                    (client, _, _) => client,
                };
                self.clients[request][line] = ends;
            }
        }
        let daemon = self.daemon();
        // Started, by this daemon or the one before it: its trace may be yet to come.
        if daemon.processes.running() > 0 {
            return None;
        }
        let mut seen = [None; 2];
        for (request, seen) in seen.iter_mut().enumerate() {
            let found = daemon.run(daemon.found(&format!("request-{request}")));
            let (standing, ending) = standing(found.as_ref());
            let trace = std::fs::read_to_string(self.trace(request)).unwrap_or_default();
            let runs = u8::try_from(trace.lines().count()).unwrap();
            let (credited, clients) = (self.credited[request], self.clients[request]);
            *seen = Some(Seen { standing, ending, runs, credited, clients });
        }
        let [Some(first), Some(second)] = seen else { return None };
        Some([first, second])
    }

    /// What everybody was told is what happened, and the audit is whole. How many commands ran.
    fn end(&mut self) -> usize {
        let mut ran = 0;
        let daemon = self.daemon.as_ref().expect("a daemon");
        let verified = daemon.run(daemon.house.approvals.audit().verify(None)).unwrap();
        assert!(verified.broken.is_none(), "{:?}", verified.broken);
        for request in 0..2 {
            let trace = std::fs::read_to_string(self.trace(request)).unwrap_or_default();
            let runs = trace.lines().count();
            ran += runs;
            assert!(runs <= 1, "request {request} ran {runs} times");
            for told in self.visits[request].iter().flatten().filter_map(Visit::told) {
                match told {
                    Told::Ran => assert!(runs == 1 || self.keeper_died, "it did not run"),
                    Told::Denied | Told::Expired | Told::Withdrawn | Told::NotRun => assert_eq!(runs, 0, "{told:?}"),
                    // Who repeats what somebody else was answered after a restart finds that its output is gone.
                    Told::Lost => assert!(self.keeper_died || runs == 1, "it was lost, and the keeper lives"),
                    Told::Duplicate | Told::Nothing => {}
                }
            }
        }
        ran
    }
}

/// One person says something.
fn say(
    daemon: &Daemon,
    id: &str,
    verdict: Verdict,
) -> impl Future<Output = Result<hostel_house::approvals::Approval, DecideError>> + Send + 'static {
    let decision = match verdict {
        Verdict::Yes => Decision::AllowOnce,
        Verdict::Always => Decision::AllowAlways,
        Verdict::No => Decision::Reject(String::new()),
    };
    let (approvals, id) = (daemon.house.approvals.clone(), id.to_owned());
    async move { approvals.decide(&id, decision, &a_person()).await }
}

fn a_person() -> Claim {
    Claim { face: Face::Terminal, peer: Peer::own(), label: "a person".to_owned() }
}

/// A grant for one more command of this form.
async fn give_grant(daemon: &Daemon) {
    let words = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
    let asked = PlanRequest { stages: vec![words("true")], ..PlanRequest::default() };
    let new = NewRequest {
        subject: Subject::Pipeline(plan(asked).await),
        requester: Requester { door: SUDO_PROXY.to_owned(), session: "a session".to_owned(), ..Requester::default() },
        summary: String::new(),
        reason: "for a grant".to_owned(),
        life: Life::Fixed(Duration::from_secs(600)),
        connection: None,
    };
    let approval = daemon.house.approvals.request(new).await.unwrap();
    let patterns = ["sh", "-c", "*"].map(|word| Glob::new(word).unwrap());
    let terms = GrantTerms {
        scope: Scope::Session,
        covered: Covered::Argv(patterns.to_vec()),
        lasts: Duration::from_secs(600),
        count: Some(1),
        privileged: false,
    };
    daemon.house.approvals.decide_with_grant(&approval.id, terms, &a_person()).await.unwrap();
}

/// How many commands ran.
fn play(story: &Story) -> usize {
    let mut play = Play::begin(story);
    for step in &story.steps {
        play.step(step);
    }
    play.end()
}

/// A lost key makes a pending request void, and its id may be used again: by the next daemon and by the one after it.
#[test]
fn a_request_that_a_lost_key_made_void_may_be_made_again_after_two_restarts() {
    let step = |deed: Deed, death: Option<u32>| Step { deed, death: death.map(|micros| (micros, Rules::Ask, false)) };
    let send = || Deed::Send { request: 1, line: 0, same_bytes: true };
    for micros in [0, 5_000, 20_000] {
        let steps = vec![
            step(Deed::KeeperDies, None),
            step(send(), None),
            step(Deed::Nothing, Some(micros)),
            step(Deed::Nothing, Some(micros)),
            step(send(), None),
            step(Deed::Decide { request: 1, verdicts: vec![Verdict::Yes] }, None),
        ];
        let (rules, eligible, granted) = (Rules::Ask, false, false);
        play(&Story { privileged: [false, true], short: [false; 2], rules, eligible, granted, steps });
    }
}

#[test]
fn the_house_does_what_the_model_allows() {
    let cases = std::env::var("HOSTEL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let config = Config { cases, max_shrink_iters: 12, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let (steps, deaths, ran) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let result = runner.run(&story(), |story| {
        steps.set(steps.get() + story.steps.len());
        deaths.set(deaths.get() + story.steps.iter().filter(|step| step.death.is_some()).count());
        ran.set(ran.get() + play(&story));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    eprintln!("{cases} stories, {} steps, {} deaths, {} commands ran", steps.get(), deaths.get(), ran.get());
    assert!(ran.get() > 0, "nothing ran");
}
