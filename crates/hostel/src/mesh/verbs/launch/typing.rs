//! Prompts, a line each, from a terminal or a pipe.
//!
//! Invariant: nothing is read while a turn is going on: what is typed then may be an answer to the agent. The terminal is
//! touched only while this program is in its foreground. A line has a longest length.

use std::io::IsTerminal as _;
use std::io::Stdin;
use std::io::Write as _;
use std::time::Duration;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use crate::mesh::failure::Failure;

/// The longest line that is taken.
pub(super) const LONGEST: usize = 1 << 20;

/// How often the input is looked at: a thread that waits in a read could not be called back.
const LOOK: Duration = Duration::from_millis(50);

/// What was typed.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// There will be no more.
    End,
}

pub(super) struct Typing {
    input: Stdin,
    terminal: bool,
    waiting: Vec<u8>,
    ended: bool,
}

impl Typing {
    pub(super) fn new() -> Self {
        let input = std::io::stdin();
        let terminal = input.is_terminal();
        Typing { input, terminal, waiting: Vec::new(), ended: false }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The next line.
    pub(super) async fn next(&mut self) -> Result<Typed, Failure> {
        if self.terminal {
            prompt();
        }
        let mut interrupts = signal(SignalKind::interrupt())
            .map_err(|error| Failure::internal(format!("cannot watch for Ctrl-C: {error}")))?;
        loop {
            if let Some(line) = take_line(&mut self.waiting, self.ended) {
                return Ok(Typed::Line(String::from_utf8_lossy(&line).into_owned()));
            }
            if self.ended {
                return Ok(Typed::End);
            }
            if self.waiting.len() > LONGEST {
                return Err(Failure::arguments("a line is too long for a prompt").hint("put it into a file"));
            }
            if !self.is_ours() || !self.is_ready() {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => continue,
                    _ = interrupts.recv() => return Ok(Typed::Interrupted),
                }
            }
            let mut bytes = [0; 4096];
            match rustix::io::read(&self.input, &mut bytes) {
                Ok(0) => self.ended = true,
                Ok(count) => self.waiting.extend_from_slice(bytes.get(..count).unwrap_or_default()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                // A terminal that is gone says so by an error.
                Err(_) => self.ended = true,
            }
        }
    }

    /// Whether this program may use the terminal now.
    fn is_ours(&self) -> bool {
        !self.terminal
            || rustix::termios::tcgetpgrp(&self.input).map_or(true, |group| group == rustix::process::getpgrp())
    }

    /// Whether reading would not wait.
    fn is_ready(&self) -> bool {
        let mut polled = [PollFd::new(&self.input, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

/// Shows that a line is waited for. Standard output is the answers' alone.
pub(super) fn prompt() {
    std::io::stderr().lock().write_all(b"> ").ok();
}

/// Takes the first whole line; at the end also what has no end of its own.
fn take_line(waiting: &mut Vec<u8>, ended: bool) -> Option<Vec<u8>> {
    let mut line: Vec<u8> = match waiting.iter().position(|byte| *byte == b'\n') {
        Some(end) => waiting.drain(..=end).collect(),
        None if ended && !waiting.is_empty() => std::mem::take(waiting),
        None => return None,
    };
    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        line.pop();
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_one_by_one() {
        let mut waiting = b"one\r\ntwo\nthr".to_vec();
        assert_eq!(take_line(&mut waiting, false).unwrap(), b"one");
        assert_eq!(take_line(&mut waiting, false).unwrap(), b"two");
        assert_eq!(take_line(&mut waiting, false), None);
        assert_eq!(take_line(&mut waiting, true).unwrap(), b"thr");
        assert_eq!(take_line(&mut waiting, true), None);
    }
}
