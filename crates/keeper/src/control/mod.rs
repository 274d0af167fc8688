//! The thread that serves the daemon: socket, input, signals, reaping. It never touches a journal.
//!
//! Invariant: nothing here waits. A peer that does not read, a child that does not read and a disk
//! that does not write each stop only themselves. Requests of the controller are applied in the
//! order they came, and a newer controller takes over only after the older one's complete frames
//! were applied.

mod anchor;
mod greeting;
mod reaping;
mod requests;
mod spawning;
mod stopping;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_journal::ProcessId;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags};

use crate::cgroup::Cgroups;
use crate::channel::Channel;
use crate::child_table::ChildTable;
use crate::conn::{Arrived, Conn, Peer, UNSENT_LIMIT};
use crate::key::HouseKey;
use crate::proto::{self, Role};
use crate::pump::{Setting, now_ns};
use crate::recognition::Recognition;
use crate::state::{Command, Event, SlotKey};
use crate::{marks, sys, tree, upgrade};
use stopping::Stopping;

/// The keeper leaves when nobody needs it for this long.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// How often it looks after its socket and itself.
const HOUSEKEEPING: Duration = Duration::from_secs(20);
/// Connections at once: a daemon has two, the rest are onlookers.
const CONNECTIONS: usize = 64;

/// What an epoll event is about; the kind is the top byte of its key.
const LISTENER: u64 = 1;
const SIGNALS: u64 = 2;
const BELL: u64 = 3;
const CONNECTION: u64 = 4;
const FAILURE: u64 = 5;
const STDIN: u64 = 6;

fn event_key(kind: u64, index: u32, generation: u32) -> epoll::EventData {
    epoll::EventData::new_u64((kind << 56) | (u64::from(generation) << 32) | u64::from(index))
}

/// Who this keeper is; stays the same over its upgrades.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) keeper_id: [u8; 16],
    pub(crate) since_ns: u64,
    pub(crate) house_tag: String,
    pub(crate) run_dir: PathBuf,
    pub(crate) journal_dir: PathBuf,
    pub(crate) cgroup_root: Option<PathBuf>,
    /// The lowest hard limit of file locks of a process outside of the house ([`marks`]). Not the keeper's present one,
    /// which others can lower.
    pub(crate) outside_limit: u64,
}

/// The control thread's state.
pub(crate) struct Control {
    pub(crate) identity: Identity,
    pub(crate) journal: (u64, u64),
    pub(crate) setting: Arc<Setting>,
    pub(crate) lock: OwnedFd,
    pub(crate) listener: OwnedFd,
    pub(crate) signals: OwnedFd,
    pub(crate) commands: Arc<Channel<Command>>,
    pub(crate) events: Arc<Channel<Event>>,
    pub(crate) epoll: OwnedFd,
    pub(crate) children: ChildTable,
    pub(crate) cgroups: Option<Cgroups>,
    pub(crate) child_limit: usize,
    /// Which process is this keeper's daemon.
    pub(crate) recognition: Recognition,
    pub(crate) house_key: HouseKey,
    /// What the daemon wants to be told by the next one.
    pub(crate) anchor: Option<Vec<u8>>,
    /// When this image of the program began.
    image_ns: u64,
    /// When the present controller was started; an older one is not let in again.
    pub(crate) controller_started: u64,
    /// What the present controller must show to be given the notes.
    notes_key: [u8; 16],
    /// Given up for a moment when descriptors run out, so that a peer can be turned away.
    spare: Option<OwnedFd>,
    conns: HashMap<u32, Conn>,
    next_conn: u32,
    stopping: Option<Stopping>,
    /// Another zombie stands before unknown ones: look again when it is reaped.
    rescan: bool,
    idle_since: Instant,
    next_housekeeping: Instant,
    leave: bool,
}

/// What a new control thread is given.
pub(crate) struct Parts {
    pub(crate) identity: Identity,
    pub(crate) journal: (u64, u64),
    pub(crate) setting: Arc<Setting>,
    pub(crate) lock: OwnedFd,
    pub(crate) listener: OwnedFd,
    pub(crate) commands: Arc<Channel<Command>>,
    pub(crate) events: Arc<Channel<Event>>,
    pub(crate) children: ChildTable,
    pub(crate) cgroups: Option<Cgroups>,
    pub(crate) controller_started: u64,
    pub(crate) recognition: Recognition,
    pub(crate) house_key: HouseKey,
    /// What the daemon wants to be told by the next one.
    pub(crate) anchor: Option<Vec<u8>>,
}

impl Control {
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let signals = sys::signal_descriptor()?;
        let readable = epoll::EventFlags::IN;
        epoll::add(&epoll, &parts.listener, event_key(LISTENER, 0, 0), readable)?;
        epoll::add(&epoll, &signals, event_key(SIGNALS, 0, 0), readable)?;
        epoll::add(&epoll, parts.events.bell(), event_key(BELL, 0, 0), readable)?;
        let mut control = Self {
            identity: parts.identity,
            journal: parts.journal,
            setting: parts.setting,
            lock: parts.lock,
            listener: parts.listener,
            signals,
            commands: parts.commands,
            events: parts.events,
            epoll,
            children: parts.children,
            cgroups: parts.cgroups,
            child_limit: spawning::child_limit(),
            recognition: parts.recognition,
            house_key: parts.house_key,
            anchor: parts.anchor,
            image_ns: now_ns(),
            controller_started: parts.controller_started,
            notes_key: ProcessId::random()?.0,
            spare: spare(),
            conns: HashMap::new(),
            next_conn: 0,
            stopping: None,
            rescan: false,
            idle_since: Instant::now(),
            next_housekeeping: Instant::now() + HOUSEKEEPING,
            leave: false,
        };
        control.resume_children();
        Ok(control)
    }

    /// Takes up what an earlier image of this program left: input that waits, children that ended.
    fn resume_children(&mut self) {
        let keys: Vec<SlotKey> = self.children.iter().map(|slot| slot.key).collect();
        for key in keys {
            self.drive_stdin(key);
        }
        self.look_for_ended();
    }

    /// Serves until it is told to leave or nobody needs it.
    pub(crate) fn run(mut self) {
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        while !self.leave {
            let wait = self.next_wake().saturating_duration_since(Instant::now());
            let timeout =
                rustix::event::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            ready.clear();
            if epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), Some(&timeout)).is_err() {
                continue;
            }
            for event in &ready {
                let raw = event.data.u64();
                let (kind, generation, index) = (raw >> 56, ((raw >> 32) & 0x00ff_ffff) as u32, raw as u32);
                let key = SlotKey { slot: index, generation };
                match kind {
                    LISTENER => self.accept(),
                    SIGNALS => self.take_signals(),
                    BELL => self.take_events(),
                    CONNECTION => self.serve(index, event.flags),
                    FAILURE => self.exec_outcome(key),
                    STDIN => self.drive_stdin(key),
                    _ => {}
                }
            }
            self.go_on_stopping();
            self.housekeeping();
        }
    }

    fn next_wake(&self) -> Instant {
        match &self.stopping {
            Some(stopping) => stopping.next_wake().min(self.next_housekeeping),
            None => self.next_housekeeping,
        }
    }

    fn accept(&mut self) {
        loop {
            let fd = match rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => fd,
                Err(Errno::MFILE | Errno::NFILE) => return self.turn_away(),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => return,
            };
            let Some(peer) = self.admit(&fd) else { continue };
            // An onlooker may always be replaced, the daemon never.
            if self.conns.len() >= CONNECTIONS
                && let Some(oldest) = self
                    .conns
                    .iter()
                    .filter(|(_, conn)| conn.role != Some(Role::Controller))
                    .map(|(index, _)| *index)
                    .min()
            {
                self.drop_conn(oldest);
            }
            let index = self.next_conn;
            self.next_conn = self.next_conn.wrapping_add(1);
            let conn = Conn::new(fd, peer);
            if epoll::add(&self.epoll, &conn.fd, event_key(CONNECTION, index, 0), conn.listening).is_ok() {
                self.conns.insert(index, conn);
            }
        }
    }

    /// No descriptors are left: without this the listener would stay ready for ever.
    fn turn_away(&mut self) {
        self.spare = None;
        drop(rustix::net::accept(&self.listener));
        self.spare = spare();
    }

    /// Only this user, and nobody who descends from the keeper or is inside a house by its limits, also if that is
    /// another house: a hosted process must not rule over a keeper, whichever program it runs. Where `/proc` cannot
    /// tell, the answer is no.
    fn admit(&self, fd: &OwnedFd) -> Option<Peer> {
        let credentials = rustix::net::sockopt::socket_peercred(fd).ok()?;
        let process = sys::peer_process(fd.as_fd())
            .or_else(|_| rustix::process::pidfd_open(credentials.pid, rustix::process::PidfdFlags::empty()))
            .ok()?;
        let pid = credentials.pid.as_raw_nonzero().get() as u32;
        let admitted = credentials.uid == rustix::process::geteuid()
            && tree::descends_from(pid, std::process::id()) == Some(false)
            && marks::is_inside(pid, self.identity.outside_limit) == Some(false);
        admitted.then_some(Peer { pid, process })
    }

    fn serve(&mut self, index: u32, flags: epoll::EventFlags) {
        let Some(conn) = self.conns.get_mut(&index) else { return };
        if flags.contains(epoll::EventFlags::OUT) && !conn.flush() {
            return self.drop_conn(index);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            match conn.receive() {
                Arrived::Nothing => {}
                Arrived::Bytes => self.process_input(index),
                Arrived::End => return self.drop_conn(index),
            }
        }
        self.settle(index);
    }

    /// Applies the complete frames that have arrived. A malformed one ends the connection.
    fn process_input(&mut self, index: u32) {
        let Some(conn) = self.conns.get_mut(&index) else { return };
        let input = std::mem::take(&mut conn.input);
        let mut done = 0;
        let mut broken = false;
        while done < input.len() {
            match proto::split(&input[done..]) {
                Ok(Some((frame, length))) => {
                    done += length;
                    if self.request(index, &frame).is_err() {
                        broken = true;
                        break;
                    }
                    if !self.conns.contains_key(&index) {
                        return; // handed to the pump, or replaced
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        if let Some(conn) = self.conns.get_mut(&index) {
            conn.input = input;
            conn.consume(done);
        }
        if broken {
            self.drop_conn(index);
        }
    }

    /// Sends what waits and listens for what makes sense now.
    fn settle(&mut self, index: u32) {
        let Some(conn) = self.conns.get_mut(&index) else { return };
        if !conn.flush() {
            return self.drop_conn(index);
        }
        let mut wanted = epoll::EventFlags::empty();
        if conn.unsent() < UNSENT_LIMIT {
            wanted |= epoll::EventFlags::IN;
        }
        if conn.unsent() > 0 {
            wanted |= epoll::EventFlags::OUT;
        }
        if wanted != conn.listening {
            conn.listening = wanted;
            epoll::modify(&self.epoll, &conn.fd, event_key(CONNECTION, index, 0), wanted).ok();
        }
    }

    pub(crate) fn drop_conn(&mut self, index: u32) {
        if let Some(conn) = self.conns.remove(&index) {
            epoll::delete(&self.epoll, &conn.fd).ok();
        }
    }

    /// Appends a frame to a connection, if it is still there, and sends it.
    pub(crate) fn reply(&mut self, conn: u64, encode: impl FnOnce(&mut Vec<u8>)) {
        let index = conn as u32;
        if let Some(conn) = self.conns.get_mut(&index) {
            encode(conn.output());
            self.settle(index);
        }
    }

    fn controller(&self) -> Option<u32> {
        self.conns.iter().find(|(_, conn)| conn.role == Some(Role::Controller)).map(|(index, _)| *index)
    }

    fn take_events(&mut self) {
        for event in self.events.take() {
            self.take_event(event);
        }
    }

    pub(crate) fn take_event(&mut self, event: Event) {
        match event {
            Event::Finished(key, exit) => self.finished(key, exit),
            Event::MarkWritten(key) => {
                if let Some(chunk) =
                    self.children.get_mut(key).and_then(|slot| slot.stdin.queue.iter_mut().find(|chunk| chunk.gated))
                {
                    chunk.gated = false;
                }
                self.drive_stdin(key);
            }
            Event::Flushed => self.flushed(),
            // A park that came too late: the pump goes on as if nothing had been asked.
            Event::Parked(parked) => upgrade::unpark(self, *parked),
        }
    }

    /// There is nothing left that could be kept.
    pub(crate) fn give_up(&mut self) {
        self.leave = true;
    }

    fn take_signals(&mut self) {
        while let Some(signal) = sys::next_signal(self.signals.as_fd()) {
            if signal == rustix::process::Signal::TERM.as_raw() {
                // The machine is going down, or a person means it: end every child in order.
                self.begin_stop(None, Duration::from_secs(2));
            }
        }
        self.look_for_ended();
    }

    fn housekeeping(&mut self) {
        let now = Instant::now();
        if self.children.len() > 0 || !self.conns.is_empty() {
            self.idle_since = now;
        }
        if now < self.next_housekeeping {
            return;
        }
        self.next_housekeeping = now + HOUSEKEEPING;
        if now.duration_since(self.idle_since) >= IDLE_LIMIT {
            drop(std::fs::remove_file(self.identity.run_dir.join(crate::SOCKET_NAME)));
            self.leave = true;
            return;
        }
        self.rebind_if_swept();
    }

    /// A cleaner of temporary files may have removed the socket: make it anew.
    fn rebind_if_swept(&mut self) {
        let path = self.identity.run_dir.join(crate::SOCKET_NAME);
        if path.exists() {
            return;
        }
        if let Ok(listener) = bind(&path)
            && epoll::add(&self.epoll, &listener, event_key(LISTENER, 0, 0), epoll::EventFlags::IN).is_ok()
        {
            epoll::delete(&self.epoll, &self.listener).ok();
            self.listener = listener;
        }
    }
}

fn spare() -> Option<OwnedFd> {
    rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())
        .ok()
}

/// Binds and listens; the socket is its owner's alone from the first moment.
pub(crate) fn bind(path: &std::path::Path) -> io::Result<OwnedFd> {
    let fd = rustix::net::socket_with(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let short = crate::socket_path::shorten(path)?;
    // A socket would be made executable by the keeper's own mask.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = SocketAddrUnix::new(short.as_ref()).and_then(|address| rustix::net::bind(&fd, &address));
    rustix::process::umask(before);
    bound?;
    rustix::net::listen(&fd, 64)?;
    Ok(fd)
}
