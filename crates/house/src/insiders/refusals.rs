//! What a process inside the house is told when it may not do something, and how often that is recorded.
//!
//! Invariant: a loop of refusals cannot fill the audit: identical ones are recorded once a minute, with how many there were
//! since, and different ones are bounded by what `approvals` records in a minute. Every refusal is in a record or in the count
//! of a later one.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::table::{Door, Rule};

/// How long identical refusals are counted instead of recorded.
const IDENTICAL_INTERVAL: Duration = Duration::from_secs(60);

/// Different refusals that are remembered at once.
const MAX_REMEMBERED: usize = 256;

/// Why a process inside the house may not do something, for whoever asked: who may, and how.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal(pub(super) String);

impl Refusal {
    /// The refusal that the table has for a method; for one that is allowed there is none.
    #[must_use]
    pub fn of(method: &str, rule: Rule) -> Option<Self> {
        match rule {
            Rule::Allowed => None,
            Rule::OwnOnly(own) => Some(Refusal(format!(
                "`{method}` is refused: a process that runs inside this house, or that cannot be recognised, may use it \
                 only for {}; the owner of the house may do it from outside",
                own.words()
            ))),
            Rule::Denied(how) => Some(Refusal(format!(
                "`{method}` is refused to a process that runs inside this house, or that cannot be recognised; the owner \
                 of the house may do it from outside: {how}"
            ))),
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What makes two refusals the same.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Subject {
    pub(super) door: Door,
    pub(super) method: String,
    pub(super) origin: String,
}

/// Refusals that were recorded lately.
#[derive(Default)]
pub(super) struct Recorded {
    recent: HashMap<Subject, (Instant, u64)>,
    /// Refusals that were counted for a subject that is not remembered any more.
    forgotten: u64,
}

/// Refusals that were not recorded before one that is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Before {
    pub(super) identical: u64,
    pub(super) others: u64,
}

impl Recorded {
    /// Whether a refusal is to be recorded, and how many were not since the last record.
    pub(super) fn take(&mut self, subject: Subject, now: Instant) -> Option<Before> {
        if let Some((since, unrecorded)) = self.recent.get_mut(&subject) {
            if now.duration_since(*since) < IDENTICAL_INTERVAL {
                *unrecorded += 1;
                return None;
            }
            *since = now;
            return Some(Before { identical: std::mem::take(unrecorded), others: std::mem::take(&mut self.forgotten) });
        }
        if self.recent.len() >= MAX_REMEMBERED {
            let forgotten = &mut self.forgotten;
            self.recent.retain(|_, (since, unrecorded)| {
                let is_recent = now.duration_since(*since) < IDENTICAL_INTERVAL;
                *forgotten += if is_recent { 0 } else { *unrecorded };
                is_recent
            });
        }
        if self.recent.len() < MAX_REMEMBERED {
            self.recent.insert(subject, (now, 0));
        }
        Some(Before { identical: 0, others: std::mem::take(&mut self.forgotten) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::Own;
    use super::*;

    fn subject(method: &str) -> Subject {
        Subject { door: Door::Native, method: method.to_owned(), origin: String::new() }
    }

    #[test]
    fn identical_refusals_are_recorded_once_a_minute_and_counted() {
        let (mut recorded, start) = (Recorded::default(), Instant::now());
        assert_eq!(recorded.take(subject("a"), start), Some(Before::default()));
        assert_eq!(recorded.take(subject("a"), start), None);
        assert_eq!(recorded.take(subject("b"), start), Some(Before::default()), "another one");
        assert_eq!(recorded.take(subject("a"), start + IDENTICAL_INTERVAL / 2), None);
        let before = Before { identical: 2, others: 0 };
        assert_eq!(recorded.take(subject("a"), start + IDENTICAL_INTERVAL), Some(before));
        assert_eq!(recorded.take(subject("a"), start + IDENTICAL_INTERVAL), None);
    }

    #[test]
    fn few_are_remembered() {
        let (mut recorded, start) = (Recorded::default(), Instant::now());
        for number in 0..2 * MAX_REMEMBERED {
            recorded.take(subject(&number.to_string()), start);
        }
        assert_eq!(recorded.recent.len(), MAX_REMEMBERED);
        recorded.take(subject("0"), start);
        recorded.take(subject("0"), start);
        let before = Before { identical: 0, others: 2 };
        let later = recorded.take(subject("later"), start + IDENTICAL_INTERVAL);
        assert_eq!(later, Some(before), "what is forgotten was counted");
        assert_eq!(recorded.recent.len(), 1, "what is over makes room");
    }

    #[test]
    fn a_refusal_says_who_may_and_how() {
        let denied = Refusal::of("house/down", Rule::Denied("`hostel down`")).unwrap();
        assert!(denied.text().contains("inside this house") && denied.text().ends_with("`hostel down`"), "{denied}");
        let own = Refusal::of("process/kill", Rule::OwnOnly(Own::Started)).unwrap();
        assert!(own.text().contains("only for processes that were started") && own.text().contains("owner"), "{own}");
        assert_eq!(Refusal::of("status", Rule::Allowed), None);
    }
}
