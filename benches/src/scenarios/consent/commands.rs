//! A command that does nothing, under the session grant: approved, recorded, run and answered.

use std::time::Duration;

use anyhow::Result;

use super::super::Bench;
use crate::bare;
use crate::consent::client;
use crate::consent::client::Loop;
use crate::consent::client::Until;
use crate::consent::proxy::Proxy;
use crate::report::Report;
use crate::report::Wanted;
use crate::subject;
use crate::subject::Kind;
use crate::subject::PROXY;

/// Measures one client and eight.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let program = subject::program("true")?;
    let time = Duration::from_millis(bench.size(4000, 600));
    for (clients, name, bar) in [(1, "1 client", 15.0), (8, "8 clients", 8.0)] {
        let kinds = [Kind::Bare, Kind::Hostel, Kind::SudoProxy];
        let collected = bench.interleave("commands", &kinds, report, |subject| {
            if subject.kind == Kind::Bare {
                let rate = bare::spawn_and_wait(&program, clients, u64::MAX, time)?;
                let each = clients as f64 * 1000.0 / rate;
                return Ok(Loop { rate, middle: each, late: f64::NAN });
            }
            let proxy = Proxy::granted(subject, &bench.dir)?;
            let outcome =
                client::closed_loop(proxy.socket(), std::slice::from_ref(&program), clients, Until::Passed(time))?;
            proxy.stop()?;
            Ok(outcome)
        });
        let rate = collected.metric("commands", format!("`true`, {name}"), ("1/s", 0), |outcome| outcome.rate);
        let middle = collected.metric("commands", format!("`true`, {name}, p50"), ("ms", 2), |outcome| outcome.middle);
        let mut late = collected.metric("commands", format!("`true`, {name}, p99"), ("ms", 2), |outcome| outcome.late);
        late.samples.retain(|(label, _)| *label != "bare");
        let text = format!("{name}: rate, at least {bar:.0} times {PROXY}");
        report.ratio_bar(&rate, text, ("hostel", PROXY), Wanted::AtLeast(bar));
        if let (Some(hostel), Some(bare)) = (rate.median_of("hostel"), rate.median_of("bare")) {
            report.notes.push(format!(
                "commands: {name}: {:.0} µs for each command over a bare spawn and wait ({:.0} against {:.0})",
                1e6 / hostel - 1e6 / bare,
                1e6 / hostel,
                1e6 / bare,
            ));
        }
        report.metrics.extend([rate, middle, late]);
    }
    Ok(())
}
