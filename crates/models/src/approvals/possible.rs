//! What can happen in a state. What comes of it is said in `steps`.

use super::flaws::Flaw;
use super::steps::{Action, Step};
use super::world::{Client, Handler, Kind, Line, Orphan, Person, Process, Request, Rules, Standing, Verdict, World};

const VERDICTS: [Verdict; 3] = [Verdict::Yes, Verdict::No, Verdict::Always];
const RULES: [Rules; 3] = [Rules::Ask, Rules::Allow, Rules::Deny];

impl Step {
    /// Everything that can happen now.
    pub fn possible(self, world: &World) -> Vec<Action> {
        let mut actions = Vec::with_capacity(32);
        for (number, request) in world.requests.iter().enumerate() {
            self.around(world, number, request, &mut actions);
            for (at, line) in request.lines.iter().enumerate() {
                self.on_line(world, request, (number, at), line, &mut actions);
            }
        }
        if world.daemon_up {
            actions.push(Action::DaemonDies);
            if world.keeper_died && !world.keeper_noticed {
                actions.push(Action::NoticeKeeper);
            }
            if world.keeper_noticed && !world.rekeyed {
                actions.push(Action::Rekey);
            }
        } else {
            actions.push(Action::DaemonStarts);
        }
        if world.keeper_may_die && !world.keeper_died {
            actions.extend([true, false].map(|heard| Action::KeeperDies { heard }));
        }
        actions
    }

    /// What can happen to a request whatever its connections do.
    fn around(self, world: &World, number: usize, request: &Request, actions: &mut Vec<Action>) {
        if request.processes.contains(&Process::Running) {
            actions.push(Action::ChildEnds(number));
        }
        if !world.daemon_up {
            return;
        }
        if request.row.standing == Standing::Pending {
            actions.push(Action::Expire(number));
            if world.people.contains(&Person::Idle) {
                actions.push(Action::Look(number));
            }
            if self.has(Flaw::RequesterDecides) {
                actions.push(Action::RequesterDecides(number));
            }
        }
        if world.people.contains(&Person::Deciding(number as u8)) {
            for eligible in [true, false] {
                actions.extend(VERDICTS.map(|verdict| Action::Decide { request: number, verdict, eligible }));
            }
        }
        match request.orphan {
            Orphan::No => {}
            Orphan::Open => actions.push(Action::StopWaiting(number)),
            Orphan::Closing => actions.push(Action::Close(number)),
        }
    }

    fn on_line(self, world: &World, request: &Request, at: (usize, usize), line: &Line, actions: &mut Vec<Action>) {
        let (number, place) = at;
        // One request is repeated, the first, and only by somebody who has seen it sent.
        let may_send = match place {
            0 => true,
            _ => number == 0 && request.kind != Kind::Tool && request.lines[0].client != Client::NotYet,
        };
        if !world.daemon_up {
            if line.client == Client::Cut || (request.kind == Kind::Tool && line.client == Client::Connected) {
                actions.push(Action::Leave(number, place));
            }
            return;
        }
        match line.client {
            Client::NotYet if may_send => {
                actions.push(Action::Send { request: number, line: place, same_bytes: true });
                if place == 1 {
                    actions.push(Action::Send { request: number, line: place, same_bytes: false });
                }
            }
            Client::Cut => {
                let same_bytes = line.same_bytes;
                actions.push(Action::Send { request: number, line: place, same_bytes });
                actions.push(Action::Leave(number, place));
            }
            Client::Connected => actions.push(Action::Leave(number, place)),
            _ => {}
        }
        let settled = request.row.standing != Standing::Pending;
        match line.handler {
            Handler::None if line.client == Client::Connected => actions.push(Action::Admit(number, place)),
            Handler::None => {}
            Handler::Looked => actions.push(Action::Admit(number, place)),
            Handler::Admitted => actions.extend(RULES.map(|rules| Action::Write(number, place, rules))),
            Handler::Waiting if settled || self.acts_early(world, number) => actions.push(Action::See(number, place)),
            Handler::Waiting => {}
            Handler::Withdrawing => actions.push(Action::Withdraw(number, place)),
            Handler::Approved => actions.push(Action::Check(number, place)),
            Handler::Starting => actions.push(Action::Start(number, place)),
            Handler::Running if !request.processes.contains(&Process::Running) => {
                actions.push(Action::Hear(number, place));
            }
            Handler::Running => {}
            Handler::Over(_) => actions.push(Action::Record(number, place)),
            Handler::Answering(_) => actions.push(Action::Reply(number, place)),
        }
        let leaves = match line.handler {
            Handler::Waiting | Handler::Approved | Handler::Starting => true,
            // A command that runs is seen to its end, whoever waits for it.
            Handler::Running => self.has(Flaw::LeavesChildrenBehind),
            _ => false,
        };
        if leaves && line.client == Client::Gone {
            actions.push(Action::Notice(number, place));
        }
    }

    pub(crate) fn acts_early(self, world: &World, number: usize) -> bool {
        self.has(Flaw::ActsBeforeTheWrite) && world.people.contains(&Person::Deciding(number as u8))
    }
}
