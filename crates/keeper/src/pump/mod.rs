//! The thread that moves output: child pipes to journals, and word of it to the daemon.
//!
//! Invariant: bytes are in the journal before anybody hears of them, and the last frame of a
//! process is its end. A disk that is full or slow stops the children that write to it, never the
//! control thread. Nothing here blocks on the daemon: a note that cannot be sent waits as one bit.

mod child;
mod ending;
mod marks;
mod notes;
mod park;
mod pressure;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostel_journal::{HEADROOM, MAX_PAYLOAD, Stream, TAILROOM};
use rustix::event::epoll;

pub(crate) use child::{Kept, Mark, PumpChild};
pub(crate) use notes::Notes;
pub(crate) use park::{ParkedChild, ParkedPump};
pub(crate) use pressure::Pressure;

use crate::channel::Channel;
use crate::proto::Held;
use crate::state::{Command, Event, SlotKey};

/// One child's share of a round while others wait.
const SHARE: usize = 64 * 1024;
/// A journal file is made this long after the start of a process that prints nothing.
const LATE_FILE: Duration = Duration::from_secs(2);
/// An open journal without news is closed after this long, to save descriptors.
const QUIET: Duration = Duration::from_secs(60);
/// So many timers have room always.
const FEW_TIMERS: usize = 256;
/// How often a held process looks for space.
const RETRY: Duration = Duration::from_millis(250);
/// A write that took longer than this makes a busy child rest, so that its neighbours are served.
const SLOW_WRITE: Duration = Duration::from_millis(2);
/// Streams that may have an enlarged pipe at once: pipe memory is a budget of the user.
const HOT_STREAMS: usize = 16;
/// Size of an enlarged pipe.
const HOT_PIPE: usize = 1024 * 1024;
/// A stream that moves this much within [`HOT_WINDOW`] is hot.
const HOT_BYTES: usize = 64 * 1024;
const HOT_WINDOW: Duration = Duration::from_millis(20);
/// A round that moved less than this is no flow, one that moved [`ENOUGH`] needs no wait.
const SMALLEST_FLOW: usize = 4 * 1024;
const ENOUGH: usize = 192 * 1024;
/// How long a flowing stream is left alone to fill its pipe.
const LET_IT_FILL: Duration = Duration::from_micros(80);

const KEY_BELL: u64 = u64::MAX;
const KEY_NOTES: u64 = u64::MAX - 1;

/// How often a process is spoken of whose output is wanted when it is over.
const SELDOM: Duration = Duration::from_millis(2);

/// Two children with output in one round count as neighbours for this long.
const CROWDED: Duration = Duration::from_millis(100);
/// A busy child rests no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// What a read of a stream did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// Nothing: the pipe is empty, closed, or may not be read now.
    Nothing,
    Bytes(usize),
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Drain,
    LateFile,
    Quiet,
    Retry,
    Rest,
    Tell,
}

/// What the pump needs to know of its surroundings.
pub(crate) struct Setting {
    pub(crate) journal: OwnedFd,
    pub(crate) keeper_id: [u8; 16],
    pub(crate) boot_id: [u8; 16],
}

/// The pump's state; lives on its thread.
pub(crate) struct Pump {
    setting: Arc<Setting>,
    commands: Arc<Channel<Command>>,
    events: Arc<Channel<Event>>,
    epoll: OwnedFd,
    children: Vec<Option<PumpChild>>,
    timers: BinaryHeap<Reverse<(Instant, Timer, u32, u32)>>,
    notes: Notes,
    pressure: Pressure,
    buffer: Vec<u8>,
    hot_streams: usize,
    /// Where the rounding of inexact timers begins.
    epoch: Instant,
    /// When two different children last had output in one round.
    crowded: Option<Instant>,
}

fn find(children: &mut [Option<PumpChild>], key: SlotKey) -> Option<&mut PumpChild> {
    children.get_mut(key.slot as usize)?.as_mut().filter(|child| child.key == key)
}

fn stream_key(key: SlotKey, stream: Stream) -> u64 {
    let bit = u64::from(stream == Stream::Err);
    (u64::from(key.generation) << 32) | (u64::from(key.slot) << 1) | bit
}

fn split_key(raw: u64) -> (SlotKey, Stream) {
    let stream = if raw & 1 == 0 { Stream::Out } else { Stream::Err };
    (SlotKey { slot: ((raw & 0xffff_ffff) >> 1) as u32, generation: (raw >> 32) as u32 }, stream)
}

/// Wall-clock nanoseconds.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Pump {
    pub(crate) fn new(
        setting: Arc<Setting>,
        commands: Arc<Channel<Command>>,
        events: Arc<Channel<Event>>,
        pressure: Pressure,
    ) -> std::io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, commands.bell(), epoll::EventData::new_u64(KEY_BELL), epoll::EventFlags::IN)?;
        Ok(Self {
            setting,
            commands,
            events,
            epoll,
            children: Vec::new(),
            timers: BinaryHeap::new(),
            notes: Notes::default(),
            pressure,
            buffer: buffer_for_all(),
            hot_streams: 0,
            epoch: Instant::now(),
            crowded: None,
        })
    }

    /// Runs until it is parked.
    pub(crate) fn run(mut self) {
        // Short waits must be short; by default the kernel adds 50 microseconds to each.
        rustix::thread::set_current_timer_slack(std::num::NonZero::new(1)).ok();
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(64);
        loop {
            let timeout = self.next_timeout();
            ready.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Nothing can be done about a broken epoll set but to try again, slowly.
                Err(_) => std::thread::sleep(RETRY),
            }
            let streams = ready.iter().filter(|event| event.data.u64() < KEY_NOTES).count();
            if streams > 1 {
                self.crowded = Some(Instant::now());
            }
            let mut bell = false;
            let mut moved = 0;
            for event in &ready {
                match event.data.u64() {
                    KEY_BELL => bell = true,
                    KEY_NOTES => self.notes.writable(&self.epoll),
                    raw => {
                        let (key, stream) = split_key(raw);
                        if let Moved::Bytes(bytes) = self.read_stream(key, stream, streams == 1) {
                            moved += bytes;
                        }
                    }
                }
            }
            if bell && let Some(parked) = self.obey() {
                return self.events.clone().push(Event::Parked(Box::new(parked.finish(self))));
            }
            self.fire_timers();
            self.notes.send(&self.epoll, &mut self.children);
            // A stream that flows is taken in large pieces: each costs a write, a note and a wake-up
            // of the daemon, whatever its size. A quiet one is never kept waiting.
            if self.hot_streams > 0 && (SMALLEST_FLOW..ENOUGH).contains(&moved) {
                std::thread::sleep(LET_IT_FILL);
            }
        }
    }

    fn next_timeout(&self) -> Option<rustix::event::Timespec> {
        let next = self.timers.peek().map(|Reverse((at, ..))| at.saturating_duration_since(Instant::now()));
        // Nobody else wakes notes whose socket could not be watched.
        let wait = if self.notes.is_stuck() { next.map_or(RETRY, |next| next.min(RETRY)) } else { next? };
        Some(rustix::event::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    /// As [`Pump::at`], for timers that need not be exact: rounded up, so that many fire at once.
    fn around(&mut self, after: Duration, timer: Timer, key: SlotKey) {
        let step = (after / 4).as_millis().max(1) as u64;
        let at = (Instant::now() + after).duration_since(self.epoch).as_millis() as u64;
        let at = self.epoch + Duration::from_millis(at.next_multiple_of(step));
        self.timers.push(Reverse((at, timer, key.slot, key.generation)));
    }

    fn at(&mut self, after: Duration, timer: Timer, key: SlotKey) {
        self.timers.push(Reverse((Instant::now() + after, timer, key.slot, key.generation)));
    }

    fn child(&mut self, key: SlotKey) -> Option<&mut PumpChild> {
        find(&mut self.children, key)
    }

    /// Carries out what the control thread asked for. `Some` means: park.
    fn obey(&mut self) -> Option<park::Parking> {
        let mut park = None;
        for command in self.commands.take() {
            match command {
                Command::Add(new) => self.add(PumpChild::new(*new)),
                Command::Exited(key, exit) => {
                    if let Some(child) = self.child(key) {
                        child.exit = Some(exit);
                    }
                    // One that is held because of a quota has room for its last words.
                    self.retry(key);
                    if !self.try_finish(key) {
                        self.drain_later(key);
                    }
                }
                Command::Mark { key, mark, offset, len } => self.mark(key, Mark { mark, offset, len }),
                Command::Notes(fd) => self.notes.connect(&self.epoll, fd, &mut self.children),
                Command::Limits(limits) => {
                    self.pressure.set(limits);
                    self.retry_all();
                }
                Command::Forget(key) => self.forget(key),
                Command::Flush => {
                    for key in self.keys() {
                        self.make_file(key);
                    }
                    self.events.push(Event::Flushed);
                }
                Command::Park => park = Some(park::Parking),
            }
        }
        park
    }

    fn keys(&self) -> Vec<SlotKey> {
        self.children.iter().flatten().map(|child| child.key).collect()
    }

    fn add(&mut self, child: PumpChild) {
        let key = child.key;
        let slot = key.slot as usize;
        if self.children.len() <= slot {
            self.children.resize_with(slot + 1, || None);
        }
        self.children[slot] = Some(child);
        if self.child(key).is_some_and(|child| child.held == Held::No) {
            self.attach(key);
        }
        self.around(LATE_FILE, Timer::LateFile, key);
    }

    /// Listens to the open streams of a child again.
    fn attach(&mut self, key: SlotKey) {
        let epoll = self.epoll.as_fd();
        let is_whole = find(&mut self.children, key).is_none_or(|child| child.attach(epoll));
        if !is_whole {
            self.at(RETRY, Timer::Rest, key);
        }
    }

    fn forget(&mut self, key: SlotKey) {
        let epoll = self.epoll.as_fd();
        let Some(place) = self.children.get_mut(key.slot as usize) else { return };
        if let Some(child) = place.as_mut().filter(|child| child.key == key) {
            child.detach(epoll);
            self.hot_streams -= child.cool_down();
            self.pressure.forgotten(child.store_bytes());
            *place = None;
        }
    }

    /// One read of one stream into its journal.
    fn read_stream(&mut self, key: SlotKey, stream: Stream, alone: bool) -> Moved {
        let Some(child) = find(&mut self.children, key) else { return Moved::Nothing };
        // Held a moment ago by its other stream: nothing may overtake what waits.
        if child.held != Held::No {
            return Moved::Nothing;
        }
        let may_keep = child.may_keep(stream);
        // A pipe without bytes is read even when nothing may be written: it may be at its end.
        if may_keep > 0
            && let Some(why) = self.pressure.refuse(child, &self.setting)
            && child.wants_room()
        {
            self.hold(key, why);
            return Moved::Nothing;
        }
        let share = if alone { MAX_PAYLOAD } else { SHARE };
        let limit = if may_keep > 0 { child.room().min(share).min(may_keep) } else { share };
        let Some(fd) = child.stream(stream).fd() else { return Moved::Nothing };
        let buffer = &mut self.buffer[..HEADROOM + limit + TAILROOM];
        let read = match rustix::io::read(fd, &mut buffer[HEADROOM..HEADROOM + limit]) {
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Moved::Nothing,
            Err(_) => 0,
        };
        if read == 0 {
            let was_hot = child.close(stream, self.epoll.as_fd());
            self.hot_streams -= usize::from(was_hot);
            if was_hot && self.hot_streams == 0 {
                // Small reads touch the first pages of it only: the others go back to the system.
                self.buffer = buffer_for_all();
            }
            self.try_finish(key);
            return Moved::Nothing;
        }
        if may_keep == 0 {
            return Moved::Bytes(read);
        }
        child.kept.count(stream, read);
        child.last_words = child.last_words.saturating_add(if child.exit.is_some() { read } else { 0 });
        let began = Instant::now();
        let neighbours = self.crowded.is_some_and(|at| began.duration_since(at) < CROWDED);
        let result = child.append(&self.setting, stream, buffer, read);
        let took = began.elapsed();
        child.last_active = began;
        if let Err(error) = result {
            self.hold(key, pressure::reason(&error));
            return Moved::Nothing;
        }
        if child.bounds.keep_bytes == 0 || began.duration_since(child.told) >= SELDOM {
            child.told = began;
            self.notes.mark_dirty(child);
        } else if !std::mem::replace(&mut child.will_tell, true) {
            self.timers.push(Reverse((began + SELDOM, Timer::Tell, key.slot, key.generation)));
        }
        self.pressure.grew(read);
        let busy = read >= SHARE / 2;
        let room = self.hot_streams < HOT_STREAMS;
        self.hot_streams += usize::from(child.stream_mut(stream).warm_up(read, began, room));
        if busy && took > SLOW_WRITE && neighbours {
            child.detach(self.epoll.as_fd());
            self.at((took * 4).min(LONGEST_REST), Timer::Rest, key);
        }
        Moved::Bytes(read)
    }

    /// Stops reading a child until there is space again.
    fn hold(&mut self, key: SlotKey, why: Held) {
        let Some(child) = find(&mut self.children, key) else { return };
        child.detach(self.epoll.as_fd());
        child.held = why;
        self.notes.mark_dirty(child);
        if !std::mem::replace(&mut child.retry_is_set, true) {
            self.at(RETRY, Timer::Retry, key);
        }
    }

    fn retry_all(&mut self) {
        self.pressure.look_again(&self.setting);
        for key in self.keys() {
            self.retry(key);
        }
    }

    /// Tries to go on with a held child: first what is in memory, then its pipes, then its end.
    fn retry(&mut self, key: SlotKey) {
        let Some(child) = find(&mut self.children, key).filter(|child| child.held != Held::No) else { return };
        self.pressure.look_if_due(&self.setting);
        // With nothing to write it may go on whatever the quota says: it may only want to end.
        if child.wants_room()
            && let Some(why) = self.pressure.refuse(child, &self.setting)
        {
            return self.hold(key, why);
        }
        if let Err(error) = child.write_pending(&self.setting) {
            return self.hold(key, pressure::reason(&error));
        }
        child.held = Held::No;
        self.notes.mark_dirty(child);
        self.release_marks(key);
        if self.child(key).is_some_and(|child| child.held == Held::No) {
            self.attach(key);
        }
        self.try_finish(key);
    }

    /// Makes the file of a child that has none; `false` if that has to be tried again.
    fn make_file(&mut self, key: SlotKey) -> bool {
        let Some(child) = find(&mut self.children, key) else { return true };
        match child.make_file(&self.setting) {
            Ok(true) => self.notes.mark_dirty(child),
            Ok(false) => {}
            // A running child is held when it prints; one that has ended keeps its end in memory.
            Err(_) => {
                self.around(LATE_FILE, Timer::LateFile, key);
                return false;
            }
        }
        true
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((at, ..))) = self.timers.peek() {
            if *at > now {
                break;
            }
            let Some(Reverse((_, timer, slot, generation))) = self.timers.pop() else { break };
            let key = SlotKey { slot, generation };
            let Some(child) = self.child(key) else { continue };
            match timer {
                Timer::Drain => self.end_drain(key),
                // Its end is only in memory, and the keeper may die.
                Timer::LateFile if child.finished() => drop(self.make_file(key)),
                Timer::LateFile => {
                    crate::sys::prefer_as_victim(child.pid);
                    // Most children have ended by now, and need no look in a minute.
                    if self.make_file(key) {
                        self.around(QUIET, Timer::Quiet, key);
                    }
                }
                Timer::Quiet => {
                    if child.last_active.elapsed() >= QUIET {
                        child.close_file();
                        let cooled = child.cool_down();
                        self.hot_streams -= cooled;
                    }
                    if self.child(key).is_some_and(|child| !child.finished()) {
                        self.around(QUIET, Timer::Quiet, key);
                    }
                }
                Timer::Retry => {
                    child.retry_is_set = false;
                    self.retry(key);
                }
                Timer::Tell => {
                    (child.will_tell, child.told) = (false, now);
                    if let Some(child) = find(&mut self.children, key) {
                        self.notes.mark_dirty(child);
                    }
                }
                Timer::Rest => {
                    if child.held == Held::No {
                        self.attach(key);
                    }
                }
            }
        }
        // The memory of a burst goes back once it is over.
        if self.timers.capacity() > FEW_TIMERS && self.timers.len() * 4 < self.timers.capacity() {
            self.timers.shrink_to(FEW_TIMERS.max(self.timers.len() * 2));
        }
    }
}

/// Room for the largest record. Fresh from the system, it takes no memory until it is written to.
fn buffer_for_all() -> Vec<u8> {
    vec![0; HEADROOM + MAX_PAYLOAD + TAILROOM]
}

fn watch(epoll: BorrowedFd<'_>, fd: BorrowedFd<'_>, key: u64) -> rustix::io::Result<()> {
    epoll::add(epoll, fd, epoll::EventData::new_u64(key), epoll::EventFlags::IN)
}
