//! A model of delivery: an outbox, a broker and an inbox, the connections between them, and everything that may go wrong.
//!
//! Three messages of one sender to one reader: two of one lane and an urgent one. Rows are claimed in the lane's order and
//! pipelined; the broker takes frames in order, dedupes, refuses some for now and shuts their lane, commits in
//! groups; the reader stores in groups, with the cursor in the same write. Connections break and lose what is underway,
//! each of the three is killed and loses what is not committed. The sender may come back with another identity.
//!
//! What it proves, for every order of these steps within the budget of faults: nothing is twice in the log or in the inbox;
//! a lane's order is kept in both; what the sender holds for done is in the log; nothing arrives that nobody sent; and
//! when nothing is left to do, everything that was accepted and did not expire has arrived.
//!
//! What it does not: more than three messages, more faults at once than the budget, time, topics, keys. The real code is
//! driven through the same kinds of faults by the simulator and the storm.
//!
//! The tests explore every reachable state. Others break the model on purpose and require that this is noticed.

mod flaws;
mod steps;
mod world;

use std::time::Instant;

use flaws::Flaw;
use hostel_models::explore::{Explored, explore};
use steps::{Action, Delivery};
use world::World;

/// A bound on memory, well above what is there.
const MOST_STATES: usize = 20_000_000;

fn look_from(initial: World, flaw: Option<Flaw>) -> Explored<Action> {
    explore(&Delivery { initial, flaw }, MOST_STATES)
}

fn holds(breaks: u8, kills: u8, refusals: u8) {
    holds_from(World::new(breaks, kills, refusals));
}

fn holds_from(initial: World) {
    let begun = Instant::now();
    let World { breaks, kills, refusals, .. } = initial;
    let Explored { states, steps, depth, fault } = look_from(initial, None);
    if let Some((fault, story)) = fault {
        panic!("{breaks} breaks, {kills} kills, {refusals} refusals: {fault}: {story:#?}");
    }
    let took = begun.elapsed();
    eprintln!(
        "{breaks} breaks, {kills} kills, {refusals} refusals: {states} states, {steps} steps, {depth} deep, {took:.1?}"
    );
    assert!(states > 10_000, "that is not all there is");
}

#[test]
fn with_refusals() {
    holds(0, 0, 4);
}

#[test]
fn with_a_broken_connection_and_a_refusal() {
    holds(1, 0, 1);
}

#[test]
fn with_a_kill_and_a_refusal() {
    holds(0, 1, 1);
}

#[test]
fn with_a_kill_and_a_broken_connection() {
    holds(1, 1, 0);
}

#[test]
fn with_one_of_each() {
    holds(1, 1, 1);
}

#[test]
fn with_two_kills() {
    holds(0, 2, 0);
}

#[test]
fn with_a_new_identity_and_a_kill() {
    holds_from(World::new(0, 1, 0).reminted());
}

#[test]
fn with_a_new_identity_and_a_broken_connection() {
    holds_from(World::new(1, 0, 0).reminted());
}

/// The model with one mistake in it is found out, by a fault the mistake was made for.
#[test]
fn every_mistake_is_found() {
    for flaw in Flaw::ALL {
        let budgets = [(0, 0, 2), (1, 0, 1), (0, 1, 1), (1, 1, 0)];
        let start = |breaks, kills, refusals| {
            let world = World::new(breaks, kills, refusals);
            if flaw == Flaw::IdsOfWhoSends { world.reminted() } else { world }
        };
        let found = budgets
            .iter()
            .find_map(|(breaks, kills, refusals)| look_from(start(*breaks, *kills, *refusals), Some(flaw)).fault);
        let Some((fault, story)) = found else { panic!("{flaw:?} is not found") };
        eprintln!("{flaw:?}: {fault}, after {} steps", story.len());
        assert!(flaw.shows().contains(&fault), "{flaw:?} was found as: {fault}, by {story:#?}");
    }
}
