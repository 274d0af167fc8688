//! Bytes as text: hex, base64 and base64url.
//!
//! Invariant: strict. Padding must be there (base64) or absent (base64url), nothing but the alphabet is skipped, unused
//! bits must be zero, so every byte string has one text and a signature over the text is one over the bytes. Hex may
//! come in either case and is written in lower case.

use base64_simd::{STANDARD, URL_SAFE_NO_PAD};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Hex in lower case.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    out
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Reads hex.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|pair| Some((nibble(pair[0])? << 4) | nibble(pair[1])?)).collect()
}

/// Reads hex of exactly `N` bytes.
#[must_use]
pub fn unhex_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 {
        return None;
    }
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
    }
    Some(out)
}

/// Base64 with padding.
#[must_use]
pub fn b64(bytes: &[u8]) -> String {
    STANDARD.encode_to_string(bytes)
}

/// Reads base64 with padding.
#[must_use]
pub fn unb64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode_to_vec(text).ok()
}

/// Reads base64 of exactly `N` bytes.
#[must_use]
pub fn unb64_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    // A longer text is not even decoded.
    if text.len() != STANDARD.encoded_length(N) {
        return None;
    }
    unb64(text)?.try_into().ok()
}

/// Base64url without padding.
#[must_use]
pub fn b64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(bytes)
}

/// Reads base64url without padding.
#[must_use]
pub fn unb64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode_to_vec(text).ok()
}

/// Reads base64url of exactly `N` bytes.
#[must_use]
pub fn unb64url_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != URL_SAFE_NO_PAD.encoded_length(N) {
        return None;
    }
    unb64url(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strict() {
        assert_eq!(unhex("abc"), None);
        assert_eq!(unhex("zz"), None);
        assert_eq!(unhex("Ab0f"), Some(vec![0xab, 0x0f]));
        assert_eq!(unhex_array::<2>("ab"), None);
        assert_eq!(unb64("YQ"), None, "padding is missing");
        assert_eq!(unb64("YR=="), None, "unused bits are set");
        assert_eq!(unb64("YQ==\n"), None);
        assert_eq!(unb64("Y Q="), None);
        assert_eq!(unb64("_-=="), None, "the other alphabet");
        assert_eq!(unb64url("YQ=="), None, "padding is not wanted");
        assert_eq!(unb64url("YR"), None, "unused bits are set");
        assert_eq!(unb64url("YQ"), Some(b"a".to_vec()));
        assert_eq!(unb64_array::<1>("YQ=="), Some([b'a']));
        assert_eq!(unb64_array::<2>("YQ=="), None);
        assert_eq!(unb64_array::<3>("YQ=="), None);
        assert_eq!(unb64url_array::<1>("YQ"), Some([b'a']));
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(unhex(&hex(&bytes)), Some(bytes.clone()));
            prop_assert_eq!(unb64(&b64(&bytes)), Some(bytes.clone()));
            prop_assert_eq!(unb64url(&b64url(&bytes)), Some(bytes));
        }

        #[test]
        fn one_text_per_byte_string(text in "[A-Za-z0-9+/=]{0,24}") {
            if let Some(bytes) = unb64(&text) {
                prop_assert_eq!(b64(&bytes), text);
            }
        }

        #[test]
        fn one_url_text_per_byte_string(text in "[A-Za-z0-9_-]{0,24}") {
            if let Some(bytes) = unb64url(&text) {
                prop_assert_eq!(b64url(&bytes), text);
            }
        }
    }
}
