//! When a key counts as an answer: never before the request was on the screen for a moment, and never by accident.
//!
//! Invariant: a key that was pressed before the request could be read, or by a finger that still rests on it from the
//! last answer, answers nothing. To approve, the end of the request has to have been on the screen.

use std::time::Duration;
use std::time::Instant;

/// How long a request has to be on the screen.
pub(crate) const MOMENT: Duration = Duration::from_millis(400);

/// What was painted, as far as answers go.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Which request, in which form.
    subject: Option<(String, u64)>,
    /// When it was first painted.
    since: Option<Instant>,
    /// When its end was first painted.
    whole_since: Option<Instant>,
    /// When a key was last not counted.
    refused: Option<Instant>,
}

/// Why a key does not count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Hold {
    /// It has just appeared.
    TooSoon,
    /// Its end was not on the screen yet.
    Unread,
}

impl Guard {
    /// Something was painted: which request in which form, and whether its end was on the screen.
    pub(crate) fn painted(&mut self, id: &str, form: u64, end: bool, now: Instant) {
        let same = self.subject.as_ref().is_some_and(|(shown, known)| shown == id && *known == form);
        if !same {
            *self = Guard { subject: Some((id.to_owned(), form)), since: Some(now), whole_since: None, refused: None };
        }
        if end && self.whole_since.is_none() {
            self.whole_since = Some(now);
        }
    }

    /// Nothing is shown, or nothing of it can be trusted to have been seen.
    pub(crate) fn reset(&mut self) {
        *self = Guard::default();
    }

    /// Whether the end of what is shown has been on the screen.
    pub(crate) fn is_read(&self) -> bool {
        self.whole_since.is_some()
    }

    /// Whether a key pressed at that moment may deny this request.
    pub(crate) fn may_deny(&mut self, id: &str, pressed: Instant) -> Result<(), Hold> {
        self.check(id, self.since, pressed)
    }

    /// Whether a key pressed at that moment may approve this request.
    pub(crate) fn may_approve(&mut self, id: &str, pressed: Instant) -> Result<(), Hold> {
        if self.whole_since.is_none() && self.since.is_some() {
            return Err(Hold::Unread);
        }
        self.check(id, self.whole_since, pressed)
    }

    fn check(&mut self, id: &str, since: Option<Instant>, pressed: Instant) -> Result<(), Hold> {
        let shown = self.subject.as_ref().is_some_and(|(shown, _)| shown == id);
        let long = |then: Option<Instant>| then.is_none_or(|then| pressed.saturating_duration_since(then) >= MOMENT);
        if shown && since.is_some() && long(since) && long(self.refused) {
            return Ok(());
        }
        self.refused = Some(pressed);
        Err(Hold::TooSoon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn keys_count_only_after_a_moment() {
        let start = Instant::now();
        let mut guard = Guard::default();
        assert_eq!(guard.may_approve("a", start), Err(Hold::TooSoon));
        guard.painted("a", 1, true, at(start, 1_000));
        assert_eq!(guard.may_approve("a", at(start, 900)), Err(Hold::TooSoon));
        assert_eq!(guard.may_approve("b", at(start, 3_000)), Err(Hold::TooSoon));
        assert_eq!(guard.may_approve("a", at(start, 3_500)), Ok(()));
        assert_eq!(guard.may_deny("a", at(start, 3_500)), Ok(()));
    }

    #[test]
    fn a_finger_that_rests_on_a_key_answers_nothing() {
        let start = Instant::now();
        let mut guard = Guard::default();
        guard.painted("a", 1, true, start);
        for press in 1..100 {
            assert_eq!(guard.may_approve("a", at(start, press * 30)), Err(Hold::TooSoon), "{press}");
        }
        assert_eq!(guard.may_approve("a", at(start, 99 * 30 + 400)), Ok(()));
    }

    #[test]
    fn the_end_has_to_be_seen_to_approve_and_not_to_deny() {
        let start = Instant::now();
        let mut guard = Guard::default();
        guard.painted("a", 1, false, start);
        assert_eq!(guard.may_approve("a", at(start, 1_000)), Err(Hold::Unread));
        assert_eq!(guard.may_deny("a", at(start, 1_000)), Ok(()));
        guard.painted("a", 1, true, at(start, 2_000));
        assert_eq!(guard.may_approve("a", at(start, 2_100)), Err(Hold::TooSoon));
        // Scrolling back up does not undo it.
        guard.painted("a", 1, false, at(start, 2_200));
        assert_eq!(guard.may_approve("a", at(start, 2_600)), Ok(()));
    }

    #[test]
    fn what_changes_on_the_screen_has_to_be_read_again() {
        let start = Instant::now();
        let mut guard = Guard::default();
        guard.painted("a", 1, true, start);
        guard.painted("a", 2, true, at(start, 1_000));
        assert_eq!(guard.may_approve("a", at(start, 1_100)), Err(Hold::TooSoon));
        guard.reset();
        assert_eq!(guard.may_deny("a", at(start, 9_000)), Err(Hold::TooSoon));
    }
}
