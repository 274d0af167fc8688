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
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let time = Duration::from_millis(bench.size(2000, 200));
    let call = json!({"method": "health.check", "id": "h"});
    for (connections, name, rates) in [(1, "1 connection", "10100–28200"), (16, "16 connections", "32200–55300")] {
        let collected = bench.interleave("health", &[Kind::Bare, Kind::Hostel], report, |subject| {
            if subject.kind == Kind::Bare {
                let server = Listening::wait(bench.helper(&["bare-http"], Some(&bench.dir))?)?;
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
