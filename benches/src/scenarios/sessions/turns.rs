//! What a turn costs: in a process made for it, and in one that is still there from the turn before.
//!
//! The built-in agent is always measured. The real CLIs are when `HOSTEL_AGENT_CLIS` names the folder they are in; they
//! talk to the project's own fake model, whose answer takes no time, and keep everything below the temporary directory.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use hostel_tests::agents;
use hostel_tests::agents::Cli;
use hostel_tests::agents::FakeModel;

use super::super::Bench;
use super::super::Collected;
use crate::codecast::Listening;
use crate::codecast::agent::Pace;
use crate::codecast::agent::Script;
use crate::codecast::agent::Shape;
use crate::codecast::daemon::AGENT;
use crate::codecast::daemon::Daemon;
use crate::codecast::http::Stream;
use crate::codecast::native::Hosting;
use crate::report::Report;
use crate::stats;
use crate::subject;
use crate::subject::Kind;
use crate::subject::Subject;

/// Milliseconds of one turn each.
struct Turns {
    /// A process made for the turn.
    fresh: f64,
    /// The first turn of a process that stays, its start included.
    first: f64,
    /// A later turn of that process.
    warm: f64,
}

/// Measures `session.send` with a trivial CLI, the built-in agent, and the real CLIs if there are any.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    trivial(bench, report);
    let turns = usize::try_from(bench.size(20, 3))?;
    let collected = bench.interleave("turns", &[Kind::Hostel], report, |subject| {
        let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
        let outcome = turns_of(&daemon, "echo", ("hello", "echo: hello"), turns)?;
        daemon.stop()?;
        Ok(outcome)
    });
    tell(report, "echo", &collected, 2);
    let Some(folder) = clis() else {
        report.notes.push(
            "turns: no real CLI was measured: HOSTEL_AGENT_CLIS does not name a folder with claude, codex, gemini and \
             opencode (tests/agents/install makes one)"
                .to_owned(),
        );
        return Ok(());
    };
    for cli in Cli::ALL {
        if !folder.join(cli.name()).exists() {
            report.notes.push(format!("turns: there is no {} in HOSTEL_AGENT_CLIS", cli.name()));
            continue;
        }
        let turns = usize::try_from(bench.size(5, 2))?;
        let few = Bench { runs: bench.runs.min(3), ..bench.clone() };
        let collected =
            few.interleave("turns", &[Kind::Hostel], report, |subject| real(bench, subject, cli, &folder, turns));
        tell(report, cli.name(), &collected, 0);
    }
    Ok(())
}

/// The folder with the real CLIs, if one is named.
fn clis() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("HOSTEL_AGENT_CLIS").or_else(|| Some(named("HOSTEL_AGENTS")?.join("bin")))
}

/// From `session.send` to the end of its stream, with a CLI that says one word.
fn trivial(bench: &Bench, report: &mut Report) {
    let count = bench.size(50, 5);
    let collected = bench.interleave("turns", &[Kind::Bare, Kind::Hostel], report, |subject| {
        if subject.kind == Kind::Bare {
            let server = Listening::wait(bench.helper(&["bare-loop"], Some(&bench.dir))?)?;
            messages(server.port(), "", count)
        } else {
            let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
            let session = daemon.client()?.create(AGENT, &daemon.work())?;
            let outcome = messages(daemon.port(), &session, count)?;
            daemon.stop()?;
            Ok(outcome)
        }
    });
    let metric = collected.metric("turns", "session.send of a trivial CLI", ("ms", 2), |took| *took);
    report.metrics.push(metric.quoted("1.5–2.5"));
}

pub(super) fn messages(port: u16, session: &str, count: u64) -> Result<f64> {
    let script = Script { count: 1, shape: Shape::Long, pace: Pace::Together, note: None }.to_string();
    let mut took = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        ensure!(Stream::send(port, session, &script)?.count_pieces()? == 1, "the CLI's word did not come");
        took.push(begun.elapsed());
    }
    Ok(middle(&took))
}

fn middle(times: &[Duration]) -> f64 {
    let times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    stats::median(&times)
}

fn turns_of(daemon: &Daemon, agent: &str, (prompt, answer): (&str, &str), turns: usize) -> Result<Turns> {
    let mut client = daemon.native()?;
    let work = daemon.work();
    let session = client.new_session(agent, &work, Hosting::PerMessage)?;
    let mut fresh = Vec::new();
    for _ in 0..turns {
        fresh.push(client.turn(&session, prompt, answer)?);
    }
    client.close(&session)?;
    let session = client.new_session(agent, &work, Hosting::Warm)?;
    let first = client.turn(&session, prompt, answer)?;
    let mut warm = Vec::new();
    for _ in 0..turns {
        warm.push(client.turn(&session, prompt, answer)?);
    }
    client.close(&session)?;
    Ok(Turns { fresh: middle(&fresh), first: middle(&[first]), warm: middle(&warm) })
}

fn real(bench: &Bench, subject: &Subject, cli: Cli, folder: &Path, turns: usize) -> Result<Turns> {
    subject::program("python3").context("the fake model needs it")?;
    let scratch = crate::server::scratch(&bench.dir)?;
    let model = FakeModel::start(scratch.path());
    let daemon = Daemon::start_with(subject, &bench.dir, &bench.own_program, |dir| {
        let own = agents::environment(cli, model.port(), &dir.join("cli"));
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(env::split_paths(&path));
        let path = ("PATH".into(), env::join_paths(folders)?);
        let mut variables: Vec<(OsString, OsString)> =
            own.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        variables.push(path);
        Ok(variables)
    })?;
    std::fs::create_dir_all(daemon.work().join(".git"))?;
    let outcome = turns_of(&daemon, cli.name(), ("say: hello there", "hello there"), turns)?;
    daemon.stop()?;
    Ok(outcome)
}

fn tell(report: &mut Report, agent: &str, collected: &Collected<Turns>, decimals: usize) {
    let metric = |what: &str, value: fn(&Turns) -> f64| {
        collected.metric("turns", format!("{agent}: {what}"), ("ms", decimals), value)
    };
    let fresh = metric("a process for each message", |turns| turns.fresh);
    let first = metric("first turn of a warm process", |turns| turns.first);
    let warm = metric("later turn of a warm process", |turns| turns.warm);
    if let (Some(fresh), Some(warm)) = (fresh.median_of("hostel"), warm.median_of("hostel")) {
        let times = fresh / warm.max(f64::MIN_POSITIVE);
        report.notes.push(format!("turns: {agent}: a fresh process costs {times:.1} times a warm turn"));
    }
    report.metrics.extend([fresh, first, warm]);
}
