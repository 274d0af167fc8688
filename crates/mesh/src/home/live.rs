//! A value that everybody reads and that may be replaced while it is in use: the settings of a running daemon.
//!
//! Invariant: whoever reads gets one whole value, and keeps it for as long as it holds it; nobody ever sees half of the
//! old and half of the new. Whoever wants to know of a change can wait for it.

use std::sync::Arc;

use tokio::sync::watch;

/// A value that may be replaced. Clones are the same one.
#[derive(Debug)]
pub struct Live<T>(Arc<watch::Sender<Arc<T>>>);

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Live<T> {
    /// Begins with this one.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(value))))
    }

    /// As it is now.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.borrow())
    }

    /// From now on it is this one.
    pub fn set(&self, value: T) {
        self.0.send_replace(Arc::new(value));
    }

    /// Tells of every change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<T>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_value_keeps_it() {
        let live = Live::new(1);
        let (held, mut changes) = (live.get(), live.watch());
        live.clone().set(2);
        assert_eq!((*held, *live.get()), (1, 2));
        assert!(changes.has_changed().unwrap());
        assert_eq!(**changes.borrow_and_update(), 2);
    }
}
