//! A row's id as others see it: a ULID made of the time and the number of the row.
//!
//! Invariant: the id leads back to the row without an index, and a number that was used again for another row (in a
//! database that was made anew) does not answer to an old id, because the time differs.

/// Crockford's digits, lower case.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Time and number of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowId {
    /// Milliseconds since 1970, 48 bits of it.
    pub(crate) time: u64,
    /// The row's number.
    pub(crate) no: i64,
}

impl RowId {
    pub(crate) fn new(time: u64, no: i64) -> Self {
        Self { time: time & 0xffff_ffff_ffff, no }
    }

    /// 26 characters that sort as the rows do.
    pub(crate) fn text(self) -> String {
        let value = (u128::from(self.time) << 80) | u128::from(self.no.cast_unsigned());
        (0..26).rev().map(|place| char::from(DIGITS[((value >> (place * 5)) & 31) as usize])).collect()
    }

    /// Reads what `text` writes, in either case.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 26 || bytes[0] > b'7' {
            return None;
        }
        let mut value = 0_u128;
        for byte in bytes {
            let digit = DIGITS.iter().position(|digit| *digit == byte.to_ascii_lowercase())?;
            value = (value << 5) | digit as u128;
        }
        let (time, middle, no) = (value >> 80, (value >> 64) & 0xffff, value as u64);
        (middle == 0).then(|| Self { time: time as u64, no: no.cast_signed() }).filter(|id| id.no > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_back_to_its_row() {
        for (time, no) in [(0, 1), (1_790_000_000_123, 42), (0xffff_ffff_ffff, i64::MAX)] {
            let id = RowId::new(time, no);
            assert_eq!(RowId::parse(&id.text()), Some(id));
            assert_eq!(RowId::parse(&id.text().to_uppercase()), Some(id));
            assert!(hostel_wire::ids::is_ulid(&id.text()));
        }
    }

    #[test]
    fn ids_sort_as_rows_do() {
        let ids = [RowId::new(1, 9), RowId::new(2, 1), RowId::new(2, 10), RowId::new(3, 2)].map(RowId::text);
        assert!(ids.is_sorted());
    }

    #[test]
    fn what_is_no_id_is_none() {
        let other = hostel_wire::ids::ulid(1_790_000_000_123);
        for text in
            ["", "x", "8zzzzzzzzzzzzzzzzzzzzzzzzz", "0000000000000000000000000u", "00000000000000000000000000", &other]
        {
            assert_eq!(RowId::parse(text), None, "{text}");
        }
    }
}
