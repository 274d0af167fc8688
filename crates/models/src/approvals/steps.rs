//! What can happen, one indivisible step at a time.
//!
//! A write to disk is one step. Whatever follows from it is another: the daemon may die in between.

use super::faults;
use super::flaws::Flaw;
use super::world::{
    Answer, Client, Ending, Handler, Kind, Line, Orphan, Person, Process, Request, Rules, Source, Standing, Verdict,
    World,
};
use crate::explore::Model;

/// A step. The first number is the request, the second the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client connects and sends its request: for the first time, after it was cut off, or once more.
    Send {
        request: usize,
        line: usize,
        same_bytes: bool,
    },
    Leave(usize, usize),
    /// The daemon takes a request in, gives it back to who came back, or refuses its id.
    Admit(usize, usize),
    /// The request is written, judged by rules and grants.
    Write(usize, usize, Rules),
    /// The handler sees that the request is settled.
    See(usize, usize),
    /// The handler sees that the client has left.
    Notice(usize, usize),
    Withdraw(usize, usize),
    /// The handler asks the keeper whether the command was started before.
    Check(usize, usize),
    Start(usize, usize),
    ChildEnds(usize),
    /// The handler hears that the command is over.
    Hear(usize, usize),
    Record(usize, usize),
    Reply(usize, usize),
    /// A person sees the request pending and makes up their mind.
    Look(usize),
    /// What a person says of a request is written, on a daemon that is eligible for the session grant or not.
    Decide {
        request: usize,
        verdict: Verdict,
        eligible: bool,
    },
    /// Only with [`Flaw::RequesterDecides`]; otherwise it is refused.
    RequesterDecides(usize),
    Expire(usize),
    /// Nobody came back in time.
    StopWaiting(usize),
    Close(usize),
    DaemonDies,
    DaemonStarts,
    /// The daemon has heard of the ends there were, or not.
    KeeperDies {
        heard: bool,
    },
    /// The daemon sees that there is another keeper.
    NoticeKeeper,
    /// The daemon seals what it knows with the key of the other keeper.
    Rekey,
}

/// The model, with at most one deliberate mistake.
pub struct Approvals {
    pub initial: Vec<World>,
    pub flaw: Option<Flaw>,
}

impl Model for Approvals {
    type State = World;
    type Action = Action;

    fn initial(&self) -> Vec<World> {
        self.initial.clone()
    }

    fn steps(&self, world: &World, into: &mut Vec<(Action, World)>) {
        let step = Step { flaw: self.flaw };
        for action in step.possible(world) {
            let mut after = *world;
            step.take(&mut after, action);
            if after != *world {
                into.push((action, after));
            }
        }
    }

    fn fault(&self, world: &World) -> Option<&'static str> {
        faults::fault(world)
    }
}

/// Takes steps.
#[derive(Clone, Copy)]
pub struct Step {
    pub flaw: Option<Flaw>,
}

impl Step {
    pub(crate) fn has(self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Takes a step that is possible.
    pub fn take(self, world: &mut World, action: Action) {
        match action {
            Action::Send { request, line, same_bytes } => {
                let line = &mut world.requests[request].lines[line];
                (line.client, line.same_bytes) = (Client::Connected, same_bytes);
            }
            Action::Leave(request, line) => world.requests[request].lines[line].client = Client::Gone,
            Action::Admit(request, line) => self.admit(world, request, line),
            Action::Write(request, line, rules) => self.write(world, request, line, rules),
            Action::See(request, line) => self.see(world, request, line),
            Action::Notice(request, line) => self.notice(world, request, line),
            Action::Withdraw(request, line) => self.withdraw(world, request, line),
            Action::Check(request, line) => self.check(world, request, line),
            Action::Start(request, line) => self.start(world, request, line),
            Action::ChildEnds(request) => {
                let processes = world.requests[request].processes.iter_mut();
                processes.filter(|process| **process == Process::Running).for_each(|one| *one = Process::Ended);
            }
            Action::Hear(request, line) => {
                let request = &mut world.requests[request];
                let known = request.processes.iter().any(|process| matches!(process, Process::Ended | Process::Heard));
                let gone = if self.has(Flaw::DeniesTheLost) { Ending::NotRun } else { Ending::Lost };
                request.lines[line].handler = Handler::Over(if known { Ending::Ran } else { gone });
                if self.has(Flaw::ForgetsTooEarly) {
                    request.processes = [Process::Unknown; 2];
                }
            }
            Action::Record(request, line) => {
                let request = &mut world.requests[request];
                if let Handler::Over(ending) = request.lines[line].handler {
                    request.end(ending);
                    request.lines[line].handler = Handler::Answering(request.answer());
                }
            }
            Action::Reply(request, line) => reply(world, request, line),
            Action::Look(request) => replace(&mut world.people, Person::Idle, Person::Deciding(request as u8)),
            Action::Decide { request, verdict, eligible } => self.decide(world, request, verdict, eligible),
            Action::RequesterDecides(request) => settle(world, request, Standing::Approved, Source::Requester),
            Action::Expire(request) => settle(world, request, Standing::Expired, Source::Nobody),
            Action::StopWaiting(request) => world.requests[request].orphan = Orphan::Closing,
            Action::Close(request) => self.close(world, request),
            Action::DaemonDies => self.daemon_dies(world),
            Action::DaemonStarts => self.daemon_starts(world),
            Action::KeeperDies { heard } => keeper_dies(world, heard),
            Action::NoticeKeeper => world.keeper_noticed = true,
            Action::Rekey => (world.rekeyed, world.counted_grant) = (true, 0),
        }
    }

    fn admit(self, world: &mut World, number: usize, place: usize) {
        let request = &mut world.requests[number];
        let line = request.lines[place];
        let same = line.same_bytes || self.has(Flaw::RejoinsWithOtherBytes);
        let open = match request.orphan {
            Orphan::Open => true,
            Orphan::Closing => {
                self.has(Flaw::RejoinsTooLate) && !request.lines.iter().any(|line| line.handler.serves())
            }
            Orphan::No => false,
        };
        if line.handler == Handler::Looked {
            request.remembered = true;
            request.lines[place].handler = Handler::Admitted;
        } else if open && same {
            if !self.has(Flaw::RejoinsTwice) && request.orphan == Orphan::Open {
                request.orphan = Orphan::No;
            }
            request.lines[place].handler = request.resumed();
            if !line.same_bytes {
                world.seen_fault = Some("other bytes got a request that is not theirs");
            }
        } else if request.remembered {
            // "duplicate request id"; the repeater may try again, its own client may not.
            request.lines[place] = finished(place);
        } else if self.has(Flaw::AdmitsInTwoSteps) {
            request.lines[place].handler = Handler::Looked;
        } else {
            // The id of an agent's question is its place in a journal: it comes once.
            request.remembered = request.kind != Kind::Tool;
            request.lines[place].handler = Handler::Admitted;
        }
    }

    /// The request goes to disk with what rules and grants make of it.
    fn write(self, world: &mut World, number: usize, place: usize, rules: Rules) {
        let request = &mut world.requests[number];
        request.row = Request::new(request.kind).row;
        request.row.standing = Standing::Pending;
        request.lines[place].handler = Handler::Waiting;
        let kind = request.kind;
        let granted = world.session_grant && (kind == Kind::Plain || self.has(Flaw::GrantCoversPrivileged));
        match (kind, rules) {
            (Kind::Plain, Rules::Deny) => settle(world, number, Standing::Denied, Source::Policy),
            (Kind::Plain, Rules::Allow) => settle(world, number, Standing::Approved, Source::Policy),
            (Kind::Plain | Kind::Privileged, _) if granted => {
                settle(world, number, Standing::Approved, Source::Policy);
                if !world.seen_given {
                    world.seen_fault = Some("it was approved by a grant nobody gave");
                }
            }
            (Kind::Plain, Rules::Ask) if world.counted_grant > 0 => {
                world.counted_grant -= u8::from(!self.has(Flaw::CountsLater));
                settle(world, number, Standing::Approved, Source::Policy);
                world.seen_counted += 1;
                if world.seen_counted > 1 {
                    world.seen_fault = Some("a grant for one request approved two");
                }
            }
            _ => {}
        }
    }

    fn see(self, world: &mut World, number: usize, place: usize) {
        let early = self.acts_early(world, number);
        let request = &mut world.requests[number];
        let approved = request.row.standing == Standing::Approved;
        if approved && request.row.by == Source::Policy && self.has(Flaw::CountsLater) {
            world.counted_grant = 0;
        }
        let open = request.row.ending == Ending::Open;
        request.lines[place].handler = match approved {
            true if open => Handler::Approved,
            false if early => Handler::Approved,
            _ => Handler::Answering(request.answer()),
        };
    }

    /// The client has left.
    fn notice(self, world: &mut World, number: usize, place: usize) {
        let same = world.has_keeper_of(number);
        let request = &mut world.requests[number];
        request.lines[place].handler = match request.lines[place].handler {
            Handler::Waiting => Handler::Withdrawing,
            Handler::Running => Handler::None,
            // It was asked for by nobody else, and not by this one either.
            Handler::Starting => Handler::Over(Ending::NotRun),
            _ => Handler::Over(request.stopped(same)),
        };
    }

    fn withdraw(self, world: &mut World, number: usize, place: usize) {
        let same = world.has_keeper_of(number);
        let request = &mut world.requests[number];
        if request.row.standing == Standing::Pending && !self.has(Flaw::ForgetsToWithdraw) {
            request.row.standing = Standing::Withdrawn;
            request.seen_settled += 1;
        }
        let approved = request.row.standing == Standing::Approved && request.row.ending == Ending::Open;
        // Approved in the last moment: it is not started, and that is noted.
        match approved {
            true => request.lines[place].handler = Handler::Over(request.stopped(same)),
            false => request.lines[place] = finished(place),
        }
    }

    /// Finds what was started before, or that nothing was; only the keeper of the approval can tell.
    fn check(self, world: &mut World, number: usize, place: usize) {
        let same = world.has_keeper_of(number) || self.has(Flaw::StartsOnAnotherKeeper);
        let anew = self.has(Flaw::FreshIdAfterRestart) && world.restarted;
        let request = &mut world.requests[number];
        request.lines[place].handler = match request.processes[0] {
            Process::Running | Process::Ended | Process::Lost | Process::Heard if !anew => Handler::Running,
            _ if same => Handler::Starting,
            _ => Handler::Over(Ending::Lost),
        };
    }

    /// Asks the keeper, which starts an id once.
    fn start(self, world: &mut World, number: usize, place: usize) {
        let id = usize::from(self.has(Flaw::FreshIdAfterRestart) && world.restarted);
        let request = &mut world.requests[number];
        request.lines[place].handler = Handler::Running;
        if request.processes[id] != Process::Unknown {
            return;
        }
        request.processes[id] = Process::Running;
        request.seen_runs += 1;
        let row = request.row;
        if row.ending != Ending::Open {
            world.seen_fault = Some("it ran after it was over");
        } else if row.standing != Standing::Approved || matches!(row.by, Source::Nobody | Source::Requester) {
            world.seen_fault = Some("it ran without a decision");
        } else if request.kind == Kind::Privileged && row.by != Source::Person {
            world.seen_fault = Some("a privileged request ran without a person's decision");
        }
    }

    /// A decision is written; exactly one is.
    fn decide(self, world: &mut World, number: usize, verdict: Verdict, eligible: bool) {
        replace(&mut world.people, Person::Deciding(number as u8), Person::Idle);
        let request = &mut world.requests[number];
        if request.row.standing != Standing::Pending && !self.has(Flaw::DecidesWithoutLooking) {
            request.seen_credited += u8::from(self.has(Flaw::CreditsEverybody));
            if self.has(Flaw::StartsTheWithdrawn) && request.row.standing == Standing::Withdrawn {
                request.lines[0].handler = Handler::Approved;
            }
            return;
        }
        request.seen_credited += 1;
        let kind = request.kind;
        let standing = match (verdict, kind) {
            (Verdict::Always, Kind::Privileged) if !self.has(Flaw::AlwaysForPrivileged) => Standing::Denied,
            (Verdict::Yes | Verdict::Always, _) => Standing::Approved,
            (Verdict::No, _) => Standing::Denied,
        };
        settle(world, number, standing, Source::Person);
        let grants = verdict == Verdict::Always
            && (kind == Kind::Plain || (kind == Kind::Privileged && self.has(Flaw::AlwaysForPrivileged)));
        if grants && (eligible || self.has(Flaw::GrantNeedsNoEligibility)) {
            world.session_grant = true;
            world.seen_given |= eligible && kind == Kind::Plain;
        }
    }

    /// Nobody came back for a request: it ends as it stands.
    fn close(self, world: &mut World, number: usize) {
        world.requests[number].orphan = Orphan::No;
        match world.requests[number].row.standing {
            Standing::Pending if self.has(Flaw::FailsOpen) => {
                settle(world, number, Standing::Approved, Source::Nobody);
            }
            Standing::Pending => settle(world, number, Standing::Withdrawn, Source::Nobody),
            Standing::Approved if world.requests[number].is_open() => {
                let same = world.has_keeper_of(number);
                let request = &mut world.requests[number];
                let ending = request.stopped(same);
                request.end(ending);
            }
            _ => {}
        }
    }

    fn daemon_dies(self, world: &mut World) {
        world.daemon_up = false;
        world.people = [Person::Idle; 2];
        world.session_grant &= self.has(Flaw::GrantSurvives);
        world.seen_given = false;
        for request in &mut world.requests {
            request.processes = request.processes.map(|process| match process {
                Process::Lost | Process::Heard => Process::Unknown,
                process => process,
            });
            request.remembered = false;
            request.orphan = Orphan::No;
            for (place, line) in request.lines.iter_mut().enumerate() {
                // What it was to be told went with the daemon; it had left, or was refused and did not hear of it.
                let left = line.client == Client::Gone;
                line.handler = Handler::None;
                if line.client == Client::Connected && request.kind != Kind::Tool {
                    line.client = Client::Cut;
                }
                if left && place == 1 {
                    *line = Line::NONE;
                }
            }
        }
    }

    fn daemon_starts(self, world: &mut World) {
        world.daemon_up = true;
        let is_key_lost = world.keeper_died && !world.rekeyed;
        (world.keeper_noticed, world.rekeyed) = (world.keeper_died, world.keeper_died);
        if is_key_lost {
            world.counted_grant = 0;
        }
        // Only a flaw asks.
        world.restarted = self.has(Flaw::FreshIdAfterRestart);
        for number in 0..world.requests.len() {
            let request = &mut world.requests[number];
            let there = request.row.standing != Standing::Absent;
            if request.kind == Kind::Tool {
                // The session goes on where it was: with the question, its answer, or the end of who asked.
                request.lines[0].handler = match request.lines[0].client {
                    Client::Connected if there => request.resumed(),
                    Client::Connected => Handler::Admitted,
                    _ if request.is_open() => request.resumed(),
                    _ => Handler::None,
                };
            } else if is_key_lost && request.row.standing == Standing::Pending {
                // Nobody can vouch for it: it is over, and whoever asked may ask again, which is another request.
                (request.row.standing, request.row.asks_again) = (Standing::Withdrawn, true);
                request.seen_settled = 0;
            } else {
                let counts = there && !request.row.asks_again;
                request.remembered = counts && !self.has(Flaw::ForgetsIds);
                // After a lost key nothing proves what a request that is over came to.
                let is_told = counts && (request.is_open() || !is_key_lost);
                request.orphan = if is_told { Orphan::Open } else { Orphan::No };
            }
            let pending = request.row.standing == Standing::Pending;
            if self.has(Flaw::JudgesAgain) && pending && request.kind == Kind::Plain {
                settle(world, number, Standing::Approved, Source::Policy);
                world.seen_fault = Some("a restart approved a request");
            }
        }
    }
}

/// With the keeper goes what it knew; a daemon that is there remembers what it was told.
fn keeper_dies(world: &mut World, heard: bool) {
    world.keeper_died = true;
    let is_remembered = world.daemon_up;
    for request in &mut world.requests {
        request.processes = request.processes.map(|process| match process {
            Process::Ended if is_remembered && heard => Process::Heard,
            Process::Running | Process::Ended if is_remembered => Process::Lost,
            _ => Process::Unknown,
        });
        // The agent was its child.
        if request.kind == Kind::Tool && request.lines[0].client == Client::Connected {
            request.lines[0].client = Client::Gone;
        }
    }
}

/// One of the people, who are alike, does something else now.
fn replace(people: &mut [Person; 2], before: Person, after: Person) {
    if let Some(person) = people.iter_mut().find(|person| **person == before) {
        *person = after;
    }
    people.sort_unstable();
}

/// A transition, which must be the only one.
fn settle(world: &mut World, number: usize, standing: Standing, by: Source) {
    let keeper_noticed = world.keeper_noticed;
    let request = &mut world.requests[number];
    (request.row.standing, request.row.by) = (standing, by);
    request.row.by_second_keeper = keeper_noticed && standing == Standing::Approved;
    request.seen_settled += 1;
    if standing == Standing::Approved && by == Source::Nobody {
        world.seen_fault = Some("it was approved by nobody");
    }
}

/// A connection that is done with.
fn finished(place: usize) -> Line {
    match place {
        0 => Line { client: Client::Gone, ..Line::NONE },
        _ => Line::NONE,
    }
}

/// The client hears what became of its request, which must be so.
fn reply(world: &mut World, number: usize, place: usize) {
    let request = &mut world.requests[number];
    let Handler::Answering(answer) = request.lines[place].handler else { return };
    let heard = request.lines[place].client == Client::Connected;
    request.lines[place] = finished(place);
    let untrue = match answer {
        Answer::Ran => request.seen_runs == 0,
        Answer::Denied | Answer::Expired | Answer::Withdrawn | Answer::NotRun => request.seen_runs > 0,
        Answer::Lost => false,
    };
    if heard && untrue {
        world.seen_fault = Some("the client was told something else than what happened");
    }
}
