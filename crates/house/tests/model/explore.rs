//! Looks at every state a model can reach, breadth first, so that the first fault found has a shortest story.
//!
//! Knows nothing of approvals. Bounded by the number of states it is given.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Something that changes in steps.
pub(crate) trait Model {
    type State: Clone + Eq + Hash;
    type Action: Copy + Debug;

    fn initial(&self) -> Vec<Self::State>;
    /// What can happen now, with what comes of it.
    fn steps(&self, state: &Self::State, into: &mut Vec<(Self::Action, Self::State)>);
    /// What is wrong with a state, if anything is.
    fn fault(&self, state: &Self::State) -> Option<&'static str>;
}

/// What was found.
pub(crate) struct Explored<A> {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    /// Steps from the beginning to the state that is furthest away.
    pub(crate) depth: u32,
    /// The first fault, and what led to it.
    pub(crate) fault: Option<(&'static str, Vec<A>)>,
}

/// Multiplies and rotates: the states are small and many, and nobody attacks this table.
#[derive(Default)]
pub(crate) struct QuickHasher(u64);

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

/// A table of states.
pub(crate) type StateMap<S, V> = HashMap<S, V, BuildHasherDefault<QuickHasher>>;

/// Where a state came from: the number of the state before it and the step, and how far from the beginning it is.
struct Origin<A> {
    before: Option<(u32, A)>,
    depth: u32,
}

/// Visits every state, or stops at the first fault.
///
/// # Panics
/// If there are more than `limit` states.
pub(crate) fn explore<M: Model>(model: &M, limit: usize) -> Explored<M::Action> {
    let mut known: StateMap<M::State, u32> = StateMap::default();
    let mut order: Vec<M::State> = Vec::new();
    let mut origins: Vec<Origin<M::Action>> = Vec::new();
    for state in model.initial() {
        if known.insert(state.clone(), order.len() as u32).is_none() {
            order.push(state);
            origins.push(Origin { before: None, depth: 0 });
        }
    }
    let (mut at, mut steps) = (0, 0);
    let mut next = Vec::new();
    while let Some(state) = order.get(at).cloned() {
        if let Some(fault) = model.fault(&state) {
            return Explored {
                states: order.len(),
                steps,
                depth: origins[at].depth,
                fault: Some((fault, story(&origins, at))),
            };
        }
        model.steps(&state, &mut next);
        for (action, after) in next.drain(..) {
            steps += 1;
            if let std::collections::hash_map::Entry::Vacant(place) = known.entry(after) {
                assert!(order.len() < limit, "more than {limit} states");
                order.push(place.key().clone());
                origins.push(Origin { before: Some((at as u32, action)), depth: origins[at].depth + 1 });
                place.insert(order.len() as u32 - 1);
            }
        }
        at += 1;
    }
    let depth = origins.last().map_or(0, |origin| origin.depth);
    Explored { states: order.len(), steps, depth, fault: None }
}

fn story<A: Copy>(origins: &[Origin<A>], mut at: usize) -> Vec<A> {
    let mut story = Vec::new();
    while let Some((before, action)) = origins[at].before {
        story.push(action);
        at = before as usize;
    }
    story.reverse();
    story
}
