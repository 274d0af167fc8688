//! The daemon's last log lines, for clients that ask.
//!
//! Invariant: bounded. A subscriber is a place in the ring: one that does not read loses the oldest lines and holds up
//! nobody.

use std::collections::VecDeque;
use std::io;
use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use serde_json::json;
use tokio::sync::watch;

use super::params::Params;
use super::time;
use crate::rpc::Failure;

/// The longest message that is kept.
const LONGEST: usize = 4096;

/// Bytes by which the room for texts grows.
const STEP: usize = 16 << 10;

/// Lines of one answer, unless asked for fewer, and at most.
const PAGE: (usize, usize) = (200, 1000);

/// The last lines of a log. Clones share them.
#[derive(Clone, Debug)]
pub struct LogRing(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    capacity: usize,
    kept: Mutex<Kept>,
    /// Number of the newest line.
    newest: watch::Sender<u64>,
}

/// The lines, their texts in one piece: each by itself it would lie among what a busy daemon needs for an instant, and
/// keep the page it lies on.
#[derive(Debug, Default)]
struct Kept {
    /// Number of the oldest line; they are numbered from 1, without gaps.
    oldest: u64,
    marks: VecDeque<Mark>,
    /// The messages, one after the other.
    texts: VecDeque<u8>,
}

/// A line without its text.
#[derive(Clone, Copy, Debug)]
struct Mark {
    time_ns: u64,
    length: u16,
    severity: Severity,
}

impl Kept {
    fn push(&mut self, number: u64, severity: Severity, message: &str) {
        // No message is longer than `LONGEST`.
        let length = u16::try_from(message.len()).unwrap_or(0);
        if self.texts.capacity() - self.texts.len() < message.len() {
            // In steps: twice as much as before would be half empty for good.
            self.texts.reserve_exact(message.len().max(STEP));
        }
        self.texts.extend(message.bytes().take(usize::from(length)));
        if self.marks.is_empty() {
            self.oldest = number;
        }
        self.marks.push_back(Mark { time_ns: time::now_ns(), length, severity });
    }

    fn forget_oldest(&mut self) {
        if let Some(mark) = self.marks.pop_front() {
            self.texts.drain(..usize::from(mark.length));
            self.oldest += 1;
        }
    }

    /// Every line, the newest first.
    fn newest_first(&mut self) -> impl Iterator<Item = Line<'_>> {
        let mut rest: &[u8] = self.texts.make_contiguous();
        let oldest = self.oldest;
        self.marks.iter().enumerate().rev().map_while(move |(at, mark)| {
            let (older, message) = rest.split_at_checked(rest.len().checked_sub(usize::from(mark.length))?)?;
            rest = older;
            let message = str::from_utf8(message).ok()?;
            let number = oldest + at as u64;
            Some(Line { number, severity: mark.severity, time: time::rfc3339(mark.time_ns), message })
        })
    }
}

/// One line.
#[derive(Debug)]
struct Line<'a> {
    number: u64,
    time: String,
    severity: Severity,
    message: &'a str,
}

impl Line<'_> {
    fn event(&self) -> Value {
        json!({
            "id": self.number.to_string(),
            "@timestamp": self.time,
            "severity_number": self.severity as u64,
            "severity_text": self.severity.word(),
            "event": {"category": "system", "action": "note"},
            "service": {"name": "hostel", "version": env!("CARGO_PKG_VERSION")},
            "message": self.message,
        })
    }
}

/// A level, by its number in the contract.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
enum Severity {
    Debug = 5,
    Info = 9,
    Warn = 13,
    Error = 17,
}

impl Severity {
    fn of(level: &str) -> Self {
        match level.trim().to_ascii_uppercase().as_str() {
            "DEBUG" => Severity::Debug,
            "WARN" => Severity::Warn,
            "ERROR" => Severity::Error,
            _ => Severity::Info,
        }
    }

    /// Its name in the contract.
    fn word(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Info => "INFO",
            Severity::Warn => "WARN",
            Severity::Error => "ERROR",
        }
    }
}

impl LogRing {
    /// A ring of so many lines.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let newest = watch::Sender::new(0);
        LogRing(Arc::new(Ring { capacity: capacity.max(1), kept: Mutex::default(), newest }))
    }

    /// Takes a line: its level (`DEBUG`, `INFO`, `WARN`, `ERROR`) and its text.
    pub fn push(&self, level: &str, message: &str) {
        let message = message.get(..message.floor_char_boundary(LONGEST)).unwrap_or_default();
        let mut kept = self.0.kept.lock();
        let number = *self.0.newest.borrow() + 1;
        if kept.marks.len() >= self.0.capacity {
            kept.forget_oldest();
        }
        kept.push(number, Severity::of(level), message);
        self.0.newest.send_replace(number);
    }

    /// A sink for a log that passes every line on and keeps a copy here.
    pub fn tee<W: Write>(&self, sink: W) -> Tee<W> {
        Tee { ring: self.clone(), sink }
    }

    /// Waits for lines after a number.
    pub(crate) async fn next(&self, seen: &mut u64) -> Vec<Value> {
        let mut newest = self.0.newest.subscribe();
        // The sender lives as long as the ring, which we hold.
        drop(newest.wait_for(|newest| newest > seen).await);
        let mut kept = self.0.kept.lock();
        let after = *seen;
        let mut events: Vec<Value> =
            kept.newest_first().take_while(|line| line.number > after).map(|line| line.event()).collect();
        events.reverse();
        *seen = self.newest();
        events
    }

    /// The number of the newest line.
    pub(crate) fn newest(&self) -> u64 {
        *self.0.newest.borrow()
    }

    /// `logs/query`: a page of what is kept, newest first.
    pub(crate) fn query(&self, params: &Params) -> Result<Value, Failure> {
        let since = params.text("since_ts")?.unwrap_or_default();
        let until = params.text("until_ts")?;
        let before = params.number("until_line_offset")?.unwrap_or(u64::MAX);
        let lowest = params.number("severity_min")?.unwrap_or(0);
        let wanted = params.text("q")?.unwrap_or_default().to_lowercase();
        let limit = params.count("limit")?.unwrap_or(PAGE.0).clamp(1, PAGE.1);
        let fits = |line: &Line<'_>| {
            line.number < before
                && line.severity as u64 >= lowest
                && line.time.as_str() >= since
                && until.is_none_or(|until| line.time.as_str() <= until)
                && line.message.to_lowercase().contains(&wanted)
        };
        let mut kept = self.0.kept.lock();
        let mut found = kept.newest_first().filter(fits);
        let page: Vec<Line<'_>> = found.by_ref().take(limit).collect();
        let more = found.next().is_some();
        let next = page.last().filter(|_| more).map(|line| line.number);
        let events: Vec<Value> = page.iter().map(Line::event).collect();
        Ok(json!({"events": events, "next_cursor": null, "next_cursor_line_offset": next, "at_end": !more}))
    }
}

/// A sink that keeps a copy of each line in a ring.
#[derive(Debug)]
pub struct Tee<W> {
    ring: LogRing,
    sink: W,
}

impl<W: Write> Write for Tee<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        for line in text.lines() {
            // Date, time, level, message.
            let mut parts = line.splitn(3, ' ').skip(2);
            let (level, message) = parts.next().map_or(("INFO", line), |rest| rest.split_at(rest.len().min(5)));
            self.ring.push(level, message.trim_start());
        }
        self.sink.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(ring: &LogRing, params: Value) -> Value {
        ring.query(&Params::read(params, &[]).unwrap()).unwrap()
    }

    fn messages(page: &Value) -> Vec<&str> {
        page["events"].as_array().unwrap().iter().map(|event| event["message"].as_str().unwrap()).collect()
    }

    #[test]
    fn the_last_lines_are_kept_and_paged() {
        let ring = LogRing::new(3);
        for (level, text) in [("INFO", "a"), ("WARN", "b"), ("ERROR", "c"), ("INFO", "d")] {
            ring.push(level, text);
        }
        let page = query(&ring, json!({"limit": 2}));
        assert_eq!(messages(&page), ["d", "c"]);
        assert_eq!((&page["at_end"], &page["next_cursor_line_offset"]), (&json!(false), &json!(3)));
        let page = query(&ring, json!({"limit": 2, "until_line_offset": 3}));
        assert_eq!((messages(&page), &page["at_end"]), (vec!["b"], &json!(true)));
        assert_eq!(messages(&query(&ring, json!({"severity_min": 13}))), ["c", "b"]);
        assert_eq!(messages(&query(&ring, json!({"q": "D"}))), ["d"]);
        assert_eq!(messages(&query(&ring, json!({"since_ts": "9999"}))), Vec::<&str>::new());
    }

    #[tokio::test]
    async fn a_subscriber_gets_what_comes_after() {
        let ring = LogRing::new(10);
        ring.push("INFO", "before");
        let mut seen = ring.newest();
        ring.push("WARN", "after");
        let events = ring.next(&mut seen).await;
        assert_eq!(events.len(), 1);
        assert_eq!((&events[0]["message"], &events[0]["severity_number"]), (&json!("after"), &json!(13)));
        assert_eq!(seen, 2);
    }

    #[test]
    fn a_tee_reads_the_lines_of_the_log() {
        let ring = LogRing::new(10);
        let mut sink = Vec::new();
        ring.tee(&mut sink).write_all(b"2026/08/22 10:11:12 WARN  something odd\n").unwrap();
        assert_eq!(sink.len(), 40);
        let page = query(&ring, json!({}));
        assert_eq!(page["events"][0]["message"], "something odd");
        assert_eq!(page["events"][0]["severity_text"], "WARN");
    }
}
