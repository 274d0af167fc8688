//! What a guard adds to the start of an agent: turns in processes of their own, with and without one, alternating in the
//! same daemon.

use anyhow::Result;
use anyhow::ensure;

use super::super::Bench;
use super::turns::messages;
use crate::codecast::daemon::AGENT;
use crate::codecast::daemon::Daemon;
use crate::codecast::daemon::UNGUARDED;
use crate::report::Report;
use crate::report::Wanted;
use crate::stats;
use crate::subject::Kind;

/// The most that a guard may add, in milliseconds.
const MOST_ADDED_MS: f64 = 5.0;

/// Milliseconds of one turn each, medians.
struct Turns {
    without: f64,
    with: f64,
}

pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let pairs = bench.size(200, 10);
    let collected = bench.interleave("guard", &[Kind::Hostel], report, |subject| {
        let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
        let mut client = daemon.client()?;
        let guarded = client.create(AGENT, &daemon.work())?;
        let unguarded = client.create(UNGUARDED, &daemon.work())?;
        ensure!(daemon.native()?.guard()? == "full", "this machine has no complete guard");
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            without.push(messages(daemon.port(), &unguarded, 1)?);
            with.push(messages(daemon.port(), &guarded, 1)?);
        }
        daemon.stop()?;
        Ok(Turns { without: stats::median(&without), with: stats::median(&with) })
    });
    let metric = |what: &str, value: fn(&Turns) -> f64| {
        collected.metric("guard", format!("a trivial CLI, {what}"), ("ms", 2), value)
    };
    let added = metric("added by the guard", |turns| turns.with - turns.without);
    let text = format!("the guard adds at most {MOST_ADDED_MS} ms to the start of an agent");
    let median = added.median_of("hostel").ok_or_else(|| "no run was finished".to_owned());
    report.bar("guard", text, median, Wanted::AtMost(MOST_ADDED_MS));
    report.metrics.extend([
        metric("without a guard", |turns| turns.without),
        metric("with a guard", |turns| turns.with),
        added,
        collected.metric("guard", "a trivial CLI, with a guard over without", ("times", 2), |turns: &Turns| {
            turns.with / turns.without.max(f64::MIN_POSITIVE)
        }),
    ]);
    Ok(())
}
