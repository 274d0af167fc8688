//! The log of a mesh daemon or a broker: lines of JSON in a file of bounded size and age.
//!
//! Invariant: file and predecessor together hold at most 100 MB and nothing older than 14 days, or what settings say: the
//! file is turned over at half of either. Writing never waits for whoever reads standard error.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use std::time::SystemTime;

/// What a log and its predecessor may have together, unless settings say otherwise.
const SIZE: u64 = 100_000_000;
const AGE_DAYS: u64 = 14;

/// Where a file is turned over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    size: u64,
    age: Duration,
}

impl Bounds {
    /// For a log that has so many bytes and days together with its predecessor.
    pub(crate) fn of(bytes: u64, days: u64) -> Self {
        Bounds { size: bytes / 2, age: Duration::from_secs(days.saturating_mul(86_400) / 2) }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds::of(SIZE, AGE_DAYS)
    }
}

/// Lines that may wait for standard error; more are in the file only.
const WAITING: usize = 256;

/// A log. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct JsonLog {
    file: Arc<Mutex<Turning>>,
    /// The terminal or supervisor that has the lines too.
    echo: Option<SyncSender<Vec<u8>>>,
}

#[derive(Debug)]
struct Turning {
    path: PathBuf,
    file: File,
    mode: u32,
    written: u64,
    began: SystemTime,
    bounds: Bounds,
}

impl JsonLog {
    /// Opens the log after what is there; with `echo` the lines go to standard error too.
    pub(crate) fn open(path: &Path, mode: u32, echo: bool) -> io::Result<Self> {
        JsonLog::open_within(path, mode, echo, Bounds::default())
    }

    /// The same, turned over at other bounds.
    pub(crate) fn open_within(path: &Path, mode: u32, echo: bool, bounds: Bounds) -> io::Result<Self> {
        let file = Arc::new(Mutex::new(Turning::open(path, mode, bounds)?));
        let echo = match echo {
            false => None,
            true => {
                let (sender, lines) = std::sync::mpsc::sync_channel::<Vec<u8>>(WAITING);
                std::thread::Builder::new().name("log-echo".to_owned()).spawn(move || {
                    for line in lines {
                        // Whoever started us may be gone with the terminal.
                        io::stderr().lock().write_all(&line).ok();
                    }
                })?;
                Some(sender)
            }
        };
        Ok(JsonLog { file, echo })
    }

    /// A log that is not there, for identities that leave nothing behind.
    pub(crate) fn nowhere(echo: bool) -> io::Result<Self> {
        JsonLog::open(Path::new("/dev/null"), 0o600, echo)
    }

    /// Adds a line.
    pub(crate) fn line(&self, text: &str) {
        let mut line = Vec::with_capacity(text.len() + 1);
        line.extend_from_slice(text.as_bytes());
        line.push(b'\n');
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write(&line);
        if let Some(echo) = &self.echo {
            echo.try_send(line).ok();
        }
    }
}

impl Turning {
    fn open(path: &Path, mode: u32, bounds: Bounds) -> io::Result<Self> {
        let file = append(path, mode)?;
        let metadata = file.metadata()?;
        // A file system that knows no birth tells the last line's time, which only makes the file live longer.
        let began = metadata.created().or_else(|_| metadata.modified()).unwrap_or_else(|_| SystemTime::now());
        Ok(Turning { path: path.to_owned(), file, mode, written: metadata.len(), began, bounds })
    }

    fn write(&mut self, line: &[u8]) {
        let full = self.written > 0 && self.written.saturating_add(line.len() as u64) > self.bounds.size;
        let old = self.written > 0 && self.began.elapsed().is_ok_and(|age| age > self.bounds.age);
        if full || old {
            // A log that cannot be turned over is better too long than silent.
            self.turn_over().ok();
        }
        if self.file.write_all(line).is_ok() {
            self.written = self.written.saturating_add(line.len() as u64);
        }
    }

    fn turn_over(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, older(&self.path))?;
        self.file = append(&self.path, self.mode)?;
        self.written = 0;
        self.began = SystemTime::now();
        Ok(())
    }
}

/// The file before the present one.
pub(crate) fn older(path: &Path) -> PathBuf {
    let mut older = path.as_os_str().to_owned();
    older.push(".1");
    PathBuf::from(older)
}

fn append(path: &Path, mode: u32) -> io::Result<File> {
    use std::os::unix::fs::PermissionsExt as _;
    let file = OpenOptions::new().append(true).create(true).mode(mode).open(path)?;
    // Whatever the mask is, the mode is the one that was meant; a device keeps its own.
    if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stays_within_its_bounds() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("daemon.log");
        let mut log = Turning::open(&path, 0o644, Bounds::of(200, 14)).unwrap();
        for number in 0..50 {
            log.write(format!("line {number:02}\n").as_bytes());
        }
        let (newest, before) =
            (std::fs::read_to_string(&path).unwrap(), std::fs::read_to_string(older(&path)).unwrap());
        assert!(newest.ends_with("line 49\n") && newest.len() <= 100 && before.len() <= 100);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_old_file_makes_room() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("daemon.log");
        let mut log = Turning::open(&path, 0o644, Bounds::default()).unwrap();
        log.write(b"one\n");
        log.began = SystemTime::now() - Bounds::default().age - Duration::from_secs(1);
        log.write(b"two\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(std::fs::read_to_string(older(&path)).unwrap(), "one\n");
    }
}
