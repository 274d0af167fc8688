//! Leaving: every child's tree is ended, every end is written, then the keeper goes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::Control;
use crate::proto::{Builder, Scope, kind, tag};
use crate::state::{Command, SlotKey};
use crate::tree;

/// How long the last frames may take after everything was killed.
const LAST_FRAMES: Duration = Duration::from_secs(7);

/// Where a stop has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Asked politely, until the deadline.
    Asking,
    /// Killed; the last frames are being written, until the deadline.
    Killing,
    /// The pump makes files for the silent ones.
    Flushing,
}

/// A stop on its way.
pub(super) struct Stopping {
    step: Step,
    deadline: Instant,
    /// Who is told.
    askers: Vec<(u64, u64)>,
    left: u32,
}

impl Stopping {
    pub(super) fn next_wake(&self) -> Instant {
        self.deadline
    }
}

impl Control {
    /// Begins to stop: `grace` for the children to end by themselves.
    pub(super) fn begin_stop(&mut self, asker: Option<(u64, u64)>, grace: Duration) {
        if let Some(stopping) = &mut self.stopping {
            return stopping.askers.extend(asker);
        }
        if !grace.is_zero() {
            self.signal_all(Signal::TERM);
        }
        self.stopping = Some(Stopping {
            step: Step::Asking,
            deadline: Instant::now() + grace,
            askers: Vec::from_iter(asker),
            left: 0,
        });
        self.go_on_stopping();
    }

    fn signal_all(&mut self, signal: Signal) {
        let keys: Vec<SlotKey> = self.children.iter().map(|slot| slot.key).collect();
        for key in keys {
            self.signal_slot(key, signal, Scope::Group);
        }
    }

    /// Takes every step whose time has come.
    pub(super) fn go_on_stopping(&mut self) {
        while self.next_step() {}
    }

    /// Takes the next step if its time has come, and says whether it did.
    fn next_step(&mut self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let late = Instant::now() >= stopping.deadline;
        let living = self.children.living();
        match stopping.step {
            Step::Asking if late || living == 0 => {
                self.signal_all(Signal::KILL);
                if let Some(cgroups) = &self.cgroups {
                    for slot in self.children.iter() {
                        cgroups.kill(slot.id);
                    }
                }
                // Nothing else is being served now, so the scan may take its time.
                let (tag, own) = (self.identity.house_tag.clone(), std::process::id());
                let everything =
                    || tree::find_strays(&tag, own, &HashSet::new()).into_iter().map(|stray| stray.member).collect();
                let left = tree::kill_all(everything).len() as u32;
                self.advance(Step::Killing, LAST_FRAMES, left);
            }
            Step::Killing if late || living == 0 => {
                let left = stopping.left;
                self.advance(Step::Flushing, LAST_FRAMES, left);
                self.commands.push(Command::Flush);
            }
            Step::Flushing if late => self.flushed(),
            Step::Asking | Step::Killing | Step::Flushing => return false,
        }
        true
    }

    fn advance(&mut self, step: Step, limit: Duration, left: u32) {
        if let Some(stopping) = &mut self.stopping {
            stopping.step = step;
            stopping.deadline = Instant::now() + limit;
            stopping.left = left;
        }
    }

    /// All is on disk: answer and leave.
    pub(super) fn flushed(&mut self) {
        let Some(stopping) = self.stopping.take() else { return };
        drop(std::fs::remove_file(self.identity.run_dir.join(crate::SOCKET_NAME)));
        if let Some(cgroups) = &self.cgroups {
            cgroups.sweep();
        }
        for (conn, corr) in stopping.askers {
            self.reply(conn, |out| Builder::new(out, kind::DONE, corr).u32(tag::REACHED, stopping.left).finish());
        }
        self.leave = true;
    }
}
