//! The same call again and again, as soon as it is answered, on one or more kept connections.
//!
//! The client is one thread however many connections there are, so that it costs the same beside every server and
//! leaves the rest of the machine to it.

use std::io::Read as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use memchr::memmem;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use serde_json::Value;

use super::http;
use crate::client::PATIENCE;
use crate::stats;

/// A bound on the memory of one measure, far above what any server reaches in its time.
const MOST_SAMPLES: usize = 4_000_000;

/// What was found.
pub(crate) struct Outcome {
    pub(crate) rate: f64,
    /// Microseconds.
    pub(crate) middle: f64,
    pub(crate) late: f64,
}

/// A connection that has one call under way.
struct Caller {
    stream: TcpStream,
    asked: Instant,
    answer: Vec<u8>,
}

/// Calls for `time`, after a tenth of it as a warm-up. Every answer must be a success that holds `expected`.
pub(crate) fn run(port: u16, call: &Value, expected: &str, connections: usize, time: Duration) -> Result<Outcome> {
    let request = http::request(call);
    let mut callers = Vec::with_capacity(connections);
    for _ in 0..connections {
        callers.push(Caller { stream: http::connect(port)?, asked: Instant::now(), answer: Vec::with_capacity(1024) });
    }
    ask_for(&mut callers, &request, expected, time / 10)?;
    let begun = Instant::now();
    let mut samples = ask_for(&mut callers, &request, expected, time)?;
    let rate = samples.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Outcome {
        rate,
        middle: stats::percentile(&mut samples, 0.5) as f64 / 1000.0,
        late: stats::percentile(&mut samples, 0.99) as f64 / 1000.0,
    })
}

/// The latencies in nanoseconds. All calls are answered when it returns.
fn ask_for(callers: &mut [Caller], request: &[u8], expected: &str, time: Duration) -> Result<Vec<u64>> {
    let mut samples = Vec::with_capacity(1 << 16);
    let begun = Instant::now();
    for caller in callers.iter_mut() {
        caller.ask(request)?;
    }
    let mut open = callers.len();
    while open > 0 {
        for index in ready(callers)? {
            let caller = &mut callers[index];
            if caller.take(expected)? {
                samples.push(u64::try_from(caller.asked.elapsed().as_nanos())?);
                if begun.elapsed() < time && samples.len() < MOST_SAMPLES {
                    caller.ask(request)?;
                } else {
                    open -= 1;
                }
            }
        }
    }
    Ok(samples)
}

/// The callers that can read. With one there is nothing to choose from: its read waits itself.
fn ready(callers: &[Caller]) -> Result<Vec<usize>> {
    if callers.len() == 1 {
        return Ok(vec![0]);
    }
    let mut waiting: Vec<PollFd<'_>> =
        callers.iter().map(|caller| PollFd::new(&caller.stream, PollFlags::IN)).collect();
    let limit = Timespec { tv_sec: i64::try_from(PATIENCE.as_secs())?, tv_nsec: 0 };
    let count = rustix::event::poll(&mut waiting, Some(&limit))?;
    ensure!(count > 0, "no call was answered for {} s", PATIENCE.as_secs());
    Ok(waiting.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(index, _)| index).collect())
}

impl Caller {
    fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.answer.clear();
        self.asked = Instant::now();
        self.stream.write_all(request).context("asking")
    }

    /// Reads what is there; true when the whole answer has come.
    fn take(&mut self, expected: &str) -> Result<bool> {
        let mut part = [0; 4096];
        let count = self.stream.read(&mut part).context("waiting for an answer")?;
        ensure!(count > 0, "the server closed the connection");
        self.answer.extend_from_slice(&part[..count]);
        let Some(whole) = http::whole_length(&self.answer)? else {
            return Ok(false);
        };
        if self.answer.len() < whole {
            return Ok(false);
        }
        ensure!(
            self.answer.starts_with(b"HTTP/1.1 200 ")
                && self.answer.len() == whole
                && memmem::find(&self.answer, expected.as_bytes()).is_some(),
            "an unexpected answer: {}",
            String::from_utf8_lossy(&self.answer)
        );
        Ok(true)
    }
}
