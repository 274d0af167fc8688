//! Telling the daemon how far each process has come.
//!
//! A note is a level, not an event: only the newest counts. So a process that has news is one bit
//! and one place in a list until its note can be sent, however slow the daemon reads.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::net::SendFlags;

use super::{KEY_NOTES, PumpChild};

/// The connection for notes.
#[derive(Default)]
pub(crate) struct Notes {
    link: Option<OwnedFd>,
    unsent: Vec<u8>,
    sent: usize,
    waiting: bool,
    dirty: Vec<u32>,
}

impl Notes {
    /// Takes a new connection; it is told the newest of every process first.
    pub(crate) fn connect(&mut self, epoll: &OwnedFd, fd: OwnedFd, children: &mut [Option<PumpChild>]) {
        self.disconnect(epoll);
        self.link = Some(fd);
        for child in children.iter_mut().flatten() {
            self.mark_dirty(child);
        }
    }

    /// The same connection for another epoll set and another list of children; a note that was
    /// half sent is sent to its end.
    pub(crate) fn resumed(self) -> Self {
        Self { link: self.link, unsent: self.unsent, sent: self.sent, waiting: false, dirty: Vec::new() }
    }

    fn disconnect(&mut self, epoll: &OwnedFd) {
        if let Some(link) = self.link.take()
            && self.waiting
        {
            epoll::delete(epoll, &link).ok();
        }
        self.waiting = false;
        self.unsent.clear();
        self.sent = 0;
    }

    /// Remembers that a process has news, and publishes it to the control thread.
    pub(crate) fn mark_dirty(&mut self, child: &mut PumpChild) {
        child.progress.publish(&child.note());
        if !child.dirty {
            child.dirty = true;
            self.dirty.push(child.key.slot);
        }
    }

    /// The socket takes bytes again.
    pub(crate) fn writable(&mut self, epoll: &OwnedFd) {
        self.flush(epoll);
    }

    /// Something is unsent, and the kernel had no room for a registration that would tell when it can be sent.
    pub(crate) fn is_stuck(&self) -> bool {
        self.link.is_some() && !self.unsent.is_empty() && !self.waiting
    }

    /// Sends what is new.
    pub(crate) fn send(&mut self, epoll: &OwnedFd, children: &mut [Option<PumpChild>]) {
        if self.is_stuck() {
            self.flush(epoll);
        }
        if self.dirty.is_empty() || !self.unsent.is_empty() {
            return;
        }
        for slot in self.dirty.drain(..) {
            if let Some(child) = children.get_mut(slot as usize).and_then(Option::as_mut)
                && std::mem::take(&mut child.dirty)
                && self.link.is_some()
            {
                child.note().encode(&mut self.unsent);
            }
        }
        self.flush(epoll);
    }

    fn flush(&mut self, epoll: &OwnedFd) {
        while self.sent < self.unsent.len() {
            let Some(link) = &self.link else { break };
            match rustix::net::send(link, &self.unsent[self.sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    if !self.waiting {
                        let added = epoll::add(
                            epoll,
                            link.as_fd(),
                            epoll::EventData::new_u64(KEY_NOTES),
                            epoll::EventFlags::OUT,
                        );
                        self.waiting = added.is_ok();
                    }
                    return;
                }
                // The daemon is gone; the next one is told everything when it connects.
                Err(_) => return self.disconnect(epoll),
            }
        }
        self.unsent.clear();
        self.sent = 0;
        if std::mem::take(&mut self.waiting)
            && let Some(link) = &self.link
        {
            epoll::delete(epoll, link).ok();
        }
    }
}
