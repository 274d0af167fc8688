//! Numbers as ECMAScript writes them.
//!
//! Invariant: the text reads back as the same double, with as few digits as that needs.

use std::fmt::Write as _;

use serde::de::IgnoredAny;
use serde_json::Number;

use super::NotCanonical;

/// Whole numbers up to here are doubles, each a different one.
const SAFE: u64 = 1 << 53;

/// Writes a number that is the same after a way through a double.
pub(super) fn write(out: &mut String, number: &Number) -> Result<(), NotCanonical> {
    let refused = || NotCanonical::Number(number.to_string());
    let double = if let Some(whole) = number.as_u64() {
        (whole <= SAFE || survives(&whole.to_string())).then_some(whole as f64)
    } else if let Some(whole) = number.as_i64() {
        let size = whole.unsigned_abs();
        (size <= SAFE || survives(&size.to_string())).then_some(whole as f64)
    } else {
        number.as_f64().filter(|double| double.is_finite())
    };
    write_double(out, double.ok_or_else(refused)?);
    Ok(())
}

/// Whether a whole number's digits are those its double is written with, so that no other number is taken for it.
fn survives(digits: &str) -> bool {
    let Some(double) = digits.parse::<f64>().ok().filter(|double| double.is_finite()) else { return false };
    if double == 0.0 {
        return digits == "0";
    }
    let (significant, exponent) = shortest(double);
    let zeros = usize::try_from(exponent + 1).unwrap_or(0).checked_sub(significant.len());
    let rest = digits.strip_prefix(significant.as_str());
    rest.is_some_and(|rest| Some(rest.len()) == zeros && rest.bytes().all(|digit| digit == b'0'))
}

/// `Number::prototype.toString`, for finite doubles.
fn write_double(out: &mut String, double: f64) {
    if double == 0.0 {
        // Also the negative zero.
        out.push('0');
        return;
    }
    if double < 0.0 {
        out.push('-');
    }
    let (digits, exponent) = shortest(double.abs());
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // The value is 0.digits times ten to this power.
    let point = exponent + 1;
    let zeros = |out: &mut String, many: i32| out.extend(std::iter::repeat_n('0', usize::try_from(many).unwrap_or(0)));
    if count <= point && point <= 21 {
        out.push_str(&digits);
        zeros(out, point - count);
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.push_str(whole);
        out.push('.');
        out.push_str(fraction);
    } else if -6 < point && point <= 0 {
        out.push_str("0.");
        zeros(out, -point);
        out.push_str(&digits);
    } else {
        let (first, rest) = digits.split_at(1);
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push('e');
        out.push(sign);
        out.push_str(&exponent.unsigned_abs().to_string());
    }
}

/// The digits and the exponent of `d.ddd` times a power of ten: as few digits as read back, the closest of those, the
/// even one of two that are equally close.
fn shortest(double: f64) -> (String, i32) {
    let (digits, exponent) = scientific(double, None);
    // Rust differs from the standard in ties alone, and neighbours of fewer digits are too far apart to tie.
    if digits.len() < 16 {
        return (digits, exponent);
    }
    let (longer, longer_exponent) = scientific(double, Some(digits.len() + 20));
    let (floor, rest) = longer.split_at_checked(digits.len()).unwrap_or((&longer, ""));
    let even = floor.ends_with(['0', '2', '4', '6', '8']);
    if !even || longer_exponent != exponent || !is_half(rest) {
        return (digits, exponent);
    }
    // No double has more digits than this.
    let (exact, _) = scientific(double, Some(800));
    let reads_back = format!("{floor}e{}", exponent + 1 - digits.len() as i32).parse() == Ok(double);
    if is_half(exact.get(digits.len()..).unwrap_or_default()) && reads_back {
        return (floor.to_owned(), exponent);
    }
    (digits, exponent)
}

fn is_half(rest: &str) -> bool {
    rest.strip_prefix('5').is_some_and(|zeros| zeros.bytes().all(|digit| digit == b'0'))
}

/// The digits and the exponent as Rust writes them.
fn scientific(double: f64, precision: Option<usize>) -> (String, i32) {
    let mut text = String::with_capacity(24);
    // Writing into a text cannot fail.
    match precision {
        Some(precision) => write!(text, "{double:.precision$e}").ok(),
        None => write!(text, "{double:e}").ok(),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.chars().filter(char::is_ascii_digit).collect(), exponent.parse().unwrap_or(0))
}

/// Checks the numbers of a JSON text before it is read into values: an integer of more than 64 bits would be rounded
/// there without a word. Fractions are taken as the nearest double, as every reader does.
pub fn check_numbers(text: &str) -> Result<(), NotCanonical> {
    // A first pass makes sure that it is JSON, so that the scan below may be simple.
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| NotCanonical::Malformed(error.to_string()))?;

    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = after_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let end = bytes[at..]
                    .iter()
                    .position(|byte| !matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
                    .map_or(bytes.len(), |length| at + length);
                check_literal(&text[at..end])?;
                at = end;
            }
            _ => at += 1,
        }
    }
    Ok(())
}

fn after_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn check_literal(literal: &str) -> Result<(), NotCanonical> {
    let digits = literal.trim_start_matches('-');
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    if survives(digits) { Ok(()) } else { Err(NotCanonical::Number(literal.chars().take(40).collect())) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn double(bits: u64) -> String {
        let mut out = String::new();
        write_double(&mut out, f64::from_bits(bits));
        out
    }

    #[test]
    fn the_samples_of_the_rfc() {
        for (bits, text) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(double(bits), text, "{bits:016x}");
        }
    }

    #[test]
    fn whole_numbers_must_fit_a_double() {
        let of = |number: Number| {
            let mut out = String::new();
            write(&mut out, &number).map(|()| out)
        };
        assert_eq!(of(9_007_199_254_740_992_u64.into()), Ok("9007199254740992".into()));
        assert!(of(9_007_199_254_740_993_u64.into()).is_err());
        assert_eq!(of(9_007_199_254_740_994_u64.into()), Ok("9007199254740994".into()));
        assert_eq!(of(10_000_000_000_000_000_000_u64.into()), Ok("10000000000000000000".into()));
        // As a double it is written 61111111111111110, so that is the number it stands for.
        assert_eq!(of(61_111_111_111_111_110_u64.into()), Ok("61111111111111110".into()));
        assert!(of(61_111_111_111_111_112_u64.into()).is_err());
        assert!(of((1_u64 << 63).into()).is_err());
        assert!(of(i64::MIN.into()).is_err());
        assert!(of(u64::MAX.into()).is_err());
        assert!(of(i64::MAX.into()).is_err());
        assert_eq!(of((-1).into()), Ok("-1".into()));
    }

    #[test]
    fn literals_of_a_text() {
        for good in
            ["1", "[1,-0,1.5e300,{\"a\":9007199254740994}]", "\"9007199254740993\"", "{\"9007199254740993\\\"\":0.1}"]
        {
            assert_eq!(check_numbers(good), Ok(()), "{good}");
        }
        for bad in [
            "9007199254740993",
            "[1,123456789012345678901234567890]",
            "1000000000000000000000001",
            "{\"a\":-9007199254740993}",
        ] {
            assert!(matches!(check_numbers(bad), Err(NotCanonical::Number(_))), "{bad}");
        }
        for broken in ["", "{", "1 2", "nul", "[1,]", "\"a"] {
            assert!(matches!(check_numbers(broken), Err(NotCanonical::Malformed(_))), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn doubles_read_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let mut text = String::new();
            write_double(&mut text, value);
            let again: f64 = text.parse().unwrap();
            prop_assert!(again == value, "{} {}", text, value);
        }

        #[test]
        fn whole_numbers_keep_their_digits_or_are_refused(whole in any::<u64>(), shift in 0_u32..64) {
            let whole = whole >> shift;
            let mut text = String::new();
            match write(&mut text, &whole.into()) {
                Ok(()) => prop_assert_eq!(text, whole.to_string()),
                Err(_) => prop_assert!(whole > SAFE),
            }
            prop_assert_eq!(check_numbers(&whole.to_string()).is_ok(), survives(&whole.to_string()));
        }

        #[test]
        fn what_is_written_is_taken_again(double in any::<f64>()) {
            let mut text = String::new();
            write_double(&mut text, double);
            prop_assert_eq!(check_numbers(&text), Ok(()), "{}", text);
        }
    }
}
