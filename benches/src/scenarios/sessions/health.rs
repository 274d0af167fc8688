//! The smallest call, asked again as soon as it is answered.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::super::Bench;
use crate::codecast::Listening;
use crate::codecast::closed_loop;
use crate::codecast::daemon::Daemon;
use crate::report::Report;
use crate::report::Wanted;
use crate::subject::Kind;

/// Measures with one connection and with sixteen.
///
/// The handler has a thread for every core, as tokio does it unasked; hostel leaves half of them to the keeper and the
/// agents. So that both are told, with sixteen connections it is also measured on half of them.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let time = Duration::from_millis(bench.size(2000, 200));
    let call = json!({"method": "health.check", "id": "h"});
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let half = (cores / 2).max(1);
    for (connections, threads, name, rates) in [
        (1, cores, "1 connection", "10100–28200"),
        (16, cores, "16 connections", "32200–55300"),
        (16, half, "16 connections, the bare one on half of the cores", "32200–55300"),
    ] {
        let collected = bench.interleave("health", &[Kind::Bare, Kind::Hostel], report, |subject| {
            if subject.kind == Kind::Bare {
                let server = Listening::wait(bench.helper(&["bare-http", &threads.to_string()], Some(&bench.dir))?)?;
                closed_loop::run(server.port(), &call, "\"ok\":true", connections, time)
            } else {
                let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
                let outcome = closed_loop::run(daemon.port(), &call, "\"ok\":true", connections, time)?;
                daemon.stop()?;
                Ok(outcome)
            }
        });
        let rate = collected.metric("health", name, ("1/s", 0), |outcome| outcome.rate).quoted(rates);
        let middle = collected
            .metric("health", format!("{name}, p50"), ("µs", 1), |outcome| outcome.middle)
            .quoted((connections == 1).then_some("27–98"));
        let late = collected.metric("health", format!("{name}, p99"), ("µs", 1), |outcome| outcome.late);
        let text = format!("{name}: rate, at least 0.8 of a bare axum handler");
        report.ratio_bar(&rate, text, ("hostel", "bare"), Wanted::AtLeast(0.8));
        report.metrics.extend([rate, middle, late]);
    }
    Ok(())
}
