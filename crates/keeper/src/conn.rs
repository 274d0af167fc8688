//! One connection to the keeper: bytes in, frames out, never waiting for the peer.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::proto::Role;

/// Bytes read at a time.
const READ_BYTES: usize = 256 * 1024;
/// With more than this unsent, the keeper stops reading the connection.
pub(crate) const UNSENT_LIMIT: usize = 1024 * 1024;

/// A connection.
pub(crate) struct Conn {
    pub(crate) fd: OwnedFd,
    pub(crate) role: Option<Role>,
    pub(crate) input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// What the epoll set listens for.
    pub(crate) listening: rustix::event::epoll::EventFlags,
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
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            role: None,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            listening: rustix::event::epoll::EventFlags::IN,
        }
    }

    pub(crate) fn receive(&mut self) -> Arrived {
        self.input.reserve(READ_BYTES);
        match rustix::net::recv(&self.fd, rustix::buffer::spare_capacity(&mut self.input), RecvFlags::DONTWAIT) {
            Ok((count, _)) if count > 0 => Arrived::Bytes,
            Err(Errno::AGAIN | Errno::INTR) => Arrived::Nothing,
            _ => Arrived::End,
        }
    }

    /// Drops the first `count` bytes of input; gives memory back after a large frame.
    pub(crate) fn consume(&mut self, count: usize) {
        self.input.drain(..count);
        if self.input.capacity() > 4 * READ_BYTES && self.input.len() < READ_BYTES {
            self.input.shrink_to(READ_BYTES);
        }
    }

    /// Where frames for this connection are appended.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Sends what it can. `false` when the peer is gone.
    pub(crate) fn flush(&mut self) -> bool {
        while self.sent < self.output.len() {
            match rustix::net::send(&self.fd, &self.output[self.sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.output.clear();
        self.sent = 0;
        true
    }
}
