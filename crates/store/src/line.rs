//! What stands in line for the writer: taken at once, or, where nobody waits for any of it, a moment later and in company.
//!
//! Invariant: whatever is taken is taken in the order in which it came, and nothing stays in line for longer than
//! [`COMPANY`]. It writes nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::writer::Message;

/// Writes that are committed together at most.
pub(super) const GROUP: usize = 512;

/// How long a write that may wait for others does: longer than a client takes between an answer and its next request, and
/// no time for anybody who looks.
const COMPANY: Duration = Duration::from_millis(20);

/// The receiving end, on the thread that takes.
pub(super) struct Line {
    queue: mpsc::Receiver<Message>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Taken {
    /// There is something to write.
    Group,
    /// Nothing came in time.
    Nothing,
    /// Nothing will come any more.
    Closed,
}

/// Wakes the thread that takes; while that waits for company, only for who is in a hurry: being woken to find another
/// write that may wait costs more than the write.
#[derive(Default)]
pub(super) struct Bell {
    thread: OnceLock<Thread>,
    waits_for_company: AtomicBool,
}

impl Bell {
    /// Something was put in line, and may wait or not.
    pub(super) fn tell(&self, may_wait: bool) {
        if !may_wait && self.waits_for_company.load(Ordering::SeqCst) {
            self.ring();
        }
    }

    fn ring(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if !self.waits_for_company.load(Ordering::SeqCst) {
            self.ring();
        }
    }
}

impl Line {
    /// For the thread that calls, and no other.
    pub(super) fn new(queue: mpsc::Receiver<Message>, bell: Arc<Bell>) -> Self {
        bell.thread.get_or_init(std::thread::current);
        Self { queue, waker: Arc::clone(&bell).into(), bell }
    }

    /// Waits for what is next, `patience` long or for ever, and appends it to an empty `group`.
    pub(super) fn take(&mut self, group: &mut Vec<Message>, patience: Option<Duration>) -> Taken {
        let mut until = patience.map(|patience| Instant::now() + patience);
        let taken = self.gather(group, &mut until);
        self.bell.waits_for_company.store(false, Ordering::SeqCst);
        taken
    }

    fn gather(&mut self, group: &mut Vec<Message>, until: &mut Option<Instant>) -> Taken {
        while group.len() < GROUP {
            let was_empty = group.is_empty();
            // Said before the look at what is in line: who comes after that look sees it.
            self.bell.waits_for_company.store(!was_empty, Ordering::SeqCst);
            match self.queue.poll_recv_many(&mut Context::from_waker(&self.waker), group, GROUP - group.len()) {
                Poll::Ready(0) if was_empty => return Taken::Closed,
                Poll::Ready(0) => return Taken::Group,
                Poll::Ready(_) if !group.iter().all(Message::may_wait) => return Taken::Group,
                Poll::Ready(_) if was_empty => *until = Some(Instant::now() + COMPANY),
                Poll::Ready(_) => {}
                Poll::Pending => match until.map(|until| until.saturating_duration_since(Instant::now())) {
                    None => std::thread::park(),
                    Some(Duration::ZERO) => return if was_empty { Taken::Nothing } else { Taken::Group },
                    Some(left) => std::thread::park_timeout(left),
                },
            }
        }
        Taken::Group
    }
}
