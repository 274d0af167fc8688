//! How long a piece of text takes from the CLI's write to the client's read, over what its pipe alone takes.

use std::io::BufRead as _;
use std::io::BufReader;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use memchr::memmem;

use super::super::Bench;
use crate::codecast::Listening;
use crate::codecast::agent::Pace;
use crate::codecast::agent::Script;
use crate::codecast::agent::Shape;
use crate::codecast::daemon::AGENT;
use crate::codecast::daemon::Daemon;
use crate::codecast::http;
use crate::codecast::http::Stream;
use crate::lines::now_ns;
use crate::report::Report;
use crate::server::Helper;
use crate::stats;
use crate::subject::Kind;

/// A piece each millisecond, as a quick model would send them.
const PACE: Pace = Pace::EachMicros(1000);

/// Microseconds.
#[derive(Clone, Copy)]
struct Latency {
    middle: f64,
    late: f64,
}

/// Through the server, and just before it through nothing but the pipe.
struct Outcome {
    through: Latency,
    pipe: Latency,
}

/// Measures at about 1,000 pieces a second.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let script = Script { count: bench.size(2000, 200), shape: Shape::Long, pace: PACE, note: None };
    let collected = bench.interleave("latency", &[Kind::Bare, Kind::Hostel], report, |subject| {
        let pipe = pipe_alone(bench, &script)?;
        let through = if subject.kind == Kind::Bare {
            let server = Listening::wait(bench.helper(&["bare-loop"], Some(&bench.dir))?)?;
            through(server.port(), "", &script)?
        } else {
            let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
            let session = daemon.client()?.create(AGENT, &daemon.work())?;
            let latency = through(daemon.port(), &session, &script)?;
            daemon.stop()?;
            latency
        };
        Ok(Outcome { through, pipe })
    });
    let unit = ("µs", 0);
    for (name, pick) in [("p50", (|found| found.middle) as fn(&Latency) -> f64), ("p99", |found| found.late)] {
        let whole = collected.metric("latency", format!("CLI to client, {name}"), unit, |run| pick(&run.through));
        let pipe = collected.metric("latency", format!("the pipe alone, {name}"), unit, |run| pick(&run.pipe));
        let added = collected
            .metric("latency", format!("added, {name}"), unit, |run| pick(&run.through) - pick(&run.pipe))
            .quoted((name == "p50").then_some("67–83"));
        report.metrics.extend([whole, pipe, added]);
    }
    Ok(())
}

/// Reads the CLI's pipe directly.
fn pipe_alone(bench: &Bench, script: &Script) -> Result<Latency> {
    let child = Command::new(&bench.own_program)
        .args(["agent", "--print", &script.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the agent")?;
    let mut child = Helper(child);
    let mut output = BufReader::new(child.0.stdout.take().context("the agent has no stdout")?);
    let mut samples = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if output.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let arrived = now_ns();
        let text = br#""text_delta","text":""#;
        if let Some(at) = memmem::find(&line, text) {
            let digits = line[at + text.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            let written = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
            samples.push(arrived.saturating_sub(written));
        }
    }
    settled(&mut samples, script)
}

fn through(port: u16, session: &str, script: &Script) -> Result<Latency> {
    let mut stream = Stream::send(port, session, &script.to_string())?;
    let mut samples = Vec::new();
    while stream.read(|frame| {
        if let Some(written) = http::piece(frame) {
            samples.push(now_ns().saturating_sub(written));
        }
        Ok(())
    })? {}
    settled(&mut samples, script)
}

fn settled(samples: &mut [u64], script: &Script) -> Result<Latency> {
    ensure!(samples.len() as u64 == script.count, "{} pieces of {} came", samples.len(), script.count);
    // The first pieces pay for page faults and cold caches everywhere.
    let settled = &mut samples[usize::try_from(script.count / 20)?..];
    Ok(Latency {
        middle: stats::percentile(settled, 0.5) as f64 / 1000.0,
        late: stats::percentile(settled, 0.99) as f64 / 1000.0,
    })
}
