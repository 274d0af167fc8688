//! The connection to the keeper: requests out, answers back, notes in.
//!
//! A request is on its way, in order, when [`Link::submit`] returns; its answer is awaited
//! separately, so that input queued first is applied first whoever waits for what. Requests in
//! flight are bounded by permits. A spawn is answered when its exec has worked, which may be never where a
//! file system hangs: spawns have permits of their own and hold up nobody else. The link knows frames, not processes.
//!
//! A daemon that greets the keeper for the first time is asked for the house key right after the keeper's welcome: see
//! [`greeting`](super::greeting).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hostel_keeper::proto::{self, Builder, DecodeError, Frame, Note, Outcome, Role, Stage, kind, tag};
use hostel_peer::Process;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::net::UnixStream;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, TryAcquireError, oneshot, watch};

use super::greeting::{self, Greeting, KeeperPlace, Meeting};
use super::outbox::Outbox;

/// Requests in flight.
pub(crate) const IN_FLIGHT: usize = 256;
/// Processes that are being started and have not come to their exec.
pub(crate) const SPAWNS_IN_FLIGHT: usize = 256;
/// How long a spawn waits for one of these places.
const SPAWN_PLACE_LIMIT: Duration = Duration::from_secs(10);
/// How long an upgrade waits until nothing else is in flight; meanwhile nothing else is sent.
const ALONE_LIMIT: Duration = Duration::from_secs(2);
/// How long the keeper may take to answer a request to replace itself.
const ALONE_ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;
/// How long the keeper may take to greet.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// How long a thread that waits for a permit, or for room in the socket, waits before it looks again.
const PERMIT_LOOK: Duration = Duration::from_millis(1);
const SEND_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// How long the other connection may outlive the one for notes.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Who greets the keeper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) build: &'static str,
    /// Nanoseconds since boot: of two daemons the younger is in charge.
    pub(crate) started: u64,
}

/// An answer of the keeper.
#[derive(Debug)]
pub(crate) enum Answer {
    Spawned { pid: u32, start_ns: u64 },
    Failed { stage: Stage, errno: i32, text: String },
    Input { applied: u64, outcome: Outcome },
    Done { count: u32 },
    Anchor(Option<Vec<u8>>),
    Refused(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Gone {
    /// It was on its way: nobody knows what became of it.
    #[error("the keeper is gone")]
    Answerless,
    /// It was never sent: it can be sent by the next link.
    #[error("the keeper is gone")]
    Unsent,
    /// It was not sent: too many processes are being started and do not come to their exec.
    #[error("{SPAWNS_IN_FLIGHT} processes are being started and wait for their programs; does a file system hang?")]
    Crowded,
    /// It was not sent: a process is being started, and has been for too long.
    #[error("a process is just being started; try again")]
    Starting,
    /// It was not sent: others were in flight for too long.
    #[error("the keeper is busy; try again")]
    Busy,
}

/// How a link ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// Still open.
    Open,
    /// The keeper closed it, or died.
    Closed,
    /// A newer daemon took over.
    Superseded,
}

/// What a request has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Answered at once.
    Request,
    /// Answered when a program was executed.
    Spawn,
}

/// An answer that is on its way.
pub(crate) struct Ticket {
    receiver: oneshot::Receiver<Answer>,
    permit: OwnedSemaphorePermit,
}

impl Ticket {
    pub(crate) async fn answer(self) -> Result<Answer, Gone> {
        self.receiver.await.map_err(|_| Gone::Answerless)
    }
}

/// The two connections.
pub(crate) struct Link {
    stream: UnixStream,
    unsent: Mutex<Outbox>,
    more_to_send: Notify,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
    next_corr: AtomicU64,
    permits: Arc<Semaphore>,
    spawn_permits: Arc<Semaphore>,
    end: watch::Sender<LinkEnd>,
    /// The keeper's process.
    keeper: Process,
}

impl Link {
    /// Greets the keeper as the one controller. `on_note` is called for every note, in order.
    pub(crate) async fn open(
        place: KeeperPlace<'_>,
        caller: Caller,
        meeting: Meeting,
        on_note: impl Fn(Note) + Send + 'static,
    ) -> io::Result<(Arc<Self>, Greeting)> {
        let opening = async {
            let (stream, input, greeting) = greeting::as_controller(place, caller, meeting).await?;
            let key = greeting.welcome.notes_key;
            let (notes, notes_input, _) = greeting::greet(place, caller, Role::Notes, key).await?;
            Ok::<_, io::Error>((stream, input, greeting, notes, notes_input))
        };
        let opened = tokio::time::timeout(GREETING_LIMIT, opening).await;
        let (stream, mut input, greeting, notes, notes_input) =
            opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let link = Arc::new(Self {
            stream,
            unsent: Mutex::default(),
            more_to_send: Notify::new(),
            waiting: Mutex::new(HashMap::new()),
            next_corr: AtomicU64::new(1),
            permits: Arc::new(Semaphore::new(IN_FLIGHT)),
            spawn_permits: Arc::new(Semaphore::new(SPAWNS_IN_FLIGHT)),
            end: watch::Sender::new(LinkEnd::Open),
            keeper: greeting.keeper.clone(),
        });
        let reader = Arc::clone(&link);
        hostel_tasks::spawn(async move {
            let end = reader.read_answers(&mut input).await;
            reader.close(end);
        });
        let writer = Arc::clone(&link);
        hostel_tasks::spawn(async move { writer.write_rest().await });
        let deaf = Arc::clone(&link);
        hostel_tasks::spawn(async move {
            read_notes(notes, notes_input, on_note).await;
            // A daemon that hears nothing is no use: both connections live, or none. When the keeper
            // goes both end, and what it said last on the other one is read first.
            drop(tokio::time::timeout(LAST_WORDS, deaf.ended()).await);
            deaf.close(LinkEnd::Closed);
        });
        Ok((link, greeting))
    }

    /// Ends the link for everybody who uses it. The end is set first: whoever submits after it finds
    /// it, whoever submitted before is told by the dropped sender.
    fn close(&self, end: LinkEnd) {
        self.end.send_if_modified(|state| {
            let better = *state == LinkEnd::Open || end == LinkEnd::Superseded && *state != end;
            if better {
                *state = end;
            }
            better
        });
        self.waiting.lock().clear();
        self.more_to_send.notify_one();
    }

    /// Whether the link is open, and how it ended if not.
    pub(crate) fn state(&self) -> LinkEnd {
        *self.end.borrow()
    }

    /// The keeper's process.
    pub(crate) fn keeper(&self) -> &Process {
        &self.keeper
    }

    /// Whether the keeper's process has not ended, whatever became of the link. Asks the kernel, which does not wait.
    pub(crate) fn keeper_lives(&self) -> bool {
        self.keeper.is_alive()
    }

    /// How the link ends; resolves once it has.
    pub(crate) async fn ended(&self) -> LinkEnd {
        let mut end = self.end.subscribe();
        let result = end.wait_for(|state| *state != LinkEnd::Open).await;
        result.map_or(LinkEnd::Closed, |state| *state)
    }

    /// Sends a request; returns when it stands in line, before it is answered. Of a spawn only its own place is kept until
    /// then, so that one that hangs holds up nothing but an upgrade, and that for a moment.
    pub(crate) async fn submit(
        &self,
        lane: Lane,
        descriptors: &[Arc<OwnedFd>],
        encode: impl FnOnce(u64, &mut Vec<u8>),
    ) -> Result<Ticket, Gone> {
        let place = match lane {
            Lane::Request => None,
            Lane::Spawn => {
                let place = Arc::clone(&self.spawn_permits).acquire_owned();
                let place = tokio::time::timeout(SPAWN_PLACE_LIMIT, place).await;
                Some(place.map_err(|_| Gone::Crowded)?.map_err(|_| Gone::Unsent)?)
            }
        };
        // In line behind a request that has to be alone.
        let turn = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Gone::Unsent)?;
        match place {
            None => self.submit_with(turn, descriptors, encode),
            Some(place) => self.submit_with(place, descriptors, encode),
        }
    }

    fn submit_with(
        &self,
        permit: OwnedSemaphorePermit,
        descriptors: &[Arc<OwnedFd>],
        encode: impl FnOnce(u64, &mut Vec<u8>),
    ) -> Result<Ticket, Gone> {
        let corr = self.next_corr.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().insert(corr, sender);
        if *self.end.borrow() != LinkEnd::Open {
            self.waiting.lock().remove(&corr);
            return Err(Gone::Unsent);
        }
        let mut unsent = self.unsent.lock();
        let idle = unsent.is_empty();
        unsent.push(descriptors, |out| encode(corr, out));
        if idle {
            // What does not go now is sent by the writer.
            unsent.send(&self.stream).ok();
        }
        if !unsent.is_empty() {
            self.more_to_send.notify_one();
        }
        Ok(Ticket { receiver, permit })
    }

    /// Sends a frame that wants no answer, and returns once it stands in the socket: from then on it reaches the keeper even
    /// if this process dies. For threads that may wait. `TimedOut` if the keeper takes nothing in time, `Interrupted` if there
    /// is another link, `NotConnected` if this one ended.
    pub(crate) fn send_now(&self, deadline: Instant, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        // Not while somebody wants to be alone: a keeper that is about to be replaced does not read what comes now.
        let _permit = loop {
            match self.permits.try_acquire() {
                Ok(permit) => break permit,
                Err(TryAcquireError::Closed) => return Err(io::ErrorKind::Interrupted.into()),
                Err(TryAcquireError::NoPermits) if Instant::now() >= deadline => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(TryAcquireError::NoPermits) => std::thread::sleep(PERMIT_LOOK),
            }
        };
        self.unsent.lock().push(&[], encode);
        loop {
            if *self.end.borrow() != LinkEnd::Open {
                return Err(io::ErrorKind::NotConnected.into());
            }
            {
                let mut unsent = self.unsent.lock();
                while !unsent.is_empty() && unsent.send(&self.stream).is_ok() {}
                if unsent.is_empty() {
                    return Ok(());
                }
            }
            // The writer may be faster, or the socket has no room.
            self.more_to_send.notify_one();
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut socket = [PollFd::new(&self.stream, PollFlags::OUT)];
            rustix::event::poll(&mut socket, Some(&SEND_LOOK)).ok();
            // Room in the socket is not news to the runtime's own readiness at once.
            std::thread::yield_now();
        }
    }

    /// A request that is sent alone: when nothing else is in flight, and with nothing after it until the returned guard is
    /// dropped. `Starting` or `Busy` if that does not happen in time.
    pub(crate) async fn request_alone(
        &self,
        descriptors: &[Arc<OwnedFd>],
        encode: impl FnOnce(u64, &mut Vec<u8>),
    ) -> Result<(Answer, OwnedSemaphorePermit), Gone> {
        // Of one that hangs the keeper would say the same, but others may only be a moment too early.
        let spawns = Arc::clone(&self.spawn_permits).acquire_many_owned(SPAWNS_IN_FLIGHT as u32);
        let spawns = tokio::time::timeout(ALONE_LIMIT, spawns).await.map_err(|_| Gone::Starting)?;
        let _spawns = spawns.map_err(|_| Gone::Unsent)?;
        let all = Arc::clone(&self.permits).acquire_many_owned(IN_FLIGHT as u32);
        let all = tokio::time::timeout(ALONE_LIMIT, all).await.map_err(|_| Gone::Busy)?.map_err(|_| Gone::Unsent)?;
        let Ticket { receiver, permit } = self.submit_with(all, descriptors, encode)?;
        let answer = tokio::time::timeout(ALONE_ANSWER_LIMIT, receiver).await.map_err(|_| Gone::Answerless)?;
        Ok((answer.map_err(|_| Gone::Answerless)?, permit))
    }

    /// Lets everybody who waits for a permit of this link know that there will be none.
    pub(crate) fn retire(&self) {
        self.permits.close();
        self.spawn_permits.close();
    }

    async fn write_rest(&self) {
        loop {
            self.more_to_send.notified().await;
            loop {
                if *self.end.borrow() != LinkEnd::Open {
                    return;
                }
                if self.unsent.lock().is_empty() {
                    break;
                }
                if self.stream.writable().await.is_err() {
                    return;
                }
                match self.unsent.lock().send(&self.stream) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        }
    }

    async fn read_answers(&self, input: &mut Vec<u8>) -> LinkEnd {
        loop {
            let mut done = 0;
            loop {
                match proto::split(&input[done..]) {
                    Ok(Some((frame, length))) => {
                        done += length;
                        if frame.kind == kind::SUPERSEDED {
                            return LinkEnd::Superseded;
                        }
                        self.deliver(&frame);
                    }
                    Ok(None) => break,
                    Err(_) => return LinkEnd::Closed,
                }
            }
            input.drain(..done);
            if read_more(&self.stream, input).await.is_err() {
                return LinkEnd::Closed;
            }
        }
    }

    fn deliver(&self, frame: &Frame<'_>) {
        let Some(waiting) = self.waiting.lock().remove(&frame.corr) else { return };
        let answer = decode_answer(frame).unwrap_or_else(|error| Answer::Refused(error.to_string()));
        drop(waiting.send(answer));
    }
}

fn decode_answer(frame: &Frame<'_>) -> Result<Answer, DecodeError> {
    let text = |frame: &Frame<'_>| Ok(String::from_utf8_lossy(frame.find(tag::TEXT)?.unwrap_or_default()).into_owned());
    Ok(match frame.kind {
        kind::SPAWNED => Answer::Spawned { pid: frame.u32(tag::PID)?, start_ns: frame.u64(tag::START_NS)? },
        kind::FAILED => Answer::Failed {
            stage: Stage::from_wire(frame.u32(tag::STAGE)?)?,
            errno: frame.i32(tag::ERRNO)?,
            text: text(frame)?,
        },
        kind::INPUT => {
            Answer::Input { applied: frame.u64(tag::APPLIED)?, outcome: Outcome::from_wire(frame.u32(tag::OUTCOME)?)? }
        }
        kind::ANCHOR => Answer::Anchor(frame.find(tag::ANCHOR)?.map(<[u8]>::to_vec)),
        kind::DONE => Answer::Done { count: frame.u32_or(tag::REACHED, 0)? },
        kind::ERROR => Answer::Refused(text(frame)?),
        other => Answer::Refused(format!("the keeper answered with an unknown frame type {other}")),
    })
}

pub(super) async fn read_more(stream: &UnixStream, input: &mut Vec<u8>) -> io::Result<()> {
    loop {
        stream.readable().await?;
        input.reserve(READ_BYTES);
        match stream.try_read_buf(input) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn read_notes(stream: UnixStream, mut input: Vec<u8>, on_note: impl Fn(Note)) {
    loop {
        let mut done = 0;
        while let Ok(Some((frame, length))) = proto::split(&input[done..]) {
            done += length;
            if frame.kind == kind::NOTE
                && let Ok(note) = Note::decode(&frame)
            {
                on_note(note);
            }
        }
        input.drain(..done);
        if read_more(&stream, &mut input).await.is_err() {
            return;
        }
    }
}

/// A request without fields but an id.
pub(crate) fn about(kind: u16, id: hostel_journal::ProcessId) -> impl Fn(u64, &mut Vec<u8>) {
    move |corr, out| Builder::new(out, kind, corr).bytes(tag::ID, &id.0).finish()
}
