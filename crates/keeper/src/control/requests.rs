//! What the daemon may ask for, one function each.

use std::os::fd::OwnedFd;

use hostel_syncpoint::points;
use rustix::process::{Pid, Signal};

use super::Control;
use crate::proto::{
    Builder, DecodeError, Frame, Hello, Limits, MAX_DESCRIPTORS, MAX_STDIN_BYTES, Outcome, Phase, Role, Scope, Spawn,
    StopMode, kind, tag,
};
use crate::recognition::FileId;
use crate::state::{Command, SlotKey};
use crate::upgrade;
use hostel_journal::ProcessId;

impl Control {
    /// Applies one frame.
    pub(super) fn request(&mut self, index: u32, frame: &Frame<'_>) -> Result<(), DecodeError> {
        let role = self.conns.get(&index).and_then(|conn| conn.role);
        let descriptors = self.descriptors_of(index, frame)?;
        let conn = u64::from(index);
        let corr = frame.corr;
        match (frame.kind, role) {
            (kind::HELLO, None) => self.hello(index, corr, &Hello::decode(frame)?),
            (kind::PING, Some(_)) => self.done(conn, corr),
            (kind::SPAWN, Some(Role::Controller)) => {
                let spawn = Spawn::decode(frame)?;
                self.spawn(conn, corr, spawn, descriptors);
            }
            (kind::STDIN, Some(Role::Controller)) => self.stdin(conn, frame)?,
            (kind::CLOSE_STDIN, Some(Role::Controller)) => self.close_stdin(conn, frame)?,
            (kind::SIGNAL, Some(Role::Controller)) => self.signal(conn, frame)?,
            (kind::FORGET, Some(Role::Controller)) => self.forget(conn, frame)?,
            (kind::LIMITS, Some(Role::Controller)) => {
                self.commands.push(Command::Limits(Limits::decode(frame)?));
                self.done(conn, corr);
            }
            (kind::HOUSE_KEY, Some(Role::Controller)) => self.hand_over_key(index, corr),
            (kind::PUT_ANCHOR, Some(Role::Controller)) => self.put_anchor(index, frame)?,
            (kind::GET_ANCHOR, Some(Role::Controller)) => self.tell_anchor(index, corr),
            (kind::UPGRADE, Some(Role::Controller)) => {
                let program = descriptors.into_iter().next();
                if let Err(text) = self.upgrade(index, corr, program) {
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

    /// Takes the descriptors that came with a frame. Those of a frame that has no use for them are closed.
    fn descriptors_of(&mut self, index: u32, frame: &Frame<'_>) -> Result<Vec<OwnedFd>, DecodeError> {
        let Some(conn) = self.conns.get_mut(&index) else { return Ok(Vec::new()) };
        // Input comes often and never with a descriptor: its fields are not searched for nothing.
        if !conn.has_descriptors() && !matches!(frame.kind, kind::SPAWN | kind::UPGRADE) {
            return Ok(Vec::new());
        }
        let count = frame.u32_or(tag::DESCRIPTORS, 0)? as usize;
        let taken = if count > MAX_DESCRIPTORS { None } else { conn.take_descriptors(count) };
        taken.ok_or(DecodeError::BadValue(tag::DESCRIPTORS))
    }

    /// Replaces this program by the one behind a descriptor. Returns only if it could not be done, with the reason.
    fn upgrade(&mut self, index: u32, corr: u64, program: Option<OwnedFd>) -> Result<(), String> {
        let Some(program) = program else {
            return Err(
                "an upgrade takes the program as a descriptor, not as a path; restart the daemon with the new \
                        program, which then passes its own"
                    .to_owned(),
            );
        };
        if !self.conns.get(&index).is_some_and(|conn| conn.recognised) {
            return Err("only the daemon that the keeper recognises may upgrade it".to_owned());
        }
        if !FileId::of_descriptor(&program).is_some_and(|file| self.recognition.is_program(file)) {
            return Err(
                "the new program is neither the keeper's own file nor the one installed in its place".to_owned()
            );
        }
        if self.stopping.is_some() {
            return Err("the keeper is stopping".to_owned());
        }
        upgrade::upgrade(self, u64::from(index), corr, &program)
    }

    fn done(&mut self, conn: u64, corr: u64) {
        self.reply(conn, |out| Builder::new(out, kind::DONE, corr).finish());
    }

    pub(super) fn refuse(&mut self, conn: u64, corr: u64, text: &str) {
        self.reply(conn, |out| Builder::new(out, kind::ERROR, corr).bytes(tag::TEXT, text.as_bytes()).finish());
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
            _ if !slot.may_be_fed(frame.find(tag::OWNER)?) => Outcome::Owned,
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
            _ if !slot.may_be_fed(frame.find(tag::OWNER)?) => Outcome::Owned,
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
