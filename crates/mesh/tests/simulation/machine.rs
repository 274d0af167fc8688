//! A computer: everything that runs on it, in steps that can be counted, until the power goes.
//!
//! Invariant: between two steps is exactly one poll of one of its tasks, so "crash after the N-th step" is a crash at an
//! await, and every await is some N. Its time stands still unless it is told to go on; what is due then happens in the
//! order in which it is due. Nothing of it survives `crash` but its files.
//!
//! How: a runtime with one thread that looks at its root after each task. The root is always awake and counts; a task
//! that does nothing but queue up again tells when nobody else is in the queue.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// So many steps in one instant are no work any more but a loop.
const RESTLESS: u64 = 500_000;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// Nothing more happens in this instant.
    Idle,
    /// It did its last step.
    Last,
}

pub struct Machine {
    runtime: Runtime,
    idle: Arc<AtomicU64>,
    now_ms: u64,
    /// Steps since it was switched on.
    pub steps: u64,
    /// After this many in all the power goes.
    pub until: Option<u64>,
}

impl Machine {
    /// Switches it on.
    pub fn start(now_ms: u64, main: impl Future<Output = ()> + Send + 'static) -> Self {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true).event_interval(1).global_queue_interval(1);
        let runtime = builder.build().unwrap();
        let idle = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&idle);
        runtime.spawn(poll_fn(move |cx| {
            count.fetch_add(1, Ordering::Relaxed);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        runtime.spawn(main);
        Self { runtime, idle, now_ms, steps: 0, until: None }
    }

    /// Lets it work at this time until nothing more happens, or until its last step.
    pub fn run(&mut self, now_ms: u64) -> Ran {
        let mut advance = Some(Duration::from_millis(now_ms - self.now_ms)).filter(|by| !by.is_zero());
        self.now_ms = now_ms;
        let (mut before, mut alone, mut busy) = (None, 0, 0);
        let root = poll_fn(|cx| {
            if let Some(by) = advance.take() {
                // The clock moves in the first poll; the rest of it would be a rest for others, which follows anyway.
                let moved = pin!(tokio::time::advance(by)).poll(cx).is_ready();
                debug_assert!(!moved);
            }
            cx.waker().wake_by_ref();
            let idle = self.idle.load(Ordering::Relaxed);
            let was = before.replace(idle);
            match was {
                None => {}
                Some(was) if was != idle => alone += 1,
                Some(_) => {
                    (alone, busy) = (0, busy + 1);
                    self.steps += 1;
                    assert!(busy < RESTLESS, "a machine does not come to rest");
                    if self.until.is_some_and(|until| self.steps >= until) {
                        return Poll::Ready(Ran::Last);
                    }
                }
            }
            if alone >= 3 { Poll::Ready(Ran::Idle) } else { Poll::Pending }
        });
        self.runtime.block_on(root)
    }

    /// The power goes.
    pub fn crash(self) {
        drop(self.runtime);
    }
}
