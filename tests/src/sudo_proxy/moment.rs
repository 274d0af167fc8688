//! Times as requests have them, relative to now.

use std::time::{SystemTime, UNIX_EPOCH};

/// The moment `offset` seconds from now as `YYYY-MM-DDTHH:MM:SS`, in UTC.
pub fn from_now(offset: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format(i64::try_from(now).unwrap_or(0) + offset)
}

fn format(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (mut year, mut day) = (1970, days);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = |year: i64| if is_leap(year) { 366 } else { 365 };
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(format(0), "1970-01-01T00:00:00");
        assert_eq!(format(1_709_164_799), "2024-02-28T23:59:59");
        assert_eq!(format(1_709_251_199), "2024-02-29T23:59:59");
        assert_eq!(format(1_770_993_000), "2026-02-13T14:30:00");
        assert_eq!(format(4_102_444_799), "2099-12-31T23:59:59");
    }
}
