//! The terminal this program belongs to, opened for itself: what is written there, what is typed there.
//!
//! Invariant: keys come one by one only while a [`Keys`] lives, and the terminal is as it was once that is gone. It is
//! never touched while another program is in its foreground: that would stop us. Nobody waits for a terminal that takes
//! nothing: only the face does.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::termios::LocalModes;
use rustix::termios::OptionalActions;
use rustix::termios::QueueSelector;
use rustix::termios::SpecialCodeIndex;
use rustix::termios::Termios;
use tokio::io::unix::AsyncFd;
use zeroize::Zeroizing;

use super::prompt::Size;

/// The terminal of a process, whichever it is.
const OWN_TERMINAL: &str = "/dev/tty";

/// How often we look whether we are in the foreground again.
const LOOK: Duration = Duration::from_millis(200);

/// The longest secret that can be typed.
const SECRET: usize = 512;

/// The terminal.
pub(in crate::sudo_proxy) struct Tty {
    file: AsyncFd<OwnedFd>,
}

impl Tty {
    /// Opens it; fails where this program has none.
    pub(in crate::sudo_proxy) fn open() -> io::Result<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(i32::try_from(flags).unwrap_or(0))
            .open(OWN_TERMINAL)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that lie about their descriptor; ours owns it"
        )]
        let file = AsyncFd::new(OwnedFd::from(file))?;
        Ok(Tty { file })
    }

    /// Its size now.
    pub(super) fn size(&self) -> Size {
        match rustix::termios::tcgetwinsize(self.file.get_ref()) {
            Ok(size) => Size::told(size.ws_row, size.ws_col),
            Err(_) => Size::told(0, 0),
        }
    }

    /// Writes all of it.
    pub(super) async fn write(&self, text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let mut ready = self.file.writable().await?;
            match ready.try_io(|file| Ok(rustix::io::write(file.get_ref(), rest)?)) {
                Ok(Ok(count)) => rest = rest.get(count..).unwrap_or_default(),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_not_ready) => {}
            }
        }
        Ok(())
    }

    /// Whether this program is in the foreground.
    fn is_ours(&self) -> bool {
        rustix::termios::tcgetpgrp(self.file.get_ref()).is_ok_and(|group| group == rustix::process::getpgrp())
    }

    /// Waits until this program is in the foreground.
    pub(super) async fn ours(&self) {
        while !self.is_ours() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Has keys come one by one and unseen, for as long as what is returned lives. Ctrl-C still is a signal.
    pub(super) fn keys(&self) -> io::Result<Keys<'_>> {
        let before = rustix::termios::tcgetattr(self.file.get_ref())?;
        let mut now = before.clone();
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHONL);
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        rustix::termios::tcsetattr(self.file.get_ref(), OptionalActions::Now, &now)?;
        Ok(Keys { tty: self, before })
    }
}

/// A terminal whose keys come one by one.
pub(super) struct Keys<'a> {
    tty: &'a Tty,
    before: Termios,
}

impl Keys<'_> {
    /// Forgets what was typed until now.
    pub(super) fn forget(&self) {
        // A terminal that is gone has nothing to forget.
        rustix::termios::tcflush(self.tty.file.get_ref(), QueueSelector::IFlush).unwrap_or_default();
    }

    /// The next key. Giving up waiting loses nothing.
    pub(super) async fn next(&self) -> io::Result<u8> {
        let mut key = [0];
        loop {
            self.tty.ours().await;
            let mut ready = self.tty.file.readable().await?;
            let read = ready.try_io(|file| Ok(rustix::io::read(file.get_ref(), &mut key)?));
            match read {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(_)) => return Ok(key[0]),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_not_ready) => {}
            }
        }
    }

    /// A short word that is seen while it is typed; none if it was given up with Escape, or is too long.
    pub(super) async fn word(&self, most: usize) -> io::Result<Option<String>> {
        let mut word = String::new();
        loop {
            match self.next().await? {
                b'\r' | b'\n' => return Ok(Some(word)),
                0x7f | 0x08 if word.pop().is_some() => self.tty.write("\u{8} \u{8}").await?,
                key if key.is_ascii_graphic() && word.len() < most => {
                    word.push(char::from(key));
                    self.tty.write(char::from(key).encode_utf8(&mut [0; 4])).await?;
                }
                0x7f | 0x08 => {}
                _ => return Ok(None),
            }
        }
    }

    /// A line that is not seen while it is typed; none if it was given up with Escape, or is too long to be one.
    pub(super) async fn secret(&self) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        const ERASE: [u8; 2] = [0x7f, 0x08];
        const ERASE_ALL: u8 = 0x15;
        const GIVE_UP: [u8; 2] = [0x1b, 0x04];
        // Never grows: nothing of it stays behind in memory that was given back.
        let mut line = Zeroizing::new(Vec::with_capacity(SECRET));
        loop {
            match self.next().await? {
                b'\r' | b'\n' => return Ok(Some(line)),
                key if ERASE.contains(&key) => drop(line.pop()),
                ERASE_ALL => line.clear(),
                key if GIVE_UP.contains(&key) => return Ok(None),
                _ if line.len() == SECRET => return Ok(None),
                key => line.push(key),
            }
        }
    }
}

impl Drop for Keys<'_> {
    fn drop(&mut self) {
        let file = self.tty.file.get_ref().as_fd();
        // In the background we must not; whoever is in the foreground has set the terminal for itself. What was typed
        // after the answer belongs to nobody.
        if self.tty.is_ours() {
            match rustix::termios::tcsetattr(file, OptionalActions::Flush, &self.before) {
                Ok(()) | Err(Errno::IO | Errno::NOTTY) => {}
                Err(_) => rustix::termios::tcsetattr(file, OptionalActions::Now, &self.before).unwrap_or_default(),
            }
        }
    }
}
