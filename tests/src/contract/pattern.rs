//! Placeholders: what is filled in before sending, and what may vary in an expectation.
//!
//! `${name}` stands for a known value, `${x*300}` for 300 times `x`, `${0xff}` for one byte, `${T-61}` for a time.
//! In an expectation `${NUM}`, `${PID}`, `${STR}` and `${ANY}` match what cannot be known; `${PID=name}` also keeps it
//! for later. Everything outside placeholders is compared byte for byte.

use std::collections::{BTreeMap, HashSet};

use crate::sudo_proxy::moment;

/// Values by name.
pub type Names = BTreeMap<String, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A JSON number.
    Number,
    /// Decimal digits only.
    Digits,
    /// At least one byte.
    Text,
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

/// Fills in every placeholder of a text to be sent.
///
/// # Errors
/// If a placeholder is unknown or only makes sense in an expectation.
pub fn render(text: &str, names: &Names) -> Result<Vec<u8>, String> {
    let pattern = Pattern::compile(text, names)?;
    let mut bytes = Vec::new();
    for piece in pattern.pieces {
        match piece {
            Piece::Literal(literal) => bytes.extend_from_slice(&literal),
            Piece::Wild(..) => return Err(format!("this text must be known in full: {text}")),
        }
    }
    Ok(bytes)
}

/// Fills in every placeholder of a text that must be UTF-8, such as a shell command.
///
/// # Errors
/// As [`render`], or if the outcome is not UTF-8.
pub fn render_text(text: &str, names: &Names) -> Result<String, String> {
    String::from_utf8(render(text, names)?).map_err(|_| format!("not UTF-8: {text}"))
}

/// The kind and the name to keep, if the whole text is one placeholder for something unknown.
pub(super) fn whole_wildcard(text: &str) -> Option<(Kind, Option<String>)> {
    let inside = text.strip_prefix("${")?.strip_suffix('}')?;
    if inside.contains('}') {
        return None;
    }
    wildcard(inside)
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

    /// The values of the named placeholders, if `bytes` fit.
    pub fn matches(&self, bytes: &[u8]) -> Option<Names> {
        let mut spans = Vec::new();
        fit(&self.pieces, bytes, 0, &mut spans, &mut HashSet::new()).then(|| {
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
}

fn wildcard(inside: &str) -> Option<(Kind, Option<String>)> {
    let (word, name) = match inside.split_once('=') {
        Some((word, name)) => (word, Some(name.to_owned())),
        None => (inside, None),
    };
    let kind = match word {
        "NUM" => Kind::Number,
        "PID" => Kind::Digits,
        "STR" => Kind::Text,
        "ANY" => Kind::Any,
        _ => return None,
    };
    Some((kind, name))
}

fn placeholder(inside: &str, names: &Names) -> Result<Piece, String> {
    if let Some((kind, name)) = wildcard(inside) {
        return Ok(Piece::Wild(kind, name));
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
    if let Some(offset) = inside.strip_prefix('T')
        && (offset.is_empty() || offset.starts_with(['+', '-']))
    {
        let seconds = if offset.is_empty() { Ok(0) } else { offset.parse() };
        let seconds = seconds.map_err(|_| format!("not a number of seconds: ${{{inside}}}"))?;
        return Ok(Piece::Literal(moment::from_now(seconds).into_bytes()));
    }
    Err(format!("unknown placeholder ${{{inside}}}"))
}

/// `failed` has the pairs of pieces left and place that are known not to fit: without it several `${ANY}` in a long
/// text would be tried in every combination.
fn fit(
    pieces: &[Piece],
    bytes: &[u8],
    at: usize,
    spans: &mut Vec<(usize, usize)>,
    failed: &mut HashSet<(usize, usize)>,
) -> bool {
    let Some((first, rest)) = pieces.split_first() else {
        return at == bytes.len();
    };
    match first {
        Piece::Literal(literal) => {
            bytes[at..].starts_with(literal) && fit(rest, bytes, at + literal.len(), spans, failed)
        }
        Piece::Wild(kind, _) => {
            if failed.contains(&(pieces.len(), at)) {
                return false;
            }
            let longest = bytes[at..].iter().take_while(|byte| kind.allows(**byte)).count();
            let shortest = usize::from(*kind != Kind::Any);
            // Longest first: a number must not stop in the middle of its digits.
            let found = (shortest..=longest).rev().any(|length| {
                spans.push((at, at + length));
                let fits = fit(rest, bytes, at + length, spans, failed);
                if !fits {
                    spans.pop();
                }
                fits
            });
            if !found {
                failed.insert((pieces.len(), at));
            }
            found
        }
    }
}

impl Kind {
    fn allows(self, byte: u8) -> bool {
        match self {
            Self::Number => byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e'),
            Self::Digits => byte.is_ascii_digit(),
            Self::Text | Self::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names::from([("DIR".to_owned(), "/d".to_owned())])
    }

    fn matches(pattern: &str, bytes: &[u8]) -> Option<Names> {
        Pattern::compile(pattern, &names()).expect("a pattern").matches(bytes)
    }

    #[test]
    fn known_values_are_filled_in() {
        assert_eq!(render("a ${DIR}/b ${x*3} ${0xff}", &names()), Ok(b"a /d/b xxx \xff".to_vec()));
        assert_eq!(render("$DIR {}", &names()), Ok(b"$DIR {}".to_vec()));
        for wrong in ["${NOPE}", "${NUM}", "${0xfff}", "${DIR", "${T+x}"] {
            assert!(render(wrong, &names()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_filled_in() {
        let filled = render_text("${T}Z ${T-100}Z", &names()).expect("two times");
        assert_eq!(filled.len(), 41);
        let named = Names::from([("TOKEN".to_owned(), "secret".to_owned())]);
        assert_eq!(render_text("${TOKEN}", &named).as_deref(), Ok("secret"));
    }

    #[test]
    fn unknown_values_are_matched_and_kept() {
        let pattern = r#"{"pid":${PID=child},"t":${NUM}}"#;
        let found = matches(pattern, br#"{"pid":123,"t":17.5}"#).expect("it fits");
        assert_eq!(found.get("child").map(String::as_str), Some("123"));
        for wrong in [r#"{"pid":,"t":17.5}"#, r#"{"pid":-1,"t":17.5}"#, r#"{"pid":123,"t":17.5} "#] {
            assert!(matches(pattern, wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(matches("a${STR}b", b"ab").is_none());
        assert!(matches("a${STR}b", b"axb").is_some());
    }

    #[test]
    fn any_may_be_empty() {
        assert!(matches("a${ANY}b", b"ab").is_some());
        assert!(matches("a${ANY}b", b"axbxb").is_some());
        assert!(matches("a${ANY}b", b"axbx").is_none());
    }

    #[test]
    fn many_wildcards_in_a_long_text_are_compared_at_once() {
        let pattern = "${ANY}a".repeat(12) + "b";
        assert!(matches(&pattern, "a".repeat(300).as_bytes()).is_none());
    }
}
