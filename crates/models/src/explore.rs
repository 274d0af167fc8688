//! Looks at every state a model can reach, breadth first, so that the first fault found has a shortest story.
//!
//! Knows nothing of approvals. Bounded by the number of states it is given.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Something that changes in steps.
pub trait Model {
    type State: Clone + Eq + Hash;
    type Action: Copy + Debug;

    fn initial(&self) -> Vec<Self::State>;
    /// What can happen now, with what comes of it.
    fn steps(&self, state: &Self::State, into: &mut Vec<(Self::Action, Self::State)>);
    /// What is wrong with a state, if anything is.
    fn fault(&self, state: &Self::State) -> Option<&'static str>;
}

/// What was found.
pub struct Explored<A> {
    pub states: usize,
    pub steps: usize,
    /// Steps from the beginning to the state that is furthest away.
    pub depth: u32,
    /// The first fault, and what led to it.
    pub fault: Option<(&'static str, Vec<A>)>,
}

/// Multiplies and rotates: the states are small and many, and nobody attacks this table.
#[derive(Default)]
pub struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(value)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u8(value as u8);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u8(value as u8);
    }
}

/// States that were seen.
type Known<S> = HashSet<S, BuildHasherDefault<QuickHasher>>;

/// Where a state came from: the number of the state before it, and which of that one's steps it was.
#[derive(Clone, Copy)]
struct Origin {
    before: u32,
    step: u16,
}

/// Stands for no state.
const BEGINNING: u32 = u32::MAX;

/// Visits every state, or stops at the first fault.
///
/// # Panics
/// If there are more than `limit` states.
pub fn explore<M: Model>(model: &M, limit: usize) -> Explored<M::Action> {
    let mut known: Known<M::State> = Known::default();
    let mut origins: Vec<Origin> = Vec::new();
    // Only those that are still to be looked at: with their numbers, they are told from the beginning again if need be.
    let mut open = VecDeque::new();
    for (number, state) in model.initial().into_iter().enumerate() {
        known.insert(state.clone());
        origins.push(Origin { before: BEGINNING, step: number as u16 });
        open.push_back((state, 0));
    }
    let (mut at, mut steps, mut depth) = (0, 0, 0);
    let mut next = Vec::new();
    while let Some((state, deep)) = open.pop_front() {
        depth = deep;
        if let Some(fault) = model.fault(&state) {
            return Explored { states: origins.len(), steps, depth, fault: Some((fault, story(model, &origins, at))) };
        }
        model.steps(&state, &mut next);
        for (step, (_, after)) in next.drain(..).enumerate() {
            steps += 1;
            if !known.contains(&after) {
                assert!(origins.len() < limit, "more than {limit} states");
                known.insert(after.clone());
                origins.push(Origin { before: at as u32, step: step as u16 });
                open.push_back((after, deep + 1));
            }
        }
        at += 1;
    }
    Explored { states: origins.len(), steps, depth, fault: None }
}

/// The steps that lead to a state.
fn story<M: Model>(model: &M, origins: &[Origin], at: usize) -> Vec<M::Action> {
    let mut way = vec![origins[at]];
    while let Some(before) = way.last().map(|origin| origin.before).filter(|before| *before != BEGINNING) {
        way.push(origins[before as usize]);
    }
    let mut way = way.into_iter().rev().map(|origin| usize::from(origin.step));
    let (mut story, mut next) = (Vec::new(), Vec::new());
    let mut state = way.next().and_then(|number| model.initial().into_iter().nth(number));
    for step in way {
        next.clear();
        if let Some(state) = &state {
            model.steps(state, &mut next);
        }
        state = next.get(step).map(|(action, after)| {
            story.push(*action);
            after.clone()
        });
    }
    story
}
