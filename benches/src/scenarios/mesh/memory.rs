//! What a mesh daemon takes that has nothing to do: connected, with a peer, nobody asks for anything.

use std::time::Duration;

use anyhow::Result;

use super::super::Bench;
use super::super::memory::settled;
use crate::mesh::lab::Lab;
use crate::procfs::Memory;
use crate::report::Report;
use crate::report::Wanted;
use crate::subject::Kind;

/// How long it is left alone before it is looked at.
const ALONE: Duration = Duration::from_secs(3);

/// Measures a daemon.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let collected = bench.interleave("memory", &[Kind::Hostel], report, |subject| {
        let lab = Lab::start(subject, &bench.dir)?;
        std::thread::sleep(ALONE);
        let memory = settled(&[lab.bob.pid()?])?;
        lab.stop()?;
        Ok(memory)
    });
    let metric = |what: &str, value: fn(&Memory) -> f64| {
        collected.metric("memory", format!("{what}, an idle daemon"), ("MB", 1), |memory: &Memory| value(memory) / 1e6)
    };
    let resident = metric("resident", |memory| memory.resident as f64);
    let value = resident.median_of("hostel").ok_or_else(|| "hostel not run".to_owned());
    report.bar("memory", "MB resident in an idle mesh daemon, under 15", value, Wanted::AtMost(15.0));
    report.metrics.push(resident);
    let known = collected.0.iter().flat_map(|(_, all)| all).all(|memory| memory.proportional.is_some());
    if known {
        report.metrics.push(metric("proportional", |memory| memory.proportional.unwrap_or_default() as f64));
        report.metrics.push(metric("private", |memory| memory.private.unwrap_or_default() as f64));
    } else {
        report.notes.push("memory: only root can read how the daemon's pages are shared".to_owned());
    }
    Ok(())
}
