//! The door's log: Go's line prefix, a level, a message.
//!
//! A line is handed to a thread of its own, because the sink may be a pipe that nobody reads and a
//! full pipe must not stop the daemon. The queue is bounded; lines that find it full are counted
//! and the count is logged when there is room again. A message never spans lines: control
//! characters in what clients send are escaped.

use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::time::Duration;

use parking_lot::Mutex;

/// Lines that may wait for the sink.
const QUEUE: usize = 4096;
/// Bytes of a message; clients may send names as long as a line, and thousands of them may wait.
const LONGEST_MESSAGE: usize = 4096;
/// How long lines are gathered after one was written.
const TOGETHER: Duration = Duration::from_millis(2);

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Steps that matter only when something is being looked for.
    Debug,
    /// What happened.
    Info,
    /// What should not happen but is coped with.
    Warn,
    /// What failed.
    Error,
}

impl Level {
    /// Reads the value of `CLAUSTRUM_LOG_LEVEL`; anything unknown logs everything.
    pub fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "info" => Self::Info,
            "warn" | "warning" => Self::Warn,
            "error" => Self::Error,
            _ => Self::Debug,
        }
    }

    fn tag(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO ",
            Self::Warn => "WARN ",
            Self::Error => "ERROR",
        }
    }
}

/// A handle to the log; clones write to the same sink.
#[derive(Clone)]
pub struct Log {
    lowest: Level,
    shared: Arc<Shared>,
}

struct Shared {
    way: Way,
    dropped: AtomicU64,
}

/// Who writes.
enum Way {
    Thread(SyncSender<Note>),
    /// Whoever logs: the sink never waits.
    Caller(Mutex<Box<dyn Write + Send>>),
}

enum Note {
    Line(String),
    Flush(SyncSender<()>),
}

impl Log {
    /// Starts a log that writes lines of `lowest` and above to `sink`.
    pub fn new(lowest: Level, sink: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (queue, lines) = mpsc::sync_channel(QUEUE);
        std::thread::Builder::new().name("claustrum-log".to_owned()).spawn(move || write_lines(&lines, sink))?;
        Ok(Self::of(lowest, Way::Thread(queue)))
    }

    /// A log for a sink that never waits, and so needs no thread.
    pub fn on_caller(lowest: Level, sink: impl Write + Send + 'static) -> Self {
        Self::of(lowest, Way::Caller(Mutex::new(Box::new(sink))))
    }

    fn of(lowest: Level, way: Way) -> Self {
        Self { lowest, shared: Arc::new(Shared { way, dropped: AtomicU64::new(0) }) }
    }

    /// Logs a debugging line.
    pub fn debug(&self, message: fmt::Arguments<'_>) {
        self.line(Level::Debug, message);
    }

    /// Logs an ordinary line.
    pub fn info(&self, message: fmt::Arguments<'_>) {
        self.line(Level::Info, message);
    }

    /// Logs a warning.
    pub fn warn(&self, message: fmt::Arguments<'_>) {
        self.line(Level::Warn, message);
    }

    /// Logs a failure.
    pub fn error(&self, message: fmt::Arguments<'_>) {
        self.line(Level::Error, message);
    }

    /// Waits until everything logged so far is written, or for `limit`.
    pub fn flush(&self, limit: Duration) {
        let Way::Thread(queue) = &self.shared.way else { return };
        let (done, written) = mpsc::sync_channel(1);
        if queue.try_send(Note::Flush(done)).is_ok() {
            // Both outcomes end the wait; a sink that is stuck is nobody's to repair here.
            written.recv_timeout(limit).ok();
        }
    }

    fn line(&self, level: Level, message: fmt::Arguments<'_>) {
        if level < self.lowest {
            return;
        }
        let now = jiff::Zoned::now();
        let dropped = self.shared.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            let message = format_args!("[Server] log: {dropped} lines dropped, the sink is slow");
            self.send(format_line(&now, Level::Warn, message), dropped);
        }
        self.send(format_line(&now, level, message), 1);
    }

    fn send(&self, line: String, stands_for: u64) {
        match &self.shared.way {
            Way::Thread(queue) => {
                if let Err(TrySendError::Full(_)) = queue.try_send(Note::Line(line)) {
                    self.shared.dropped.fetch_add(stands_for, Ordering::Relaxed);
                }
            }
            // There is nowhere to report that the log cannot be written.
            Way::Caller(sink) => drop(sink.lock().write_all(line.as_bytes())),
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Log").field("lowest", &self.lowest).finish_non_exhaustive()
    }
}

fn write_lines(lines: &Receiver<Note>, mut sink: impl Write) {
    while let Ok(note) = lines.recv() {
        write_note(note, &mut sink);
        // Where lines come thickly, being woken for each of them costs more than writing it.
        std::thread::sleep(TOGETHER);
        lines.try_iter().take(QUEUE).for_each(|note| write_note(note, &mut sink));
    }
}

fn write_note(note: Note, sink: &mut impl Write) {
    match note {
        // There is nowhere to report that the log cannot be written.
        Note::Line(line) => drop(sink.write_all(line.as_bytes())),
        Note::Flush(done) => {
            sink.flush().ok();
            done.try_send(()).ok();
        }
    }
}

fn format_line(now: &jiff::Zoned, level: Level, message: fmt::Arguments<'_>) -> String {
    let mut line = format!(
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02} {} ",
        now.year(),
        now.month(),
        now.day(),
        now.hour(),
        now.minute(),
        now.second(),
        level.tag()
    );
    let start = line.len();
    // Writing to a String cannot fail; a Display that fails leaves the line short.
    line.write_fmt(message).ok();
    if line.len() - start > LONGEST_MESSAGE {
        line.truncate(line.floor_char_boundary(start + LONGEST_MESSAGE));
        line.push_str("...");
        line.shrink_to_fit();
    }
    if line[start..].contains(char::is_control) {
        let escaped: String = line[start..]
            .chars()
            .flat_map(|character| {
                let printed =
                    if character.is_control() { character.escape_default().to_string() } else { character.to_string() };
                printed.chars().collect::<Vec<_>>()
            })
            .collect();
        line.truncate(start);
        line.push_str(&escaped);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_have_gos_prefix_and_stay_lines() {
        let memory = Memory::default();
        let log = Log::new(Level::Info, memory.clone()).unwrap();
        log.debug(format_args!("not wanted"));
        log.info(format_args!("one"));
        log.error(format_args!("two\n2026/01/01 forged \u{1b}[0m"));
        log.flush(Duration::from_secs(10));
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        let shape: String =
            lines[0].chars().map(|character| if character.is_ascii_digit() { '9' } else { character }).collect();
        assert_eq!(shape, "9999/99/99 99:99:99 INFO  one");
        assert!(lines[1].ends_with(" ERROR two\\n2026/01/01 forged \\u{1b}[0m"), "{text}");
    }

    #[test]
    fn what_clients_send_cannot_make_a_line_long() {
        let long = "\u{e4}".repeat(LONGEST_MESSAGE);
        let line = format_line(&jiff::Zoned::now(), Level::Warn, format_args!("x{long}"));
        assert!(line.ends_with("\u{e4}...\n"), "{line}");
        assert!(line.len() < LONGEST_MESSAGE + 64, "{}", line.len());
    }

    #[test]
    fn a_stuck_sink_stops_nobody() {
        struct Stuck(mpsc::Sender<()>, Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.send(()).ok();
                self.1.recv().ok();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (entered, at_gate) = mpsc::channel();
        let (release, gate) = mpsc::channel();
        let log = Log::new(Level::Debug, Stuck(entered, gate)).unwrap();
        // The writer takes several lines at a time: it is to be stuck before the queue fills.
        log.info(format_args!("first"));
        at_gate.recv().unwrap();
        for count in 0..QUEUE + 100 {
            log.info(format_args!("{count}"));
        }
        assert!(log.shared.dropped.load(Ordering::Relaxed) >= 98);
        drop(release);
        log.flush(Duration::from_secs(10));
    }

    #[test]
    fn level_names() {
        for (name, level) in [
            ("debug", Level::Debug),
            ("INFO", Level::Info),
            ("warn", Level::Warn),
            ("warning", Level::Warn),
            ("error", Level::Error),
            ("", Level::Debug),
            ("loud", Level::Debug),
        ] {
            assert_eq!(Level::named(name), level, "{name:?}");
        }
    }
}
