//! What the daemon may ask for, one function each.

use hostel_syncpoint::points;
use rustix::process::{Pid, Signal};

use super::Control;
use crate::conn::Arrived;
use crate::proto::{
    Builder, DecodeError, Frame, Hello, Limits, MAX_STDIN_BYTES, Outcome, PROTOCOL, Phase, Role, Scope, Spawn,
    StopMode, Welcome, feature, kind, tag,
};
use crate::state::{Command, SlotKey};
use crate::upgrade;
use hostel_journal::ProcessId;

/// The build that `WELCOME` names.
pub(crate) const BUILD: &str = env!("CARGO_PKG_VERSION");

impl Control {
    /// Applies one frame.
    pub(super) fn request(&mut self, index: u32, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let role = self.conns.get(&index).and_then(|conn| conn.role);
        let conn = u64::from(index);
        let corr = frame.corr;
        match (frame.kind, role) {
            (kind::HELLO, None) => self.hello(index, corr, &Hello::decode(frame)?),
            (kind::PING, Some(_)) => self.done(conn, corr),
            (kind::SPAWN, Some(Role::Controller)) => {
                let spawn = Spawn::decode(frame)?;
                self.spawn(conn, corr, spawn);
            }
            (kind::STDIN, Some(Role::Controller)) => self.stdin(conn, frame)?,
            (kind::CLOSE_STDIN, Some(Role::Controller)) => self.close_stdin(conn, frame)?,
            (kind::SIGNAL, Some(Role::Controller)) => self.signal(conn, frame)?,
            (kind::FORGET, Some(Role::Controller)) => self.forget(conn, frame)?,
            (kind::LIMITS, Some(Role::Controller)) => {
                self.commands.push(Command::Limits(Limits::decode(frame)?));
                self.done(conn, corr);
            }
            (kind::UPGRADE, Some(Role::Controller)) => {
                let path = frame.bytes(tag::PATH)?.to_vec();
                if self.stopping.is_some() {
                    self.refuse(conn, corr, "the keeper is stopping");
                    return Ok(());
                }
                if let Err(text) = upgrade::upgrade(self, conn, corr, &path) {
                    self.refuse(conn, corr, &text);
                }
            }
            (kind::STOP, Some(Role::Controller)) => {
                let mode = StopMode::from_wire(frame.u32(tag::MODE)?)?;
                let grace = std::time::Duration::from_millis(frame.maybe_u64(tag::GRACE_MS)?.unwrap_or(0));
                if mode == StopMode::IfIdle && self.children.living() > 0 {
                    self.refuse(conn, corr, "processes are running");
                } else {
                    self.begin_stop(Some((conn, corr)), grace);
                }
            }
            _ if corr != 0 => self.refuse(conn, corr, "unsupported"),
            _ => {}
        }
        Ok(())
    }

    fn done(&mut self, conn: u64, corr: u64) {
        self.reply(conn, |out| Builder::new(out, kind::DONE, corr).finish());
    }

    pub(super) fn refuse(&mut self, conn: u64, corr: u64, text: &str) {
        self.reply(conn, |out| Builder::new(out, kind::ERROR, corr).bytes(tag::TEXT, text.as_bytes()).finish());
    }

    fn hello(&mut self, index: u32, corr: u64, hello: &Hello) {
        let conn = u64::from(index);
        if hello.proto_min > PROTOCOL || hello.proto_max < 1 {
            return self.refuse(conn, corr, "no common protocol version");
        }
        match hello.role {
            // It was replaced and has not heard of it.
            Role::Controller if hello.started < self.controller_started => {
                self.reply(conn, |out| Builder::new(out, kind::SUPERSEDED, 0).finish());
                return self.drop_conn(index);
            }
            Role::Controller => {
                self.controller_started = hello.started;
                if let Some(older) = self.controller() {
                    self.supersede(older);
                }
                // Whoever held the old key may not take the notes of the new controller.
                match ProcessId::random() {
                    Ok(random) => self.notes_key = random.0,
                    Err(_) => return self.refuse(conn, corr, "no random numbers"),
                }
            }
            // The key keeps a daemon that lost its place from taking the notes of the next one.
            Role::Notes if hello.notes_key != Some(self.notes_key) => {
                return self.refuse(conn, corr, "another daemon has taken over");
            }
            Role::Notes | Role::Observer => {}
        }
        let welcome = Welcome {
            proto: PROTOCOL.min(hello.proto_max),
            features: feature::ALL,
            keeper_id: self.identity.keeper_id,
            pid: std::process::id(),
            since_ns: self.identity.since_ns,
            build: BUILD.to_owned(),
            child_limit: self.child_limit as u32,
            cgroup: self.cgroups.as_ref().map(|cgroups| cgroups.root().display().to_string()),
            journal: self.journal,
            house_tag: self.identity.house_tag.clone(),
            image_ns: self.image_ns,
            notes_key: (hello.role == Role::Controller).then_some(self.notes_key),
        };
        let Some(entry) = self.conns.get_mut(&index) else { return };
        entry.role = Some(hello.role);
        let out = entry.output();
        welcome.encode(corr, out);
        let mut count = 0;
        for slot in self.children.iter().filter(|_| hello.role != Role::Notes) {
            slot.state().encode(corr, out);
            count += 1;
        }
        Builder::new(out, kind::SYNCED, corr).u32(tag::COUNT, count).finish();
        self.settle(index);
        if hello.role == Role::Notes
            && let Some(mut entry) = self.conns.remove(&index)
        {
            // The greeting is small and the socket new: it has gone out whole.
            entry.flush();
            rustix::event::epoll::delete(&self.epoll, &entry.fd).ok();
            self.commands.push(Command::Notes(entry.fd));
        }
    }

    /// A newer daemon is here: apply what the older one had sent completely, then let it go.
    fn supersede(&mut self, older: u32) {
        if let Some(conn) = self.conns.get(&older) {
            // What was sent stays readable; nothing can be added.
            rustix::net::shutdown(&conn.fd, rustix::net::Shutdown::Read).ok();
        }
        while let Some(conn) = self.conns.get_mut(&older) {
            if conn.receive() != Arrived::Bytes {
                break;
            }
            self.process_input(older);
        }
        self.reply(u64::from(older), |out| Builder::new(out, kind::SUPERSEDED, 0).finish());
        self.drop_conn(older);
    }

    fn find(&self, frame: &Frame<'_>) -> Result<Option<SlotKey>, DecodeError> {
        Ok(self.children.key_of(ProcessId(frame.array(tag::ID)?)))
    }

    fn input_reply(&mut self, conn: u64, corr: u64, applied: u64, outcome: Outcome) {
        self.reply(conn, |out| {
            Builder::new(out, kind::INPUT, corr)
                .u64(tag::APPLIED, applied)
                .u32(tag::OUTCOME, outcome.to_wire())
                .finish();
        });
    }

    fn stdin(&mut self, conn: u64, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let bytes = frame.bytes(tag::BYTES)?;
        if bytes.len() > MAX_STDIN_BYTES {
            return Err(DecodeError::BadValue(tag::BYTES));
        }
        let offset = frame.maybe_u64(tag::OFFSET)?;
        let mark = frame.maybe_u64(tag::MARK)?;
        let total = self.children.queued_input();
        let Some(key) = self.find(frame)? else {
            self.input_reply(conn, frame.corr, 0, Outcome::Unknown);
            return Ok(());
        };
        let Some(slot) = self.children.get_mut(key) else { return Ok(()) };
        let before = slot.stdin.applied;
        let outcome = match slot.phase() {
            Phase::Exited => Outcome::NotRunning,
            _ => slot.stdin.offer(offset, bytes, mark.is_some(), total),
        };
        let applied = slot.stdin.applied;
        if let Some(mark) = mark.filter(|_| outcome == Outcome::Accepted && applied > before) {
            let mark = Command::Mark { key, mark, offset: before, len: (applied - before) as u32 };
            match self.children.get_mut(key).and_then(|slot| slot.starting.as_mut()) {
                // The pump does not know it yet.
                Some(starting) => starting.marks.push(mark),
                None => self.commands.push(mark),
            }
        }
        self.drive_stdin(key);
        points::KEEPER_INPUT.reach();
        self.input_reply(conn, frame.corr, applied, outcome);
        Ok(())
    }

    fn close_stdin(&mut self, conn: u64, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let Some(key) = self.find(frame)? else {
            self.input_reply(conn, frame.corr, 0, Outcome::Unknown);
            return Ok(());
        };
        let Some(slot) = self.children.get_mut(key) else { return Ok(()) };
        let applied = slot.stdin.applied;
        let outcome = match (frame.maybe_u64(tag::OFFSET)?, slot.phase()) {
            (_, Phase::Exited) => Outcome::NotRunning,
            (Some(offset), _) if offset > applied => Outcome::Gap,
            _ => {
                slot.stdin.close_when_empty = true;
                Outcome::Accepted
            }
        };
        self.drive_stdin(key);
        points::KEEPER_INPUT.reach();
        self.input_reply(conn, frame.corr, applied, outcome);
        Ok(())
    }

    /// Signals a process while its id is certainly its own: until it is reaped.
    fn signal(&mut self, conn: u64, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let number = frame.i32(tag::SIGNO)?;
        let scope = Scope::from_wire(frame.u32(tag::SCOPE)?)?;
        let signal = Signal::from_named_raw(number).ok_or(DecodeError::BadValue(tag::SIGNO))?;
        let key = self.find(frame)?;
        let reached = key.is_some_and(|key| self.signal_slot(key, signal, scope));
        self.reply(conn, |out| {
            Builder::new(out, kind::DONE, frame.corr).u32(tag::REACHED, u32::from(reached)).finish();
        });
        Ok(())
    }

    pub(super) fn signal_slot(&self, key: SlotKey, signal: Signal, scope: Scope) -> bool {
        let Some(slot) = self.children.get(key).filter(|slot| slot.phase() != Phase::Exited) else {
            return false;
        };
        let Some(pid) = Pid::from_raw(slot.pid as i32) else { return false };
        match scope {
            Scope::Leader => rustix::process::kill_process(pid, signal).is_ok(),
            Scope::Group => rustix::process::kill_process_group(pid, signal).is_ok(),
        }
    }

    /// Forgets a process that has ended. A running one is refused.
    fn forget(&mut self, conn: u64, frame: &Frame<'_>) -> Result<(), DecodeError> {
        if let Some(key) = self.find(frame)? {
            if self.children.get(key).is_some_and(|slot| slot.phase() != Phase::Exited) {
                self.refuse(conn, frame.corr, "process is running");
                return Ok(());
            }
            if let Some(slot) = self.children.remove(key) {
                self.commands.push(Command::Forget(key));
                if let Some(cgroups) = &self.cgroups {
                    cgroups.remove(slot.id);
                }
            }
        }
        self.done(conn, frame.corr);
        Ok(())
    }
}
