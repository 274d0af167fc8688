//! Children that end.
//!
//! An ended child stays a zombie until its last frame is written: as long as it does, its process
//! id and its group's belong to it, and a signal cannot hit a stranger.

use hostel_journal::Exit;

use super::Control;
use crate::proto::NoteExit;
use crate::pump::now_ns;
use crate::state::{Command, SlotKey};
use crate::sys::{self, Observed};

impl Control {
    /// Takes note of every child that has ended, and reaps strangers: orphans of our children that
    /// the kernel gave to us.
    pub(super) fn look_for_ended(&mut self) {
        self.rescan = false;
        while let Some(ended) = sys::observe_ended(None) {
            match self.children.key_of_pid(ended.pid) {
                None => sys::reap(ended.pid),
                Some(key) => {
                    if !self.observe(key, &ended) {
                        // A zombie that waits for its last frame hides those behind it.
                        self.rescan = true;
                        self.look_at_each();
                        return;
                    }
                    // Reaped at once when nothing has to be waited for; otherwise it is met again above.
                }
            }
        }
    }

    fn look_at_each(&mut self) {
        let waiting: Vec<(SlotKey, u32)> = self
            .children
            .iter()
            .filter(|slot| slot.observed.is_none() && slot.ended.is_none())
            .map(|slot| (slot.key, slot.pid))
            .collect();
        for (key, pid) in waiting {
            if let Some(ended) = sys::observe_ended(Some(pid)) {
                self.observe(key, &ended);
            }
        }
    }

    /// Notes the end of a child. `false` when that had been noted before.
    fn observe(&mut self, key: SlotKey, ended: &Observed) -> bool {
        let Some(slot) = self.children.get_mut(key).filter(|slot| slot.observed.is_none()) else {
            return false;
        };
        let exit = Exit {
            code: ended.code,
            signal: ended.signal,
            wall_ns: now_ns(),
            user_us: ended.user_us,
            system_us: ended.system_us,
            max_rss_kib: ended.max_rss_kib,
        };
        slot.observed = Some(exit);
        // While it is not known whether it ever ran, the failure pipe decides what happens next.
        if slot.starting.is_none() {
            self.commands.push(Command::Exited(key, exit));
        }
        true
    }

    /// The pump wrote the last frame: the process id goes back to the kernel.
    pub(super) fn finished(&mut self, key: SlotKey, exit: NoteExit) {
        let Some(slot) = self.children.get_mut(key) else { return };
        slot.ended = Some(exit);
        // That of a stage, if it has one, goes a moment later, when it is forgotten.
        let (pid, id, is_stage) = (slot.pid, slot.id, slot.bounds.keep_bytes > 0);
        self.detach_stdin(key);
        self.children.release_pid(pid);
        sys::reap(pid);
        if let Some(cgroups) = self.cgroups.as_ref().filter(|_| !is_stage) {
            cgroups.remove(id);
        }
        if self.rescan {
            self.look_for_ended();
        }
    }
}
