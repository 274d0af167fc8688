//! Where the daemon's log lines go: a file of bounded size, and on demand standard error as well.
//!
//! Invariant: the log takes at most twice its limit on disk: the file, and the one before it under `.1`.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// A log file that is turned over at its limit.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
    limit: u64,
}

impl LogFile {
    /// Opens the log, after what is there.
    pub(crate) fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = append(path)?;
        Ok(LogFile { written: file.metadata()?.len(), path: path.to_owned(), file, limit })
    }

    fn turn_over(&mut self) -> io::Result<()> {
        let mut older = self.path.clone().into_os_string();
        older.push(".1");
        std::fs::rename(&self.path, older)?;
        self.file = append(&self.path)?;
        self.written = 0;
        Ok(())
    }
}

/// Opens a file of ours for adding to it.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl Write for LogFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.written > 0 && self.written.saturating_add(data.len() as u64) > self.limit {
            // A log that cannot be turned over is better too long than silent.
            self.turn_over().unwrap_or_default();
        }
        let count = self.file.write(data)?;
        self.written = self.written.saturating_add(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Lines that may wait for standard error. Whoever does not read it misses what comes after them; the file has it all.
const WAITING_LINES: usize = 256;

/// The same lines in the file and on standard error.
///
/// Standard error may be a pipe that nobody reads, so it has a thread of its own: the file never waits for it.
#[derive(Debug)]
pub(crate) struct Both {
    file: LogFile,
    error: SyncSender<Message>,
}

/// What the thread of standard error is told.
#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Say when everything before this was written.
    Flush(SyncSender<()>),
}

/// How long a flush waits for whoever reads standard error.
const FLUSH_LIMIT: Duration = Duration::from_millis(200);

impl Both {
    pub(crate) fn new(file: LogFile) -> io::Result<Self> {
        let (error, lines) = std::sync::mpsc::sync_channel(WAITING_LINES);
        std::thread::Builder::new().name("stderr".to_owned()).spawn(move || {
            for message in lines {
                match message {
                    // Whoever started us may be gone with the terminal.
                    Message::Line(line) => io::stderr().lock().write_all(&line).unwrap_or_default(),
                    Message::Flush(done) => done.send(()).unwrap_or_default(),
                }
            }
        })?;
        Ok(Both { file, error })
    }
}

impl Write for Both {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = self.file.write(data)?;
        self.error.try_send(Message::Line(data[..count].to_vec())).unwrap_or_default();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        if self.error.try_send(Message::Flush(done)).is_ok() {
            wait.recv_timeout(FLUSH_LIMIT).unwrap_or_default();
        }
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stays_within_twice_its_limit() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("daemon.log");
        let mut log = LogFile::open(&path, 100).unwrap();
        for number in 0..50 {
            log.write_all(format!("line {number:02}\n").as_bytes()).unwrap();
        }
        let newest = std::fs::read_to_string(&path).unwrap();
        let older = std::fs::read_to_string(scratch.path().join("daemon.log.1")).unwrap();
        assert!(newest.ends_with("line 49\n"));
        assert!(newest.len() <= 100 && older.len() <= 100);
        assert!(older.ends_with("line 47\n"), "{older}");
        let mut again = LogFile::open(&path, 100).unwrap();
        again.write_all(b"later\n").unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(&newest));
    }
}
