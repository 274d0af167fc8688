//! The states of the model that agree with everything seen so far.
//!
//! After each operation every order of the daemon's own steps is followed to where nothing more happens by itself; what
//! is then seen of the real house keeps some of the states, and must keep at least one.

use std::collections::HashSet;

use super::steps::{Action, Step};
use super::world::{Client, Ending, Person, Rules, Standing, Verdict, World};

/// A bound on what one operation can lead to.
const MOST: usize = 200_000;

/// What the daemon of this moment is like.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub rules: Rules,
    pub eligible: bool,
    /// Requests that expire in no time.
    pub short: [bool; 2],
}

/// What is seen of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub standing: Standing,
    pub ending: Ending,
    /// Traces that it left.
    pub runs: u8,
    /// People who were told that their decision counted.
    pub credited: u8,
    /// The clients of its connections.
    pub clients: [Client; 2],
}

/// What happens from outside.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A step of a client's.
    Step(Action),
    /// The daemon may have heard of the ends there were.
    KeeperDies,
    /// People decide, at once.
    Decide(usize, &'a [Verdict]),
    Nothing,
}

/// The states it may be in.
pub struct Allowed {
    worlds: HashSet<World>,
    step: Step,
}

impl Allowed {
    pub fn new(world: World) -> Self {
        Self { worlds: HashSet::from([world]), step: Step { flaw: None } }
    }

    /// Something happens, and everything that follows from it.
    pub fn happen(&mut self, event: Event<'_>, terms: Terms) {
        let reached = self.reach(event, terms);
        self.worlds = reached.into_iter().filter(|world| self.rests(world, terms)).collect();
    }

    /// The same, but the daemon dies at any moment of it and another one begins.
    pub fn happen_until_death(&mut self, event: Event<'_>, terms: Terms, next: Terms) {
        let mut restarted = HashSet::new();
        for mut world in self.reach(event, terms) {
            self.step.take(&mut world, Action::DaemonDies);
            self.step.take(&mut world, Action::DaemonStarts);
            restarted.insert(world);
        }
        self.worlds = restarted;
        self.happen(Event::Nothing, next);
    }

    /// Keeps what agrees with what is seen; says whether anything does.
    pub fn agree(&mut self, seen: &[Seen; 2], is_exact: bool) -> bool {
        let agreeing: HashSet<World> =
            self.worlds.iter().filter(|world| agrees(world, seen, is_exact)).copied().collect();
        let any = !agreeing.is_empty();
        if any {
            self.worlds = agreeing;
        }
        any
    }

    /// Some of them, for a failure.
    pub fn describe(&self) -> String {
        let shown: Vec<String> = self.worlds.iter().take(3).map(|world| format!("{world:#?}")).collect();
        format!("{} states, among them {}", self.worlds.len(), shown.join("\n"))
    }

    /// Every state on the way, decisions not yet made included.
    fn reach(&self, event: Event<'_>, terms: Terms) -> HashSet<World> {
        let (request, verdicts) = match event {
            Event::Decide(request, verdicts) => (request, verdicts),
            _ => (0, &[] as &[Verdict]),
        };
        let mut open: Vec<(World, Vec<Verdict>)> = Vec::new();
        for world in &self.worlds {
            let steps = match event {
                Event::Step(action) => vec![action],
                Event::KeeperDies => [true, false].map(|heard| Action::KeeperDies { heard }).to_vec(),
                Event::Decide(..) | Event::Nothing => Vec::new(),
            };
            let possible = self.step.possible(world);
            let taken: Vec<Action> = steps.into_iter().filter(|step| possible.contains(step)).collect();
            if taken.is_empty() {
                open.push((*world, verdicts.to_vec()));
            }
            for step in taken {
                let mut begun = *world;
                self.step.take(&mut begun, step);
                open.push((begun, verdicts.to_vec()));
            }
        }
        let mut known: HashSet<(World, Vec<Verdict>)> = open.iter().cloned().collect();
        while let Some((world, left)) = open.pop() {
            assert!(known.len() < MOST, "an operation leads to more than {MOST} states");
            for action in self.step.possible(&world) {
                let mut left = left.clone();
                let allowed = match action {
                    Action::Look(looked) => looked == request && deciding(&world) < left.len(),
                    Action::Decide { verdict, eligible, .. } => {
                        let at = left.iter().position(|open| *open == verdict);
                        at.map(|at| left.remove(at)).is_some() && eligible == terms.eligible
                    }
                    action => is_internal(action, terms),
                };
                if !allowed {
                    continue;
                }
                let mut after = world;
                self.step.take(&mut after, action);
                if known.insert((after, left.clone())) {
                    open.push((after, left));
                }
            }
        }
        known.into_iter().map(|(world, _)| world).collect()
    }

    /// Nothing more happens by itself.
    fn rests(&self, world: &World, terms: Terms) -> bool {
        deciding(world) == 0 && !self.step.possible(world).into_iter().any(|action| is_urgent(action, terms))
    }
}

fn deciding(world: &World) -> usize {
    world.people.iter().filter(|person| **person != Person::Idle).count()
}

/// What happens without anybody's doing.
fn is_internal(action: Action, terms: Terms) -> bool {
    match action {
        Action::Expire(request) => terms.short[request],
        Action::Write(_, _, rules) => rules == terms.rules,
        // Their time is far longer than a test's, but a busy machine may use it up.
        Action::StopWaiting(_) | Action::Close(_) | Action::NoticeKeeper | Action::Rekey => true,
        action => is_urgent(action, terms),
    }
}

/// What happens soon.
fn is_urgent(action: Action, terms: Terms) -> bool {
    match action {
        Action::Admit(..)
        | Action::See(..)
        | Action::Notice(..)
        | Action::Withdraw(..)
        | Action::Check(..)
        | Action::Start(..)
        | Action::ChildEnds(_)
        | Action::Hear(..)
        | Action::Record(..)
        | Action::Reply(..)
        | Action::Close(_) => true,
        Action::Expire(request) => terms.short[request],
        Action::Write(_, _, rules) => rules == terms.rules,
        Action::Send { .. }
        | Action::Leave(..)
        | Action::Look(_)
        | Action::Decide { .. }
        | Action::RequesterDecides(_)
        | Action::StopWaiting(_)
        | Action::DaemonDies
        | Action::DaemonStarts
        | Action::KeeperDies { .. }
        | Action::NoticeKeeper
        | Action::Rekey => false,
    }
}

fn agrees(world: &World, seen: &[Seen; 2], is_exact: bool) -> bool {
    world.requests.iter().zip(seen).all(|(request, seen)| {
        request.row.standing == seen.standing
            && request.row.ending == seen.ending
            && request.lines.map(|line| line.client) == seen.clients
            // A command that is killed with its keeper may not have left its trace.
            && (request.seen_runs == seen.runs || (!is_exact && seen.runs < request.seen_runs))
            // Who was to be told may have gone with the daemon.
            && seen.credited <= request.seen_credited
    })
}
