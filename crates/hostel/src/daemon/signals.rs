//! The signals a daemon lives by.
//!
//! Invariant: one that came after they were installed is not lost, however late somebody asks.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

/// Signals that were installed.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn install() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the daemon is told to end, and says by which signal. The end of the terminal it came from means that
    /// only to one that lives on it.
    pub(super) async fn told_to_end(&mut self, hangup_ends: bool) -> Number {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Number::TERM,
                _ = self.interrupt.recv() => return Number::INT,
                _ = self.hangup.recv() => if hangup_ends {
                    return Number::HUP;
                },
            }
        }
    }
}
