//! One connection to the keeper: bytes in, frames out, never waiting for the peer.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::SendFlags;
use zeroize::{Zeroize as _, Zeroizing};

use crate::proto::Role;
use crate::sys;

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;
/// With more than this unsent, the keeper stops reading the connection.
pub(crate) const UNSENT_LIMIT: usize = 1024 * 1024;

/// Descriptors that may wait for the rest of the frame they came with.
const WAITING_DESCRIPTORS: usize = 2 * crate::proto::MAX_DESCRIPTORS;

/// A connection.
pub(crate) struct Conn {
    pub(crate) fd: OwnedFd,
    /// The process that connected.
    pub(crate) peer: Peer,
    pub(crate) role: Option<Role>,
    /// The keeper recognises the peer as its daemon.
    pub(crate) recognised: bool,
    pub(crate) input: Vec<u8>,
    /// Descriptors that have come and that no frame has taken yet, oldest first.
    descriptors: Vec<OwnedFd>,
    /// Wiped when it is dropped: it may hold the house key.
    output: Zeroizing<Vec<u8>>,
    sent: usize,
    holds_secret: bool,
    /// The peer takes nothing any more. What it has sent counts all the same.
    deaf: bool,
    /// What the epoll set listens for.
    pub(crate) listening: rustix::event::epoll::EventFlags,
}

/// The process at the other end of a connection.
pub(crate) struct Peer {
    pub(crate) pid: u32,
    /// A handle on it, from the moment it connected where the kernel can tell, otherwise from the moment it was accepted.
    pub(crate) process: OwnedFd,
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Bytes,
    Nothing,
    /// The peer is gone.
    End,
}

impl Conn {
    pub(crate) fn new(fd: OwnedFd, peer: Peer) -> Self {
        Self {
            fd,
            peer,
            role: None,
            recognised: false,
            input: Vec::new(),
            descriptors: Vec::new(),
            output: Zeroizing::new(Vec::new()),
            sent: 0,
            holds_secret: false,
            deaf: false,
            listening: rustix::event::epoll::EventFlags::IN,
        }
    }

    pub(crate) fn receive(&mut self) -> Arrived {
        self.input.reserve(READ_BYTES);
        match sys::receive(&self.fd, &mut self.input, &mut self.descriptors) {
            // Only the daemon has a reason to send descriptors.
            Ok(_) if self.descriptors.len() > WAITING_DESCRIPTORS || self.has_unwanted_descriptors() => Arrived::End,
            Ok(count) if count > 0 => Arrived::Bytes,
            Err(Errno::AGAIN | Errno::INTR) => Arrived::Nothing,
            _ => Arrived::End,
        }
    }

    fn has_unwanted_descriptors(&self) -> bool {
        !self.descriptors.is_empty() && self.role != Some(Role::Controller)
    }

    /// Whether descriptors wait for a frame to take them.
    pub(crate) fn has_descriptors(&self) -> bool {
        !self.descriptors.is_empty()
    }

    /// Takes the descriptors that a frame says it carries. `None` if they did not come.
    pub(crate) fn take_descriptors(&mut self, count: usize) -> Option<Vec<OwnedFd>> {
        (count <= self.descriptors.len()).then(|| self.descriptors.drain(..count).collect())
    }

    /// Drops the first `count` bytes of input; gives memory back after a large frame. With no part of a frame left, no
    /// frame can take the descriptors that are left: they are closed.
    pub(crate) fn consume(&mut self, count: usize) {
        self.input.drain(..count);
        if self.input.is_empty() && !self.descriptors.is_empty() {
            self.descriptors.clear();
        }
        if self.input.capacity() > 4 * READ_BYTES && self.input.len() < READ_BYTES {
            self.input.shrink_to(READ_BYTES);
        }
    }

    /// Where frames for this connection are appended.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Overwrites what waits to be sent as soon as it has been: it holds a secret.
    pub(crate) fn wipe_once_sent(&mut self) {
        self.holds_secret = true;
    }

    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Sends what it can. `false` when the peer is gone and nothing that it sent matters any more. What a daemon sent before
    /// it died is read to its end: the anchor of what it decided may be behind a request whose answer nobody takes.
    pub(crate) fn flush(&mut self) -> bool {
        while self.sent < self.output.len() && !self.deaf {
            match rustix::net::send(&self.fd, &self.output[self.sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) if self.role == Some(Role::Controller) => self.deaf = true,
                Err(_) => return false,
            }
        }
        if std::mem::take(&mut self.holds_secret) {
            self.output.zeroize();
        }
        self.output.clear();
        self.sent = 0;
        true
    }
}
