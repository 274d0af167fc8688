//! A one-way switch that tasks can wait for.
//!
//! Once set it stays set, and every wait, begun before or after, ends.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// The switch.
#[derive(Debug, Default)]
pub(crate) struct Flag {
    set: AtomicBool,
    changed: Notify,
}

impl Flag {
    /// Sets it for good.
    pub(crate) fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Whether it is set.
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// Returns once it is set.
    pub(crate) async fn wait(&self) {
        while !self.is_set() {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listening before looking again: a set in between is not missed.
            changed.as_mut().enable();
            if self.is_set() {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Flag;
    use std::sync::Arc;

    #[tokio::test]
    async fn waits_end_before_and_after() {
        let flag = Arc::new(Flag::default());
        let waiting = tokio::spawn({
            let flag = Arc::clone(&flag);
            async move { flag.wait().await }
        });
        assert!(!flag.is_set());
        flag.set();
        waiting.await.unwrap();
        flag.wait().await;
        assert!(flag.is_set());
    }
}
