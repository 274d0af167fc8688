//! What stands in line for the writer: taken at once, or, where nobody waits for any of it, a moment later and in company.
//!
//! Invariant: whatever is taken is taken in the order in which it came, and nothing stays in line for longer than
//! [`COMPANY`]. It writes nothing.

use std::sync::Arc;
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

/// Wakes the thread that takes.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Line {
    /// For the thread that calls, and no other.
    pub(super) fn new(queue: mpsc::Receiver<Message>) -> Self {
        Self { queue, waker: Arc::new(Unpark(std::thread::current())).into() }
    }

    /// Waits for what is next, `patience` long or for ever, and appends it to an empty `group`.
    pub(super) fn take(&mut self, group: &mut Vec<Message>, patience: Option<Duration>) -> Taken {
        let mut until = patience.map(|patience| Instant::now() + patience);
        while group.len() < GROUP {
            let was_empty = group.is_empty();
            match self.queue.poll_recv_many(&mut Context::from_waker(&self.waker), group, GROUP - group.len()) {
                Poll::Ready(0) if was_empty => return Taken::Closed,
                Poll::Ready(0) => return Taken::Group,
                Poll::Ready(_) if !group.iter().all(Message::may_wait) => return Taken::Group,
                Poll::Ready(_) if was_empty => until = Some(Instant::now() + COMPANY),
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
