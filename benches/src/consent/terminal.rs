//! A pseudo-terminal for a program that asks people: somebody reads what it paints, all the time.
//!
//! The bytes are counted and dropped, except for the last few, which say in a failure what was on the screen.

use std::fs::File;
use std::io::Read as _;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Context as _;
use anyhow::Result;
use rustix::pty::OpenptFlags;

/// How much of the screen is kept.
const KEPT: usize = 2048;

/// The near end of a pseudo-terminal.
pub(crate) struct Terminal {
    near: File,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// A terminal, and the end a program is given.
    pub(crate) fn open() -> Result<(Terminal, OwnedFd)> {
        let near = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).context("opening a terminal")?;
        rustix::pty::grantpt(&near)?;
        rustix::pty::unlockpt(&near)?;
        let name = rustix::pty::ptsname(&near, Vec::new())?;
        let far = rustix::fs::open(
            name.as_c_str(),
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .context("opening the far end of a terminal")?;
        let near = File::from(near);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut source, kept) = (near.try_clone()?, Arc::clone(&screen));
        // Ends when the last program has closed the far end.
        std::thread::spawn(move || {
            let mut part = [0; 65536];
            while let Ok(count @ 1..) = source.read(&mut part) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&part[count.saturating_sub(KEPT)..count]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
        });
        Ok((Terminal { near, screen }, far))
    }

    /// Presses a key.
    pub(crate) fn press(&mut self, key: u8) -> Result<()> {
        self.near.write_all(&[key]).context("pressing a key")
    }

    /// The last of what was painted, escape sequences and all.
    pub(crate) fn screen(&self) -> String {
        let kept = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).escape_debug().to_string()
    }
}
