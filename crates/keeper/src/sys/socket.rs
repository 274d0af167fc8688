//! Sockets where no safe wrapper fits: bytes together with descriptors, and the process at the other end.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::proto::MAX_DESCRIPTORS;

/// Room for the control message that carries the descriptors of one frame.
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

const DESCRIPTOR_BYTES: usize = MAX_DESCRIPTORS * size_of::<RawFd>();
/// The head of a control message (16 bytes on 64-bit machines), and its content rounded up to whole words.
const CONTROL_BYTES: usize = size_of::<libc::cmsghdr>() + DESCRIPTOR_BYTES.next_multiple_of(size_of::<usize>());

/// Receives into the spare capacity of `bytes`, without waiting, and appends the descriptors that came along to
/// `descriptors`; they close on exec. Returns how many bytes came. More descriptors than one frame may carry are an error;
/// the kernel closes those that found no room, and the caller drops the rest with the connection.
pub(crate) fn receive(socket: &OwnedFd, bytes: &mut Vec<u8>, descriptors: &mut Vec<OwnedFd>) -> Result<usize, Errno> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec {
        iov_base: bytes.spare_capacity_mut().as_mut_ptr().cast(),
        iov_len: bytes.capacity() - bytes.len(),
    };
    // SAFETY: plain data, of which zero means "nothing".
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the buffers are ours, of the lengths given, and outlive the call.
    let received =
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
    let Ok(received) = usize::try_from(received) else {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    };
    // SAFETY: the kernel has written so many bytes of the spare capacity.
    unsafe { bytes.set_len(bytes.len() + received) };
    if message.msg_controllen as usize > 0 {
        // SAFETY: the kernel has filled the control buffer, and each number in it is a new descriptor that is ours alone.
        unsafe { take_descriptors(&message, descriptors) };
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 { Err(Errno::MSGSIZE) } else { Ok(received) }
}

/// # Safety
/// `message` was just filled by `recvmsg`.
unsafe fn take_descriptors(message: &libc::msghdr, descriptors: &mut Vec<OwnedFd>) {
    // SAFETY: the macros walk through the buffer that the kernel has filled; its numbers are read byte by byte because
    // they need not be aligned.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data: *const RawFd = libc::CMSG_DATA(header).cast();
                let length = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for index in 0..length / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// From the kernel's `socket.h`, since version 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// A handle on the process that connected. Unlike its number it cannot come to mean another process.
pub(crate) fn peer_process(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut fd: RawFd = -1;
    let mut length = size_of::<RawFd>() as libc::socklen_t;
    // SAFETY: `fd` has room for the answer, and `length` says how much.
    let asked = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, (&raw mut fd).cast(), &raw mut length)
    };
    if asked != 0 || fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; it closes on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

    use super::*;

    fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
    }

    fn open_files() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn descriptors_come_with_the_bytes_they_were_sent_with() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let (mut bytes, mut descriptors) = (Vec::with_capacity(64), Vec::new());
        assert_eq!(receive(&theirs, &mut bytes, &mut descriptors), Err(Errno::AGAIN));
        send(&ours, b"plain", &[]);
        send(&ours, b"carrying", &[ours.as_fd(), ours.as_fd()]);
        send(&ours, b"after", &[]);
        while bytes.len() < 18 {
            receive(&theirs, &mut bytes, &mut descriptors).unwrap();
            // They are never later than the last of their bytes.
            assert!(bytes.len() < 13 || descriptors.len() == 2, "{bytes:?}");
        }
        assert_eq!((bytes.as_slice(), descriptors.len()), (b"plaincarryingafter".as_slice(), 2));
        let flags = rustix::io::fcntl_getfd(&descriptors[0]).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        drop(ours);
        drop(descriptors);
        assert_eq!(receive(&theirs, &mut bytes, &mut Vec::new()), Ok(0), "nobody holds the other end");
    }

    #[test]
    fn more_descriptors_than_a_frame_may_carry_are_refused_and_closed() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let before = open_files();
        for _ in 0..10 {
            send(&ours, b"x", &[ours.as_fd(); MAX_DESCRIPTORS + 3]);
            let (mut bytes, mut descriptors) = (Vec::with_capacity(64), Vec::new());
            assert_eq!(receive(&theirs, &mut bytes, &mut descriptors), Err(Errno::MSGSIZE));
            assert!(descriptors.len() <= MAX_DESCRIPTORS);
        }
        assert_eq!(open_files(), before);
    }

    #[test]
    fn the_process_at_the_other_end_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let listener = std::os::unix::net::UnixListener::bind(directory.path().join("s")).unwrap();
        let _client = UnixStream::connect(directory.path().join("s")).unwrap();
        let (server, _) = listener.accept().unwrap();
        // A kernel before 6.5 does not know the question.
        if let Ok(handle) = peer_process(server.as_fd()) {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd())).unwrap();
            assert!(info.lines().any(|line| line == format!("Pid:\t{}", std::process::id())), "{info}");
        }
    }
}
