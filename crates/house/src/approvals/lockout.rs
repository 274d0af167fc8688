//! What wrong passphrases lead to: a pause, each time twice as long.
//!
//! Invariant: the count is the house's own, in memory, and written down before an attempt is looked at, so that neither
//! other connections nor a killed daemon give anybody more attempts. What stands on disk is read at the start alone, and
//! counts only with the seal of the present key. A clock that is set back does not make a pause longer than the longest.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::seals::{Ledger, RowKey, Seal, Table};

/// How many attempts there are, and how long the pauses.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
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

/// Wrong passphrases in a row, how often that led to a pause, and until when there is one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Count {
    wrong: u32,
    rounds: u32,
    until_ns: u64,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Count {
    /// An attempt is about to be looked at: it counts as a wrong one until it is known to be right.
    pub(super) fn begin(&mut self, limits: Limits, now_ns: u64) -> Standing {
        let until_ns = self.until_ns.min(now_ns.saturating_add(nanos(limits.longest)));
        if until_ns > now_ns {
            return Standing::Locked { until_ns };
        }
        if self.wrong >= limits.attempts.max(1) {
            // The daemon was killed while it looked at the last one: that one was wrong.
            return self.fail(limits, now_ns);
        }
        self.wrong += 1;
        Standing::Open { left: limits.attempts.max(1) - self.wrong }
    }

    /// It was wrong.
    pub(super) fn fail(&mut self, limits: Limits, now_ns: u64) -> Standing {
        let attempts = limits.attempts.max(1);
        if self.wrong < attempts {
            return Standing::Open { left: attempts - self.wrong };
        }
        let pause = nanos(limits.wait).saturating_mul(1 << self.rounds.min(40)).min(nanos(limits.longest));
        *self = Count { wrong: 0, rounds: self.rounds.saturating_add(1), until_ns: now_ns.saturating_add(pause) };
        Standing::Locked { until_ns: self.until_ns }
    }

    /// It was neither right nor a guess: the attempt does not count.
    pub(super) fn take_back(&mut self) {
        self.wrong = self.wrong.saturating_sub(1);
    }

    /// It was right: everything is forgiven.
    pub(super) fn succeed(&mut self) {
        *self = Count::default();
    }

    /// No passphrase is taken for the longest time there is.
    pub(super) fn lock(limits: Limits, now_ns: u64) -> Self {
        Count { wrong: 0, rounds: 40, until_ns: now_ns.saturating_add(nanos(limits.longest)) }
    }

    /// The count of a house whose key is lost: what stood on disk proves nothing. A pause that may have been going on
    /// (`recorded_ns` is the end of the last one in the audit) counts as the longest. Without one, as many wrong passphrases
    /// count as there may be: the next wrong one leads to a pause.
    pub(super) fn after_lost_key(found: Option<Count>, recorded_ns: u64, limits: Limits, now_ns: u64) -> Self {
        match found {
            Some(count) if count.rounds == 0 && count.until_ns <= now_ns && recorded_ns <= now_ns => {
                Count { wrong: limits.attempts.max(1) - 1, ..Count::default() }
            }
            _ => Count::lock(limits, now_ns),
        }
    }

    /// Whether nothing is taken at the moment.
    pub(super) fn is_locked(&self, now_ns: u64) -> bool {
        self.until_ns > now_ns
    }
}

/// The count as it stands on disk; none if there is none.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Option<Count>> {
    let mut statement = connection.prepare_cached("SELECT wrong, rounds, until_ns FROM lockout")?;
    let found = statement.query_row([], |row| {
        Ok((row.get::<_, u32>(0), row.get::<_, u32>(1), row.get::<_, i64>(2).map(|until| until as u64)))
    });
    Ok(match found.optional()? {
        Some((Ok(wrong), Ok(rounds), Ok(until_ns))) => Some(Count { wrong, rounds, until_ns }),
        _ => None,
    })
}

/// The place of the count in the ledger.
pub(super) fn key() -> RowKey {
    RowKey::only(Table::Lockout)
}

/// The seal of a count.
pub(super) fn seal_of(ledger: &Ledger, count: &Count) -> Seal {
    ledger.seal(Table::Lockout, |encoder| {
        encoder.number(count.wrong.into()).number(count.rounds.into()).number(count.until_ns as i64);
    })
}

/// Writes the count. Says whether what stood there was the count of before.
pub(super) fn save(
    transaction: &Transaction<'_>,
    ledger: &Ledger,
    before: Count,
    count: Count,
) -> rusqlite::Result<bool> {
    let was_ours = load(transaction)? == Some(before);
    let seal = seal_of(ledger, &count);
    let until = i64::try_from(count.until_ns).unwrap_or(i64::MAX);
    transaction
        .prepare_cached("INSERT OR REPLACE INTO lockout (one, wrong, rounds, until_ns, seal) VALUES (1, ?, ?, ?, ?)")?
        .execute(params![count.wrong, count.rounds, until, seal.bytes()])?;
    ledger.set(key(), Some(seal));
    Ok(was_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { attempts: 3, wait: Duration::from_nanos(10), longest: Duration::from_nanos(15) };

    #[test]
    fn attempts_are_counted_down_to_a_pause_that_doubles() {
        let told = |standing| match standing {
            Standing::Open { left } => Ok(left),
            Standing::Locked { until_ns } => Err(until_ns),
        };
        let count = std::cell::RefCell::new(Count::default());
        let begin = |now| told(count.borrow_mut().begin(LIMITS, now));
        let fail = |now| told(count.borrow_mut().fail(LIMITS, now));
        for left in [2, 1] {
            assert_eq!((begin(100), fail(100)), (Ok(left), Ok(left)));
        }
        assert_eq!((begin(100), fail(100)), (Ok(0), Err(110)));
        assert_eq!(begin(109), Err(110));
        assert!(count.borrow().is_locked(109) && !count.borrow().is_locked(110));
        // Its end is its end. The next pause is twice as long, if that is not too long.
        for left in [2, 1, 0] {
            assert_eq!(begin(110), Ok(left));
        }
        // Killed while it looked at the last one.
        assert_eq!(begin(110), Err(125));
        assert_eq!(begin(1), Err(16), "a clock that was set back");
        assert_eq!(begin(126), Ok(2));
        count.borrow_mut().take_back();
        assert_eq!(begin(126), Ok(2), "an attempt that does not count");
        count.borrow_mut().succeed();
        assert_eq!((begin(111), fail(111)), (Ok(2), Ok(2)));
    }

    #[test]
    fn after_a_lost_key_a_pause_counts_as_the_longest() {
        let after = |found, recorded| Count::after_lost_key(found, recorded, LIMITS, 100);
        let locked = Count::lock(LIMITS, 100);
        assert!(locked.is_locked(114) && !locked.is_locked(115));
        let counted = Count { wrong: 2, ..Count::default() };
        for found in [Count::default(), Count { wrong: 1, ..counted }, counted, Count { wrong: 9, ..counted }] {
            assert_eq!(after(Some(found), 0), counted, "one attempt is left");
            assert_eq!(after(Some(found), 100), counted);
        }
        let mut last = after(Some(Count::default()), 0);
        assert_eq!(last.begin(LIMITS, 100), Standing::Open { left: 0 });
        assert_eq!(last.fail(LIMITS, 100), Standing::Locked { until_ns: 110 });
        let single = Count::after_lost_key(Some(counted), 0, Limits { attempts: 1, ..LIMITS }, 100);
        assert_eq!(single, Count::default(), "the one attempt that there is");
        for (found, recorded) in [
            (None, 0),
            (Some(counted), 101),
            (Some(Count { until_ns: 101, ..counted }), 0),
            (Some(Count { rounds: 1, ..counted }), 0),
        ] {
            assert_eq!(after(found, recorded), locked, "{found:?} {recorded}");
        }
    }
}
