//! The same through the local surface of a daemon: `POST /v1/send` over the socket and over loopback TCP.
//!
//! The broker is down meanwhile, so that what is measured is accepting alone.

use std::time::Duration;

use anyhow::Result;

use super::super::Bench;
use super::CALLERS;
use crate::mesh::bare_outbox;
use crate::mesh::closed_loop;
use crate::mesh::closed_loop::Until;
use crate::mesh::door::Transport;
use crate::mesh::lab::Lab;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::subject::Kind;

/// Measures 32 connections.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let time = Duration::from_millis(bench.size(2000, 200));
    for (transport, name) in [(Transport::Socket, "the socket"), (Transport::Tcp, "loopback TCP")] {
        let collected = bench.interleave("door", &[Kind::Bare, Kind::Hostel], report, |subject| {
            if subject.kind == Kind::Bare {
                let dir = server::scratch(&bench.dir)?;
                return Ok((bare_outbox::row_by_row(dir.path(), time)?, None));
            }
            let mut lab = Lab::prepare(subject, &bench.dir)?;
            // Once connected, it knows whom it can send to.
            lab.alice.start()?;
            lab.alice.wait_connected()?;
            lab.stop_broker()?;
            let outcome = closed_loop::run(&lab.alice.door()?, transport, "bob", CALLERS, Until::Time(time))?;
            lab.stop()?;
            Ok((outcome.rate, Some((outcome.middle, outcome.late))))
        });
        let rate = collected.metric(
            "door",
            format!("32 connections over {name}; bare: one loop, a commit for each row"),
            ("1/s", 0),
            |(rate, _)| *rate,
        );
        let text =
            format!("32 connections over {name}: rows accepted, at least 4 times SQLite with a commit for each row");
        report.ratio_bar(&rate, text, ("hostel", "bare"), Wanted::AtLeast(4.0));
        report.metrics.push(rate);
        for (at, share) in ["p50", "p99"].into_iter().enumerate() {
            let value = |outcome: &(f64, Option<(f64, f64)>)| {
                outcome.1.map_or(0.0, |(middle, late)| if at == 0 { middle } else { late })
            };
            let mut metric = collected.metric("door", format!("32 connections over {name}, {share}"), ("µs", 0), value);
            metric.samples.retain(|(label, _)| *label != "bare");
            report.metrics.push(metric);
        }
    }
    Ok(())
}
