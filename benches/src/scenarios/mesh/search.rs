//! Finding the newest hundred of many messages by a word, through the daemon.
//!
//! The inbox is made beforehand by the daemon's own code, once; the daemon finds it when it starts.

use std::fs;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::Value;

use super::super::Bench;
use crate::mesh::door::Transport;
use crate::mesh::lab::Lab;
use crate::mesh::stock;
use crate::report::Report;
use crate::report::Wanted;
use crate::stats;
use crate::subject::Kind;

/// What is asked for.
const NEWEST: usize = 100;

struct Outcome {
    middle: f64,
    late: f64,
}

/// Measures both words.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let (count, queries) = (bench.size(1_000_000, 20_000), bench.size(300, 50));
    let Some(hostel) = bench.subjects_of(&[Kind::Hostel]).into_iter().next() else { return Ok(()) };
    let mut lab = Lab::prepare(hostel, &bench.dir)?;
    let begun = Instant::now();
    stock::fill(&lab.bob.dir(), count)?;
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = fs::metadata(lab.bob.dir().join("inbox.db")).context("the inbox")?.len();
    report.notes.push(format!(
        "search: the inbox of {count} messages was made in {seconds:.0} s and has {} MB",
        bytes / 1_000_000
    ));
    for (word, share) in [(stock::RARE, "1 %"), (stock::COMMON, "30 %")] {
        let collected = bench.interleave("search", &[Kind::Hostel], report, |_| {
            lab.bob.start()?;
            let mut client = lab.bob.door()?.client(Transport::Socket)?;
            let path = format!("/v1/inbox/search?q={word}&limit={NEWEST}");
            let mut samples = Vec::with_capacity(usize::try_from(queries)?);
            for _ in 0..queries {
                let begun = Instant::now();
                let answer = client.get(&path)?;
                samples.push(u64::try_from(begun.elapsed().as_nanos())?);
                check(&answer, word, count)?;
            }
            lab.bob.stop()?;
            Ok(Outcome {
                middle: stats::percentile(&mut samples, 0.5) as f64 / 1e6,
                late: stats::percentile(&mut samples, 0.99) as f64 / 1e6,
            })
        });
        let name = |percentile: &str| format!("newest {NEWEST} of {count}, a word in {share} of them, {percentile}");
        let middle = collected.metric("search", name("p50"), ("ms", 2), |outcome: &Outcome| outcome.middle);
        let late = collected.metric("search", name("p99"), ("ms", 2), |outcome: &Outcome| outcome.late);
        let text = format!("ms at p99 for the newest {NEWEST} of {count} with a word in {share} of them, under 50");
        let value = late.median_of("hostel").ok_or_else(|| "hostel not run".to_owned());
        report.bar("search", text, value, Wanted::AtMost(50.0));
        report.metrics.extend([middle, late]);
    }
    lab.stop()
}

/// The answer holds the newest ones, newest first.
fn check(answer: &Value, word: &str, count: u64) -> Result<()> {
    let items = answer["items"].as_array().context("an answer without items")?;
    let newest = (0..count).rev().map(stock::body).filter(|body| body.contains(word)).take(NEWEST);
    ensure!(items.len() == newest.clone().count(), "{} messages were found", items.len());
    let bodies = items.iter().map(|item| item["body"].as_str().unwrap_or_default());
    ensure!(bodies.zip(newest).all(|(found, wanted)| found == wanted), "they are not the newest");
    Ok(())
}
