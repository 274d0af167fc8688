//! Lines typed at our terminal, for answers to an agent's questions.
//!
//! Invariant: `line` gives only what was typed after the last `drain`, and the terminal is touched only while this
//! program is in its foreground, so that a background job is never stopped for it.

use std::io::IsTerminal as _;
use std::io::Stdin;
use std::time::Duration;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::termios::QueueSelector;

/// The longest answer that is looked at.
const LINE: usize = 64;

/// How often the terminal is looked at while a question is open: too often to be noticed by who types, too seldom to
/// be noticed by the machine. A thread that waits in a read could not be called back when the question is settled
/// elsewhere.
const LOOK: Duration = Duration::from_millis(50);

/// The terminal as a place where questions can be answered.
pub(crate) struct Keyboard {
    terminal: Stdin,
    typed: Vec<u8>,
}

impl Keyboard {
    /// Our terminal; none if stdin is not one, or a question could not be seen.
    pub(crate) fn open() -> Option<Self> {
        let terminal = std::io::stdin();
        let both = terminal.is_terminal() && std::io::stderr().is_terminal();
        both.then(|| Keyboard { terminal, typed: Vec::new() })
    }

    /// Whether this program may use the terminal now.
    pub(super) fn ours(&self) -> bool {
        rustix::termios::tcgetpgrp(&self.terminal).is_ok_and(|group| group == rustix::process::getpgrp())
    }

    /// Forgets what was typed until now.
    pub(super) fn drain(&mut self) {
        self.typed.clear();
        if self.ours() {
            // A terminal that is gone has nothing to forget.
            rustix::termios::tcflush(&self.terminal, QueueSelector::IFlush).unwrap_or_default();
        }
    }

    /// Waits for the next typed line; none when there will be no more. Giving up waiting loses nothing.
    pub(super) async fn line(&mut self) -> Option<String> {
        loop {
            if !self.ours() || !waiting(&self.terminal) {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let mut bytes = [0; LINE];
            let count = match rustix::io::read(&self.terminal, &mut bytes) {
                Ok(0) => return None,
                Ok(count) => count,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) => return None,
            };
            let bytes = bytes.get(..count).unwrap_or_default();
            if let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                self.typed.extend_from_slice(bytes.get(..end).unwrap_or_default());
                return Some(String::from_utf8_lossy(&std::mem::take(&mut self.typed)).into_owned());
            }
            self.typed.extend_from_slice(bytes);
            // Nothing we ask for is as long; what is cut here is no answer either.
            self.typed.truncate(LINE);
        }
    }
}

/// Whether reading would not wait.
fn waiting(terminal: &Stdin) -> bool {
    let mut polled = [PollFd::new(terminal, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}
