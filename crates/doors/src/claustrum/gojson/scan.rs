//! The scanner: walks one JSON document and refuses what Go's scanner refuses.
//!
//! Every byte is looked at once and nothing is decoded that nobody asked for. Depth is counted, not
//! recursed: a document nested 10,000 deep is read on a constant stack and one level more is
//! malformed, as in Go.
//!
//! Syntax errors and type errors are one error here, because the contract answers both the same.

use std::borrow::Cow;

/// How deep objects and arrays may nest, the outermost one included.
pub const MAX_DEPTH: usize = 10_000;

/// The document is not JSON, or a value is not of the type its field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed JSON")]
pub struct Malformed;

/// A cursor over one document.
#[derive(Debug)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

/// The two things that hold values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Object,
    Array,
}

/// Where a step inside a container led.
#[derive(Debug)]
pub(super) enum Advance<'a> {
    /// Before the value of this key.
    Member(Text<'a>),
    /// Before an element.
    Element,
    /// Behind the container's end.
    Left,
}

/// A string as it stands in the document, without its quotes and still escaped.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    raw: &'a [u8],
    escaped: bool,
}

impl<'a> Scanner<'a> {
    /// Starts before the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// The next byte that is not white space, left in place.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Succeeds only if nothing but white space is left.
    pub fn end(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Malformed),
        }
    }

    /// Takes `null` if it stands here.
    pub fn null(&mut self) -> Result<bool, Malformed> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.word(b"null")?;
        Ok(true)
    }

    /// Takes `true` or `false`.
    pub fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.peek() {
            Some(b't') => self.word(b"true").map(|()| true),
            Some(b'f') => self.word(b"false").map(|()| false),
            _ => Err(Malformed),
        }
    }

    /// Takes a number and gives its literal.
    pub fn number(&mut self) -> Result<&'a [u8], Malformed> {
        self.peek();
        let start = self.at;
        if self.here() == Some(b'-') {
            self.at += 1;
        }
        match self.here() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits()?,
            _ => return Err(Malformed),
        }
        if self.here() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.here(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.here(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.bytes[start..self.at])
    }

    /// Takes a string.
    pub fn text(&mut self) -> Result<Text<'a>, Malformed> {
        if self.peek() != Some(b'"') {
            return Err(Malformed);
        }
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = &self.bytes[self.at..];
            let found = memchr::memchr2(b'"', b'\\', rest).ok_or(Malformed)?;
            // A plain fold instead of `any`: it has no early exit, so it is vectorised.
            let control = rest[..found].iter().fold(false, |seen, &byte| seen | (byte < 0x20));
            if control {
                return Err(Malformed);
            }
            self.at += found + 1;
            if rest[found] == b'"' {
                return Ok(Text { raw: &self.bytes[start..self.at - 1], escaped });
            }
            escaped = true;
            match self.here() {
                Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
                Some(b'u') => {
                    let hex = self.bytes.get(self.at + 1..self.at + 5).ok_or(Malformed)?;
                    if !hex.iter().all(u8::is_ascii_hexdigit) {
                        return Err(Malformed);
                    }
                    self.at += 5;
                }
                _ => return Err(Malformed),
            }
        }
    }

    /// Takes an object; `member` is called behind each colon and must take exactly one value.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Text<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.open(b'{')?;
        let mut first = true;
        while let Advance::Member(key) = self.advance(Container::Object, first)? {
            member(self, key)?;
            first = false;
        }
        Ok(())
    }

    /// Takes an array; `element` is called before each element and must take exactly one value.
    pub fn array(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        self.open(b'[')?;
        let mut first = true;
        while let Advance::Element = self.advance(Container::Array, first)? {
            element(self)?;
            first = false;
        }
        Ok(())
    }

    /// Takes any value and gives the bytes it is written with.
    pub fn skip(&mut self) -> Result<&'a [u8], Malformed> {
        self.peek();
        let start = self.at;
        let mut open = Nesting::default();
        loop {
            let mut first = false;
            match self.enter()? {
                Some(container) => {
                    open.enter(container);
                    first = true;
                }
                None => self.leaf()?,
            }
            // Leave what ends here; stop in front of the next value.
            loop {
                let Some(container) = open.innermost() else {
                    return Ok(&self.bytes[start..self.at]);
                };
                match self.advance(container, first)? {
                    Advance::Left => open.leave(),
                    Advance::Element | Advance::Member(_) => break,
                }
                first = false;
            }
        }
    }

    /// Steps inside if a container starts here.
    pub(super) fn enter(&mut self) -> Result<Option<Container>, Malformed> {
        let container = match self.peek() {
            Some(b'{') => Container::Object,
            Some(b'[') => Container::Array,
            _ => return Ok(None),
        };
        self.open(if container == Container::Object { b'{' } else { b'[' })?;
        Ok(Some(container))
    }

    /// Inside a container, before its first value or behind one: goes to the next value or out.
    pub(super) fn advance(&mut self, container: Container, first: bool) -> Result<Advance<'a>, Malformed> {
        let end = match container {
            Container::Object => b'}',
            Container::Array => b']',
        };
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                self.depth = self.depth.checked_sub(1).ok_or(Malformed)?;
                return Ok(Advance::Left);
            }
            Some(b',') if !first => {
                self.at += 1;
            }
            Some(_) if first => {}
            _ => return Err(Malformed),
        }
        match container {
            Container::Object => Ok(Advance::Member(self.key()?)),
            Container::Array => Ok(Advance::Element),
        }
    }

    fn leaf(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            Some(b'"') => self.text().map(drop),
            Some(b't' | b'f') => self.boolean().map(drop),
            Some(b'n') => self.word(b"null"),
            _ => self.number().map(drop),
        }
    }

    fn open(&mut self, bracket: u8) -> Result<(), Malformed> {
        if self.peek() != Some(bracket) || self.depth == MAX_DEPTH {
            return Err(Malformed);
        }
        self.at += 1;
        self.depth += 1;
        Ok(())
    }

    fn key(&mut self) -> Result<Text<'a>, Malformed> {
        let key = self.text()?;
        if self.peek() != Some(b':') {
            return Err(Malformed);
        }
        self.at += 1;
        Ok(key)
    }

    fn here(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Malformed> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while matches!(self.here(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(Malformed);
        }
        Ok(())
    }
}

impl<'a> Text<'a> {
    /// The bytes between the quotes, as written.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether the text stands in the document exactly as it decodes.
    pub fn is_plain_ascii(&self) -> bool {
        !self.escaped && self.raw.is_ascii()
    }

    /// The text with escapes resolved. Every byte that is not UTF-8 and every lone surrogate
    /// becomes U+FFFD.
    pub fn decode(&self) -> Cow<'a, str> {
        if !self.escaped
            && let Ok(text) = std::str::from_utf8(self.raw)
        {
            return Cow::Borrowed(text);
        }
        let mut decoded = String::with_capacity(self.raw.len());
        let mut rest = self.raw;
        while let Some(found) = memchr::memchr(b'\\', rest) {
            push_lossy(&mut decoded, &rest[..found]);
            rest = push_escape(&mut decoded, &rest[found + 1..]);
        }
        push_lossy(&mut decoded, rest);
        Cow::Owned(decoded)
    }
}

/// Appends `bytes`, one U+FFFD for each byte that is not part of valid UTF-8. (The standard
/// library's lossy conversion gives one for several bytes.)
fn push_lossy(decoded: &mut String, mut bytes: &[u8]) {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => return decoded.push_str(text),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                decoded.push_str(std::str::from_utf8(valid).unwrap_or_default());
                decoded.push(char::REPLACEMENT_CHARACTER);
                bytes = &rest[1..];
            }
        }
    }
}

/// Appends the escape whose backslash has been taken and gives what follows it.
fn push_escape<'a>(decoded: &mut String, rest: &'a [u8]) -> &'a [u8] {
    // The scanner has checked every escape, so the fallbacks below are never reached.
    let Some((&letter, after)) = rest.split_first() else {
        return rest;
    };
    match letter {
        b'b' => decoded.push('\u{8}'),
        b'f' => decoded.push('\u{c}'),
        b'n' => decoded.push('\n'),
        b'r' => decoded.push('\r'),
        b't' => decoded.push('\t'),
        b'u' => {
            let (unit, after) = code_unit(after);
            if let Some(character) = char::from_u32(unit) {
                decoded.push(character);
                return after;
            }
            // A high surrogate counts only together with the low one behind it.
            if let Some(behind) = after.strip_prefix(b"\\u") {
                let (second, after_second) = code_unit(behind);
                if (0xd800..0xdc00).contains(&unit) && (0xdc00..0xe000).contains(&second) {
                    let combined = 0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00);
                    decoded.push(char::from_u32(combined).unwrap_or(char::REPLACEMENT_CHARACTER));
                    return after_second;
                }
            }
            decoded.push(char::REPLACEMENT_CHARACTER);
            return after;
        }
        other => decoded.push(char::from(other)),
    }
    after
}

fn code_unit(rest: &[u8]) -> (u32, &[u8]) {
    let (hex, after) = rest.split_at(rest.len().min(4));
    let unit = hex.iter().fold(0, |unit, &digit| unit * 16 + char::from(digit).to_digit(16).unwrap_or(0));
    (unit, after)
}

/// What kind each open container is. The first 64 levels, which is all that honest
/// requests have, need no allocation.
#[derive(Debug, Default)]
struct Nesting {
    first: u64,
    deeper: Vec<u64>,
    depth: usize,
}

impl Nesting {
    fn enter(&mut self, container: Container) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word > self.deeper.len() {
            self.deeper.push(0);
        }
        let word = match word {
            0 => &mut self.first,
            later => &mut self.deeper[later - 1],
        };
        *word = *word & !(1 << bit) | u64::from(container == Container::Object) << bit;
        self.depth += 1;
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn innermost(&self) -> Option<Container> {
        let at = self.depth.checked_sub(1)?;
        let word = match at / 64 {
            0 => self.first,
            later => self.deeper[later - 1],
        };
        Some(if word >> (at % 64) & 1 == 1 { Container::Object } else { Container::Array })
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
