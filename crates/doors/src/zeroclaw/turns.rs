//! The turns that are being streamed to the clients that asked for them.
//!
//! Invariant: once a turn was hushed nothing more of it is streamed but its end. An entry lives exactly as long as its
//! stream.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

type ByTurn = BTreeMap<u64, Arc<AtomicBool>>;

/// The streams of a door, by session and turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<HashMap<String, ByTurn>>>);

/// One stream; dropped with it.
#[derive(Debug)]
pub(crate) struct Streaming {
    turns: Turns,
    session: String,
    turn: u64,
    hushed: Arc<AtomicBool>,
}

impl Turns {
    /// A stream begins.
    pub(crate) fn enter(&self, session: &str, turn: u64) -> Streaming {
        let hushed = Arc::new(AtomicBool::new(false));
        self.0.lock().entry(session.to_owned()).or_default().insert(turn, Arc::clone(&hushed));
        Streaming { turns: self.clone(), session: session.to_owned(), turn, hushed }
    }

    /// Nothing more of the running turn; of the first one that is streamed, where none is said to run yet.
    pub(crate) fn hush(&self, session: &str, running: Option<u64>) {
        let turns = self.0.lock();
        let Some(streams) = turns.get(session) else { return };
        let stream = match running {
            Some(turn) => streams.get(&turn),
            None => streams.values().next(),
        };
        if let Some(hushed) = stream {
            hushed.store(true, Ordering::Release);
        }
    }

    /// Nothing more of any turn of a session.
    pub(crate) fn hush_all(&self, session: &str) {
        for hushed in self.0.lock().get(session).into_iter().flat_map(BTreeMap::values) {
            hushed.store(true, Ordering::Release);
        }
    }
}

impl Streaming {
    /// Whether anything but the end may still be sent.
    pub(crate) fn hushed(&self) -> &AtomicBool {
        &self.hushed
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let mut turns = self.turns.0.lock();
        if let Some(streams) = turns.get_mut(&self.session) {
            streams.remove(&self.turn);
            if streams.is_empty() {
                turns.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hushed(stream: &Streaming) -> bool {
        stream.hushed().load(Ordering::Acquire)
    }

    #[test]
    fn only_the_turn_that_was_meant_is_hushed() {
        let turns = Turns::default();
        let (first, second, other) = (turns.enter("s", 1), turns.enter("s", 2), turns.enter("t", 1));
        turns.hush("s", Some(2));
        assert!(!hushed(&first) && hushed(&second) && !hushed(&other));
        turns.hush("s", None);
        assert!(hushed(&first) && !hushed(&other));
        turns.hush("nobody", None);
        turns.hush_all("t");
        assert!(hushed(&other));
        drop((first, second, other));
        assert!(turns.0.lock().is_empty());
    }
}
