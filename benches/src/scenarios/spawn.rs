//! From asking for a program to its exit frame, with a program that does nothing.

use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;

use super::Bench;
use crate::bare;
use crate::client;
use crate::client::Connection;
use crate::client::spawn_params;
use crate::report::Report;
use crate::report::Wanted;
use crate::server::Server;
use crate::subject;
use crate::subject::Kind;
use crate::subject::PEER;
use crate::wire;

const LIMIT: Duration = Duration::from_secs(6);

/// Measures one at a time and sixteen at once.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let program = subject::program("true")?;
    let kinds = [Kind::Bare, Kind::Hostel, Kind::Claustrum];
    for (width, count, name) in [(1, bench.size(500, 20), "one at a time"), (16, bench.size(1600, 64), "16 at once")] {
        let collected = bench.interleave("spawn", &kinds, report, |subject| {
            if subject.kind == Kind::Bare {
                bare::spawn_and_wait(&program, width, count, LIMIT)
            } else {
                let (server, _) = Server::start(subject, &bench.dir)?;
                let rate = spawn_loop(server.connect()?, &program, width, count)?;
                server.stop()?;
                Ok(rate)
            }
        });
        let rate = collected.metric("spawn", name, ("1/s", 0), |rate| *rate);
        report.ratio_bar(
            &rate,
            format!("{name}: rate, at least 0.9 times claustrum 1.4.0"),
            ("hostel", PEER),
            Wanted::AtLeast(0.9),
        );
        if let (Some(hostel), Some(bare)) = (rate.median_of("hostel"), rate.median_of("bare")) {
            report.notes.push(format!(
                "spawn: {name}: {:.0} µs for each over a bare spawn and wait ({:.0} against {:.0})",
                1e6 / hostel - 1e6 / bare,
                1e6 / hostel,
                1e6 / bare,
            ));
        }
        report.metrics.push(rate);
    }
    Ok(())
}

/// Keeps `width` programs under way on one connection; returns how many ended per second.
fn spawn_loop(mut connection: Connection, program: &str, width: usize, count: u64) -> Result<f64> {
    // A process is done when both its reply and its exit frame have come, in either order.
    let mut awaited: HashMap<u64, u8> = HashMap::new();
    let (mut begun, mut done) = (0, 0);
    let start = Instant::now();
    loop {
        while awaited.len() < width && begun < count && start.elapsed() < LIMIT {
            begun += 1;
            let params = spawn_params(&begun.to_string(), &[program.to_owned()]);
            let id = connection.send("process.spawn", Some(&params))?;
            ensure!(id == begun, "request {id} for process {begun}");
            awaited.insert(begun, 2);
        }
        if awaited.is_empty() {
            break;
        }
        let line = connection.next_line()?;
        let number = if wire::is_frame(line) {
            let frame = wire::frame(line)?;
            ensure!(frame.kind == wire::Kind::Exit { code: 0 }, "an unexpected frame: {frame:?}");
            std::str::from_utf8(frame.process)?.parse()?
        } else {
            client::reply(line)?.0
        };
        let left = awaited.get_mut(&number).with_context(|| format!("process {number} was not asked for"))?;
        *left -= 1;
        if *left == 0 {
            awaited.remove(&number);
            done += 1;
        }
    }
    Ok(f64::from(done) / start.elapsed().as_secs_f64())
}
