//! Placeholders of the data files: what is filled in before sending, what may vary in an answer.
//!
//! `${NAME}` stands for a known value, `${x*300}` for 300 times `x`, `${0xff}` for one byte.
//! In an expectation `${NUM}`, `${PID}` and `${ANY}` match what cannot be known; `${PID=name}` also
//! keeps it for later. Everything outside placeholders is compared byte for byte.

use std::collections::{BTreeMap, BTreeSet};

/// Values by name.
pub type Names = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A JSON number.
    Number,
    /// Decimal digits only.
    Digits,
    /// Any bytes, also none.
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Wild(Kind, Option<String>),
}

/// An expectation, ready to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    pieces: Vec<Piece>,
}

/// Fills in every placeholder of a line to be sent.
///
/// # Errors
/// If a placeholder is unknown or only makes sense in an expectation.
pub fn render(text: &str, names: &Names) -> Result<Vec<u8>, String> {
    let pattern = Pattern::compile(text, names)?;
    let mut bytes = Vec::new();
    for piece in pattern.pieces {
        match piece {
            Piece::Literal(literal) => bytes.extend_from_slice(&literal),
            Piece::Wild(..) => return Err(format!("a line to be sent must be known in full: {text}")),
        }
    }
    Ok(bytes)
}

/// Fills in every placeholder of a text that must be UTF-8 (a shell command).
///
/// # Errors
/// As [`render`], or if the outcome is not UTF-8.
pub fn render_text(text: &str, names: &Names) -> Result<String, String> {
    String::from_utf8(render(text, names)?).map_err(|_| format!("not UTF-8: {text}"))
}

impl Pattern {
    /// Reads an expectation.
    ///
    /// # Errors
    /// If a placeholder is unknown or not closed.
    pub fn compile(text: &str, names: &Names) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            literal.extend_from_slice(&rest.as_bytes()[..start]);
            let inside = &rest[start + 2..];
            let end = inside.find('}').ok_or_else(|| format!("a placeholder is not closed: {text}"))?;
            match placeholder(&inside[..end], names)? {
                Piece::Literal(bytes) => literal.extend_from_slice(&bytes),
                wild @ Piece::Wild(..) => {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    pieces.push(wild);
                }
            }
            rest = &inside[end + 1..];
        }
        literal.extend_from_slice(rest.as_bytes());
        pieces.push(Piece::Literal(literal));
        Ok(Self { pieces })
    }

    /// The same with these names matching anything: for masking what varies from run to run.
    ///
    /// # Errors
    /// If a placeholder is unknown or not closed.
    pub fn compile_loosely(text: &str, names: &Names, varying: &BTreeSet<String>) -> Result<Self, String> {
        let mut text = text.to_owned();
        for name in varying {
            text = text.replace(&format!("${{{name}}}"), "${ANY}");
        }
        Self::compile(&text, names)
    }

    /// The values of the named wild pieces, if `bytes` fit.
    pub fn matches(&self, bytes: &[u8]) -> Option<Names> {
        let mut spans = Vec::new();
        fit(&self.pieces, bytes, 0, &mut spans).then(|| {
            let wild = self.pieces.iter().filter_map(|piece| match piece {
                Piece::Wild(_, name) => Some(name),
                Piece::Literal(_) => None,
            });
            wild.zip(spans)
                .filter_map(|(name, (from, to))| {
                    Some((name.clone()?, String::from_utf8_lossy(&bytes[from..to]).into_owned()))
                })
                .collect()
        })
    }

    /// The bytes with every varying part replaced by `…`, or as they are if they do not fit.
    pub fn mask(&self, bytes: &[u8]) -> Vec<u8> {
        let mut spans = Vec::new();
        if !fit(&self.pieces, bytes, 0, &mut spans) {
            return bytes.to_vec();
        }
        let mut masked = Vec::new();
        let mut at = 0;
        for (from, to) in spans {
            masked.extend_from_slice(&bytes[at..from]);
            masked.extend_from_slice("…".as_bytes());
            at = to;
        }
        masked.extend_from_slice(&bytes[at..]);
        masked
    }
}

fn placeholder(inside: &str, names: &Names) -> Result<Piece, String> {
    let (head, capture) = match inside.split_once('=') {
        Some((head, name)) => (head, Some(name.to_owned())),
        None => (inside, None),
    };
    match head {
        "NUM" => return Ok(Piece::Wild(Kind::Number, capture)),
        "PID" => return Ok(Piece::Wild(Kind::Digits, capture)),
        "ANY" => return Ok(Piece::Wild(Kind::Any, capture)),
        _ => {}
    }
    if let Some(value) = names.get(inside) {
        return Ok(Piece::Literal(value.as_bytes().to_vec()));
    }
    if let Some(hex) = inside.strip_prefix("0x") {
        return match u8::from_str_radix(hex, 16) {
            Ok(byte) => Ok(Piece::Literal(vec![byte])),
            Err(_) => Err(format!("not a byte: ${{{inside}}}")),
        };
    }
    if let Some((text, count)) = inside.rsplit_once('*')
        && let Ok(count) = count.parse()
    {
        return Ok(Piece::Literal(text.repeat(count).into_bytes()));
    }
    Err(format!("unknown placeholder ${{{inside}}}"))
}

fn fit(pieces: &[Piece], bytes: &[u8], at: usize, spans: &mut Vec<(usize, usize)>) -> bool {
    let Some((first, rest)) = pieces.split_first() else {
        return at == bytes.len();
    };
    match first {
        Piece::Literal(literal) => bytes[at..].starts_with(literal) && fit(rest, bytes, at + literal.len(), spans),
        Piece::Wild(kind, _) => {
            let longest = bytes[at..].iter().take_while(|byte| kind.allows(**byte)).count();
            let shortest = usize::from(*kind != Kind::Any);
            // Longest first: a number must not stop in the middle of its digits.
            (shortest..=longest).rev().any(|length| {
                spans.push((at, at + length));
                let fits = fit(rest, bytes, at + length, spans);
                if !fits {
                    spans.pop();
                }
                fits
            })
        }
    }
}

impl Kind {
    fn allows(self, byte: u8) -> bool {
        match self {
            Self::Number => byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e'),
            Self::Digits => byte.is_ascii_digit(),
            Self::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::from([("DIR".to_owned(), "/d".to_owned())])
    }

    #[test]
    fn known_values_are_filled_in() {
        assert_eq!(render("a ${DIR}/b ${x*3} ${0xff}", &names()), Ok(b"a /d/b xxx \xff".to_vec()));
        assert!(render("${NOPE}", &names()).is_err());
        assert!(render("${NUM}", &names()).is_err());
        assert_eq!(render("$DIR {}", &names()), Ok(b"$DIR {}".to_vec()));
    }

    #[test]
    fn unknown_values_are_matched_and_kept() {
        let pattern = Pattern::compile(r#"{"pid":${PID=child},"t":${NUM}}"#, &names()).expect("a pattern");
        let found = pattern.matches(br#"{"pid":123,"t":17.5}"#).expect("it fits");
        assert_eq!(found.get("child").map(String::as_str), Some("123"));
        assert!(pattern.matches(br#"{"pid":,"t":17.5}"#).is_none());
        assert!(pattern.matches(br#"{"pid":-1,"t":17.5}"#).is_none());
        assert!(pattern.matches(br#"{"pid":123,"t":17.5} "#).is_none());
        assert_eq!(pattern.mask(br#"{"pid":123,"t":17.5}"#), r#"{"pid":…,"t":…}"#.as_bytes());
        assert_eq!(pattern.mask(b"else"), b"else");
    }

    #[test]
    fn any_may_be_empty() {
        let pattern = Pattern::compile("a${ANY}b", &names()).expect("a pattern");
        assert!(pattern.matches(b"ab").is_some());
        assert!(pattern.matches(b"axbxb").is_some());
        assert!(pattern.matches(b"axbx").is_none());
    }
}
