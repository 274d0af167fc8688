//! What a subscriber that stops reading costs the one that reads on.
//!
//! The child waits for a line of input, so that both subscribers are there before its first byte.
//! The real claustrum is left out: the bar compares hostel with itself.

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::json;

use super::Bench;
use super::drained;
use crate::report;
use crate::report::Report;
use crate::report::Wanted;
use crate::server::Helper;
use crate::server::Server;
use crate::stats;
use crate::subject;
use crate::subject::Kind;
use crate::subject::Subject;

const LIMIT: Duration = Duration::from_secs(120);

/// Whether a second subscriber stands in the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    Alone,
    BesideAStalledOne,
}

/// Measures both ways in turn.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    if bench.subjects_of(&[Kind::Hostel]).is_empty() {
        return Ok(());
    }
    let size = bench.size(1 << 30, 32 << 20);
    let mut turn = 0_u32;
    let collected = bench.interleave("stalled", &[Kind::Hostel], report, |subject| {
        turn += 1;
        if turn.is_multiple_of(2) {
            let beside = rate(bench, subject, size, Company::BesideAStalledOne)?;
            Ok([rate(bench, subject, size, Company::Alone)?, beside])
        } else {
            let alone = rate(bench, subject, size, Company::Alone)?;
            Ok([alone, rate(bench, subject, size, Company::BesideAStalledOne)?])
        }
    });
    let alone =
        collected
            .metric("stalled", format!("{} to one reader alone", report::bytes(size)), ("GiB/s", 2), |rates| rates[0]);
    let beside = collected.metric("stalled", "the same beside a stalled subscriber", ("GiB/s", 2), |rates| rates[1]);
    let kept = match (alone.of("hostel"), beside.of("hostel")) {
        (Some(alone), Some(beside)) => stats::ratio(beside, alone),
        _ => None,
    };
    report.bar(
        "stalled",
        "share of the speed alone that is left, at least 0.9",
        kept.map(|ratio| ratio.of_medians).ok_or_else(|| "hostel not run".to_owned()),
        Wanted::AtLeast(0.9),
    );
    report.metrics.extend([alone, beside]);
    Ok(())
}

fn rate(bench: &Bench, subject: &Subject, size: u64, company: Company) -> Result<f64> {
    let (server, _) = Server::start(subject, &bench.dir)?;
    let script = format!("read -r word; exec {} -c {size} /dev/zero", subject::program("head")?);
    let command = [subject::program("sh")?, "-c".to_owned(), script];
    let mut client = bench.drain((server.socket(), server.token()), "stalled", &command, true);
    let mut client = Helper(client.spawn().context("starting the client")?);
    let mut output = BufReader::new(client.0.stdout.take().context("the client has no stdout")?);
    let mut word = String::new();
    output.read_line(&mut word)?;
    ensure!(word == "ready\n", "the client said `{}`", word.trim());

    let mut stalled = server.connect()?;
    if company == Company::BesideAStalledOne {
        let params = json!({"id": "stalled", "fromSeq": 0});
        let result = stalled.call("process.reattach", Some(&params))?;
        ensure!(
            result["found"] == json!(true) && result["running"] == json!(true),
            "process.reattach answered {result}"
        );
    }
    let mut go = client.0.stdin.take().context("the client has no stdin")?;
    go.write_all(b"go\n")?;
    let mut report = String::new();
    output.read_line(&mut report).context("the client's report")?;
    client.finish(LIMIT).context("the client")?;
    let drained = drained(&report, size)?;
    drop(stalled);
    server.stop()?;
    Ok(size as f64 / f64::from(1 << 30) / drained.seconds)
}
