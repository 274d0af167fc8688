//! A short scenario, told again and again: in the N-th telling one machine loses power after its N-th step. So every
//! await of opening, connecting, sending, receiving and acknowledging is once where it ends.

use hostel_wire::frames::Priority;

use crate::simulation::beginning::beginning;
use crate::simulation::ledger::{Message, STEADY, To};
use crate::simulation::world::{Order, World};

/// How long a telling may take until all is well, in milliseconds.
const PEACE: u64 = 10 * 60_000;

/// Who loses power: a host's number, or the broker.
pub type Victim = Option<usize>;

/// What is sent, by whom.
fn messages() -> Vec<Message> {
    let all = [
        (0, To::Host(1), Priority::Next),
        (0, To::Host(1), Priority::Next),
        (0, To::Host(1), Priority::Now),
        (0, To::All, Priority::Next),
        (0, To::Topic(STEADY), Priority::Low),
        (1, To::Host(0), Priority::Next),
    ];
    let message = |(number, (from, to, priority)): (usize, (usize, To, Priority))| Message {
        key: format!("m{number}"),
        body: format!("text of m{number}"),
        from,
        to,
        priority,
        asked: 0,
        promised: None,
        refused: None,
        certain: false,
    };
    all.into_iter().enumerate().map(message).collect()
}

/// One telling; says whether the victim came as far as its last step.
pub fn tell(victim: Victim, steps: u64) -> Result<bool, String> {
    let mut world = beginning(2).world(steps);
    world.start_broker();
    world.start(0);
    world.start(1);
    match victim {
        Some(host) => world.hosts[host].machine.as_mut(),
        None => world.broker.machine.as_mut(),
    }
    .unwrap()
    .until = Some(steps);
    // Before there is a connection, and when there is one.
    say(&world, 0..2);
    world.pass(1_000);
    say(&world, 2..6);
    world.pass(1_000);
    let mut fell = switch_on(&mut world);
    // Who has not heard an answer asks again.
    say(&world, 0..6);
    let end = world.now_ms() + PEACE;
    loop {
        world.pass(500);
        if switch_on(&mut world) {
            fell = true;
            say(&world, 0..6);
        }
        world.reports();
        let ledger = world.ledger.lock();
        let all = ledger.reports.len() == 2 && ledger.messages.values().filter(|m| m.promised.is_some()).count() == 6;
        if all && ledger.outstanding(2).is_empty() {
            break;
        }
        if world.now_ms() > end || !ledger.wrong.is_empty() {
            let (wrong, outstanding) = (ledger.wrong.join("\n"), ledger.outstanding(2).join("\n"));
            return Err(format!("it does not become quiet:\n{wrong}\n{outstanding}"));
        }
    }
    world.pass(2_000);
    if switch_on(&mut world) {
        fell = true;
        world.pass(10_000);
    }
    // The account itself is not disturbed.
    for place in world.hosts.iter_mut().chain([&mut world.broker]) {
        place.machine.as_mut().unwrap().until = None;
    }
    world.reports();
    let wrong = world.ledger.lock().judge(2);
    if wrong.is_empty() { Ok(fell) } else { Err(wrong.join("\n")) }
}

/// Who lost power gets it back. Says whether somebody had.
fn switch_on(world: &mut World) -> bool {
    let fallen = std::mem::take(&mut world.fallen);
    for who in &fallen {
        match who {
            Some(host) => world.start(*host),
            None => world.start_broker(),
        }
    }
    !fallen.is_empty()
}

fn say(world: &World, which: std::ops::Range<usize>) {
    for message in messages().drain(which) {
        world.order(message.from, Order::Send(message));
    }
}
