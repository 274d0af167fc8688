//! What wrong passphrases lead to: a pause, each time twice as long.
//!
//! Invariant: attempts are counted on disk, across faces and restarts, and an attempt is counted before it is looked at.
//! A clock that is set back does not make a pause longer than the longest.

use std::time::Duration;

use rusqlite::{Transaction, params};

/// How many attempts there are, and how long the pauses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Wrong ones in a row before a pause.
    pub attempts: u32,
    /// The first pause; each further one is twice as long.
    pub wait: Duration,
    /// But never longer than this.
    pub longest: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { attempts: 5, wait: Duration::from_secs(30), longest: Duration::from_secs(3600) }
    }
}

/// Whether an attempt is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// It is, and so many wrong ones more.
    Open {
        left: u32,
    },
    Locked {
        until_ns: u64,
    },
}

struct Count {
    wrong: u32,
    rounds: u32,
    until_ns: u64,
}

fn load(transaction: &Transaction<'_>) -> rusqlite::Result<Count> {
    transaction.prepare_cached("SELECT wrong, rounds, until_ns FROM lockout")?.query_row([], |row| {
        Ok(Count { wrong: row.get(0)?, rounds: row.get(1)?, until_ns: row.get::<_, i64>(2)? as u64 })
    })
}

fn save(transaction: &Transaction<'_>, count: &Count) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE lockout SET wrong = ?, rounds = ?, until_ns = ?")?
        .execute(params![count.wrong, count.rounds, i64::try_from(count.until_ns).unwrap_or(i64::MAX)])
        .map(drop)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An attempt is about to be looked at: it counts as a wrong one until it is known to be right.
pub(super) fn begin(transaction: &Transaction<'_>, limits: Limits, now_ns: u64) -> rusqlite::Result<Standing> {
    let mut count = load(transaction)?;
    count.until_ns = count.until_ns.min(now_ns.saturating_add(nanos(limits.longest)));
    if count.until_ns > now_ns {
        return Ok(Standing::Locked { until_ns: count.until_ns });
    }
    if count.wrong >= limits.attempts.max(1) {
        // The daemon was killed while it looked at the last one: that one was wrong.
        return fail(transaction, limits, now_ns);
    }
    count.wrong += 1;
    save(transaction, &count)?;
    Ok(Standing::Open { left: limits.attempts.max(1) - count.wrong })
}

/// It was wrong.
pub(super) fn fail(transaction: &Transaction<'_>, limits: Limits, now_ns: u64) -> rusqlite::Result<Standing> {
    let mut count = load(transaction)?;
    let attempts = limits.attempts.max(1);
    if count.wrong < attempts {
        return Ok(Standing::Open { left: attempts - count.wrong });
    }
    let pause = nanos(limits.wait).saturating_mul(1 << count.rounds.min(40)).min(nanos(limits.longest));
    count = Count { wrong: 0, rounds: count.rounds.saturating_add(1), until_ns: now_ns.saturating_add(pause) };
    save(transaction, &count)?;
    Ok(Standing::Locked { until_ns: count.until_ns })
}

/// It was right: everything is forgiven.
pub(super) fn succeed(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    save(transaction, &Count { wrong: 0, rounds: 0, until_ns: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_down_to_a_pause_that_doubles() {
        let mut database = rusqlite::Connection::open_in_memory().unwrap();
        database
            .execute_batch("CREATE TABLE lockout (wrong, rounds, until_ns); INSERT INTO lockout VALUES (0, 0, 0)")
            .unwrap();
        let transaction = database.transaction().unwrap();
        let limits = Limits { attempts: 3, wait: Duration::from_nanos(10), longest: Duration::from_nanos(15) };
        let told = |standing| match standing {
            Standing::Open { left } => Ok(left),
            Standing::Locked { until_ns } => Err(until_ns),
        };
        let begin = |now| told(begin(&transaction, limits, now).unwrap());
        let fail = |now| told(fail(&transaction, limits, now).unwrap());
        for left in [2, 1] {
            assert_eq!((begin(100), fail(100)), (Ok(left), Ok(left)));
        }
        assert_eq!((begin(100), fail(100)), (Ok(0), Err(110)));
        assert_eq!(begin(109), Err(110));
        // Its end is its end. The next pause is twice as long, if that is not too long.
        for left in [2, 1, 0] {
            assert_eq!(begin(110), Ok(left));
        }
        // Killed while it looked at the last one.
        assert_eq!(begin(110), Err(125));
        assert_eq!(begin(1), Err(16), "a clock that was set back");
        succeed(&transaction).unwrap();
        assert_eq!((begin(111), fail(111)), (Ok(2), Ok(2)));
    }
}
