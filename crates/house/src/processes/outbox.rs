//! What stands in line to be sent to the keeper: bytes of frames, and descriptors attached to some of them.
//!
//! Descriptors go out with the first byte of their frame and with no byte of another one. Nothing here waits.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hostel_keeper::proto::MAX_DESCRIPTORS;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Memory that an empty line may keep.
const KEPT_BYTES: usize = 256 * 1024;

/// Descriptors that a frame carries.
struct Carried {
    /// Where the frame begins, counted from the first byte that is not sent.
    offset: usize,
    descriptors: Vec<Arc<OwnedFd>>,
}

/// The line.
#[derive(Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    carried: VecDeque<Carried>,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Puts one frame, which names how many descriptors it carries, at the end of the line.
    pub(super) fn push(&mut self, descriptors: &[Arc<OwnedFd>], encode: impl FnOnce(&mut Vec<u8>)) {
        if !descriptors.is_empty() {
            self.carried.push_back(Carried { offset: self.bytes.len(), descriptors: descriptors.to_vec() });
        }
        encode(&mut self.bytes);
    }

    /// Sends once; the line is shorter then. `WouldBlock` means that the socket takes no more now.
    pub(super) fn send(&mut self, stream: &UnixStream) -> io::Result<()> {
        let sent = match self.carried.front() {
            None => stream.try_write(&self.bytes)?,
            Some(next) if next.offset > 0 => stream.try_write(&self.bytes[..next.offset])?,
            Some(next) => {
                let end = self.carried.get(1).map_or(self.bytes.len(), |after| after.offset);
                let sent = send_with(stream, &self.bytes[..end], &next.descriptors)?;
                if sent > 0 {
                    self.carried.pop_front();
                }
                sent
            }
        };
        for carried in &mut self.carried {
            carried.offset -= sent;
        }
        self.bytes.drain(..sent);
        // The memory of a large request goes with it.
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        Ok(())
    }
}

fn send_with(stream: &UnixStream, bytes: &[u8], descriptors: &[Arc<OwnedFd>]) -> io::Result<usize> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame carries too many descriptors"));
    }
    stream.try_io(Interest::WRITABLE, || {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, flags)?)
    })
}

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

    use super::*;

    /// Receives once: how many bytes, how many descriptors.
    fn receive(socket: &std::os::unix::net::UnixStream, room: usize) -> (Vec<u8>, usize) {
        let mut bytes = vec![0; room];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message =
            rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty()).unwrap();
        bytes.truncate(message.bytes);
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights.count()),
            _ => None,
        });
        (bytes, rights.sum())
    }

    #[tokio::test]
    async fn descriptors_travel_with_the_first_byte_of_their_frame() {
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let near = UnixStream::from_std(near).unwrap();
        near.writable().await.unwrap();
        let file = Arc::new(OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
        let mut outbox = Outbox::default();
        outbox.push(&[], |out| out.extend_from_slice(b"aa"));
        outbox.push(&[Arc::clone(&file)], |out| out.extend_from_slice(b"bbb"));
        outbox.push(&[Arc::clone(&file), Arc::clone(&file)], |out| out.extend_from_slice(b"c"));
        outbox.push(&[], |out| out.extend_from_slice(b"dd"));
        while !outbox.is_empty() {
            outbox.send(&near).unwrap();
        }
        assert_eq!(Arc::strong_count(&file), 1, "none is kept once it is sent");
        let (mut bytes, mut seen) = (Vec::new(), Vec::new());
        while bytes.len() < 8 {
            let (more, descriptors) = receive(&far, 1);
            seen.extend((descriptors > 0).then_some((bytes.len(), descriptors)));
            bytes.extend(more);
        }
        assert_eq!((bytes.as_slice(), seen.as_slice()), (b"aabbbcdd".as_slice(), [(2, 1), (5, 2)].as_slice()));
    }
}
