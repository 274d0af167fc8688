//! The signals a mesh daemon and a broker live by.
//!
//! Invariant: one that came after they were installed is not lost, however late somebody asks.

use std::io;

use tokio::signal::unix::Signal;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

/// Signals that were installed.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What a signal means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Told {
    /// End.
    End,
    /// Read the configuration again. A terminal that ends says this too, and does no harm by it.
    Reload,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the process is told something.
    pub(crate) async fn told(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::End,
            _ = self.interrupt.recv() => Told::End,
            _ = self.hangup.recv() => Told::Reload,
        }
    }

    /// Waits until the process is told to end. The end of a terminal does not mean that.
    pub(crate) async fn told_to_end(&mut self) {
        while self.told().await != Told::End {}
    }
}
