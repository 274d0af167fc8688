//! Small pieces of text from an agent CLI to one client of `session.send`, as fast as they come.

use std::time::Instant;

use anyhow::Result;
use anyhow::ensure;

use super::super::Bench;
use crate::codecast::Listening;
use crate::codecast::agent::Pace;
use crate::codecast::agent::Script;
use crate::codecast::agent::Shape;
use crate::codecast::daemon::AGENT;
use crate::codecast::daemon::Daemon;
use crate::codecast::http::Stream;
use crate::procfs;
use crate::report::Report;
use crate::report::Wanted;
use crate::subject::Kind;
use crate::subject::Subject;

/// Enough to have every page and every path touched once.
const WARM_UP: u64 = 2000;

struct Outcome {
    rate: f64,
    /// Microseconds of daemon and keeper, or of the loop.
    cpu: f64,
}

/// Measures claude's own lines, each with a write of its own as claude prints them and many in one write, and lines as
/// short as they can be.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = bench.size(100_000, 5000);
    for (shape, pace, name) in [
        (Shape::Long, Pace::OneByOne, "claude's lines, a write each"),
        (Shape::Long, Pace::Together, "claude's lines, many in a write"),
        (Shape::Short, Pace::Together, "lines of 90 bytes, many in a write"),
    ] {
        let script = Script { count, shape, pace, note: None };
        let collected = bench.interleave("events", &[Kind::Bare, Kind::Hostel], report, |subject| {
            if subject.kind == Kind::Bare { bare(bench, &script) } else { served(bench, subject, &script) }
        });
        let rate = collected
            .metric("events", format!("{count} pieces, {name}"), ("1/s", 0), |outcome| outcome.rate)
            .quoted("216000–267000");
        let cpu = collected
            .metric("events", format!("CPU of the server, {name}"), ("µs each", 2), |outcome| outcome.cpu)
            .quoted("3.8–4.0");
        let text = format!("{name}: rate, at least 0.5 of the bare loop");
        report.ratio_bar(&rate, text, ("hostel", "bare"), Wanted::AtLeast(0.5));
        report.metrics.extend([rate, cpu]);
    }
    Ok(())
}

fn bare(bench: &Bench, script: &Script) -> Result<Outcome> {
    let server = Listening::wait(bench.helper(&["bare-loop"], Some(&bench.dir))?)?;
    measure(server.port(), "", &[server.pid()], script)
}

fn served(bench: &Bench, subject: &Subject, script: &Script) -> Result<Outcome> {
    let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
    let session = daemon.client()?.create(AGENT, &daemon.work())?;
    let outcome = measure(daemon.port(), &session, &daemon.processes()?, script)?;
    daemon.stop()?;
    Ok(outcome)
}

fn measure(port: u16, session: &str, processes: &[u32], script: &Script) -> Result<Outcome> {
    let warm_up = Script { count: WARM_UP, ..script.clone() };
    receive(port, session, &warm_up)?;
    let before = procfs::cpu_of(processes)?;
    let begun = Instant::now();
    receive(port, session, script)?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = procfs::cpu_of(processes)?;
    let count = script.count as f64;
    Ok(Outcome { rate: count / seconds, cpu: (after.seconds - before.seconds) * 1e6 / count })
}

fn receive(port: u16, session: &str, script: &Script) -> Result<()> {
    let got = Stream::send(port, session, &script.to_string())?.count_pieces()?;
    ensure!(got == script.count, "{got} pieces of {} came", script.count);
    Ok(())
}
