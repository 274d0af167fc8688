//! What stands in line for the writer: taken at once, or, where nobody waits for any of it, a moment later and in company.
//!
//! Invariant: whatever is taken is taken in the order in which it came, and nothing stays in line for longer than
//! [`COMPANY`], or [`RETURN`] if somebody waits for it. It writes nothing.

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

/// How long at most those that were just answered are waited for: many of them ask again at once, and a commit for a few
/// costs as much as one for all.
const RETURN: Duration = Duration::from_micros(150);

/// Fewer than this many are not waited for: what they would save is not worth it.
const FEW: usize = 4;

/// So many times nobody is waited for after they did not come back.
const DOUBT: u32 = 32;

/// The receiving end, on the thread that takes.
pub(super) struct Line {
    queue: mpsc::Receiver<Message>,
    bell: Arc<Bell>,
    waker: Waker,
    returning: Returning,
}

/// Who was answered last and may be back in a moment.
#[derive(Default)]
struct Returning {
    /// How many there are: those that were answered, and those that stood in line by then.
    expected: usize,
    /// How often they are not waited for.
    doubt: u32,
}

impl Returning {
    /// Whether it is worth it to wait for more than have come.
    fn expects(&self, came: usize) -> bool {
        self.doubt == 0 && self.expected >= FEW && came < self.expected
    }

    /// So many have come, and so many stand in line behind them.
    fn came(&mut self, came: usize, behind: usize) {
        if self.doubt > 0 {
            self.doubt -= 1;
        } else if self.expected >= FEW && came * 2 < self.expected {
            self.doubt = DOUBT;
        }
        self.expected = came + behind;
    }
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
        Self { queue, waker: Arc::clone(&bell).into(), bell, returning: Returning::default() }
    }

    /// So many that somebody waits for were written together, and will be told now what became of it.
    pub(super) fn answering(&mut self, count: usize) {
        self.returning.came(count, self.queue.len());
    }

    /// Waits for what is next, `patience` long or for ever, and appends it to an empty `group`.
    pub(super) fn take(&mut self, group: &mut Vec<Message>, patience: Option<Duration>) -> Taken {
        let mut until = patience.map(|patience| Instant::now() + patience);
        let taken = self.gather(group, &mut until);
        self.bell.waits_for_company.store(false, Ordering::SeqCst);
        taken
    }

    /// Whether those that were just answered are waited for.
    pub(super) fn expects_more(&self) -> bool {
        self.returning.expects(0)
    }

    /// One more for a group that is being written, of those that were just answered: for a moment it is looked again and
    /// again, since being woken for each of them would cost more than they save. `came` is how many the group has that somebody waits for.
    pub(super) fn one_more(&mut self, came: usize, until: &mut Option<Instant>) -> Option<Message> {
        while came < GROUP && self.returning.expects(came) {
            if let Ok(message) = self.queue.try_recv() {
                return Some(message);
            }
            let now = Instant::now();
            if now >= *until.get_or_insert(now + RETURN) {
                break;
            }
            std::thread::yield_now();
        }
        None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_come_back_are_waited_for() {
        let mut returning = Returning::default();
        assert!(!returning.expects(0), "nobody was answered yet");
        returning.came(20, 12);
        assert!(returning.expects(31) && !returning.expects(32));
        returning.came(32, 0);
        assert!(returning.expects(31) && !returning.expects(32));
    }

    #[test]
    fn a_few_are_not_waited_for() {
        let mut returning = Returning::default();
        returning.came(FEW - 1, 0);
        assert!(!returning.expects(1));
    }

    #[test]
    fn those_that_did_not_come_back_are_doubted_for_a_while() {
        let mut returning = Returning::default();
        returning.came(32, 0);
        returning.came(1, 0);
        for _ in 0..DOUBT {
            assert!(!returning.expects(1));
            returning.came(32, 0);
        }
        assert!(returning.expects(1));
    }
}
