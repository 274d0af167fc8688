//! Ends reads that take too long.
//!
//! Invariant: only the read that it was started for is ended: its connection serves others afterwards.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::oneshot;

/// The side of the read, on its own thread.
pub(crate) struct ReadTimer {
    state: Arc<Mutex<State>>,
    begun: Mutex<Option<oneshot::Sender<()>>>,
    /// Dropped when the read is over, which ends the timer.
    _over: oneshot::Sender<()>,
}

/// The side of the asker.
pub(crate) struct TimedRead(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// There while the read runs.
    running: Option<InterruptHandle>,
    interrupted: bool,
}

impl ReadTimer {
    /// Starts a timer. The time is counted from the read's beginning, not from when it began to wait for a connection.
    pub(crate) fn start(limit: Duration) -> (TimedRead, Self) {
        let state = Arc::<Mutex<State>>::default();
        let ((begun, began), (over, ended)) = (oneshot::channel(), oneshot::channel::<()>());
        let shared = Arc::clone(&state);
        hostel_tasks::spawn(async move {
            if began.await.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(limit) => shared.lock().interrupt(),
                _ = ended => {}
            }
        });
        (TimedRead(Arc::clone(&state)), Self { state, begun: Mutex::new(Some(begun)), _over: over })
    }

    pub(crate) fn begin(&self, connection: &Connection) {
        self.state.lock().running = Some(connection.get_interrupt_handle());
        if let Some(begun) = self.begun.lock().take() {
            begun.send(()).ok();
        }
    }

    pub(crate) fn end(&self) {
        self.state.lock().running = None;
    }
}

impl TimedRead {
    pub(crate) fn has_interrupted(&self) -> bool {
        self.0.lock().interrupted
    }
}

impl State {
    fn interrupt(&mut self) {
        if let Some(running) = self.running.take() {
            running.interrupt();
            self.interrupted = true;
        }
    }
}
