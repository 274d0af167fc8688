//! How long a direct message takes from the sender's request to the event at the receiver: two daemons and a broker, each a
//! process of its own, each writing to the disk on the way; beside a bare WebSocket that sends back what it hears.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::json;

use super::super::Bench;
use crate::codecast::Listening;
use crate::mesh::TEXT;
use crate::mesh::door::Transport;
use crate::mesh::echo::Echo;
use crate::mesh::lab::Lab;
use crate::report::Report;
use crate::stats;
use crate::subject::Kind;
use crate::subject::Subject;

/// Between a message that has come and the next.
const PAUSE: Duration = Duration::from_millis(2);

struct Outcome {
    middle: f64,
    late: f64,
}

/// Measures one message at a time.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = bench.size(1000, 50);
    let collected = bench.interleave("latency", &[Kind::Bare, Kind::Hostel], report, |subject| {
        let mut samples = match subject.kind {
            Kind::Bare => echoed(bench, count)?,
            _ => delivered(bench, subject, count)?,
        };
        // The first ones pay for page faults and cold caches everywhere.
        let settled = &mut samples[usize::try_from(count / 20)?..];
        Ok(Outcome {
            middle: stats::percentile(settled, 0.5) as f64 / 1000.0,
            late: stats::percentile(settled, 0.99) as f64 / 1000.0,
        })
    });
    for (share, value) in [("p50", (|outcome| outcome.middle) as fn(&Outcome) -> f64), ("p99", |outcome| outcome.late)]
    {
        let name = format!("POST to event at the receiver, {share}; bare: WebSocket echo");
        report.metrics.push(collected.metric("latency", name, ("µs", 0), value));
    }
    let why = "three commits lie on the way (sender, broker, receiver), and the bare echo has none";
    report.notes.push(format!("latency: {why}"));
    Ok(())
}

/// There and back through the echo, in nanoseconds.
fn echoed(bench: &Bench, count: u64) -> Result<Vec<u64>> {
    let server = Listening::wait(bench.helper(&["bare-echo"], Some(&bench.dir))?)?;
    let mut echo = Echo::open(server.port())?;
    let mut samples = Vec::with_capacity(usize::try_from(count)?);
    for number in 0..count {
        std::thread::sleep(PAUSE);
        samples.push(echo.round(&format!("{TEXT} {number:08}"))?);
    }
    Ok(samples)
}

/// From the request to the event, in nanoseconds.
fn delivered(bench: &Bench, subject: &Subject, count: u64) -> Result<Vec<u64>> {
    let lab = Lab::start(subject, &bench.dir)?;
    let (from, to) = (lab.alice.door()?, lab.bob.door()?);
    let mut events = to.events()?;
    let mut client = from.client(Transport::Socket)?;
    let mut samples = Vec::with_capacity(usize::try_from(count)?);
    for number in 0..count {
        std::thread::sleep(PAUSE);
        let mark = format!("{number:08}");
        let message = json!({"to": "bob", "message": format!("{TEXT} {mark}")});
        let request = from.request("POST", "/v1/send", Some(&message));
        let begun = Instant::now();
        client.send(&request)?;
        events.wait_for(mark.as_bytes()).with_context(|| format!("message {number}"))?;
        samples.push(u64::try_from(begun.elapsed().as_nanos())?);
        let (status, body) = client.receive()?;
        ensure!(status == 202, "{status} {}", String::from_utf8_lossy(body));
    }
    drop((events, client));
    lab.stop()?;
    Ok(samples)
}
