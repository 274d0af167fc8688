//! Greeting the keeper: who we are, what it knows, and the house key.
//!
//! The keeper gives the key only to a process that it recognises by its program file, and the kernel shows that file only
//! of a process whose memory others of the same user may read. The order is therefore:
//!
//! 1. The daemon lets itself be looked at ([`ShownMemory`]), greets, and is welcomed as recognised or not.
//! 2. It hides its memory. From here on nobody of the same user can read it or begin to trace it.
//! 3. It asks for the key. The keeper refuses a process that is being traced.
//!
//! Hence the key is never in memory that others can read. A daemon that meets its keeper again is known to it by its
//! process and shows nothing.
//!
//! Before anything is said the daemon looks at the process that serves the socket ([`hostel_peer::server`]): a process
//! inside a house may have put its own socket there, to be told what is to be started and to give out a key that it knows.

use std::io;
use std::path::Path;

use hostel_keeper::key::{HouseKey, KEY_BYTES};
use hostel_keeper::proto::{self, Builder, DecodeError, Hello, PROTOCOL, Role, State, Welcome, feature, kind, tag};
use hostel_peer::{Process, server};
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use tokio::net::UnixStream;
use zeroize::Zeroizing;

use super::link::{Caller, read_more};

/// Largest answer to the request for the key.
const KEY_ANSWER_BYTES: usize = 64 * 1024;

/// What greeting the keeper brought.
pub(crate) struct Greeting {
    pub(crate) welcome: Welcome,
    pub(crate) states: Vec<State>,
    /// None if the keeper knows no key or does not give it to us.
    pub(crate) key: Option<HouseKey>,
    /// The keeper's process.
    pub(crate) keeper: Process,
}

/// Where a keeper is expected, and which program it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeeperPlace<'a> {
    pub(crate) socket: &'a Path,
    pub(crate) program: &'a Path,
}

/// Whether this process has greeted the keeper of this house before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    First,
    Again,
}

/// While this lives, others of the same user may look into this process; then it is as it was before.
struct ShownMemory {
    was_hidden: bool,
}

impl ShownMemory {
    fn begin() -> Self {
        let was_hidden = dumpable_behavior().is_ok_and(|now| now == DumpableBehavior::NotDumpable);
        if was_hidden {
            set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
        }
        Self { was_hidden }
    }
}

impl Drop for ShownMemory {
    fn drop(&mut self) {
        if self.was_hidden {
            set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        }
    }
}

/// Greets the keeper as the daemon in charge and asks for the house key where there is one to be had.
pub(super) async fn as_controller(
    place: KeeperPlace<'_>,
    caller: Caller,
    meeting: Meeting,
) -> io::Result<(UnixStream, Vec<u8>, Greeting)> {
    let shown = (meeting == Meeting::First).then(ShownMemory::begin);
    let (stream, input, mut greeting) = greet(place, caller, Role::Controller, None).await?;
    drop(shown);
    if greeting.welcome.recognised && greeting.welcome.features & feature::HOUSE_KEY != 0 {
        // A daemon that holds the key is hidden, whatever else it holds.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        greeting.key = ask_for_key(&stream, &input).await?;
    }
    Ok((stream, input, greeting))
}

/// Asks for the key. The answer is read into memory that is wiped.
async fn ask_for_key(stream: &UnixStream, input: &[u8]) -> io::Result<Option<HouseKey>> {
    let mut request = Vec::new();
    Builder::new(&mut request, kind::HOUSE_KEY, 2).finish();
    send_all(stream, &request).await?;
    let mut answer = Zeroizing::new(Vec::with_capacity(KEY_ANSWER_BYTES + input.len()));
    answer.extend_from_slice(input);
    loop {
        let mut done = 0;
        while let Some((frame, length)) = proto::split(&answer[done..]).map_err(invalid)? {
            done += length;
            match frame.kind {
                kind::KEY => {
                    let bytes: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(frame.array(tag::KEY).map_err(invalid)?);
                    return Ok(Some(HouseKey::from_bytes(&bytes)));
                }
                kind::SUPERSEDED => return Err(superseded()),
                kind::ERROR if frame.corr == 2 => return Ok(None),
                _ => {}
            }
        }
        read_more(stream, &mut answer).await?;
    }
}

async fn send_all(stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        stream.writable().await?;
        match stream.try_write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn superseded() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "another daemon has taken over")
}

/// Opens a connection and reads the keeper's whole greeting.
pub(super) async fn greet(
    place: KeeperPlace<'_>,
    caller: Caller,
    role: Role,
    notes_key: Option<[u8; 16]>,
) -> io::Result<(UnixStream, Vec<u8>, Greeting)> {
    let short = hostel_keeper::socket_path::shorten(place.socket)?;
    let stream = UnixStream::connect(&short).await?;
    let keeper = server::keeper(&stream, place.program).await.map_err(io::Error::other)?;
    let mut hello = Vec::new();
    Hello {
        proto_min: PROTOCOL,
        proto_max: PROTOCOL,
        role,
        build: caller.build.to_owned(),
        started: caller.started,
        notes_key,
    }
    .encode(1, &mut hello);
    send_all(&stream, &hello).await?;
    let mut input = Vec::new();
    let mut welcome = None;
    let mut states = Vec::new();
    loop {
        let mut done = 0;
        while let Some((frame, length)) = proto::split(&input[done..]).map_err(invalid)? {
            done += length;
            match frame.kind {
                kind::WELCOME => welcome = Some(Welcome::decode(&frame).map_err(invalid)?),
                kind::STATE => states.push(State::decode(&frame).map_err(invalid)?),
                kind::SYNCED => {
                    input.drain(..done);
                    let welcome = welcome.ok_or_else(|| io::Error::other("the keeper did not introduce itself"))?;
                    return Ok((stream, input, Greeting { welcome, states, key: None, keeper }));
                }
                kind::SUPERSEDED => return Err(superseded()),
                kind::ERROR => {
                    let text =
                        String::from_utf8_lossy(frame.find(tag::TEXT).ok().flatten().unwrap_or_default()).into_owned();
                    return Err(io::Error::other(format!("the keeper refused: {text}")));
                }
                _ => {}
            }
        }
        input.drain(..done);
        read_more(&stream, &mut input).await?;
    }
}

fn invalid(error: DecodeError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
