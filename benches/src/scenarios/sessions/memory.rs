//! What idle sessions cost in memory: made and left alone, and after a turn each.

use anyhow::Result;
use anyhow::ensure;

use super::super::Bench;
use super::super::memory::settled;
use crate::codecast::agent::Pace;
use crate::codecast::agent::Script;
use crate::codecast::agent::Shape;
use crate::codecast::daemon::AGENT;
use crate::codecast::daemon::Daemon;
use crate::codecast::http::Stream;
use crate::procfs::Memory;
use crate::report::Report;
use crate::report::Wanted;
use crate::subject::Kind;
use crate::subject::Subject;

const SESSIONS: usize = 100;

/// What a turn says; a short answer.
const PIECES: u64 = 100;

/// Without sessions, with idle ones, and after a turn of each.
type Outcome = [Memory; 3];

/// Measures a daemon and its keeper.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let collected = bench.interleave("memory", &[Kind::Hostel], report, |subject| measure(bench, subject));
    let mut resident = Vec::new();
    for (at, when, quoted) in [
        (0, "no session".to_owned(), Some("5.7")),
        (1, format!("{SESSIONS} idle sessions"), Some("6.0")),
        (2, format!("{SESSIONS} idle sessions after a turn each"), None),
    ] {
        let metric = |what: &str, value: fn(&Memory) -> f64| {
            let name = format!("{what}, {when}");
            collected.metric("memory", name, ("MB", 1), |outcome: &Outcome| value(&outcome[at]) / 1e6)
        };
        let proportional = metric("proportional", |memory| memory.proportional.unwrap_or_default() as f64);
        resident.push(metric("resident", |memory| memory.resident as f64).quoted(quoted));
        report.metrics.push(proportional);
    }
    let medians: Vec<Option<f64>> = resident.iter().map(|metric| metric.median_of("hostel")).collect();
    let missing = || "hostel not run".to_owned();
    for (at, when) in [(1, "idle"), (2, "after a turn each")] {
        let more = medians[at].zip(medians[0]).map(|(with, without)| with - without);
        let text = format!("MB that {SESSIONS} sessions add to daemon and keeper, {when}, at most 10");
        report.bar("memory", text, more.ok_or_else(missing), Wanted::AtMost(10.0));
        let text = format!("MB resident in daemon and keeper with {SESSIONS} sessions, {when}, under 30");
        report.bar("memory", text, medians[at].ok_or_else(missing), Wanted::AtMost(30.0));
    }
    report.metrics.extend(resident);
    Ok(())
}

fn measure(bench: &Bench, subject: &Subject) -> Result<Outcome> {
    let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
    let processes = daemon.processes()?;
    let before = settled(&processes)?;
    let mut client = daemon.client()?;
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        sessions.push(client.create(AGENT, &daemon.work())?);
    }
    let idle = settled(&processes)?;
    let script = Script { count: PIECES, shape: Shape::Long, pace: Pace::Together, note: None }.to_string();
    for session in &sessions {
        let got = Stream::send(daemon.port(), session, &script)?.count_pieces()?;
        ensure!(got == PIECES, "{got} pieces of {PIECES} came");
    }
    let after = settled(&processes)?;
    daemon.stop()?;
    Ok([before, idle, after])
}
