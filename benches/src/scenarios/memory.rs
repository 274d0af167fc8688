//! What a client that never reads costs in memory, after little output and after much.
//!
//! The real claustrum is left out: it keeps all output in memory by contract, so that the long
//! output would only show how much memory the machine has.

use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::json;

use super::Bench;
use super::Collected;
use crate::client::spawn_params;
use crate::machine;
use crate::procfs;
use crate::procfs::Memory;
use crate::report;
use crate::report::Report;
use crate::report::Wanted;
use crate::server::Server;
use crate::subject;
use crate::subject::Kind;
use crate::subject::Subject;

const LIMIT: Duration = Duration::from_secs(180);
const SPARE_BYTES: u64 = 1 << 30;

/// Measures both sizes in turn.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let small = 4 << 20;
    let large = bench.size(4 << 30, 64 << 20);
    if bench.subjects_of(&[Kind::Hostel]).is_empty() {
        return Ok(());
    }
    let free = machine::free_bytes(&bench.dir)?;
    ensure!(
        free > large + SPARE_BYTES,
        "needs {} free for the journal, there are {}",
        report::bytes(large + SPARE_BYTES),
        report::bytes(free)
    );
    let mut turn = 0_u32;
    let collected = bench.interleave("memory", &[Kind::Hostel], report, |subject| {
        turn += 1;
        if turn.is_multiple_of(2) {
            let after_large = after(bench, subject, large)?;
            Ok([after(bench, subject, small)?, after_large])
        } else {
            Ok([after(bench, subject, small)?, after(bench, subject, large)?])
        }
    });
    let mut medians = [None; 2];
    for (index, size) in [small, large].into_iter().enumerate() {
        let metric = |what: &str, value: fn(&Memory) -> f64| {
            collected.metric(
                "memory",
                format!("{what} after {}", report::bytes(size)),
                ("MB", 1),
                |outcome: &[Memory; 2]| value(&outcome[index]) / 1e6,
            )
        };
        let resident = metric("resident", |memory| memory.resident as f64);
        medians[index] = resident.median_of("hostel");
        let peak = metric("peak", |memory| memory.peak as f64);
        report.metrics.extend([resident, peak]);
        if is_known(&collected) {
            report.metrics.push(metric("proportional", |memory| memory.proportional.unwrap_or_default() as f64));
        }
    }
    let missing = || "hostel not run".to_owned();
    let [before, after] = medians;
    report.bar(
        "memory",
        format!("MB resident (daemon and keeper) after {}, under 40", report::bytes(large)),
        after.ok_or_else(missing),
        Wanted::AtMost(40.0),
    );
    report.bar(
        "memory",
        format!("resident after {} over resident after {}, at most 1.1", report::bytes(large), report::bytes(small)),
        before.zip(after).map(|(before, after)| after / before).ok_or_else(missing),
        Wanted::AtMost(1.1),
    );
    Ok(())
}

/// Whether every process let us read how its pages are shared.
fn is_known(collected: &Collected<[Memory; 2]>) -> bool {
    collected.0.iter().flat_map(|(_, outcomes)| outcomes.iter().flatten()).all(|memory| memory.proportional.is_some())
}

fn after(bench: &Bench, subject: &Subject, size: u64) -> Result<Memory> {
    let (server, _) = Server::start(subject, &bench.dir)?;
    let mut connection = server.connect()?;
    let command = [subject::program("head")?, "-c".into(), size.to_string(), "/dev/zero".into()];
    let mut params = spawn_params("unread", &command);
    params["wantPid"] = json!(true);
    let result = connection.call("process.spawn", Some(&params))?;
    let child = result["pid"]
        .as_u64()
        .and_then(|pid| u32::try_from(pid).ok())
        .context("process.spawn with wantPid gave no pid")?;
    // From here on nothing is read. The child's end is seen from outside.
    ensure!(
        procfs::wait_until(LIMIT, || procfs::is_reaped(child)),
        "the child had not printed {} after {} s",
        report::bytes(size),
        LIMIT.as_secs()
    );
    let processes = server.processes()?;
    let memory = settled(&processes)?;
    drop(connection);
    let mut reader = server.connect()?;
    let status = reader.call("process.reattach", Some(&json!({"id": "unread", "fromSeq": u32::MAX})))?;
    ensure!(
        status["lastSeq"].as_u64().unwrap_or_default() > size / 32_768,
        "{} were printed, the server has {status}",
        report::bytes(size)
    );
    server.stop()?;
    Ok(memory)
}

/// The memory once it no longer changes, or after two seconds.
pub(super) fn settled(processes: &[u32]) -> Result<Memory> {
    let mut last = procfs::memory_of(processes)?;
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(250));
        let now = procfs::memory_of(processes)?;
        if now.resident.abs_diff(last.resident) < now.resident / 100 {
            return Ok(now);
        }
        last = now;
    }
    Ok(last)
}
