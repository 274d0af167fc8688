//! The same message sent again and again, each as soon as the one before it is accepted, on kept connections.
//!
//! The client is one thread however many connections there are, so that it leaves the rest of the machine to the daemon.
//! No id is given: the daemon makes one, so every message is a new one.

use std::io::Read as _;
use std::io::Write as _;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use serde_json::json;

use super::TEXT;
use super::door::Door;
use super::door::Transport;
use super::door::Wire;
use crate::client::PATIENCE;
use crate::codecast::http;
use crate::stats;

/// When it is enough.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// After a tenth of this as a warm-up, so long.
    Time(Duration),
    /// So many were accepted.
    Accepted(usize),
}

/// What was found.
pub(crate) struct Outcome {
    pub(crate) rate: f64,
    /// Microseconds.
    pub(crate) middle: f64,
    pub(crate) late: f64,
}

/// A connection that has one message under way.
struct Caller {
    wire: Wire,
    asked: Instant,
    answer: Vec<u8>,
}

/// Sends to `to`. Every message must be accepted.
pub(crate) fn run(door: &Door, transport: Transport, to: &str, connections: usize, until: Until) -> Result<Outcome> {
    let request = door.request("POST", "/v1/send", Some(&json!({"to": to, "message": TEXT})));
    let mut callers = Vec::with_capacity(connections);
    for _ in 0..connections {
        let wire = door.connect(transport)?;
        callers.push(Caller { wire, asked: Instant::now(), answer: Vec::with_capacity(1024) });
    }
    if let Until::Time(time) = until {
        send_for(&mut callers, &request, Until::Time(time / 10))?;
    }
    let begun = Instant::now();
    let mut samples = send_for(&mut callers, &request, until)?;
    let rate = samples.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Outcome {
        rate,
        middle: stats::percentile(&mut samples, 0.5) as f64 / 1000.0,
        late: stats::percentile(&mut samples, 0.99) as f64 / 1000.0,
    })
}

/// The latencies in nanoseconds. All messages are answered when it returns.
fn send_for(callers: &mut [Caller], request: &[u8], until: Until) -> Result<Vec<u64>> {
    let mut samples = Vec::with_capacity(1 << 16);
    let begun = Instant::now();
    let mut asked = callers.len();
    for caller in callers.iter_mut() {
        caller.ask(request)?;
    }
    let mut open = callers.len();
    while open > 0 {
        for index in ready(callers)? {
            let caller = &mut callers[index];
            if !caller.take()? {
                continue;
            }
            samples.push(u64::try_from(caller.asked.elapsed().as_nanos())?);
            let enough = match until {
                Until::Time(time) => begun.elapsed() >= time,
                Until::Accepted(count) => asked >= count,
            };
            if enough {
                open -= 1;
            } else {
                asked += 1;
                caller.ask(request)?;
            }
        }
    }
    Ok(samples)
}

/// The callers that can read.
fn ready(callers: &[Caller]) -> Result<Vec<usize>> {
    let mut waiting: Vec<PollFd<'_>> = callers.iter().map(|caller| PollFd::new(&caller.wire, PollFlags::IN)).collect();
    let limit = Timespec { tv_sec: i64::try_from(PATIENCE.as_secs())?, tv_nsec: 0 };
    let count = rustix::event::poll(&mut waiting, Some(&limit))?;
    ensure!(count > 0, "nothing was accepted for {} s", PATIENCE.as_secs());
    Ok(waiting.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(index, _)| index).collect())
}

impl Caller {
    fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.answer.clear();
        self.asked = Instant::now();
        self.wire.write_all(request).context("sending")
    }

    /// Reads what is there; true when the whole answer has come.
    fn take(&mut self) -> Result<bool> {
        let mut part = [0; 4096];
        let count = self.wire.read(&mut part).context("waiting for an answer")?;
        ensure!(count > 0, "the daemon closed the connection");
        self.answer.extend_from_slice(&part[..count]);
        let Some(whole) = http::whole_length(&self.answer)? else {
            return Ok(false);
        };
        if self.answer.len() < whole {
            return Ok(false);
        }
        ensure!(
            self.answer.len() == whole && self.answer.starts_with(b"HTTP/1.1 202 "),
            "not accepted: {}",
            String::from_utf8_lossy(&self.answer)
        );
        Ok(true)
    }
}
