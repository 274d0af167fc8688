//! Messages that are on disk when their sender hears of them: the outbox itself, in this process, beside SQLite alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use hostel_mesh::outbox::DestKind;
use hostel_mesh::outbox::Limits;
use hostel_mesh::outbox::NewMessage;
use hostel_mesh::outbox::Outbox;
use hostel_mesh::outbox::OutboxOptions;
use hostel_mesh::outbox::Payload;
use hostel_wire::Clock;
use hostel_wire::frames::Priority;

use super::super::Bench;
use super::CALLERS;
use crate::mesh::TEXT;
use crate::mesh::bare_outbox;
use crate::mesh::stock;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::subject::Kind;

/// Rows per second: of SQLite with a commit for each, and of SQLite with those of the callers together. What is measured
/// beside them stands in both places.
type Outcome = [f64; 2];

/// Measures 32 callers.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let time = Duration::from_millis(bench.size(2000, 200));
    let collected = bench.interleave("accept", &[Kind::Bare, Kind::Hostel], report, |subject| -> Result<Outcome> {
        let (one, other) = (server::scratch(&bench.dir)?, server::scratch(&bench.dir)?);
        if subject.kind == Kind::Bare {
            let alone = bare_outbox::row_by_row(one.path(), time)?;
            return Ok([alone, bare_outbox::together(other.path(), CALLERS, time)?]);
        }
        let rate = outbox(one.path(), time)?;
        Ok([rate, rate])
    });
    let metric = |at: usize, name: &str| collected.metric("accept", name, ("1/s", 0), |rates: &Outcome| rates[at]);
    let alone = metric(0, "32 callers; bare: one loop, a commit for each row");
    let together = metric(1, "32 callers; bare: 32 callers, one writer, group commit");
    let text = "32 callers: rows accepted, at least 10 times SQLite with a commit for each row";
    report.ratio_bar(&alone, text, ("hostel", "bare"), Wanted::AtLeast(10.0));
    let text = "32 callers: rows accepted, at least half of SQLite with group commit";
    report.ratio_bar(&together, text, ("hostel", "bare"), Wanted::AtLeast(0.5));
    if let Some(ratio) = together.median_of("bare").zip(alone.median_of("bare")).map(|(many, one)| many / one) {
        report.notes.push(format!("accept: bare group commit is {ratio:.1} times a commit for each row on this disk"));
    }
    report.metrics.extend([alone, together]);
    Ok(())
}

/// Messages per second that so many callers get accepted, each waiting for its own before the next.
fn outbox(dir: &Path, time: Duration) -> Result<f64> {
    bare_outbox::runtime()?.block_on(async {
        let mut options = OutboxOptions::new(dir.join("outbox.db"), Clock::system());
        options.limits = Limits { max_rows: 0, max_bytes: 0 };
        let outbox = Outbox::open(options).await.context("opening an outbox")?;
        let count = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let callers = (0..CALLERS).map(|_| tokio::spawn(ask(outbox.clone(), Arc::clone(&count), begun, time)));
        let callers: Vec<_> = callers.collect();
        for caller in callers {
            caller.await.context("a caller died")??;
        }
        let rate = count.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
        let writer = outbox.close();
        drop(outbox);
        while writer.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(rate)
    })
}

async fn ask(outbox: Outbox, count: Arc<AtomicU64>, begun: Instant, time: Duration) -> Result<()> {
    while begun.elapsed() < time {
        let message = NewMessage {
            client_message_id: None,
            sender_session: None,
            dest_kind: DestKind::Dm,
            dest_ref: stock::MEMBER.to_owned(),
            priority: Priority::Next,
            payload: Payload { body: TEXT.to_owned(), ..Payload::default() },
        };
        outbox.accept(message).await.context("a message was not accepted")?;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
