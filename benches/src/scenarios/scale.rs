//! Many children and many idle connections at once.

use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use rustix::process::Resource;
use rustix::process::Rlimit;
use serde_json::json;

use super::Bench;
use super::ping;
use crate::client;
use crate::client::Connection;
use crate::client::spawn_params;
use crate::procfs;
use crate::report::Report;
use crate::report::Wanted;
use crate::server::Server;
use crate::subject;
use crate::subject::Kind;
use crate::subject::Subject;
use crate::wire;

/// Requests under way at once, so that neither side's socket buffer fills.
const WINDOW: u64 = 64;
/// Descriptors of ours beyond the connections.
const SPARE_DESCRIPTORS: u64 = 100;

struct Outcome {
    children: f64,
    connections: f64,
    spawn_seconds: f64,
    resident: f64,
    ping_before: f64,
    ping_among: f64,
}

/// Measures whether it works, what it takes, and whether others still get answers.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = bench.size(1000, 50);
    let kinds = [Kind::Hostel, Kind::Claustrum];
    let collected = bench.interleave("scale", &kinds, report, |subject| measure(bench, subject, count));
    let each = |name: &str| format!("{count} {name}");
    let whole = ("", 0);
    let metrics = [
        collected.metric("scale", each("children: running"), whole, |it| it.children),
        collected.metric("scale", each("connections: answered"), whole, |it| it.connections),
        collected.metric("scale", each("children: time to start"), ("s", 2), |it| it.spawn_seconds),
        collected.metric("scale", each("of both: resident"), ("MB", 1), |it| it.resident / 1e6),
        collected.metric("scale", "ping p50 before", ("µs", 1), |it| it.ping_before),
        collected.metric("scale", "ping p50 among them", ("µs", 1), |it| it.ping_among),
    ];
    for (metric, what) in metrics.iter().zip(["children at once", "idle connections"]) {
        report.bar(
            "scale",
            format!("{what}, {count}"),
            metric
                .of("hostel")
                .map(|samples| crate::stats::range(samples).0)
                .ok_or_else(|| "hostel not run".to_owned()),
            Wanted::AtLeast(count as f64),
        );
    }
    report.metrics.extend(metrics);
    Ok(())
}

fn measure(bench: &Bench, subject: &Subject, count: u64) -> Result<Outcome> {
    let (server, _) = Server::start(subject, &bench.dir)?;
    // Only now, so that the server started with the limit everybody has.
    let _limit = DescriptorLimit::raise(count + SPARE_DESCRIPTORS)?;
    let time = Duration::from_millis(bench.size(1000, 100));
    let before = ping::closed_loop(server.socket(), server.token(), 1, time)?;

    let mut control = server.connect()?;
    let program = subject::program("cat")?;
    let start = Instant::now();
    let pids = start_children(&mut control, &program, count)?;
    let spawn_seconds = start.elapsed().as_secs_f64();

    let mut idle = Vec::new();
    for number in 0..count {
        let mut connection = server.connect_small().with_context(|| format!("connection {number}"))?;
        connection.ping().with_context(|| format!("connection {number}"))?;
        idle.push(connection);
    }
    let among = ping::closed_loop(server.socket(), server.token(), 1, time)?;
    let memory = procfs::memory_of(&server.processes()?)?;
    let running = pids.iter().filter(|pid| procfs::is_running(**pid)).count();

    // Each connection must still be one, not merely have been accepted once.
    let mut answered = 0;
    for connection in &mut idle {
        connection.ping()?;
        answered += 1;
    }
    drop(idle);
    end_children(&mut control, count)?;
    server.stop()?;
    Ok(Outcome {
        children: running as f64,
        connections: f64::from(answered),
        spawn_seconds,
        resident: memory.resident as f64,
        ping_before: before.middle,
        ping_among: among.middle,
    })
}

/// Starts `count` children that wait for input; returns their process ids.
fn start_children(control: &mut Connection, program: &str, count: u64) -> Result<Vec<u32>> {
    let mut pids = Vec::new();
    let mut sent = 0;
    while (pids.len() as u64) < count {
        while sent < count && sent - (pids.len() as u64) < WINDOW {
            sent += 1;
            let mut params = spawn_params(&format!("c{sent}"), &[program.to_owned()]);
            params["wantPid"] = json!(true);
            control.send("process.spawn", Some(&params))?;
        }
        let line = control.next_line()?;
        ensure!(!wire::is_frame(line), "a waiting child spoke: {}", String::from_utf8_lossy(line));
        let (_, result) = client::reply(line)?;
        let pid = result["pid"].as_u64().context("a spawn gave no pid")?;
        pids.push(u32::try_from(pid)?);
    }
    Ok(pids)
}

/// Kills the children and waits for every exit frame.
fn end_children(control: &mut Connection, count: u64) -> Result<()> {
    let (mut sent, mut exits) = (0, 0);
    while exits < count {
        while sent < count && sent - exits < WINDOW {
            sent += 1;
            let params = json!({"id": format!("c{sent}"), "signal": "KILL"});
            control.send("process.kill", Some(&params))?;
        }
        let line = control.next_line().context("waiting for killed children")?;
        if wire::is_frame(line) {
            if matches!(wire::frame(line)?.kind, wire::Kind::Exit { .. }) {
                exits += 1;
            }
        } else {
            client::reply(line)?;
        }
    }
    Ok(())
}

/// A higher limit of open files for this process, as long as it lives.
struct DescriptorLimit(Rlimit);

impl DescriptorLimit {
    fn raise(least: u64) -> Result<DescriptorLimit> {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let raised = Rlimit { current: before.maximum, maximum: before.maximum };
        rustix::process::setrlimit(Resource::Nofile, raised).context("raising the file limit")?;
        let limit = DescriptorLimit(before);
        ensure!(raised.current.is_none_or(|current| current >= least), "the limit of open files is below {least}");
        Ok(limit)
    }
}

impl Drop for DescriptorLimit {
    fn drop(&mut self) {
        let before = Rlimit { current: self.0.current, maximum: self.0.maximum };
        if let Err(error) = rustix::process::setrlimit(Resource::Nofile, before) {
            eprintln!("hostel-benches: could not restore the file limit: {error}");
        }
    }
}
