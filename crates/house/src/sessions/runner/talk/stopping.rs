//! Stopping an agent: ask it, tell its process, kill it with everything it started, each after a grace.
//!
//! It decides nothing about the turn: whoever reads the process hears how it ended.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::Talk;
use crate::sessions::conversation::{Given, MarkId, Said};

/// How long an agent that has stopped a turn may take to end its tools.
const LAST_TOOLS: Duration = Duration::from_secs(1);

/// How long is looked for what an agent has started, before it is told to stop.
const LOOK: Duration = Duration::from_millis(500);

/// How far stopping has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stop {
    No,
    /// The agent was asked, or will be as soon as it can be.
    Asked(Instant),
    /// Its process was told to end.
    Signalled(Instant),
    /// It was killed, with everything it started.
    Killed(Instant),
}

/// What became of a wish to stop a turn.
pub(in super::super) enum Stopping {
    /// It is under way.
    UnderWay,
    /// The agent never got the prompt: there is nothing to stop.
    NotBegun,
}

impl Talk {
    /// Begins to stop the running turn, if that has not begun. `hurry`: the agent is not asked, its process is told.
    pub(in super::super) async fn stop_turn(&mut self, turn: u64, grace: Duration, hurry: bool) -> Stopping {
        let asked = self.stop != Stop::No || self.interrupt_waits;
        if self.is_signalled() || (asked && !hurry) {
            return Stopping::UnderWay;
        }
        match self.conversation.say(MarkId::interrupt(turn), Given::Interrupt) {
            _ if self.ended => {}
            Said::Signal => self.signal(grace),
            Said::Nothing if !self.prompt_given(turn) => return Stopping::NotBegun,
            _ if hurry => self.signal(grace),
            Said::Due(_) | Said::Later | Said::Nothing => {
                // Later it could not be told whose they were.
                let offspring = tokio::time::timeout(LOOK, self.process.offspring()).await;
                self.offspring = offspring.ok().map(Arc::from);
                self.interrupt_waits = true;
                self.stop = Stop::Asked(Instant::now() + grace);
            }
        }
        Stopping::UnderWay
    }

    /// The process is to end. Its tools are not told: an agent that sees its tool end goes on with its turn. They are
    /// swept when it is gone.
    pub(in super::super) fn signal(&mut self, grace: Duration) {
        self.conversation.stopped = true;
        self.stop = Stop::Signalled(Instant::now() + grace);
        let process = Arc::clone(&self.process);
        hostel_tasks::spawn(async move { process.signal_group(Signal::TERM).await });
    }

    /// The next degree of stopping, if its time has come. `true` when there is nothing more that could be done.
    pub(in super::super) fn escalate(&mut self, grace: Duration) -> bool {
        let now = Instant::now();
        match self.stop {
            Stop::Asked(at) if at <= now => self.signal(grace),
            Stop::Signalled(at) if at <= now => {
                self.stop = Stop::Killed(now + grace);
                let process = Arc::clone(&self.process);
                hostel_tasks::spawn(async move { drop(process.kill_tree().await) });
            }
            Stop::Killed(at) if at <= now => return true,
            _ => {}
        }
        false
    }

    /// The turn is over: a process that was asked to stop may serve the next one.
    pub(in super::super) fn turn_over(&mut self) {
        self.interrupt_waits = false;
        if matches!(self.stop, Stop::Asked(_)) {
            self.stop = Stop::No;
        }
    }

    /// Whether the house has told the process to end.
    pub(in super::super) fn is_signalled(&self) -> bool {
        matches!(self.stop, Stop::Signalled(_) | Stop::Killed(_))
    }

    /// Kills what was left behind: by a process that was told to end, everything; by one that was asked to stop, the
    /// tools that lost their parent by that. CLIs end a tool's process group at best, and `timeout` alone makes another.
    pub(in super::super) async fn sweep(&mut self) {
        let offspring = self.offspring.take();
        if self.ended && self.is_signalled() {
            self.process.kill_tree().await;
        } else if let Some(offspring) = offspring.filter(|offspring| !offspring.is_empty()) {
            self.process.kill_orphans(Arc::clone(&offspring)).await;
            // It may have answered before it ended them.
            let process = Arc::clone(&self.process);
            hostel_tasks::spawn(async move {
                tokio::time::sleep(LAST_TOOLS).await;
                process.kill_orphans(offspring).await;
            });
        }
    }

    /// Ends the process. `hard`: with everything it ever started, as one that was told to end before.
    pub(in super::super) async fn end(&mut self, grace: Duration, hard: bool) {
        let hard = hard || self.is_signalled();
        if self.process.is_running() {
            if hard {
                self.process.kill(Signal::TERM).await;
            } else {
                // Its own way to leave.
                self.process.end_stdin().await.ok();
            }
            if self.process.wait_exit(grace).await.is_some() && !hard {
                return;
            }
            self.process.kill_tree().await;
            self.process.wait_exit(grace).await;
        } else if hard {
            self.process.kill_tree().await;
        }
    }
}
