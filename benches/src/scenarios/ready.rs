//! How soon after `-serve` a client is answered, each time in a house that did not exist before.

use anyhow::Result;

use super::Bench;
use crate::report::Report;
use crate::report::Wanted;
use crate::server::Server;
use crate::stats;
use crate::subject::Kind;
use crate::subject::PEER;

struct Outcome {
    first_ping: f64,
    launcher: f64,
}

/// Measures several starts per run.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let starts = bench.size(5, 1);
    let kinds = [Kind::Hostel, Kind::Claustrum];
    let collected = bench.interleave("ready", &kinds, report, |subject| {
        let (mut pings, mut launchers) = (Vec::new(), Vec::new());
        for _ in 0..starts {
            let (server, start) = Server::start(subject, &bench.dir)?;
            server.stop()?;
            pings.push(start.first_ping.as_secs_f64() * 1000.0);
            launchers.push(start.launcher.as_secs_f64() * 1000.0);
        }
        Ok(Outcome { first_ping: stats::median(&pings), launcher: stats::median(&launchers) })
    });
    let first_ping = collected.metric("ready", "first ping", ("ms", 1), |outcome| outcome.first_ping);
    let launcher = collected.metric("ready", "command returned", ("ms", 1), |outcome| outcome.launcher);
    report.ratio_bar(&first_ping, "first ping, no later than claustrum 1.4.0", ("hostel", PEER), Wanted::AtMost(1.0));
    report.metrics.extend([first_ping, launcher]);
    Ok(())
}
