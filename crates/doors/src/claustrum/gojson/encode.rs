//! Writing JSON byte for byte as Go's encoder does.
//!
//! Everything is appended to a caller's buffer; a document is never built as a tree first. Strings
//! are taken as bytes, because what is quoted (file contents, git's output) need not be UTF-8.

/// Appends `text` as a JSON string with its quotes.
pub fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Appends `text` escaped but without quotes, so that long texts can be written in pieces. A
/// piece must not end inside a UTF-8 sequence; see [`piece_end`].
pub fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => return push_valid(out, valid),
            Err(error) => {
                let (valid, bad) = rest.split_at(error.valid_up_to());
                push_valid(out, std::str::from_utf8(valid).unwrap_or_default());
                out.extend_from_slice(b"\\ufffd");
                rest = &bad[1..];
            }
        }
    }
}

/// The largest cut at or below `wanted` that splits no UTF-8 sequence of `text`.
pub fn piece_end(text: &[u8], wanted: usize) -> usize {
    if wanted >= text.len() {
        return text.len();
    }
    let mut end = wanted;
    // A sequence is at most four bytes long; more continuation bytes than three are invalid
    // anyway and may be cut anywhere.
    while end > wanted.saturating_sub(3) && end > 0 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    if text[end] & 0xc0 == 0x80 || end == 0 { wanted } else { end }
}

fn push_valid(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if !NEEDS_CARE[usize::from(byte)] {
            continue;
        }
        let escape: &[u8] = match byte {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            b'<' => b"\\u003c",
            b'>' => b"\\u003e",
            b'&' => b"\\u0026",
            // The lead byte of U+2000 to U+2FFF: two of them are line ends to JavaScript.
            0xe2 => match bytes.get(at + 1..at + 3) {
                Some([0x80, 0xa8]) => b"\\u2028",
                Some([0x80, 0xa9]) => b"\\u2029",
                _ => continue,
            },
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(&bytes[start..at]);
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
                start = at + 1;
                continue;
            }
        };
        out.extend_from_slice(&bytes[start..at]);
        out.extend_from_slice(escape);
        start = at + if byte == 0xe2 { 3 } else { 1 };
    }
    out.extend_from_slice(&bytes[start..]);
}

/// The bytes that cannot simply be copied.
static NEEDS_CARE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'<' as usize] = true;
    table[b'>' as usize] = true;
    table[b'&' as usize] = true;
    table[0xe2] = true;
    table
};

/// Appends an unsigned number.
pub fn push_unsigned(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a signed number.
pub fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push_unsigned(out, number.unsigned_abs());
}

/// Appends a finite float: the shortest text that reads back the same, in plain notation from
/// 1e-6 up to 1e21 and with an exponent outside of that. A whole number gets no fraction.
pub fn push_float(out: &mut Vec<u8>, number: f64) {
    let magnitude = number.abs();
    let text = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        // Rust writes `1e21`, Go `1e+21`; negative exponents agree.
        let text = format!("{number:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                format!("{digits}e+{exponent}")
            }
            _ => text,
        }
    } else {
        format!("{number}")
    };
    out.extend_from_slice(text.as_bytes());
}

/// Writes one object member by member, in the order of the calls.
#[derive(Debug)]
pub struct Object<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    /// Opens an object at the end of `out`.
    pub fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Appends a boolean.
    pub fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        let text: &[u8] = if value { b"true" } else { b"false" };
        self.key(key).extend_from_slice(text);
        self
    }

    /// Appends a boolean only if it is true.
    pub fn flag(&mut self, key: &str, value: bool) -> &mut Self {
        if value {
            self.boolean(key, true);
        }
        self
    }

    /// Appends a string.
    pub fn string(&mut self, key: &str, value: impl AsRef<[u8]>) -> &mut Self {
        push_string(self.key(key), value.as_ref());
        self
    }

    /// Appends a string only if it is not empty.
    pub fn nonempty(&mut self, key: &str, value: impl AsRef<[u8]>) -> &mut Self {
        if !value.as_ref().is_empty() {
            self.string(key, value);
        }
        self
    }

    /// Appends an unsigned number.
    pub fn unsigned(&mut self, key: &str, value: u64) -> &mut Self {
        push_unsigned(self.key(key), value);
        self
    }

    /// Appends a signed number.
    pub fn signed(&mut self, key: &str, value: i64) -> &mut Self {
        push_signed(self.key(key), value);
        self
    }

    /// Appends a float.
    pub fn float(&mut self, key: &str, value: f64) -> &mut Self {
        push_float(self.key(key), value);
        self
    }

    /// Appends an array of strings.
    pub fn strings<T: AsRef<[u8]>>(&mut self, key: &str, values: impl IntoIterator<Item = T>) -> &mut Self {
        self.array(key, values, |out, value| push_string(out, value.as_ref()))
    }

    /// Appends an array whose elements `write` appends.
    pub fn array<T>(
        &mut self,
        key: &str,
        values: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) -> &mut Self {
        let out = self.key(key);
        out.push(b'[');
        for (place, value) in values.into_iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            write(out, value);
        }
        out.push(b']');
        self
    }

    /// Closes the object.
    pub fn close(&mut self) {
        self.out.push(b'}');
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.empty {
            self.out.push(b',');
        }
        self.empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
