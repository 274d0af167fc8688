//! Sessions that are on disk when their maker hears of them, beside SQLite alone.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use super::super::Bench;
use crate::codecast::closed_loop;
use crate::codecast::daemon::AGENT;
use crate::codecast::daemon::Daemon;
use crate::codecast::group_commit;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::subject::Kind;

/// Measures with one connection and with sixteen.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let time = Duration::from_millis(bench.size(2000, 200));
    for (connections, name, rates) in
        [(1, "1 connection", "9400–25500, nothing kept"), (16, "16 connections", "27100–35900, nothing kept")]
    {
        let collected = bench.interleave("create", &[Kind::Bare, Kind::Hostel], report, |subject| {
            if subject.kind == Kind::Bare {
                let dir = server::scratch(&bench.dir)?;
                return group_commit::run(dir.path(), connections, time);
            }
            let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
            let params = json!({"path": daemon.work(), "cli_type": AGENT});
            let call = json!({"method": "session.create", "params": params, "id": "c"});
            let outcome = closed_loop::run(daemon.port(), &call, "\"sessionId\":", connections, time)?;
            daemon.stop()?;
            Ok(outcome.rate)
        });
        let rate = collected.metric("create", format!("{name}, durable"), ("1/s", 0), |rate| *rate).quoted(rates);
        let text = format!("{name}: rate, at least 0.3 of SQLite alone with group commit");
        report.ratio_bar(&rate, text, ("hostel", "bare"), Wanted::AtLeast(0.3));
        report.metrics.push(rate);
    }
    Ok(())
}
