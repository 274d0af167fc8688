//! The command line: the suites for people, and the parts the suite runs as processes of its own.
//!
//! Everything is decided here, before anything is started; a wrong flag costs no run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;

use crate::scenarios;
use crate::scenarios::Scenario;
use crate::subject;

/// What is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The claustrum door.
    Claustrum,
    /// Agent sessions, through the codecast door.
    Sessions,
    /// Approved commands, through the sudo-proxy door.
    Consent,
    /// Messages between hosts.
    Mesh,
}

impl Suite {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Suite::Claustrum => "claustrum",
            Suite::Sessions => "sessions",
            Suite::Consent => "consent",
            Suite::Mesh => "mesh",
        }
    }

    /// The real program it is compared with, if one is run.
    pub(crate) fn peer(self) -> Option<&'static str> {
        match self {
            Suite::Claustrum => Some(subject::PEER),
            Suite::Sessions | Suite::Mesh => None,
            Suite::Consent => Some(subject::PROXY),
        }
    }

    /// Its scenarios in the order they run and are printed.
    pub(crate) fn scenarios(self) -> &'static [(&'static str, Scenario)] {
        match self {
            Suite::Claustrum => &scenarios::CLAUSTRUM,
            Suite::Sessions => &scenarios::sessions::ALL,
            Suite::Consent => &scenarios::consent::ALL,
            Suite::Mesh => &scenarios::mesh::ALL,
        }
    }

    /// The subjects it can compare.
    fn subjects(self) -> &'static [&'static str] {
        match self {
            Suite::Claustrum => &["bare", "hostel", "claustrum"],
            Suite::Sessions | Suite::Mesh => &["bare", "hostel"],
            Suite::Consent => &["bare", "hostel", "sudo-proxy"],
        }
    }
}

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Usage: hostel-benches claustrum|sessions|consent|mesh [OPTIONS]

claustrum compares hostel's claustrum door with the bare limit of this machine and with the real claustrum;
sessions compares agent sessions through hostel's codecast door with the bare limit of this machine;
consent compares approved commands through hostel's sudo-proxy door with a bare spawn and the real sudo-proxy;
mesh compares messages between hosts with SQLite alone and a bare WebSocket.

Options:
  --runs N            interleaved runs per comparison (default 5; 2 with --quick)
  --only A,B          only these scenarios; of claustrum: stream, latency, ping, spawn, ready, memory, scale,
                      stalled; of sessions: events, latency, health, create, stalled, memory, turns, guard;
                      of consent: commands, output, memory; of mesh: accept, door, latency, backlog, search, memory
  --subjects A,B      only these of: bare, hostel, claustrum, sudo-proxy (default: all that can be had)
  --quick             small sizes: a smoke test, whose figures are not written to --results
  --json FILE         write every sample as JSON
  --results FILE      append a dated section to this Markdown file
  --dir DIR           where the temporary houses go (default /var/tmp; a real disk, a short path,
                      5 GiB free)

Environment:
  HOSTEL_BIN          the hostel program (default target/dist/hostel)
  CLAUSTRUM_140       the real claustrum 1.4.0, which the bars refer to
  CLAUSTRUM_180       the real claustrum 1.8.0, measured beside it when given
  SUDO_PROXY_120      the real sudo-proxy 1.2.0, which the bars of consent refer to
  HOSTEL_AGENT_CLIS   a folder with the real claude, codex, gemini and opencode, whose turns are then measured

Exit code: 0 when every run finished (bars met or not), 1 when a run failed, 2 for a usage error.

Parts, each a process of its own, not meant for people:
  bare-stream SOCKET | bare-ping SOCKET | drain [--gated] SOCKET ID COMMAND ARGS… | lines MICROS COUNT |
  bare-loop DIR | bare-http THREADS DIR | bare-echo DIR | agent --print PROMPT
";

/// What to do.
pub(crate) enum Command {
    Help,
    Suite(Options),
    BareStream { socket: PathBuf },
    BarePing { socket: PathBuf },
    BareLoop,
    BareHttp { threads: usize },
    BareEcho,
    Agent(Vec<String>),
    Drain(DrainRequest),
    Lines { interval: Duration, count: u64 },
}

/// How a suite runs.
pub(crate) struct Options {
    pub(crate) suite: Suite,
    pub(crate) runs: usize,
    pub(crate) only: Vec<String>,
    pub(crate) subjects: Vec<String>,
    pub(crate) quick: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) results: Option<PathBuf>,
    pub(crate) dir: PathBuf,
}

/// What the draining client asks the server to run.
pub(crate) struct DrainRequest {
    pub(crate) socket: PathBuf,
    pub(crate) id: String,
    pub(crate) command: Vec<String>,
    /// The child waits for a line on stdin, which the client sends when its own stdin says so.
    pub(crate) gated: bool,
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Command> {
    let arguments = arguments
        .iter()
        .map(|argument| argument.to_str().context("arguments must be valid UTF-8").map(str::to_owned))
        .collect::<Result<Vec<String>>>()?;
    let Some((first, rest)) = arguments.split_first() else {
        bail!("a suite is required: `claustrum`, `sessions`, `consent` or `mesh`");
    };
    match first.as_str() {
        "--help" | "-h" | "help" => Ok(Command::Help),
        "claustrum" => suite(Suite::Claustrum, rest),
        "sessions" => suite(Suite::Sessions, rest),
        "consent" => suite(Suite::Consent, rest),
        "mesh" => suite(Suite::Mesh, rest),
        "bare-stream" => Ok(Command::BareStream { socket: only_path(rest)? }),
        "bare-ping" => Ok(Command::BarePing { socket: only_path(rest)? }),
        // The directory only shows to whom the process belongs.
        "bare-loop" => only_path(rest).map(|_| Command::BareLoop),
        "bare-echo" => only_path(rest).map(|_| Command::BareEcho),
        "bare-http" => {
            let [threads, _] = rest else {
                bail!("bare-http takes THREADS DIR");
            };
            Ok(Command::BareHttp { threads: threads.parse().context("THREADS")? })
        }
        "agent" => Ok(Command::Agent(rest.to_vec())),
        "drain" => drain(rest),
        "lines" => {
            let [micros, count] = rest else {
                bail!("lines takes MICROS COUNT");
            };
            Ok(Command::Lines {
                interval: Duration::from_micros(micros.parse().context("MICROS")?),
                count: count.parse().context("COUNT")?,
            })
        }
        other => bail!("no suite named `{other}`"),
    }
}

fn only_path(rest: &[String]) -> Result<PathBuf> {
    let [path] = rest else {
        bail!("one SOCKET is required");
    };
    Ok(PathBuf::from(path))
}

fn drain(rest: &[String]) -> Result<Command> {
    let gated = rest.first().is_some_and(|first| first == "--gated");
    let rest = if gated { &rest[1..] } else { rest };
    let [socket, id, command @ ..] = rest else {
        bail!("drain takes SOCKET ID COMMAND ARGS…");
    };
    ensure!(!command.is_empty(), "drain needs a COMMAND");
    Ok(Command::Drain(DrainRequest { socket: PathBuf::from(socket), id: id.clone(), command: command.to_vec(), gated }))
}

fn suite(suite: Suite, rest: &[String]) -> Result<Command> {
    let known: Vec<&str> = suite.scenarios().iter().map(|(name, _)| *name).collect();
    let mut runs = None;
    let mut options = Options {
        suite,
        runs: 0,
        only: names(&known),
        subjects: names(suite.subjects()),
        quick: false,
        json: None,
        results: None,
        dir: PathBuf::from("/var/tmp"),
    };
    let mut rest = rest.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--quick" => options.quick = true,
            "--runs" => runs = Some(value()?.parse().context("--runs")?),
            "--only" => options.only = chosen(value()?, &known, "scenario")?,
            "--subjects" => options.subjects = chosen(value()?, suite.subjects(), "subject")?,
            "--json" => options.json = Some(PathBuf::from(value()?)),
            "--results" => options.results = Some(PathBuf::from(value()?)),
            "--dir" => options.dir = PathBuf::from(value()?),
            other => bail!("unknown option `{other}`"),
        }
    }
    options.runs = runs.unwrap_or(if options.quick { 2 } else { 5 });
    ensure!((1..=99).contains(&options.runs), "--runs must be from 1 to 99");
    Ok(Command::Suite(options))
}

fn names(known: &[&str]) -> Vec<String> {
    known.iter().map(|name| (*name).to_owned()).collect()
}

fn chosen(list: &str, known: &[&str], noun: &str) -> Result<Vec<String>> {
    let mut chosen = Vec::new();
    for name in list.split(',').filter(|name| !name.is_empty()) {
        ensure!(known.contains(&name), "no {noun} named `{name}`; there are: {}", known.join(", "));
        chosen.push(name.to_owned());
    }
    ensure!(!chosen.is_empty(), "no {noun} chosen");
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn quick_halves_the_runs_unless_told() {
        let Ok(Command::Suite(quick)) = parse(&arguments("claustrum --quick")) else {
            panic!("a suite");
        };
        assert_eq!((quick.runs, quick.quick), (2, true));
        let Ok(Command::Suite(told)) = parse(&arguments("claustrum --runs 7 --quick --only ping,spawn")) else {
            panic!("a suite");
        };
        assert_eq!(told.runs, 7);
        assert_eq!(told.only, ["ping", "spawn"]);
    }

    #[test]
    fn a_wrong_word_is_named() {
        for (line, word) in [
            ("claustrum --only pong", "pong"),
            ("claustrum --subjects docker", "docker"),
            ("claustrum --fast", "--fast"),
            ("claustrum --runs 0", "--runs"),
            ("sudo", "sudo"),
            ("claustrum --json", "--json"),
            ("claustrum --only events", "events"),
            ("sessions --only ping", "ping"),
            ("sessions --subjects claustrum", "claustrum"),
            ("consent --only ping", "ping"),
            ("consent --subjects claustrum", "claustrum"),
            ("mesh --only ping", "ping"),
            ("mesh --subjects sudo-proxy", "sudo-proxy"),
        ] {
            let Err(problem) = parse(&arguments(line)) else {
                panic!("{line} was taken");
            };
            assert!(format!("{problem:#}").contains(word), "{line}: {problem:#}");
        }
    }
}
