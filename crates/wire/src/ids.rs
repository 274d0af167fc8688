//! Ids: what they look like and how they are drawn.
//!
//! Invariant: every id drawn here is new in practice (80 random bits at least) and safe in a file name, a URL and a key
//! of a key-value store.

use crate::{encoding, random};

const CROCKFORD: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A lower-case ULID: 48 bits of time, 80 random ones, as 26 characters that sort by time.
#[must_use]
pub fn ulid(now_ms: u64) -> String {
    let mut random = [0_u8; 16];
    random::fill(&mut random[6..]);
    let value = (u128::from(now_ms & 0xffff_ffff_ffff) << 80) | (u128::from_be_bytes(random));
    let mut out = String::with_capacity(26);
    for place in (0..26).rev() {
        let digit = (value >> (place * 5)) & 31;
        out.push(char::from(CROCKFORD[digit as usize]));
    }
    out
}

/// Whether `text` has the shape of `ulid`.
#[must_use]
pub fn is_ulid(text: &str) -> bool {
    text.len() == 26 && text.as_bytes()[0] <= b'7' && text.bytes().all(|byte| CROCKFORD.contains(&byte))
}

/// An id a broker gives to a message: 32 characters of base62.
#[must_use]
pub fn message_id() -> String {
    let mut out = String::with_capacity(32);
    while out.len() < 32 {
        // Bytes from 248 on are thrown away: 248 is a multiple of 62, so every character is equally likely.
        for byte in random::bytes::<48>() {
            if byte < 248 && out.len() < 32 {
                out.push(char::from(BASE62[usize::from(byte % 62)]));
            }
        }
    }
    out
}

/// A secret for a file: 32 random bytes as base64url without padding, 43 characters.
#[must_use]
pub fn token() -> String {
    encoding::b64url(&random::bytes::<32>())
}

/// A challenge: 32 random bytes as base64.
#[must_use]
pub fn nonce_b64() -> String {
    encoding::b64(&random::bytes::<32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulids_sort_by_time() {
        let early = ulid(1_700_000_000_000);
        let late = ulid(1_700_000_000_001);
        assert!(early < late);
        assert!(is_ulid(&early) && is_ulid(&late));
        assert_eq!(&ulid(0)[..10], "0000000000");
        assert_eq!(&ulid(0xffff_ffff_ffff)[..10], "7zzzzzzzzz");
    }

    #[test]
    fn the_known_example_of_a_time() {
        assert_eq!(&ulid(1_469_918_176_385)[..10], "01aryz6s41");
    }

    #[test]
    fn what_is_not_a_ulid() {
        for text in [
            "",
            "8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "01ARYZ6S41TSV4RRFFQ69G5FAV",
            "01aryz6s41tsv4rrffq69g5fa",
            "01aryz6s41tsv4rrffq69g5fai",
        ] {
            assert!(!is_ulid(text), "{text}");
        }
    }

    #[test]
    fn shapes() {
        let id = message_id();
        assert_eq!(id.len(), 32);
        assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        assert_eq!(token().len(), 43);
        assert_eq!(nonce_b64().len(), 44);
        assert_ne!(message_id(), message_id());
    }
}
