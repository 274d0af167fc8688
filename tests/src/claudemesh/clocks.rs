//! Clocks of hosts and brokers that are wrong, and can be set while they run: libfaketime, by a file for each.
//!
//! Only the time of day is another one: waits and timeouts are as long as they are. Nothing of the program is made for
//! this; whatever asks the C library for the time is told the wrong one.

use std::fs;
use std::path::{Path, PathBuf};

use super::host::Host;

/// Where distributions put the library.
const PLACES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
];

/// A clock of the wall that can be set.
#[derive(Debug)]
pub struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    /// A clock that is right, kept below a directory. None where there is no libfaketime; then that is printed.
    ///
    /// # Panics
    /// If its file cannot be written.
    pub fn new(directory: &Path, name: &str) -> Option<Self> {
        let Some(library) = PLACES.iter().map(PathBuf::from).find(|path| path.exists()) else {
            crate::skip("there is no libfaketime here (Debian: `apt-get install faketime`)");
            return None;
        };
        let clock = Self { library, file: directory.join(format!("clock-{name}")) };
        clock.set_days(0);
        Some(clock)
    }

    /// Sets it so many days ahead, or back if there are fewer than none, for everybody who lives by it.
    ///
    /// # Panics
    /// If its file cannot be written.
    pub fn set_days(&self, days: i64) {
        // As a whole: it is read at any moment.
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{days:+}d\n")).expect("a file");
        fs::rename(&fresh, &self.file).expect("it takes its place");
    }

    /// What makes a process live by it.
    pub fn variables(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().expect("a path is text").to_owned();
        let pairs = [
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file)),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Has everything of a host live by it from its next start.
    pub fn rule(&self, host: &mut Host) {
        for (name, value) in self.variables() {
            host.set_variable(&name, &value);
        }
    }
}
