//! How far a long copy is, for people who wait.

use std::io::IsTerminal as _;
use std::io::Write as _;
use std::time::Duration;
use std::time::Instant;

use crate::text;
use crate::ui::Ui;

/// How often the word is written anew.
const STEP: Duration = Duration::from_millis(200);

/// Counts bytes, and says so on a terminal.
pub(super) struct Meter {
    what: &'static str,
    bytes: u64,
    said: Option<Instant>,
    shown: bool,
    written: bool,
}

impl Meter {
    pub(super) fn new(ui: &Ui, what: &'static str) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let shown = !ui.json() && !dumb && std::io::stderr().is_terminal();
        Meter { what, bytes: 0, said: Some(Instant::now()), shown, written: false }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.shown && self.said.is_none_or(|said| said.elapsed() >= STEP) {
            say(&format!("\r\x1b[K{} {}", self.what, text::size(self.bytes)));
            (self.said, self.written) = (Some(Instant::now()), true);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.written {
            say("\r\x1b[K");
        }
    }
}

fn say(text: &str) {
    let mut terminal = std::io::stderr().lock();
    // A terminal that is gone is nobody's problem.
    terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush()).unwrap_or_default();
}
