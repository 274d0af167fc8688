//! A second opinion on JSON: what `serde_json` makes of the same bytes.

use serde_json::Value;

/// How deep that reader goes.
const DEPTH: usize = 127;

/// Whether a document may be judged by both readers: the other one refuses bad UTF-8, lone surrogates and deep nesting,
/// all of which Go takes.
pub fn comparable(document: &[u8]) -> bool {
    std::str::from_utf8(document).is_ok_and(|text| !text.contains("\\u")) && depth_bound(document) <= DEPTH
}

/// No document nests deeper than it has brackets in a row without the closing ones.
fn depth_bound(document: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for byte in document {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Equal as Go sees it: every number is a double.
pub fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let (left, right) = (left.as_f64().unwrap_or(f64::NAN), right.as_f64().unwrap_or(f64::NAN));
            left.to_bits() == right.to_bits() || (left == 0.0 && right == 0.0)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

/// One reply on the wire: a single line that another reader takes for an object.
pub fn assert_line(line: &[u8]) {
    let (last, body) = line.split_last().expect("a reply has bytes");
    assert_eq!(*last, b'\n', "a reply ends its line");
    assert!(!body.contains(&b'\n'), "a reply is one line");
    if depth_bound(body) <= DEPTH {
        let read: Value = serde_json::from_slice(body).expect("a reply is JSON");
        assert!(read.is_object());
    }
}

/// Text as Go makes it of bytes: each byte that is no part of a character becomes U+FFFD.
pub fn go_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    text
}
