//! Text for people: sizes, durations, relative times, and foreign bytes made harmless.
//!
//! Invariant: nothing returned by `printable` can move a cursor, colour a terminal or start a new line; what `prose`
//! returns can start new lines and nothing else.
//!
//! Parsing of sizes and durations lives here too, so that what is printed can be typed back.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use crate::inbox::visible::Mark;
use crate::inbox::visible::steers_or_hides;

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// A byte count for people, binary units, at most one decimal.
pub(crate) fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut scale = 1_u64;
    while unit + 1 < UNITS.len() && bytes / scale >= 1024 {
        scale = scale.saturating_mul(1024);
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or("B");
    let tenths = u128::from(bytes) * 10 / u128::from(scale);
    if tenths.is_multiple_of(10) || unit == 0 {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// Reads a size as people write it: `10 GiB`, `512MiB`, `1.5G`, `4096`. `K` to `T` alone are binary, `KB` to `TB` decimal.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("`{text}` is not a size, write for example \"10 GiB\"")),
    };
    let bad = || format!("`{text}` is not a size, write for example \"10 GiB\"");
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 6 {
        return Err(bad());
    }
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let mut bytes = whole.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))?;
    if !fraction.is_empty() {
        let numerator: u64 = fraction.parse().map_err(|_| bad())?;
        let denominator = 10_u64.pow(u32::try_from(fraction.len()).map_err(|_| bad())?);
        let part = u128::from(numerator) * u128::from(factor) / u128::from(denominator);
        bytes = bytes
            .checked_add(u64::try_from(part).map_err(|_| bad())?)
            .ok_or_else(|| format!("`{text}` is too large"))?;
    }
    Ok(bytes)
}

/// A duration for people: its two largest parts.
pub(crate) fn duration(value: Duration) -> String {
    let seconds = value.as_secs();
    if seconds == 0 {
        return match value.subsec_millis() {
            0 => "0s".to_owned(),
            millis => format!("{millis}ms"),
        };
    }
    let parts =
        [(seconds / 86_400, "d"), (seconds % 86_400 / 3_600, "h"), (seconds % 3_600 / 60, "m"), (seconds % 60, "s")];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(3);
    let mut text = String::new();
    for (count, unit) in parts.iter().skip(first).take(2) {
        if *count > 0 {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&format!("{count}{unit}"));
        }
    }
    text
}

/// Reads a duration: numbers with `ms`, `s`, `m`, `h`, `d` or `w`, several added up (`1h 30m`).
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("`{text}` is not a duration, write for example \"7d\" or \"1h 30m\"");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit()).ok_or_else(bad)?;
        let (number, after) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| bad())?;
        let after = after.trim_start();
        let letters = after.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(bad()),
        };
        let part = number.checked_mul(millis).ok_or_else(bad)?;
        total = total.checked_add(Duration::from_millis(part)).ok_or_else(bad)?;
        rest = after.trim_start();
    }
    Ok(total)
}

/// How long ago a moment was, both in nanoseconds since the epoch.
pub(crate) fn ago(then_ns: u64, now_ns: u64) -> String {
    let Some(elapsed) = now_ns.checked_sub(then_ns) else {
        return "just now".to_owned();
    };
    let seconds = elapsed / 1_000_000_000;
    match seconds {
        0 => "just now".to_owned(),
        1..=59 => format!("{seconds}s ago"),
        60..=3_599 => format!("{}m ago", seconds / 60),
        3_600..=172_799 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// Foreign text for a table or a message: characters that steer or hide are spelled out, as on every screen.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    spelled(text, |character| !steers_or_hides(character))
}

/// Foreign text of several lines: like `printable`, but line ends and tabs stay what they are, and so do the joiners
/// and selectors that emoji and some scripts need. Not for what a person decides about: see `inbox::visible`.
pub(crate) fn prose(text: &str) -> Cow<'_, str> {
    let kept = |character: char| {
        matches!(character, '\n' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
            || !steers_or_hides(character)
    };
    match text.contains("\r\n") {
        true => Cow::Owned(spelled(&text.replace("\r\n", "\n"), kept).into_owned()),
        false => spelled(text, kept),
    }
}

/// A text in which every character but the kept ones is spelled out.
fn spelled(text: &str, kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&kept) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match kept(character) {
            true => safe.push(character),
            false => Mark::Escape(character).write(&mut safe),
        }
    }
    Cow::Owned(safe)
}

/// JSON in which nothing stands that a terminal would take for more than text: the same data, spelled with escapes.
pub(crate) fn plain_json(json: &str) -> Cow<'_, str> {
    if !json.chars().any(steers_or_hides) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if steers_or_hides(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                write!(safe, "\\u{unit:04x}").unwrap_or_default();
            }
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// Cuts text to a number of characters, saying with an ellipsis that it did.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.chars().count() <= limit {
        return Cow::Borrowed(text);
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    Cow::Owned(short)
}

/// How many columns of a terminal text takes. A close guess: East Asian letters and emoji take two.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().map(column).sum()
}

fn column(character: char) -> usize {
    match u32::from(character) {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Cuts text to a number of columns, saying with an ellipsis that it did.
pub(crate) fn fit(text: &str, limit: usize) -> Cow<'_, str> {
    // A letter never takes more columns than bytes; most text is short and settled by this.
    if text.len() <= limit || columns(text) <= limit {
        return Cow::Borrowed(text);
    }
    let mut short = String::new();
    let mut used = 0;
    for character in text.chars() {
        used += column(character);
        if used >= limit {
            break;
        }
        short.push(character);
    }
    short.push('…');
    Cow::Owned(short)
}

/// A count for people: `950`, `12.3k`, `4.1M`.
pub(crate) fn count(value: u64) -> String {
    let scaled = |scale: u64, unit: &str| {
        let tenths = u128::from(value) * 10 / u128::from(scale);
        match (tenths % 10, tenths / 10) {
            (0, whole) => format!("{whole}{unit}"),
            (part, whole) => format!("{whole}.{part}{unit}"),
        }
    };
    match value {
        0..=999 => value.to_string(),
        1_000..=999_999 => scaled(1_000, "k"),
        _ => scaled(1_000_000, "M"),
    }
}

/// US dollars for people: cents, and more digits where there are none.
pub(crate) fn dollars(value: f64) -> String {
    if value >= 0.1 || value == 0.0 { format!("${value:.2}") } else { format!("${value:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_is_the_same_data() {
        let hostile = "a\u{9b}31m\u{202e}b\u{7f}\u{1b}[2J\u{feff}ä\n";
        let json = serde_json::to_string(hostile).unwrap();
        let plain = plain_json(&json);
        assert_eq!(plain, r#""a\u009b31m\u202eb\u007f\u001b[2J\ufeffä\n""#);
        assert_eq!(serde_json::from_str::<String>(&plain).unwrap(), hostile);
        assert!(matches!(plain_json("{\"a\":1}"), Cow::Borrowed(_)));
    }

    #[test]
    fn sizes_read_back() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (10 << 30, "10 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(parse_size("10 GiB"), Ok(10 << 30));
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("1.5G"), Ok(3 << 29));
        assert_eq!(parse_size("2 MB"), Ok(2_000_000));
        assert_eq!(parse_size("4096"), Ok(4096));
        for bad in ["", "GiB", "ten", "1..5G", "-1", "1 GiB x", "99999999999 TiB"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_read_back() {
        for (text, seconds) in [("7d", 604_800), ("1h 30m", 5_400), ("1h30m", 5_400), ("90s", 90), ("2w", 1_209_600)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["", "7", "d", "7 days", "-1s", "1h30"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert_eq!(duration(Duration::from_secs(90_061)), "1d 1h");
        assert_eq!(duration(Duration::from_secs(3_601)), "1h");
        assert_eq!(duration(Duration::from_millis(20)), "20ms");
    }

    #[test]
    fn relative_times() {
        let second = 1_000_000_000;
        assert_eq!(ago(5, 4), "just now");
        assert_eq!(ago(0, 30 * second), "30s ago");
        assert_eq!(ago(0, 90 * second), "1m ago");
        assert_eq!(ago(0, 7_200 * second), "2h ago");
        assert_eq!(ago(0, 259_200 * second), "3d ago");
    }

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        assert_eq!(printable("plain ünïcode"), "plain ünïcode");
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d"), "a⟨ESC⟩[2Jb⟨LF⟩c⟨U+202E⟩d");
        for hidden in "\u{ad}\u{34f}\u{61c}\u{115f}\u{180e}\u{2060}\u{2064}\u{3164}\u{e0041}\u{200d}\u{feff}".chars() {
            let shown = format!("x⟨U+{:04X}⟩y", u32::from(hidden));
            assert_eq!(printable(&format!("x{hidden}y")), shown);
        }
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }

    #[test]
    fn prose_keeps_its_lines_and_nothing_else_that_steers() {
        assert_eq!(prose("one\n\ttwo \u{1f469}\u{200d}\u{1f4bb}"), "one\n\ttwo \u{1f469}\u{200d}\u{1f4bb}");
        assert_eq!(prose("a\r\nb\rc\u{1b}]0;x\u{7}d\u{202e}\u{9b}1m"), "a\nb⟨CR⟩c⟨ESC⟩]0;x⟨BEL⟩d⟨U+202E⟩⟨U+009B⟩1m");
    }

    #[test]
    fn text_fits_the_columns_it_is_given() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("日本語です", 6), "日本…");
        assert_eq!(columns(&fit("日本語です", 6)), 5);
        assert_eq!(columns("e\u{301}x"), 2);
        assert_eq!(fit("abc", 0), "…");
    }

    #[test]
    fn counts_and_money() {
        for (value, text) in [(0, "0"), (999, "999"), (1_000, "1k"), (12_345, "12.3k"), (4_100_000, "4.1M")] {
            assert_eq!(count(value), text);
        }
        assert_eq!((dollars(1.239), dollars(0.0213), dollars(0.0)), ("$1.24".into(), "$0.0213".into(), "$0.00".into()));
    }
}
