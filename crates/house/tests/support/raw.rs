//! The keeper's socket, frame by frame.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use hostel_journal::ProcessId;
use hostel_keeper::proto::{Builder, Frame, Hello, OnFull, Role, Spawn, StdinKind, kind, split, tag};

use super::{RawKeeper, limit};

pub(crate) struct Raw {
    pub(crate) stream: UnixStream,
    input: Vec<u8>,
}

pub(crate) struct Owned {
    pub(crate) kind: u16,
    pub(crate) corr: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Owned {
    pub(crate) fn frame(&self) -> Frame<'_> {
        split(&self.bytes).unwrap().unwrap().0
    }
}

impl Raw {
    pub(crate) fn connect(keeper: &RawKeeper, role: Role) -> Self {
        Self::connect_with(keeper, role, None)
    }

    pub(crate) fn connect_with(keeper: &RawKeeper, role: Role, notes_key: Option<[u8; 16]>) -> Self {
        Self::connect_to(&keeper.socket(), role, notes_key)
    }

    pub(crate) fn connect_to(socket: &Path, role: Role, notes_key: Option<[u8; 16]>) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(limit())).unwrap();
        let mut raw = Self { stream, input: Vec::new() };
        raw.send(|out| {
            Hello { proto_min: 1, proto_max: 1, role, build: "test".into(), started: 1, notes_key }.encode(1, out);
        });
        raw
    }

    pub(crate) fn send(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        encode(&mut out);
        self.stream.write_all(&out).unwrap();
    }

    /// Sends one frame together with descriptors; the frame has to say how many.
    pub(crate) fn send_with(&mut self, descriptors: &[BorrowedFd<'_>], encode: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        encode(&mut out);
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(descriptors)));
        let bytes = [std::io::IoSlice::new(&out)];
        let sent = rustix::net::sendmsg(&self.stream, &bytes, &mut control, rustix::net::SendFlags::empty()).unwrap();
        self.stream.write_all(&out[sent..]).unwrap();
    }

    /// Asks the keeper to become the program behind a descriptor.
    pub(crate) fn upgrade(&mut self, program: &OwnedFd) {
        self.send_with(&[program.as_fd()], |out| {
            Builder::new(out, kind::UPGRADE, 3).u32(tag::DESCRIPTORS, 1).finish();
        });
    }

    /// The next frame, `None` when the keeper hung up.
    pub(crate) fn next(&mut self) -> Option<Owned> {
        loop {
            if let Some((frame, length)) = split(&self.input).unwrap() {
                let owned = Owned { kind: frame.kind, corr: frame.corr, bytes: self.input[..length].to_vec() };
                self.input.drain(..length);
                return Some(owned);
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn until(&mut self, kind: u16) -> Owned {
        loop {
            let frame = self.next().unwrap_or_else(|| panic!("hung up while waiting for {kind}"));
            if frame.kind == kind {
                return frame;
            }
        }
    }
}

/// How many processes the keeper on this socket knows.
pub(crate) fn known_processes(socket: &Path) -> usize {
    let mut raw = Raw::connect_to(socket, Role::Observer, None);
    let frames = std::iter::from_fn(|| raw.next()).take_while(|frame| frame.kind != kind::SYNCED);
    frames.filter(|frame| frame.kind == kind::STATE).count()
}

pub(crate) fn spawn_of(id: ProcessId, script: &str) -> Spawn {
    Spawn {
        id,
        label: b"label".to_vec(),
        program: b"/bin/sh".to_vec(),
        argv: [b"sh".as_slice(), b"-c", script.as_bytes()].map(<[u8]>::to_vec).to_vec(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        cwd: b"/".to_vec(),
        umask: 0o022,
        nofile: 256,
        stdin: StdinKind::Pipe,
        quota: 0,
        on_full: OnFull::Hold,
        terms: None,
        execute: None,
        owner: None,
    }
}
