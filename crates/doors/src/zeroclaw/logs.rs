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

/// Lines of one answer, unless asked for fewer, and at most.
const PAGE: (usize, usize) = (200, 1000);

/// The last lines of a log. Clones share them.
#[derive(Clone, Debug)]
pub struct LogRing(Arc<Ring>);

#[derive(Debug)]
struct Ring {
    capacity: usize,
    lines: Mutex<VecDeque<Arc<Line>>>,
    /// Number of the newest line.
    newest: watch::Sender<u64>,
}

/// One line, numbered from 1.
#[derive(Debug)]
struct Line {
    number: u64,
    time: String,
    severity: (u64, &'static str),
    message: String,
}

impl Line {
    fn event(&self) -> Value {
        json!({
            "id": self.number.to_string(),
            "@timestamp": self.time,
            "severity_number": self.severity.0,
            "severity_text": self.severity.1,
            "event": {"category": "system", "action": "note"},
            "service": {"name": "hostel", "version": env!("CARGO_PKG_VERSION")},
            "message": self.message,
        })
    }
}

/// A level's number and name as the contract has them.
fn severity(level: &str) -> (u64, &'static str) {
    match level.trim().to_ascii_uppercase().as_str() {
        "DEBUG" => (5, "DEBUG"),
        "WARN" => (13, "WARN"),
        "ERROR" => (17, "ERROR"),
        _ => (9, "INFO"),
    }
}

impl LogRing {
    /// A ring of so many lines.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let newest = watch::Sender::new(0);
        LogRing(Arc::new(Ring { capacity: capacity.max(1), lines: Mutex::default(), newest }))
    }

    /// Takes a line: its level (`DEBUG`, `INFO`, `WARN`, `ERROR`) and its text.
    pub fn push(&self, level: &str, message: &str) {
        let message = message.get(..message.floor_char_boundary(LONGEST)).unwrap_or_default().to_owned();
        let mut lines = self.0.lines.lock();
        let number = *self.0.newest.borrow() + 1;
        if lines.len() >= self.0.capacity {
            lines.pop_front();
        }
        lines.push_back(Arc::new(Line { number, time: time::now(), severity: severity(level), message }));
        self.0.newest.send_replace(number);
    }

    /// A sink for a log that passes every line on and keeps a copy here.
    pub fn tee<W: Write>(&self, sink: W) -> Tee<W> {
        Tee { ring: self.clone(), sink }
    }

    /// Lines after a number, oldest first.
    fn after(&self, number: u64) -> Vec<Arc<Line>> {
        self.0.lines.lock().iter().filter(|line| line.number > number).cloned().collect()
    }

    /// Waits for lines after a number.
    pub(crate) async fn next(&self, seen: &mut u64) -> Vec<Value> {
        let mut newest = self.0.newest.subscribe();
        // The sender lives as long as the ring, which we hold.
        drop(newest.wait_for(|newest| newest > seen).await);
        let lines = self.after(*seen);
        *seen = lines.last().map_or(*seen, |line| line.number);
        lines.iter().map(|line| line.event()).collect()
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
        let fits = |line: &&Arc<Line>| {
            line.number < before
                && line.severity.0 >= lowest
                && line.time.as_str() >= since
                && until.is_none_or(|until| line.time.as_str() <= until)
                && line.message.to_lowercase().contains(&wanted)
        };
        let lines = self.0.lines.lock();
        let mut found = lines.iter().rev().filter(fits);
        let page: Vec<&Arc<Line>> = found.by_ref().take(limit).collect();
        let more = found.next().is_some();
        let next = page.last().filter(|_| more).map(|line| line.number);
        let events: Vec<Value> = page.iter().map(|line| line.event()).collect();
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
