//! The scenarios, and how runs are interleaved.
//!
//! Each subject gets a fresh server for each run, so that no run inherits another's journal or
//! memory; the order of the subjects turns with every run, so that none always follows another.

pub(crate) mod consent;
mod latency;
mod memory;
pub(crate) mod mesh;
mod ping;
mod ready;
mod scale;
pub(crate) mod sessions;
mod spawn;
mod stalled;
mod stream;

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;

use crate::drain;
use crate::procfs;
use crate::report::Metric;
use crate::report::Report;
use crate::server::Helper;
use crate::subject::Kind;
use crate::subject::PEER;
use crate::subject::PROXY;
use crate::subject::Subject;

/// Measures something and adds what it found.
pub(crate) type Scenario = fn(&Bench, &mut Report) -> Result<()>;

/// Every scenario of the claustrum suite by its name, in order.
pub(crate) const CLAUSTRUM: [(&str, Scenario); 8] = [
    ("stream", stream::run),
    ("latency", latency::run),
    ("ping", ping::run),
    ("spawn", spawn::run),
    ("ready", ready::run),
    ("memory", memory::run),
    ("scale", scale::run),
    ("stalled", stalled::run),
];

/// What every scenario is given.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) runs: usize,
    pub(crate) quick: bool,
    pub(crate) dir: PathBuf,
    pub(crate) subjects: Vec<Subject>,
    /// This program, which is also every helper process.
    pub(crate) own_program: PathBuf,
}

/// The outcome of each run of each subject.
struct Collected<T>(Vec<(&'static str, Vec<T>)>);

impl<T> Collected<T> {
    /// One quantity out of the outcomes.
    fn metric(
        &self,
        scenario: &'static str,
        name: impl Into<String>,
        (unit, decimals): (&'static str, usize),
        value: impl Fn(&T) -> f64,
    ) -> Metric {
        Metric {
            scenario,
            name: name.into(),
            unit,
            decimals,
            quoted: None,
            samples: self.0.iter().map(|(label, outcomes)| (*label, outcomes.iter().map(&value).collect())).collect(),
        }
    }
}

impl Bench {
    fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }

    fn subjects_of(&self, kinds: &[Kind]) -> Vec<&Subject> {
        self.subjects.iter().filter(|subject| kinds.contains(&subject.kind)).collect()
    }

    /// Measures each subject of these kinds once per run. A subject that fails is left out from
    /// then on, with its earlier samples, and the failure is reported.
    fn interleave<T>(
        &self,
        scenario: &str,
        kinds: &[Kind],
        report: &mut Report,
        mut measure: impl FnMut(&Subject) -> Result<T>,
    ) -> Collected<T> {
        let mut subjects = self.subjects_of(kinds);
        let mut collected: Vec<(&'static str, Vec<T>)> =
            subjects.iter().map(|subject| (subject.label, Vec::new())).collect();
        for run in 0..self.runs {
            let mut failed = Vec::new();
            for place in 0..subjects.len() {
                let subject = subjects[(place + run) % subjects.len()];
                match measure(subject) {
                    Ok(outcome) => {
                        let slot = collected.iter_mut().find(|(label, _)| *label == subject.label);
                        if let Some((_, outcomes)) = slot {
                            outcomes.push(outcome);
                        }
                    }
                    Err(problem) => {
                        eprintln!("{scenario}: {}: {problem:#}", subject.label);
                        report.failures.push(format!("{scenario}: {}: run {}: {problem:#}", subject.label, run + 1));
                        failed.push(subject.label);
                    }
                }
            }
            subjects.retain(|subject| !failed.contains(&subject.label));
            for (_, outcomes) in collected.iter_mut().filter(|(label, _)| failed.contains(label)) {
                outcomes.clear();
            }
        }
        for (kind, peer) in [(Kind::Claustrum, PEER), (Kind::SudoProxy, PROXY)] {
            if kinds.contains(&kind) && !collected.iter().any(|(label, _)| *label == peer) {
                collected.push((peer, Vec::new()));
            }
        }
        Collected(collected)
    }

    /// Starts a part of this program. A path is its last argument; if it does not exist yet, it is a socket, and this
    /// waits until it does.
    fn helper(&self, arguments: &[&str], path: Option<&Path>) -> Result<Helper> {
        let mut command = Command::new(&self.own_program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(path) = path {
            command.arg(path);
        }
        let helper = Helper(command.spawn().context("starting a helper process")?);
        if let Some(path) = path {
            ensure!(procfs::wait_until(Duration::from_secs(10), || path.exists()), "a helper process did not listen");
        }
        Ok(helper)
    }

    /// The draining client for `command`, as a process ready to be started.
    fn drain(&self, (socket, token): (&Path, &str), id: &str, command: &[String], gated: bool) -> Command {
        let mut client = Command::new(&self.own_program);
        client.arg("drain");
        if gated {
            client.arg("--gated");
        }
        client
            .arg(socket)
            .arg(id)
            .args(command)
            .env(drain::TOKEN_VARIABLE, token)
            .stdin(if gated { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped());
        client
    }
}

/// What the draining client reported.
struct Drained {
    seconds: f64,
    cpu: f64,
}

/// Reads the draining client's last line and checks that it got everything.
fn drained(output: &str, expected: u64) -> Result<Drained> {
    let line = output.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).context("the client reported nothing")?;
    ensure!(
        value["bytes"].as_u64() == Some(expected) && value["exit_code"].as_i64() == Some(0),
        "of {expected} bytes and exit code 0 the client got {value}"
    );
    let number = |key: &str| value[key].as_f64().with_context(|| format!("the client reported no {key}"));
    Ok(Drained { seconds: number("seconds")?, cpu: number("cpu")? })
}
