//! Where an entry lies in the table, and how its id tells its number.
//!
//! Invariant: a log's entries lie one after the other in the order of their numbers. An id is 32 letters and digits: 21
//! random ones, and the number as 11, so that an entry is found by its id without an index of ids.

/// Bits of an entry's number.
const BITS: u32 = 40;

/// Random characters of an id.
pub(super) const STEM: usize = 21;

/// Characters of the number: 62^11 is more than 2^64.
const DIGITS: usize = 11;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The place of an entry.
pub(super) fn of(log: i64, seq: u64) -> i64 {
    (log << BITS) | i64::try_from(seq.min((1 << BITS) - 1)).unwrap_or(i64::MAX)
}

/// The number of the entry at a place.
pub(super) fn seq(place: i64) -> u64 {
    (place & ((1 << BITS) - 1)) as u64
}

/// The id of an entry.
pub(super) fn id(stem: &str, seq: u64) -> String {
    let mut id = String::with_capacity(STEM + DIGITS);
    id.push_str(stem);
    for place in (0..DIGITS as u32).rev() {
        let digit = u128::from(seq) / 62_u128.pow(place) % 62;
        id.push(char::from(BASE62[digit as usize]));
    }
    id
}

/// The number in an id.
pub(super) fn seq_of(id: &str) -> Option<u64> {
    let digits = id.as_bytes().get(STEM..).filter(|digits| digits.len() == DIGITS)?;
    digits.iter().try_fold(0_u64, |seq, byte| {
        let digit = BASE62.iter().position(|one| one == byte)?;
        seq.checked_mul(62)?.checked_add(digit as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_number() {
        for number in [0, 1, 61, 62, 12_345_678, (1 << BITS) - 1, u64::MAX] {
            let id = id(&"x".repeat(STEM), number);
            assert_eq!((id.len(), seq_of(&id)), (32, Some(number)));
        }
        for strange in ["", "short", &"-".repeat(32), &"z".repeat(32), &"é".repeat(16), &"1".repeat(33)] {
            assert_eq!(seq_of(strange), None, "{strange}");
        }
    }

    #[test]
    fn places_sort_by_log_and_number() {
        assert!(of(1, u64::MAX) < of(2, 0) && of(2, 1) < of(2, 2));
        assert_eq!(seq(of(77, 12_345)), 12_345);
    }
}
