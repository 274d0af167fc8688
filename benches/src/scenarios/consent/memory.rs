//! What a daemon keeps for itself, with its keeper: idle, and after many commands and large answers.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;

use super::super::Bench;
use super::super::memory::settled;
use super::output;
use crate::consent::client;
use crate::consent::client::Room;
use crate::consent::client::Until;
use crate::consent::proxy::Proxy;
use crate::procfs::Memory;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::subject;
use crate::subject::Kind;
use crate::subject::PROXY;
use crate::subject::Subject;

/// Clients at once: the real daemon takes 50 ms for a command however many there are.
const CLIENTS: usize = 8;

/// More runs would not show more: nothing is timed.
const MOST_RUNS: usize = 2;

/// Idle, and afterwards.
type Outcome = [Memory; 2];

/// Measures both daemons.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let (commands, answers) = (bench.size(2000, 80), bench.size(28, 2));
    let bench = Bench { runs: bench.runs.min(MOST_RUNS), ..bench.clone() };
    let collected = bench.interleave("memory", &[Kind::Hostel, Kind::SudoProxy], report, |subject| {
        measure(&bench, subject, usize::try_from(commands)?, answers)
    });
    let after = format!("after {commands} commands and {answers} answers of 8 MiB");
    let mut medians = [None; 2];
    for (at, when) in [(0, "idle"), (1, after.as_str())] {
        let metric = |what: &str, value: fn(&Memory) -> f64| {
            let name = format!("{what}, {when}");
            collected.metric("memory", name, ("MB", 1), |outcome: &Outcome| value(&outcome[at]) / 1e6)
        };
        // Checked when it was measured: there is a figure.
        let private = metric("private", |memory| memory.private.unwrap_or_default() as f64);
        medians[at] = private.median_of("hostel");
        report.metrics.extend([private, metric("resident", |memory| memory.resident as f64)]);
    }
    let missing = || "hostel not run".to_owned();
    let [idle, later] = medians;
    let text = "MB private (Pss of anonymous pages) to daemon and keeper, idle, at most 8";
    report.bar("memory", text, idle.ok_or_else(missing), Wanted::AtMost(8.0));
    let text = format!("MB private {after}, within 20 % of those 8");
    report.bar("memory", text, later.ok_or_else(missing), Wanted::AtMost(9.6));
    // The same in the stricter reading: of what it has itself when idle.
    let grown = idle.zip(later).map(|(idle, later)| later / idle);
    let text = format!("private {after} over private idle, at most 1.2");
    report.bar("memory", text, grown.ok_or_else(missing), Wanted::AtMost(1.2));
    if let Some(real) = report.metrics.iter().rev().find(|metric| metric.name.starts_with("private, after")) {
        let shown = real.median_of(PROXY).map(|median| format!("memory: {PROXY} has {median:.1} MB private by then"));
        report.notes.extend(shown);
    }
    Ok(())
}

fn measure(bench: &Bench, subject: &Subject, commands: usize, answers: u64) -> Result<Outcome> {
    let dir = server::scratch(&bench.dir)?;
    let (file, expected) = (dir.path().join("text"), output::text(true));
    fs::write(&file, &expected)?;
    let proxy = Proxy::granted(subject, &bench.dir)?;
    let idle = private(&proxy)?;
    let nothing = [subject::program("true")?];
    client::closed_loop(proxy.socket(), &nothing, CLIENTS, Until::Answers(commands / CLIENTS))?;
    let print = [subject::program("cat")?, file.display().to_string()];
    let mut room = Room::new(2 * expected.len());
    for _ in 0..answers {
        client::output(proxy.socket(), &print, &expected, &mut room)?;
    }
    let after = private(&proxy)?;
    proxy.stop()?;
    Ok([idle, after])
}

/// The memory once it no longer changes.
fn private(proxy: &Proxy) -> Result<Memory> {
    // What was freed goes back to the system a little later.
    std::thread::sleep(Duration::from_secs(1));
    let memory = settled(&proxy.processes()?)?;
    memory.private.context("the memory maps cannot be read: run it as root")?;
    Ok(memory)
}
