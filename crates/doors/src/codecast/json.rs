//! JSON written straight into a buffer, for what is written a hundred thousand times.
//!
//! Invariant: whatever goes in, what comes out is one line.

/// Two digits of a control character's escape.
const HEX: &[u8; 16] = b"0123456789abcdef";

/// How a byte is written inside a string: 0 as it is, `u` as `\u00XX`, else the letter after the backslash.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = b'u';
        control += 1;
    }
    table[0x08] = b'b';
    table[0x09] = b't';
    table[0x0a] = b'n';
    table[0x0c] = b'f';
    table[0x0d] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

/// Appends a string with its quotes.
pub(super) fn push_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape = ESCAPES[usize::from(*byte)];
        if escape == 0 {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        out.extend_from_slice(&[b'\\', escape]);
        if escape == b'u' {
            out.extend_from_slice(&[b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// Appends a JSON text that is known to be valid. Line ends between its tokens become blanks; inside strings there
/// are none.
pub(super) fn push_raw(out: &mut Vec<u8>, json: &str) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    if memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some() {
        for byte in &mut out[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

/// How many bytes a character takes inside a string.
fn written_len(character: char) -> usize {
    match u8::try_from(character).map(|byte| ESCAPES[usize::from(byte)]) {
        Ok(b'u') => 6,
        Ok(0) | Err(_) => character.len_utf8(),
        Ok(_) => 2,
    }
}

/// The text in pieces of which none takes more than `limit` bytes as a string; one empty piece for an empty text.
pub(super) fn pieces(text: &str, limit: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        if text.len().saturating_mul(6) <= limit {
            return Some(text);
        }
        let mut written = 0;
        for (at, character) in text.char_indices() {
            written += written_len(character);
            // At least one character each time, or it would never end.
            if written > limit && at > 0 {
                let (piece, later) = text.split_at(at);
                rest = Some(later);
                return Some(piece);
            }
        }
        Some(text)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_are_what_any_other_encoder_reads(text in any::<String>()) {
            let mut out = Vec::new();
            push_string(&mut out, &text);
            prop_assert_eq!(&serde_json::from_slice::<String>(&out).unwrap(), &text);
            prop_assert!(!out.iter().any(|byte| *byte < 0x20));
        }

        #[test]
        fn pieces_lose_nothing_and_keep_the_limit(text in any::<String>(), limit in 6_usize..80) {
            let pieces: Vec<&str> = pieces(&text, limit).collect();
            prop_assert_eq!(&pieces.concat(), &text);
            for piece in pieces {
                let mut out = Vec::new();
                push_string(&mut out, piece);
                prop_assert!(out.len() - 2 <= limit);
            }
        }
    }

    #[test]
    fn every_control_character() {
        let text: String = (0_u8..=0x7f).map(char::from).collect();
        let mut out = Vec::new();
        push_string(&mut out, &text);
        assert_eq!(out, serde_json::to_vec(&text).unwrap());
    }

    #[test]
    fn raw_json_stays_on_its_line() {
        let mut out = Vec::new();
        push_raw(&mut out, "{\"a\":\r\n[1,\t2]}");
        assert_eq!(out, b"{\"a\":  [1,\t2]}");
    }

    #[test]
    fn an_empty_text_is_one_piece() {
        assert_eq!(pieces("", 10).count(), 1);
    }
}
