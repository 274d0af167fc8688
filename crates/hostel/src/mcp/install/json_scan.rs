//! Where things are in a JSON text, comments and trailing commas allowed.
//!
//! Invariant: it only looks. Depth and size are bounded, and whatever is not JSON is an error with its line.

use std::ops::Range;

/// How deep values may be nested.
const DEPTH: usize = 128;

/// A member of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Member {
    pub(super) key: String,
    /// From the key's first quote to the value's last byte.
    pub(super) whole: Range<usize>,
    pub(super) value: Range<usize>,
    /// Where the comma behind it is, if there is one.
    pub(super) comma: Option<usize>,
}

/// An object, its braces included.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Object {
    pub(super) span: Range<usize>,
    pub(super) members: Vec<Member>,
    /// Where the last thing before the closing brace ends: a value, a comma or a comment.
    pub(super) tail: usize,
}

/// Reads through a text.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Scan { text, at }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, what: &str) -> String {
        let line = self.text.get(..self.at).unwrap_or(self.text).bytes().filter(|byte| *byte == b'\n').count() + 1;
        format!("line {line}: {what}")
    }

    /// Passes blanks and comments; gives where the last comment ended, if there was one.
    pub(super) fn blank(&mut self) -> Result<Option<usize>, String> {
        let mut comment = None;
        loop {
            let rest = self.rest();
            if let Some(letter) = rest.chars().next().filter(|letter| letter.is_whitespace() || *letter == '\u{feff}') {
                self.at += letter.len_utf8();
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
                comment = Some(self.at);
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").ok_or_else(|| self.wrong("a comment does not end"))?;
                self.at += end + 2;
                comment = Some(self.at);
            } else {
                return Ok(comment);
            }
        }
    }

    /// Whether nothing is left.
    pub(super) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn string(&mut self) -> Result<Range<usize>, String> {
        let start = self.at;
        let mut bytes = self.text.bytes().enumerate().skip(start + 1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.at = at + 1;
                    return Ok(start..self.at);
                }
                b'\\' => drop(bytes.next()),
                b'\n' => break,
                _ => {}
            }
        }
        Err(self.wrong("a text does not end"))
    }

    /// Passes one value and gives where it is.
    pub(super) fn value(&mut self, depth: usize) -> Result<Range<usize>, String> {
        if depth > DEPTH {
            return Err(self.wrong("too deeply nested"));
        }
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.object(depth).map(|object| object.span),
            Some(b'[') => self.array(depth),
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' => {
                let start = self.at;
                let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
                self.at += self.rest().bytes().take_while(|byte| word(byte)).count();
                let span = start..self.at;
                let text = self.text.get(span.clone()).unwrap_or_default();
                match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                    Ok(_) => Ok(span),
                    Err(_) => Err(self.wrong("not a value")),
                }
            }
            _ => Err(self.wrong("a value is missing")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Range<usize>, String> {
        let start = self.at;
        self.at += 1;
        loop {
            self.blank()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(start..self.at);
            }
            self.value(depth + 1)?;
            self.blank()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {}
                _ => return Err(self.wrong("a list does not end")),
            }
        }
    }

    /// Passes an object and gives what is in it.
    pub(super) fn object(&mut self, depth: usize) -> Result<Object, String> {
        if self.peek() != Some(b'{') {
            return Err(self.wrong("not an object"));
        }
        let start = self.at;
        self.at += 1;
        let mut tail = self.at;
        let mut members: Vec<Member> = Vec::new();
        loop {
            tail = self.blank()?.unwrap_or(tail);
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Object { span: start..self.at, members, tail });
                }
                Some(b'"') if members.last().is_none_or(|member| member.comma.is_some()) => {}
                Some(b'"') => return Err(self.wrong("a comma is missing")),
                _ => return Err(self.wrong("an object does not end")),
            }
            let name = self.string()?;
            let key = serde_json::from_str(self.text.get(name.clone()).unwrap_or_default());
            let key = key.map_err(|_| self.wrong("a name cannot be read"))?;
            self.blank()?;
            if self.peek() != Some(b':') {
                return Err(self.wrong("a colon is missing"));
            }
            self.at += 1;
            self.blank()?;
            let value = self.value(depth + 1)?;
            tail = value.end;
            tail = self.blank()?.unwrap_or(tail);
            let comma = (self.peek() == Some(b',')).then_some(self.at);
            if comma.is_some() {
                self.at += 1;
                tail = self.at;
            }
            members.push(Member { key, whole: name.start..value.end, value, comma });
        }
    }
}
