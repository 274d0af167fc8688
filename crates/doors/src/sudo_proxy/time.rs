//! When a request says it was made.
//!
//! Invariant: a text is a date and time in full, or it is nothing: no part of it is skipped. The result is between the
//! years 1969 and 10000, so that no arithmetic on it can wrap.
//!
//! Nobody prints the text itself; what faces show is their own rendering of a number.

/// Why a time is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stale {
    /// There is none.
    Missing,
    /// It cannot be read.
    Malformed,
    /// It is so many seconds old.
    Old(i64),
    /// It lies so many seconds ahead.
    Ahead(i64),
}

/// How old a request may be, and how far ahead of us its clock may run. Whole seconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Window {
    /// The oldest age that passes.
    pub age: u32,
    /// The largest lead that passes.
    pub lead: u32,
}

/// Judges the time of a request at the second `now`.
pub(crate) fn judge(text: &str, now: i64, window: Window) -> Result<(), Stale> {
    if text.is_empty() {
        return Err(Stale::Missing);
    }
    let age = now.saturating_sub(parse(text).ok_or(Stale::Malformed)?);
    if age > i64::from(window.age) {
        return Err(Stale::Old(age));
    }
    if age < -i64::from(window.lead) {
        return Err(Stale::Ahead(age.saturating_neg()));
    }
    Ok(())
}

/// Seconds since 1970 of `YYYY-MM-DDTHH:MM:SS`, then a fraction or none, then `Z`, an offset or nothing (which is UTC).
/// Blanks around it mean nothing.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let mut rest = Rest(text.trim_matches([' ', '\t']).as_bytes());
    let year = rest.number(4)?;
    let month = rest.after(b'-')?.number(2)?;
    let day = rest.after(b'-')?.number(2)?;
    let hour = rest.after(b'T')?.number(2)?;
    let minute = rest.after(b':')?.number(2)?;
    let second = rest.after(b':')?.number(2)?;
    // 60 is a leap second.
    let fits = year >= 1970
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour <= 23
        && minute <= 59
        && second <= 60;
    if !fits {
        return None;
    }
    rest.fraction()?;
    let offset = rest.offset()?;
    let days = days_before(year) + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second - offset)
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Exactly so many digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        let value = number
            .iter()
            .try_fold(0, |value: i64, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))?;
        self.0 = rest;
        Some(value)
    }

    /// Steps over one byte that has to be there.
    fn after(&mut self, byte: u8) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(self)
    }

    /// A fraction has digits; it is less than a second and does not count.
    fn fraction(&mut self) -> Option<()> {
        if self.after(b'.').is_some() {
            let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.0 = self.0.get(digits..).filter(|_| digits > 0)?;
        }
        Some(())
    }

    /// Seconds east of UTC. Nothing may follow.
    fn offset(&mut self) -> Option<i64> {
        let sign = match self.0.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return matches!(self.0, b"" | b"Z").then_some(0),
        };
        self.0 = self.0.get(1..)?;
        let hours = self.number(2)?;
        // Both forms of the standard: with a colon and without.
        self.0 = self.0.strip_prefix(b":").unwrap_or(self.0);
        let minutes = self.number(2)?;
        (self.0.is_empty() && hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from the start of 1970 to the start of `year`.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    (year - 1970) * 365 + (past / 4 - past / 100 + past / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: Window = Window { age: 60, lead: 30 };

    #[test]
    fn forms_that_are_read() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-02-13T14:30:00Z", 1_770_993_000),
            ("2026-02-13T14:30:00", 1_770_993_000),
            ("  2026-02-13T14:30:00Z\t", 1_770_993_000),
            ("2026-02-13T14:30:00.999Z", 1_770_993_000),
            ("2026-02-13T14:30:00.1", 1_770_993_000),
            ("2026-02-13T16:30:00+02:00", 1_770_993_000),
            ("2026-02-13T09:30:00.5-0500", 1_770_993_000),
            ("2024-02-29T23:59:60Z", 1_709_251_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn everything_else_is_malformed() {
        for text in [
            " ",
            "Z",
            "x",
            "2026-02-13",
            "2026-02-13T14:30Z",
            "2026-02-13 14:30:00Z",
            "2026-02-13t14:30:00z",
            "1969-12-31T23:59:59Z",
            "0000-00-00T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T23:60:00Z",
            "2026-01-01T23:59:61Z",
            "2026-1-1T1:2:3Z",
            "+2026-01-01T00:00:00Z",
            "12026-01-01T00:00:00Z",
            "2026-01-01-xxT00:00:00Z",
            "2026-01-01T00:00:00:11Z",
            "2026-01-01T00:00:00Zx",
            "2026-01-01T00:00:00ZZ",
            "2026-01-01T00:00:00.5ZZ",
            "2026-01-01T00:00:00Z Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+02:60",
            "2026-01-01T00:00:00+02:00Z",
            "2026-01-01T00:00:00Z+02:00",
            "2026-01-01T00:00:00+02",
            "２０２６-01-01T00:00:00Z",
            "2026-01-01T00:00:00\u{a0}",
            "-026-01-01T00:00:00Z",
            "2026-01-01T-1:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_window() {
        let now = parse("2026-02-13T14:30:00Z").unwrap();
        let at = |now: i64| judge("2026-02-13T14:30:00Z", now, WINDOW);
        assert_eq!([at(now), at(now + 60), at(now - 30)], [Ok(()); 3]);
        assert_eq!(at(now + 61), Err(Stale::Old(61)));
        assert_eq!(at(now - 31), Err(Stale::Ahead(31)));
        assert_eq!(at(i64::MIN), Err(Stale::Ahead(i64::MAX)));
        assert_eq!(at(i64::MAX), Err(Stale::Old(i64::MAX - now)));
        assert_eq!(judge("", now, WINDOW), Err(Stale::Missing));
        assert_eq!(judge("never", now, WINDOW), Err(Stale::Malformed));
    }

    proptest! {
        #[test]
        fn as_another_calendar_has_it(seconds in 0i64..253_402_300_799, offset in -86_340i64..86_340) {
            let offset = offset / 60 * 60;
            let local = seconds.saturating_add(offset).max(0);
            let zone = jiff::tz::Offset::from_seconds(offset as i32).unwrap();
            let date = jiff::Timestamp::from_second(local - offset);
            prop_assume!(date.is_ok() && (0..253_402_300_799).contains(&local));
            let date = zone.to_datetime(date.unwrap());
            let sign = if offset < 0 { '-' } else { '+' };
            let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
            let text = format!("{date}{sign}{hours:02}:{minutes:02}");
            prop_assert_eq!(parse(&text), Some(local - offset), "{}", text);
        }

        #[test]
        fn later_is_never_older(first in 0i64..253_402_300_799, second in 0i64..253_402_300_799) {
            let text = |seconds| jiff::Timestamp::from_second(seconds).unwrap().to_string();
            prop_assert_eq!(parse(&text(first)).cmp(&parse(&text(second))), first.cmp(&second));
        }

        #[test]
        fn no_text_breaks_it(text in "[0-9TZ:.+\\- ]{0,30}", now in any::<i64>()) {
            if let Some(seconds) = parse(&text) {
                prop_assert!((-90_000..253_402_400_000).contains(&seconds));
            }
            judge(&text, now, WINDOW).ok();
        }
    }
}
