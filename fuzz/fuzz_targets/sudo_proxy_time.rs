//! The time of a request: nothing of it is skipped, later is never older, no arithmetic wraps, and it is the same moment
//! as for another calendar.
#![no_main]

use hostel_doors::sudo_proxy::fuzzing::{WINDOW, judge_time, parse_time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (i64, &str)| {
    let (now, text) = input;
    let judged = judge_time(text, now);
    let Some(seconds) = parse_time(text) else {
        assert!(judged.is_err());
        return;
    };
    // Every character that is there means something: digits, separators, a zone, blanks around.
    let core = text.trim_matches([' ', '\t']);
    assert!(core.is_ascii() && core.len() >= 19);
    assert!(core.bytes().all(|byte| byte.is_ascii_digit() || b"-T:.Z+".contains(&byte)));
    assert!((-86_400..=253_402_387_200).contains(&seconds));
    let age = i128::from(now) - i128::from(seconds);
    let fresh = (-i128::from(WINDOW.lead)..=i128::from(WINDOW.age)).contains(&age);
    assert_eq!(judged.is_ok(), fresh);
    // One second later by its own digits is one second later.
    let (head, tail) = core.split_at(17);
    if let Some(digits) = tail.get(..2).and_then(|digits| digits.parse::<u32>().ok()).filter(|digits| *digits < 59) {
        let next = format!("{head}{:02}{}", digits + 1, &tail[2..]);
        assert_eq!(parse_time(&next), Some(seconds + 1));
    }
    // A day's own count of days, by counting.
    assert_eq!(days(core) * 86_400, seconds + offset(core) - seconds_of_day(core));
});

fn number(text: &str, from: usize, to: usize) -> i64 {
    text.get(from..to).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn seconds_of_day(text: &str) -> i64 {
    number(text, 11, 13) * 3600 + number(text, 14, 16) * 60 + number(text, 17, 19)
}

/// Seconds east of UTC.
fn offset(text: &str) -> i64 {
    let zone = text[19..].trim_start_matches(|sign: char| sign == '.' || sign.is_ascii_digit());
    let sign = match zone.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return 0,
    };
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    sign * (number(&digits, 0, 2) * 3600 + number(&digits, 2, 4) * 60)
}

/// Days since 1970, month by month.
fn days(text: &str) -> i64 {
    let (year, month, day) = (number(text, 0, 4), number(text, 5, 7), number(text, 8, 10));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let years: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    years + lengths.iter().take(month as usize - 1).sum::<i64>() + day - 1
}
