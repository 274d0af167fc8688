//! One child's output to one client, as fast as it goes.

use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use serde_json::Value;

use super::Bench;
use super::drained;
use crate::procfs;
use crate::report;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::server::Helper;
use crate::server::Server;
use crate::subject;
use crate::subject::Kind;
use crate::subject::PEER;
use crate::subject::Subject;

const LIMIT: Duration = Duration::from_secs(120);

struct Outcome {
    rate: f64,
    child_cpu: f64,
    server_cpu: f64,
    client_cpu: f64,
}

/// Measures and judges.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let size = bench.size(1 << 30, 32 << 20);
    let command = [subject::program("head")?, "-c".into(), size.to_string(), "/dev/zero".into()];
    let gib = size as f64 / f64::from(1 << 30);
    let kinds = [Kind::Bare, Kind::Hostel, Kind::Claustrum];
    let collected = bench.interleave("stream", &kinds, report, |subject| {
        let (seconds, cpus) = if subject.kind == Kind::Bare {
            bare(bench, &command, size)?
        } else {
            served(bench, subject, &command, size)?
        };
        let [child, server, client] = cpus.map(|cpu| cpu / gib);
        Ok(Outcome { rate: gib / seconds, child_cpu: child, server_cpu: server, client_cpu: client })
    });

    let rate = collected
        .metric("stream", format!("{} from one child", report::bytes(size)), ("GiB/s", 2), |outcome| outcome.rate);
    let cpu = ("s/GiB", 2);
    let child = collected.metric("stream", "CPU of the child", cpu, |outcome| outcome.child_cpu);
    let server = collected.metric("stream", "CPU of the server", cpu, |outcome| outcome.server_cpu);
    let client = collected.metric("stream", "CPU of the client", cpu, |outcome| outcome.client_cpu);

    report.ratio_bar(&rate, "at least 0.9 of the bare loop", ("hostel", "bare"), Wanted::AtLeast(0.9));
    let to_bare = rate.ratio("hostel", "bare").map(|ratio| ratio.of_medians);
    // The lower of two limits: reaching the known one is enough when the other is unknown.
    let share_of_limit = match (to_bare, rate.median_of("hostel"), rate.median_of(PEER)) {
        (Some(to_bare), Some(hostel), Some(peer)) => Ok((to_bare / 1.1).max(hostel / (2.0 * peer))),
        (Some(to_bare), _, None) if to_bare >= 1.1 => Ok(to_bare / 1.1),
        (Some(to_bare), _, None) => {
            Err(format!("real claustrum unavailable, and {to_bare:.2} of the bare loop decides nothing alone"))
        }
        _ => Err(report::unmeasured(&rate, "hostel", "bare")),
    };
    report.bar(
        "stream",
        "share of the smaller of 2 times claustrum 1.4.0 and 1.1 of the bare loop, at least 1",
        share_of_limit,
        Wanted::AtLeast(1.0),
    );
    report.metrics.extend([rate, child, server, client]);
    Ok(())
}

fn bare(bench: &Bench, command: &[String], size: u64) -> Result<(f64, [f64; 3])> {
    let dir = server::scratch(&bench.dir)?;
    let socket = dir.path().join("s");
    let server = bench.helper(&["bare-stream"], Some(&socket))?;
    let client = bench.drain((&socket, ""), "stream", command, false);
    let client = drained(&finish(client)?, size)?;
    let own: Value = serde_json::from_str(server.finish(LIMIT)?.trim())?;
    let number = |key: &str| own[key].as_f64().context("the bare loop reported no CPU time");
    Ok((client.seconds, [number("child_cpu")?, number("cpu")?, client.cpu]))
}

fn served(bench: &Bench, subject: &Subject, command: &[String], size: u64) -> Result<(f64, [f64; 3])> {
    let (server, _) = Server::start(subject, &bench.dir)?;
    let processes = server.processes()?;
    let before = procfs::cpu_of(&processes)?;
    let client = bench.drain((server.socket(), server.token()), "stream", command, false);
    let client = drained(&finish(client)?, size)?;
    let after = procfs::cpu_of(&processes)?;
    server.stop()?;
    Ok((client.seconds, [after.reaped_seconds - before.reaped_seconds, after.seconds - before.seconds, client.cpu]))
}

fn finish(mut client: std::process::Command) -> Result<String> {
    Helper(client.spawn().context("starting the client")?).finish(LIMIT).context("the client")
}
