//! The terminal of the full-screen face: taken, given back, and read.
//!
//! Invariant: whatever ends the face (a key, a signal, a panic), the terminal is as it was before. Every key carries the
//! moment it was read.

use std::io;
use std::io::Stdout;
use std::io::Write as _;
use std::sync::Once;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossterm::cursor;
use crossterm::event::DisableBracketedPaste;
use crossterm::event::EnableBracketedPaste;
use crossterm::event::Event;
use crossterm::event::KeyEvent;
use crossterm::event::KeyEventKind;
use crossterm::execute;
use crossterm::terminal;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::termios::QueueSelector;
use tokio::sync::mpsc;

/// Keys that may wait to be looked at.
const DEPTH: usize = 64;

/// Whether the terminal is ours at the moment.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Something that came from the terminal.
#[derive(Debug)]
pub(crate) enum Input {
    Key(KeyEvent, Instant),
    /// Many characters at once, from a clipboard: never an answer.
    Paste(String),
    Resize,
    /// The terminal is gone.
    Gone,
}

/// The terminal, for as long as this lives.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(crate) fn take() -> io::Result<Self> {
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        enter()?;
        Ok(Screen { terminal })
    }

    /// Takes the terminal again after somebody else had it.
    pub(crate) fn again(&mut self) -> io::Result<()> {
        enter()?;
        self.terminal.clear()
    }

    /// Rings.
    pub(crate) fn ring(&self) {
        let mut out = io::stdout();
        out.write_all(b"\x07").and_then(|()| out.flush()).unwrap_or_default();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn enter() -> io::Result<()> {
    TAKEN.store(true, Ordering::Release);
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), terminal::EnterAlternateScreen, EnableBracketedPaste, cursor::Hide)
}

/// Gives the terminal back; more than once does no harm.
fn leave() {
    if TAKEN.swap(false, Ordering::AcqRel) {
        execute!(io::stdout(), DisableBracketedPaste, terminal::LeaveAlternateScreen, cursor::Show).unwrap_or_default();
        terminal::disable_raw_mode().unwrap_or_default();
    }
}

/// What a panic says is to be read on the terminal as it was.
fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            leave();
            before(info);
        }));
    });
}

/// What was typed and not read yet is thrown away.
pub(crate) fn drain() {
    rustix::termios::tcflush(io::stdin(), QueueSelector::IFlush).unwrap_or_default();
}

/// Reads the terminal on a thread of its own, which ends with the program.
pub(crate) fn read() -> io::Result<mpsc::Receiver<Input>> {
    let (sender, inputs) = mpsc::channel(DEPTH);
    let work = move || {
        loop {
            let input = match crossterm::event::read() {
                // A key that is let go or held down by a terminal that tells so is not pressed.
                Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => Input::Key(key, Instant::now()),
                Ok(Event::Paste(text)) => Input::Paste(text),
                Ok(Event::Resize(..)) => Input::Resize,
                Ok(_) => continue,
                Err(_) => Input::Gone,
            };
            let gone = matches!(input, Input::Gone);
            if sender.blocking_send(input).is_err() || gone {
                return;
            }
        }
    };
    std::thread::Builder::new().name("keys".to_owned()).spawn(work)?;
    Ok(inputs)
}
