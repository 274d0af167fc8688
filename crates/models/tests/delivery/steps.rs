//! What can happen next, and what is wrong with a state.

use super::flaws::Flaw;
use super::world::{MESSAGES, Reading, Row, Sending, World, is_again, lane, message_of, parcel, place_of};
use hostel_models::explore::Model;

/// Pushes that are on their way at once.
const WINDOW: u8 = 2;

/// A step. What it is about is for whoever reads a story.
#[expect(dead_code, reason = "shown by Debug")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Accept(u8),
    Connect,
    Claim(u8),
    Take { refuse: bool },
    Commit,
    Answer,
    Expire(u8),
    Forget(u8),
    ConnectReader,
    Push(u8),
    Receive,
    Store,
    Break,
    BreakReader,
    KillSender,
    KillBroker,
    KillReader,
    Remint,
}

pub(crate) struct Delivery {
    pub(crate) initial: World,
    pub(crate) flaw: Option<Flaw>,
}

impl Delivery {
    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Rows of the sender's go back to where they wait.
    fn release(&self, world: &mut World) {
        for row in &mut world.rows {
            if *row == Row::Inflight {
                *row = Row::Pending;
            }
        }
    }

    /// Whether a row is next in its lane.
    fn may_claim(&self, world: &World, message: u8) -> bool {
        let row = world.rows[usize::from(message)];
        let earlier_waits = message == 1 && world.rows[0] == Row::Pending;
        let shut = world.sending.lanes[lane(message)].refused != 0;
        row == Row::Pending && !shut && (!earlier_waits || self.is(Flaw::ClaimsInAnyOrder))
    }

    fn take(&self, world: &mut World, refuse: bool) {
        let Some(frame) = world.sending.frames.pop_front() else { return };
        let (message, place) = (message_of(frame), place_of(frame));
        let again = parcel(message, place, true);
        let shut = world.sending.shut[lane(message)];
        if shut != 0 && place > shut && !self.is(Flaw::LeavesLanesOpen) {
            world.sending.answers.push(again);
            return;
        }
        let known = (world.log.has(message) && world.forgotten & (1 << message) == 0) || world.appended.has(message);
        // An id is looked for among those of who accepted the message, whoever sends it.
        let known = known && (world.is_from_now(message) || !self.is(Flaw::IdsOfWhoSends));
        if refuse && !known {
            world.refusals -= 1;
            world.sending.shut[lane(message)] = place;
            world.sending.answers.push(again);
            return;
        }
        world.sending.shut[lane(message)] = 0;
        if !known || self.is(Flaw::DoesNotDedupe) {
            world.appended.push(message);
            world.sent_by = world.sent_by & !(1 << message) | world.identity << message;
        }
        let answer = parcel(message, place, false);
        let committed = world.log.has(message) && !world.appended.has(message);
        match committed || self.is(Flaw::AnswersBeforeCommit) {
            true => world.sending.answers.push(answer),
            false => world.sending.owed.push(answer),
        }
    }

    fn answer(&self, world: &mut World) {
        let Some(answer) = world.sending.answers.pop_front() else { return };
        let message = message_of(answer);
        let row = &mut world.rows[usize::from(message)];
        if *row == Row::Inflight {
            *row = if is_again(answer) { Row::Pending } else { Row::Done };
        }
        let lane = &mut world.sending.lanes[lane(message)];
        lane.flying -= 1;
        if is_again(answer) && (lane.refused == 0 || place_of(answer) < lane.refused) {
            lane.refused = place_of(answer);
        }
        if lane.flying == 0 && lane.refused != 0 {
            // The place that was refused opens the lane, whatever message has it then.
            lane.last = lane.refused - 1;
            lane.refused = 0;
        }
    }

    fn store(&self, world: &mut World) {
        while let Some(place) = world.received.pop_front() {
            let Some(&message) = world.log.as_slice().get(usize::from(place)) else { continue };
            if !world.inbox.has(message) || self.is(Flaw::NoUniqueKey) {
                world.inbox.push(message);
            }
            world.cursor |= 1 << place;
            if self.is(Flaw::CursorJumps) {
                world.cursor |= (1 << place) - 1;
            }
        }
    }

    /// Places the broker may push next: the first that was not pushed, or the first urgent one.
    fn pushable(&self, world: &World, into: &mut Vec<u8>) {
        let open = |place: &u8| world.reading.pushed & (1 << place) == 0;
        let first = (0..world.log.len()).find(|place| open(place));
        let urgent = (0..world.log.len()).find(|place| open(place) && world.log.as_slice()[usize::from(*place)] == 2);
        into.extend(first);
        into.extend(urgent.filter(|urgent| Some(*urgent) != first));
    }

    fn faultless(&self, world: &World, into: &mut Vec<(Action, World)>) {
        let mut step = |action, change: &dyn Fn(&mut World)| {
            let mut next = *world;
            change(&mut next);
            into.push((action, next));
        };
        for message in 0..MESSAGES {
            let index = usize::from(message);
            let order = message != 1 || world.rows[0] != Row::None;
            if world.rows[index] == Row::None && order {
                step(Action::Accept(message), &|world| world.rows[index] = Row::Pending);
            }
        }
        if !world.sending.up {
            step(Action::Connect, &|world| {
                if !self.is(Flaw::KeepsInflight) {
                    self.release(world);
                }
                world.sending = Sending { up: true, ..Sending::default() };
            });
        } else {
            for message in 0..MESSAGES {
                let index = usize::from(message);
                if !world.sending.frames.is_full() && self.may_claim(world, message) {
                    step(Action::Claim(message), &|world| {
                        world.rows[index] = Row::Inflight;
                        let lane = &mut world.sending.lanes[lane(message)];
                        lane.last += 1;
                        lane.flying += 1;
                        world.sending.frames.push(parcel(message, lane.last, false));
                    });
                }
            }
            if world.sending.frames.len() > 0 && !world.appended.is_full() {
                step(Action::Take { refuse: false }, &|world| self.take(world, false));
            }
            if world.sending.answers.len() > 0 {
                step(Action::Answer, &|world| self.answer(world));
            }
        }
        if world.appended.len() > 0 {
            step(Action::Commit, &|world| {
                while let Some(message) = world.appended.pop_front() {
                    world.log.push(message);
                    world.forgotten &= !(1 << message);
                }
                while let Some(answer) = world.sending.owed.pop_front() {
                    world.sending.answers.push(answer);
                }
            });
        }
        if !world.reading.up {
            step(Action::ConnectReader, &|world| {
                let has = match self.is(Flaw::ResumesFromPushed) {
                    true => world.reading.pushed,
                    false => (1 << world.low_water()) - 1,
                };
                world.reading = Reading { up: true, pushed: has, ..Reading::default() };
            });
        } else {
            if world.reading.pushes.len() < WINDOW {
                let mut places = Vec::new();
                self.pushable(world, &mut places);
                for place in places {
                    step(Action::Push(place), &|world| {
                        world.reading.pushed |= 1 << place;
                        world.reading.pushes.push(place);
                    });
                }
            }
            if world.reading.pushes.len() > 0 && !world.received.is_full() {
                step(Action::Receive, &|world| {
                    if let Some(place) = world.reading.pushes.pop_front() {
                        world.received.push(place);
                        if self.is(Flaw::CursorFirst) {
                            world.cursor |= 1 << place;
                        }
                    }
                });
            }
        }
        if world.received.len() > 0 {
            step(Action::Store, &|world| self.store(world));
        }
    }

    fn faults(&self, world: &World, into: &mut Vec<(Action, World)>) {
        let mut step = |action, change: &dyn Fn(&mut World)| {
            let mut next = *world;
            change(&mut next);
            into.push((action, next));
        };
        let lose_sending = |world: &mut World| world.sending = Sending::default();
        let lose_reading = |world: &mut World| {
            world.reading = Reading { pushed: world.reading.pushed, ..Reading::default() };
        };
        if world.refusals > 0 && world.sending.up && world.sending.frames.len() > 0 {
            step(Action::Take { refuse: true }, &|world| self.take(world, true));
        }
        if world.breaks > 0 && world.sending.up {
            step(Action::Break, &|world| {
                world.breaks -= 1;
                lose_sending(world);
            });
        }
        if world.breaks > 0 && world.reading.up {
            step(Action::BreakReader, &|world| {
                world.breaks -= 1;
                lose_reading(world);
            });
        }
        for message in 0..MESSAGES {
            let index = usize::from(message);
            // A row is given up only when its time is over, and the broker remembers its id for longer than that.
            let over = matches!(world.rows[index], Row::Done | Row::Dead) || self.is(Flaw::ForgetsEarly);
            let on_its_way = world.sending.frames.as_slice().iter().any(|frame| message_of(*frame) == message);
            let known = world.log.has(message) && world.forgotten & (1 << message) == 0;
            if known && over && (!on_its_way || self.is(Flaw::ForgetsEarly)) && world.kills > 0 {
                step(Action::Forget(message), &|world| {
                    world.kills -= 1;
                    world.forgotten |= 1 << message;
                });
            }
            if matches!(world.rows[index], Row::Pending) && world.kills > 0 {
                step(Action::Expire(message), &|world| {
                    world.kills -= 1;
                    world.rows[index] = Row::Dead;
                });
            }
        }
        if world.remints > 0 {
            // At a start: what was under way waits again.
            step(Action::Remint, &|world| {
                world.remints -= 1;
                lose_sending(world);
                self.release(world);
                world.identity = 1;
            });
        }
        if world.kills == 0 {
            return;
        }
        step(Action::KillSender, &|world| {
            world.kills -= 1;
            lose_sending(world);
            if !self.is(Flaw::KeepsInflight) {
                self.release(world);
            }
        });
        step(Action::KillBroker, &|world| {
            world.kills -= 1;
            world.appended = Default::default();
            lose_sending(world);
            lose_reading(world);
        });
        step(Action::KillReader, &|world| {
            world.kills -= 1;
            world.received = Default::default();
            lose_reading(world);
        });
    }
}

impl Model for Delivery {
    type State = World;
    type Action = Action;

    fn initial(&self) -> Vec<World> {
        vec![self.initial]
    }

    fn steps(&self, world: &World, into: &mut Vec<(Action, World)>) {
        self.faultless(world, into);
        self.faults(world, into);
    }

    fn fault(&self, world: &World) -> Option<&'static str> {
        let twice = |list: &[u8]| (0..MESSAGES).any(|message| list.iter().filter(|item| **item == message).count() > 1);
        let disordered = |list: &[u8]| {
            let place = |message| list.iter().position(|item| *item == message);
            // The first of a lane may expire and so be missing; then the second may be alone.
            matches!((place(0), place(1)), (Some(first), Some(second)) if second < first)
        };
        let (log, inbox) = (world.log.as_slice(), world.inbox.as_slice());
        if twice(log) {
            return Some("twice in the log");
        }
        if twice(inbox) {
            return Some("twice in the inbox");
        }
        if disordered(log) {
            return Some("out of order in the log");
        }
        if disordered(inbox) {
            return Some("out of order in the inbox");
        }
        for message in 0..MESSAGES {
            let row = world.rows[usize::from(message)];
            if row == Row::Done && !world.log.has(message) {
                return Some("done and not in the log");
            }
            if world.inbox.has(message) && (row == Row::None || !world.log.has(message)) {
                return Some("from nowhere");
            }
        }
        let mut next = Vec::new();
        self.faultless(world, &mut next);
        let arrived = |message: u8| {
            world.inbox.has(message) || (world.rows[usize::from(message)] == Row::Dead && !world.log.has(message))
        };
        match next.is_empty() && !(0..MESSAGES).all(arrived) {
            true => Some("lost"),
            false => None,
        }
    }
}
