//! What a client that stops reading costs the CLI whose words it does not read: nothing, and no word is lost.

use std::fs;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;

use super::super::Bench;
use crate::codecast::agent::Pace;
use crate::codecast::agent::Script;
use crate::codecast::agent::Shape;
use crate::codecast::daemon::AGENT;
use crate::codecast::daemon::Daemon;
use crate::codecast::http::Stream;
use crate::lines::now_ns;
use crate::procfs;
use crate::report::Report;
use crate::report::Wanted;
use crate::stats;
use crate::subject::Kind;
use crate::subject::Subject;

/// How long the CLI may take.
const LIMIT: Duration = Duration::from_secs(60);

/// So small that the kernel cannot hold what is not read.
const RECEIVE_BYTES: usize = 32 * 1024;

/// What the client does while the CLI prints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    Reads,
    Stalls,
}

/// Measures both ways in turn.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let count = bench.size(200_000, 10_000);
    let mut turn = 0_u32;
    let collected = bench.interleave("stalled", &[Kind::Hostel], report, |subject| {
        turn += 1;
        if turn.is_multiple_of(2) {
            let stalled = seconds(bench, subject, count, Client::Stalls)?;
            Ok([seconds(bench, subject, count, Client::Reads)?, stalled])
        } else {
            let read = seconds(bench, subject, count, Client::Reads)?;
            Ok([read, seconds(bench, subject, count, Client::Stalls)?])
        }
    });
    let name = format!("until the CLI had printed {count} pieces");
    let read = collected.metric("stalled", format!("{name}, client reads"), ("ms", 0), |times| times[0] * 1e3);
    let stalled = collected.metric("stalled", format!("{name}, client stalls"), ("ms", 0), |times| times[1] * 1e3);
    let ratio = match (stalled.of("hostel"), read.of("hostel")) {
        (Some(stalled), Some(read)) => stats::ratio(stalled, read),
        _ => None,
    };
    report.bar(
        "stalled",
        "time with a stalled client over time with a reading one, at most 1.25",
        ratio.map(|ratio| ratio.of_medians).ok_or_else(|| "hostel not run".to_owned()),
        Wanted::AtMost(1.25),
    );
    report.metrics.extend([read, stalled]);
    Ok(())
}

/// From the message to the CLI's last write.
fn seconds(bench: &Bench, subject: &Subject, count: u64, client: Client) -> Result<f64> {
    let daemon = Daemon::start(subject, &bench.dir, &bench.own_program)?;
    let session = daemon.client()?.create(AGENT, &daemon.work())?;
    let note = daemon.work().join("printed");
    let script = Script { count, shape: Shape::Long, pace: Pace::Together, note: Some(note.clone()) };
    let begun = now_ns();
    let mut stream = Stream::send(daemon.port(), &session, &script.to_string())?;
    if client == Client::Stalls {
        rustix::net::sockopt::set_socket_recv_buffer_size(stream.socket(), RECEIVE_BYTES)?;
        ensure!(procfs::wait_until(LIMIT, || note.exists()), "the CLI still prints after {} s", LIMIT.as_secs());
    }
    let resumed = Instant::now();
    let got = stream.count_pieces()?;
    ensure!(got == count, "{got} pieces of {count} came, {:.1} s after reading on", resumed.elapsed().as_secs_f64());
    let printed: u64 = fs::read_to_string(&note).context("the CLI's note")?.parse().context("the CLI's note")?;
    daemon.stop()?;
    Ok(printed.saturating_sub(begun) as f64 / 1e9)
}
