//! A program on a terminal of its own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use hostel_tests::wait;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::screen::Screen;

/// Longer than a request has to be on the screen before a key counts.
const MOMENT: Duration = Duration::from_millis(500);

/// What the program says of a key that came too soon.
const TOO_SOON: &str = "it has only just appeared";

/// A program and the terminal it is on.
pub(crate) struct OnTerminal {
    child: Child,
    master: File,
    /// Kept open so that the terminal outlives the program and can be looked at.
    slave: File,
    screen: Arc<Mutex<Screen>>,
    raw: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    /// Starts a command on a terminal of this size.
    pub(crate) fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&master).expect("a terminal of ours");
        unlockpt(&master).expect("a terminal to open");
        let name = ptsname(&master, Vec::new()).expect("a terminal has a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = File::from(rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("the program's side"));
        let size = |columns, rows| Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size(columns, rows)).expect("a terminal has a size");
        let mut on_terminal = Command::new("setsid");
        on_terminal.arg("--ctty").arg("--wait").arg(command.get_program()).args(command.get_args()).env_clear();
        on_terminal.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        if let Some(folder) = command.get_current_dir() {
            on_terminal.current_dir(folder);
        }
        let handle = || slave.try_clone().expect("a second handle");
        let child = on_terminal.stdin(handle()).stdout(handle()).stderr(handle()).spawn().expect("setsid can be run");
        let master = File::from(master);
        let mut reader = master.try_clone().expect("a second handle");
        let screen = Arc::new(Mutex::new(Screen::new(columns, rows)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (shown, written) = (Arc::clone(&screen), Arc::clone(&raw));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal's end is an error on Linux.
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                written.lock().expect("no reader breaks").extend_from_slice(&bytes[..count]);
                shown.lock().expect("no reader breaks").feed(&bytes[..count]);
            }
        });
        Self { child, master, slave, screen, raw }
    }

    /// Types.
    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("a terminal takes keys");
    }

    /// Another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().expect("no reader breaks").resize(columns, rows);
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).expect("a terminal has a size");
    }

    /// Looks at the screen.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Screen) -> T) -> T {
        look(&self.screen.lock().expect("what was written makes sense"))
    }

    pub(crate) fn text(&self) -> String {
        self.look(Screen::text)
    }

    /// Every byte that was written.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.raw.lock().expect("no reader breaks").clone()
    }

    /// Waits until the screen holds a text.
    pub(crate) fn until(&self, text: &str) {
        self.until_true(text, |screen| screen.text().contains(text));
    }

    /// Waits until the screen is as it should be.
    pub(crate) fn until_true(&self, what: &str, mut look: impl FnMut(&Screen) -> bool) {
        wait::eventually(&format!("{what} on the screen"), || {
            if self.look(&mut look) { Ok(()) } else { Err(format!("\n{}", self.look(Screen::framed))) }
        });
    }

    /// Presses a key that answers what is on the screen, and waits for a text.
    ///
    /// A key counts only once the request has been on the screen for a moment, also if what is known about it changes. The
    /// program says so if it was pressed too soon, and only then it is pressed again: a second one could answer something
    /// else.
    pub(crate) fn press_until(&mut self, key: &str, text: &str) {
        for _ in 0..10 {
            // Nothing happens in this time that could be waited for.
            thread::sleep(MOMENT);
            self.press(key);
            self.until_true(text, |screen| screen.text().contains(text) || screen.text().contains(TOO_SOON));
            if self.text().contains(text) {
                return;
            }
            self.until_true("the notice to go", |screen| !screen.text().contains(TOO_SOON));
        }
        panic!("{key:?} is always too soon\n{}", self.look(Screen::framed));
    }

    /// Presses a key that does no harm again and again, until the screen holds a text.
    pub(crate) fn press_often(&mut self, key: &str, text: &str) {
        wait::eventually(&format!("{text} on the screen"), || {
            if self.text().contains(text) {
                return Ok(());
            }
            self.press(key);
            Err(format!("\n{}", self.look(Screen::framed)))
        });
    }

    /// Sends the program a signal: `setsid` has become it.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")).expect("a pid");
        rustix::process::kill_process(pid, signal).expect("our own child");
    }

    /// Waits for its end.
    pub(crate) fn finish(&mut self) -> i32 {
        let status = wait::end_of(&mut self.child, "the program on the terminal");
        status.code().unwrap_or(-1)
    }

    /// Whether lines are edited and echoed as on any terminal.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.slave).expect("a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The program hears of the hang-up; setsid waits for it.
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}
