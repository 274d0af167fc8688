//! A pseudo-terminal: what a program paints on it, and keys.
//!
//! Everything painted is kept, so that a test can wait for a text without missing it. Keys are typed when a test says
//! so, never before the program has asked.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// What every question of sudo-proxy has at its end.
const QUESTION: &str = "default=N";

/// The end of a page of a question that is not its last. Only ours has pages.
const NEXT_PAGE: &str = ": Space shows the next, n denies ";

/// The master side.
#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    painted: Arc<(Mutex<Painted>, Condvar)>,
}

#[derive(Debug, Default)]
struct Painted {
    bytes: Vec<u8>,
    closed: bool,
}

impl Terminal {
    /// A terminal and the side a program gets.
    ///
    /// # Panics
    /// If the system has none to give.
    pub fn open() -> (Self, OwnedFd) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
        grantpt(&master).expect("a terminal of ours");
        unlockpt(&master).expect("a terminal to open");
        let name = ptsname(&master, Vec::new()).expect("a terminal has a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("the program's side");
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().expect("a second handle");
        let painted = Arc::new((Mutex::new(Painted::default()), Condvar::new()));
        let shared = Arc::clone(&painted);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            loop {
                // An error means that nobody has the other side any more.
                let read = screen.read(&mut piece).unwrap_or(0);
                let mut painted = shared.0.lock().expect("nobody panics with it");
                painted.bytes.extend_from_slice(&piece[..read]);
                painted.closed = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        (Self { keyboard, painted }, slave)
    }

    /// Types.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// How much was painted so far.
    ///
    /// # Panics
    /// Never: nobody panics with the lock.
    pub fn length(&self) -> usize {
        self.painted.0.lock().expect("nobody panics with it").bytes.len()
    }

    /// What was painted from `start` on.
    ///
    /// # Panics
    /// Never: nobody panics with the lock.
    pub fn painted(&self, start: usize) -> String {
        let painted = self.painted.0.lock().expect("nobody panics with it");
        String::from_utf8_lossy(painted.bytes.get(start..).unwrap_or_default()).into_owned()
    }

    /// Waits until what was painted from `start` on is as wanted, and gives it.
    ///
    /// # Errors
    /// If it is not in time: what was painted instead.
    ///
    /// # Panics
    /// Never: nobody panics with the lock.
    pub fn wait(&self, start: usize, limit: Duration, wanted: impl Fn(&str) -> bool) -> Result<String, String> {
        let end = Instant::now() + limit;
        let mut painted = self.painted.0.lock().expect("nobody panics with it");
        loop {
            let text = String::from_utf8_lossy(painted.bytes.get(start..).unwrap_or_default()).into_owned();
            if wanted(&text) {
                return Ok(text);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || painted.closed {
                return Err(format!("the terminal shows {text:?}"));
            }
            painted = self.painted.1.wait_timeout(painted, left).expect("nobody panics with it").0;
        }
    }

    /// Waits until a question of sudo-proxy stands there, turning the pages of one that does not fit on the screen, and
    /// gives everything that was painted from `start` on. Each page may take as long as the limit.
    ///
    /// # Errors
    /// If a page is not in time: what was painted instead.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn wait_question(&mut self, start: usize, limit: Duration) -> Result<String, String> {
        let mut page = start;
        loop {
            let seen = self.wait(page, limit, |seen| seen.contains(QUESTION) || seen.ends_with(NEXT_PAGE))?;
            if seen.contains(QUESTION) {
                return Ok(self.painted(start));
            }
            page = self.length();
            self.press(" ");
        }
    }
}
