//! A backlog of messages that drains, beside SQLite alone that inserts the same rows.
//!
//! One host accepts them all while the broker is away. When it is back, what was accepted goes to its log; that is timed
//! once. Then the other host's daemon starts, with an empty inbox each time, and has them all: opened, stored, indexed and
//! told. The clock runs from the first rows that are there to the last.

use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use rusqlite::Connection;
use rusqlite::OpenFlags;

use super::super::Bench;
use super::CALLERS;
use crate::mesh::bare_inbox;
use crate::mesh::bare_inbox::Statements;
use crate::mesh::closed_loop;
use crate::mesh::closed_loop::Until;
use crate::mesh::door::Transport;
use crate::mesh::lab::Lab;
use crate::mesh::stock::Message;
use crate::report::Metric;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::subject::Kind;

/// How long a drain may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Messages per second: of SQLite with a statement for each row, and with wide ones. What is measured beside them stands
/// in both places.
type Outcome = [f64; 2];

/// Measures two drains: of direct messages, which their boxes prove, and of messages for everybody, each of which is signed.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    drain(bench, report, "bob", "messages")?;
    drain(bench, report, "*", "signed messages")
}

fn drain(bench: &Bench, report: &mut Report, to: &str, what: &str) -> Result<()> {
    let count = bench.size(100_000, 2_000);
    let Some(hostel) = bench.subjects_of(&[Kind::Hostel]).into_iter().next() else { return Ok(()) };
    let mut lab = Lab::prepare(hostel, &bench.dir)?;
    let sent = send(&mut lab, to, count)?;
    let messages: Vec<Message> = (0..count).map(Message::new).collect();
    let collected = bench.interleave("backlog", &[Kind::Bare, Kind::Hostel], report, |subject| -> Result<Outcome> {
        if subject.kind == Kind::Bare {
            let (one, other) = (server::scratch(&bench.dir)?, server::scratch(&bench.dir)?);
            let single = bare_inbox::run(one.path(), &messages, Statements::Single)?;
            return Ok([single, bare_inbox::run(other.path(), &messages, Statements::Wide)?]);
        }
        let rate = receive(&mut lab, count)?;
        Ok([rate, rate])
    });
    lab.stop()?;
    let (together, name) = (bare_inbox::TOGETHER, format!("{count} {what} from the broker into the inbox"));
    let metric = |at: usize, bare: &str| {
        let name = format!("{name}; bare: the same rows, {together} in a transaction, {bare}");
        collected.metric("backlog", name, ("1/s", 0), |rates: &Outcome| rates[at])
    };
    let (single, wide) = (metric(0, "a statement for each"), metric(1, "a statement for 64"));
    let text = format!("{name}: at least half of SQLite inserting the same rows, {together} in a transaction");
    if to == "bob" {
        report.ratio_bar(&single, text, ("hostel", "bare"), Wanted::AtLeast(0.5));
    }
    report.metrics.extend([single, wide]);
    report.metrics.push(Metric {
        scenario: "backlog",
        name: format!("{count} {what} from the outbox into the broker's log, once"),
        unit: "1/s",
        decimals: 0,
        quoted: None,
        samples: vec![("hostel", vec![sent])],
    });
    Ok(())
}

/// Has the first host accept messages for the other while the broker is away, and then send them; at which rate.
fn send(lab: &mut Lab, to: &str, count: u64) -> Result<f64> {
    lab.alice.start()?;
    lab.alice.wait_connected()?;
    lab.stop_broker()?;
    let door = lab.alice.door()?;
    closed_loop::run(&door, Transport::Socket, to, CALLERS, Until::Accepted(usize::try_from(count)?))?;
    lab.start_broker()?;
    let mut client = door.client(Transport::Socket)?;
    let mut owed = || -> Result<u64> { client.get("/v1/health")?["queue_depth"].as_u64().context("no queue_depth") };
    let (begun, mut first) = (Instant::now(), None);
    loop {
        let left = owed()?;
        if left < count && first.is_none() {
            first = Some((Instant::now(), left));
        }
        if left == 0 {
            break;
        }
        ensure!(begun.elapsed() < LIMIT, "{left} messages are still owed after {} s", LIMIT.as_secs());
        std::thread::sleep(LOOK);
    }
    let (since, left) = first.context("nothing was sent")?;
    lab.alice.stop()?;
    Ok(left as f64 / since.elapsed().as_secs_f64())
}

/// Starts the other host's daemon with an empty inbox and waits until it has everything; at which rate.
fn receive(lab: &mut Lab, count: u64) -> Result<f64> {
    lab.bob.forget_inbox()?;
    lab.bob.start()?;
    let path = lab.bob.dir().join("inbox.db");
    let database = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .with_context(|| format!("opening {}", path.display()))?;
    database.busy_timeout(Duration::from_secs(5))?;
    let (begun, mut first) = (Instant::now(), None);
    let rate = loop {
        let here = newest(&database)?;
        match first {
            None if here > 0 => first = Some((Instant::now(), here)),
            Some((since, before)) if here >= count => {
                break here.saturating_sub(before) as f64 / Instant::elapsed(&since).as_secs_f64();
            }
            _ => {}
        }
        ensure!(begun.elapsed() < LIMIT, "{here} messages of {count} are here after {} s", LIMIT.as_secs());
        std::thread::sleep(LOOK);
    };
    check(&database, &path, count)?;
    drop(database);
    lab.bob.stop()?;
    Ok(rate)
}

/// Rows are numbered without a gap: the last number is how many there are.
fn newest(database: &Connection) -> Result<u64> {
    let number = database.prepare_cached("SELECT coalesce(max(no), 0) FROM inbox")?.query_row([], |row| row.get(0));
    Ok(u64::try_from(number.unwrap_or(0_i64))?)
}

fn check(database: &Connection, path: &Path, count: u64) -> Result<()> {
    let rows: i64 = database.query_row("SELECT count(*) FROM inbox WHERE body IS NOT NULL", [], |row| row.get(0))?;
    ensure!(u64::try_from(rows)? == count, "{} has {rows} messages of {count}", path.display());
    Ok(())
}
