//! A queue between the two threads, with a bell that an epoll set can wait for.
//!
//! Locks are held for a push or a swap only. The queue is bounded by its users: every command and
//! every event belongs to a process or a connection, and those are limited.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// One direction between the two threads.
pub(crate) struct Channel<T> {
    queue: Mutex<Vec<T>>,
    bell: OwnedFd,
}

impl<T> Channel<T> {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { queue: Mutex::new(Vec::new()), bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// The descriptor that becomes readable after a push.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(crate) fn push(&self, item: T) {
        let ring = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.push(item);
            queue.len() == 1
        };
        if ring {
            // EAGAIN means that the bell rings already.
            rustix::io::write(&self.bell, &1u64.to_ne_bytes()).ok();
        }
    }

    /// Takes all that is there and silences the bell.
    pub(crate) fn take(&self) -> Vec<T> {
        let mut counter = [0u8; 8];
        rustix::io::read(&self.bell, &mut counter).ok();
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
