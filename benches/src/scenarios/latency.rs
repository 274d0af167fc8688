//! How long a short line takes from a child's write to a client's read.

use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;

use super::Bench;
use crate::client::Connection;
use crate::client::spawn_params;
use crate::lines::now_ns;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::server::Server;
use crate::stats;
use crate::subject::Kind;
use crate::wire;

struct Outcome {
    middle: f64,
    late: f64,
}

/// Measures at a brisk pace and at one that lets the cores go to sleep in between.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let brisk = bench.size(4000, 200);
    let slow = bench.size(300, 20);
    for (micros, count, pace) in [(500, brisk, "0.5 ms"), (10_000, slow, "10 ms")] {
        let kinds = [Kind::Bare, Kind::Hostel, Kind::Claustrum];
        let collected = bench.interleave("latency", &kinds, report, |subject| {
            if subject.kind == Kind::Bare {
                let dir = server::scratch(&bench.dir)?;
                let socket = dir.path().join("s");
                let loop_process = bench.helper(&["bare-stream"], Some(&socket))?;
                let outcome = measure(bench, Connection::open(&socket, "")?, micros, count)?;
                loop_process.finish(Duration::from_secs(10))?;
                Ok(outcome)
            } else {
                let (server, _) = Server::start(subject, &bench.dir)?;
                let outcome = measure(bench, server.connect()?, micros, count)?;
                server.stop()?;
                Ok(outcome)
            }
        });
        let middle =
            collected.metric("latency", format!("a line each {pace}, p50"), ("µs", 0), |outcome| outcome.middle);
        let late = collected.metric("latency", format!("a line each {pace}, p99"), ("µs", 0), |outcome| outcome.late);
        let difference = match (middle.median_of("hostel"), middle.median_of("bare")) {
            (Some(hostel), Some(bare)) => Ok(hostel - bare),
            _ => Err(crate::report::unmeasured(&middle, "hostel", "bare")),
        };
        report.bar(
            "latency",
            format!("µs over the bare loop at the median, a line each {pace}, at most 120"),
            difference,
            Wanted::AtMost(120.0),
        );
        report.metrics.extend([middle, late]);
    }
    Ok(())
}

fn measure(bench: &Bench, mut connection: Connection, micros: u64, count: u64) -> Result<Outcome> {
    let program = bench.own_program.to_str().context("this program's path")?;
    let command = [program.to_owned(), "lines".to_owned(), micros.to_string(), count.to_string()];
    connection.send("process.spawn", Some(&spawn_params("lines", &command)))?;
    let mut samples: Vec<u64> = Vec::with_capacity(usize::try_from(count)?);
    let mut unfinished: Vec<u8> = Vec::new();
    loop {
        let line = connection.next_line()?;
        let arrived = now_ns();
        if !wire::is_frame(line) {
            crate::client::reply(line)?;
            continue;
        }
        let frame = wire::frame(line)?;
        if let wire::Kind::Exit { code } = frame.kind {
            ensure!(code == 0, "the printing child ended with {code}");
            break;
        }
        base64_simd::STANDARD.decode_append(frame.data, &mut unfinished).context("a frame's data is not base64")?;
        // The pump may have cut anywhere; only whole lines are read.
        while let Some(end) = memchr::memchr(b'\n', &unfinished) {
            let written: u64 = std::str::from_utf8(&unfinished[..end])?.parse()?;
            samples.push(arrived.saturating_sub(written));
            unfinished.drain(..=end);
        }
    }
    ensure!(samples.len() as u64 == count, "{} lines of {count} came", samples.len());
    // The first lines pay for page faults and cold caches everywhere.
    let settled = &mut samples[usize::try_from(count / 20)?..];
    Ok(Outcome {
        middle: stats::percentile(settled, 0.5) as f64 / 1000.0,
        late: stats::percentile(settled, 0.99) as f64 / 1000.0,
    })
}
