//! Base64 as Go's standard decoder takes it: padded, line ends skipped, stray low bits ignored.
//!
//! Honest payloads go through the vectorised decoder. What that one refuses is judged again by the
//! slow one, which knows the exceptions; the two never disagree on what both accept.

/// Decodes, or says that the text is not base64.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    if let Ok(bytes) = base64_simd::STANDARD.decode_to_vec(text) {
        return Some(bytes);
    }
    decode_slowly(text)
}

fn decode_slowly(text: &[u8]) -> Option<Vec<u8>> {
    let mut symbols = text.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n'));
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    loop {
        let mut quantum: u32 = 0;
        let mut filled = 0;
        while filled < 4 {
            match symbols.next() {
                None if filled == 0 => return Some(bytes),
                None => return None,
                Some(b'=') => break,
                Some(symbol) => quantum = quantum << 6 | value_of(symbol)?,
            }
            filled += 1;
        }
        match filled {
            4 => bytes.extend_from_slice(&quantum.to_be_bytes()[1..]),
            // Padding ends the text: nothing but line ends may follow it.
            3 => {
                bytes.extend_from_slice(&(quantum << 6).to_be_bytes()[1..3]);
                return symbols.next().is_none().then_some(bytes);
            }
            2 => {
                bytes.push((quantum << 12).to_be_bytes()[1]);
                let closed = symbols.next() == Some(b'=') && symbols.next().is_none();
                return closed.then_some(bytes);
            }
            _ => return None,
        }
    }
}

fn value_of(symbol: u8) -> Option<u32> {
    Some(u32::from(match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_and_refuses_what_go_does() {
        for (text, decoded) in [
            ("", Some("")),
            ("aGk=", Some("hi")),
            ("aGkh", Some("hi!")),
            ("aA==", Some("h")),
            ("aB==", Some("h")),
            ("aGl=", Some("hi")),
            ("aG\nk=\r\n", Some("hi")),
            ("aA=\n=", Some("h")),
            ("\n", Some("")),
            ("aGk", None),
            ("aG", None),
            ("a", None),
            ("aGk=aGk=", None),
            ("aGk==", None),
            ("aA=", None),
            ("=", None),
            ("====", None),
            ("a===", None),
            ("aGk=x", None),
            ("aG k=", None),
            ("aG-_", None),
            ("a\u{e9}==", None),
        ] {
            let expected = decoded.map(|text| text.as_bytes().to_vec());
            assert_eq!(decode(text.as_bytes()), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn encoded_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..300), width in 1usize..40) {
            let text = base64_simd::STANDARD.encode_to_string(&bytes);
            prop_assert_eq!(decode(text.as_bytes()), Some(bytes.clone()));
            prop_assert_eq!(decode_slowly(text.as_bytes()), Some(bytes.clone()));
            let wrapped: Vec<u8> = text.as_bytes().chunks(width).collect::<Vec<_>>().join(&b"\r\n"[..]);
            prop_assert_eq!(decode(&wrapped), Some(bytes));
        }

        #[test]
        fn the_two_decoders_agree(text in "[A-Da-d0-3+/=\n]{0,12}") {
            if let Ok(fast) = base64_simd::STANDARD.decode_to_vec(text.as_bytes()) {
                prop_assert_eq!(decode_slowly(text.as_bytes()), Some(fast));
            }
        }
    }
}
