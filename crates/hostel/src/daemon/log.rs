//! Where the daemon's log lines go: a file of bounded size, and on demand a standard stream as well.
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

use hostel_doors::claustrum::Level;
use hostel_doors::claustrum::Log;
use hostel_doors::zeroclaw::LogRing;

use crate::paths::HouseDir;

/// Lines that clients can still ask for.
const RING: usize = 2000;

/// A log file that is turned over at its limit.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
    limit: u64,
}

impl LogFile {
    /// Opens the log, after what is there.
    fn open(path: &Path, limit: u64) -> io::Result<Self> {
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

/// Lines that may wait for a standard stream. Whoever does not read it misses what comes after them; the file has it all.
const WAITING_LINES: usize = 256;

/// The standard stream that has the lines too.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stream {
    Output,
    Error,
}

impl Stream {
    fn write(self, line: &[u8]) {
        let written = match self {
            Stream::Output => io::stdout().lock().write_all(line),
            Stream::Error => io::stderr().lock().write_all(line),
        };
        // Whoever started us may be gone with the terminal.
        written.unwrap_or_default();
    }
}

/// The same lines in the file and on a standard stream.
///
/// The stream may be a pipe that nobody reads, so it has a thread of its own: the file never waits for it.
#[derive(Debug)]
struct Both {
    file: LogFile,
    stream: SyncSender<Message>,
}

/// What the stream's thread is told.
#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Say when everything before this was written.
    Flush(SyncSender<()>),
}

/// How long a flush waits for whoever reads the stream.
const FLUSH_LIMIT: Duration = Duration::from_millis(200);

impl Both {
    fn new(file: LogFile, to: Stream) -> io::Result<Self> {
        let (stream, lines) = std::sync::mpsc::sync_channel(WAITING_LINES);
        std::thread::Builder::new().name("log-stream".to_owned()).spawn(move || {
            for message in lines {
                match message {
                    Message::Line(line) => to.write(&line),
                    Message::Flush(done) => done.send(()).unwrap_or_default(),
                }
            }
        })?;
        Ok(Both { file, stream })
    }
}

impl Write for Both {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let count = self.file.write(data)?;
        self.stream.try_send(Message::Line(data[..count].to_vec())).unwrap_or_default();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        if self.stream.try_send(Message::Flush(done)).is_ok() {
            wait.recv_timeout(FLUSH_LIMIT).unwrap_or_default();
        }
        self.file.flush()
    }
}

/// A daemon's log and its last lines, which clients may ask for.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    pub(crate) log: Log,
    pub(crate) ring: LogRing,
}

impl Logs {
    /// Opens the log of a house; its lines go to the stream too, if one is given.
    pub(crate) fn open(dir: &HouseDir, limit: u64, level: Level, stream: Option<Stream>) -> io::Result<Self> {
        let file = LogFile::open(&dir.daemon_log(), limit)?;
        let ring = LogRing::new(RING);
        let log = match stream {
            Some(stream) => Log::new(level, ring.tee(Both::new(file, stream)?))?,
            None => Log::new(level, ring.tee(file))?,
        };
        Ok(Logs { log, ring })
    }
}

/// The level that `RUST_LOG` asks for, as far as one word does; else what happened and nothing finer.
pub(crate) fn level_wanted(variable: Option<&str>) -> Level {
    match variable.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "trace" | "debug" => Level::Debug,
        "warn" => Level::Warn,
        "error" | "off" => Level::Error,
        _ => Level::Info,
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
