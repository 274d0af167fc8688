//! The smallest request, asked again as soon as it is answered.
//!
//! The client is one thread however many connections there are, so that it costs the same beside
//! every server and leaves the rest of the machine to it.

use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;

use super::Bench;
use crate::client;
use crate::client::PATIENCE;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::server::Server;
use crate::stats;
use crate::subject::Kind;
use crate::subject::PEER;
use crate::wire;

/// A bound on the memory of one measure, far above what any server reaches in its time.
const MOST_SAMPLES: usize = 4_000_000;

/// What a closed loop found.
pub(super) struct Outcome {
    pub(super) rate: f64,
    pub(super) middle: f64,
    pub(super) late: f64,
}

/// Measures with one connection and with sixteen.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let time = Duration::from_millis(bench.size(3000, 200));
    let kinds = [Kind::Bare, Kind::Hostel, Kind::Claustrum];
    for (connections, name, least) in [(1, "1 connection", 1.2), (16, "16 connections", 1.5)] {
        let collected = bench.interleave("ping", &kinds, report, |subject| {
            if subject.kind == Kind::Bare {
                let dir = server::scratch(&bench.dir)?;
                let socket = dir.path().join("s");
                let _server = bench.helper(&["bare-ping"], Some(&socket))?;
                closed_loop(&socket, "", connections, time)
            } else {
                let (server, _) = Server::start(subject, &bench.dir)?;
                let outcome = closed_loop(server.socket(), server.token(), connections, time)?;
                server.stop()?;
                Ok(outcome)
            }
        });
        let rate = collected.metric("ping", name, ("1/s", 0), |outcome| outcome.rate);
        let middle = collected.metric("ping", format!("{name}, p50"), ("µs", 1), |outcome| outcome.middle);
        let late = collected.metric("ping", format!("{name}, p99"), ("µs", 1), |outcome| outcome.late);
        report.ratio_bar(
            &rate,
            format!("{name}: rate, at least {least} times claustrum 1.4.0"),
            ("hostel", PEER),
            Wanted::AtLeast(least),
        );
        report.ratio_bar(
            &late,
            format!("{name}: p99, no worse than claustrum 1.4.0"),
            ("hostel", PEER),
            Wanted::AtMost(1.0),
        );
        report.metrics.extend([rate, middle, late]);
    }
    Ok(())
}

/// A connection that has one request under way.
struct Caller {
    stream: UnixStream,
    asked: Instant,
    got: usize,
}

/// Asks `connections` times at once for `time`, after a tenth of it as a warm-up.
pub(super) fn closed_loop(socket: &Path, token: &str, connections: usize, time: Duration) -> Result<Outcome> {
    let request = wire::request(1, "server.ping", None, token);
    let mut callers = Vec::with_capacity(connections);
    let mut expected = Vec::new();
    for _ in 0..connections {
        let mut stream = UnixStream::connect(socket).context("connecting")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        expected = first_answer(&mut stream, &request)?;
        callers.push(Caller { stream, asked: Instant::now(), got: 0 });
    }

    ask_for(&mut callers, &request, &expected, time / 10)?;
    let begun = Instant::now();
    let mut samples = ask_for(&mut callers, &request, &expected, time)?;
    let rate = samples.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Outcome {
        rate,
        middle: stats::percentile(&mut samples, 0.5) as f64 / 1000.0,
        late: stats::percentile(&mut samples, 0.99) as f64 / 1000.0,
    })
}

/// The reply every later one must equal, since the request is always the same.
fn first_answer(stream: &mut UnixStream, request: &[u8]) -> Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    while answer.last() != Some(&b'\n') {
        let count = stream.read(&mut part).context("waiting for the first answer")?;
        ensure!(count > 0, "the server closed the connection");
        answer.extend_from_slice(&part[..count]);
        ensure!(answer.len() < 4096, "the answer to a ping is too long");
    }
    let (id, result) = client::reply(&answer)?;
    ensure!(id == 1 && result["pong"] == serde_json::Value::Bool(true), "a ping was answered with {result}");
    Ok(answer)
}

/// The latencies in nanoseconds. All requests are answered when it returns.
fn ask_for(callers: &mut [Caller], request: &[u8], expected: &[u8], time: Duration) -> Result<Vec<u64>> {
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
    ensure!(count > 0, "no ping was answered for {} s", PATIENCE.as_secs());
    Ok(waiting.iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty()).map(|(index, _)| index).collect())
}

impl Caller {
    fn ask(&mut self, request: &[u8]) -> Result<()> {
        self.got = 0;
        self.asked = Instant::now();
        self.stream.write_all(request).context("asking")
    }

    /// Reads what is there; true when the whole answer has come.
    fn take(&mut self, expected: &[u8]) -> Result<bool> {
        let mut part = [0; 4096];
        let count = self.stream.read(&mut part).context("waiting for an answer")?;
        ensure!(count > 0, "the server closed the connection");
        let end = self.got + count;
        ensure!(
            expected.get(self.got..end) == Some(&part[..count]),
            "an unexpected answer: {}",
            String::from_utf8_lossy(&part[..count])
        );
        self.got = end;
        Ok(end == expected.len())
    }
}
