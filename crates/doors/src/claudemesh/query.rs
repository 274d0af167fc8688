//! The part of a path behind the question mark.
//!
//! Invariant: a parameter that is asked for is given whole or refused by its name; one that nobody asks for does not
//! matter, whatever it is. What stands twice is refused, because two readers could take different ones.

use std::borrow::Cow;

use super::answer::Refused;

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Query<'a> {
    /// Takes the text apart. Names that cannot be decoded name nothing.
    pub(super) fn new(text: &'a str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(name)?, value))
        });
        Self { pairs: pairs.collect() }
    }

    /// Whether a parameter is there, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(other, _)| other == name)
    }

    /// A text; an empty one is as if it were not there.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, Refused> {
        let mut values = self.pairs.iter().filter(|(other, _)| other == name).map(|(_, value)| *value);
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Refused::field(name, format!("`{name}` stands more than once")));
        }
        let text =
            decode(value).ok_or_else(|| Refused::field(name, format!("`{name}` is not percent-encoded UTF-8")))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// A text that must be there.
    pub(super) fn required(&self, name: &'static str) -> Result<Cow<'a, str>, Refused> {
        self.text(name)?.ok_or_else(|| Refused::field(name, format!("`{name}` is missing")))
    }

    /// `true` or `false`, also as `1` or `0`.
    pub(super) fn flag(&self, name: &'static str, absent: bool) -> Result<bool, Refused> {
        match self.text(name)?.as_deref() {
            None => Ok(absent),
            Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(_) => Err(Refused::field(name, format!("`{name}` is `true` or `false`"))),
        }
    }

    /// A whole number, kept within bounds.
    pub(super) fn clamped(
        &self,
        name: &'static str,
        absent: usize,
        least: usize,
        most: usize,
    ) -> Result<usize, Refused> {
        let Some(text) = self.text(name)? else { return Ok(absent) };
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refused::field(name, format!("`{name}` is a whole number")));
        }
        let negative = text.starts_with('-');
        // Digits that do not fit are many.
        let number = if negative { 0 } else { digits.parse().unwrap_or(usize::MAX) };
        Ok(number.clamp(least, most))
    }

    /// A whole number.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<u64>, Refused> {
        let wrong = || Refused::field(name, format!("`{name}` is a whole number"));
        self.text(name)?
            .map(|text| {
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                if digits { text.parse().map_err(|_| wrong()) } else { Err(wrong()) }
            })
            .transpose()
    }

    /// A moment: RFC 3339 with any offset, in milliseconds since 1970.
    pub(super) fn moment(&self, name: &'static str) -> Result<Option<u64>, Refused> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wrong = || Refused::field(name, format!("`{name}` is no RFC 3339 time such as 2026-05-03T14:00:00Z"));
        moment(&text).map(Some).ok_or_else(wrong)
    }

    /// All parameters but one, as they came.
    pub(super) fn without(&self, name: &str) -> String {
        let rest = self.pairs.iter().filter(|(other, _)| other != name);
        rest.map(|(other, value)| format!("{}={value}", encode(other))).collect::<Vec<_>>().join("&")
    }
}

/// Milliseconds of an RFC 3339 time.
fn moment(text: &str) -> Option<u64> {
    if !text.is_ascii() || text.len() > 64 {
        return None;
    }
    // A plus that was not encoded has become a space: the one before a numeric offset is put back.
    let at = text.len().checked_sub(6)?;
    let text = match text.as_bytes().get(at) {
        Some(b' ') => format!("{}+{}", text.get(..at)?, text.get(at + 1..)?),
        _ => text.to_owned(),
    };
    // Dates before 1970 are earlier than everything that is kept.
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(u64::try_from(time.as_millisecond()).unwrap_or(0))
}

/// Form decoding: `%xx`, and `+` for a space. `None` for what is no UTF-8 or a broken escape.
pub(super) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                high << 4 | low
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Escapes all but what never needs it.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for nibble in [byte >> 4, byte & 15] {
                out.push(char::from_digit(nibble.into(), 16).unwrap_or('0').to_ascii_uppercase());
            }
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded_or_refused() {
        let query = Query::new("a=x%20y+z&b=&c&d=%ff&e=%4&f=1&f=2&%61%62=caf%C3%A9");
        assert_eq!(query.text("a").unwrap().unwrap(), "x y z");
        assert!(query.text("b").unwrap().is_none() && query.text("c").unwrap().is_none());
        for name in ["d", "e", "f"] {
            assert_eq!(query.text(name).unwrap_err().field.as_deref(), Some(name));
        }
        assert_eq!(query.text("ab").unwrap().unwrap(), "café");
        assert!(query.has("c") && query.has("ab") && !query.has("x"));
        assert_eq!(query.required("x").unwrap_err().field.as_deref(), Some("x"));
    }

    #[test]
    fn numbers_and_flags() {
        let query = Query::new("a=0&b=-5&c=99999999999999999999999&d=x&e=true&f=0&g=yes&h=12");
        let limit = |name| query.clamped(name, 100, 1, 1000);
        assert_eq!((limit("a").unwrap(), limit("b").unwrap(), limit("c").unwrap()), (1, 1, 1000));
        assert_eq!((limit("h").unwrap(), limit("absent").unwrap()), (12, 100));
        assert!(limit("d").is_err());
        assert!(query.flag("e", false).unwrap() && !query.flag("f", true).unwrap() && query.flag("x", true).unwrap());
        assert!(query.flag("g", false).is_err());
        assert_eq!(query.number("h").unwrap(), Some(12));
        assert!(query.number("b").is_err() && query.number("c").is_err());
    }

    #[test]
    fn moments_have_any_offset() {
        assert_eq!(moment("1970-01-01T00:00:01.5Z"), Some(1500));
        assert_eq!(moment("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(moment("1970-01-01T05:30:01 05:30"), Some(1000), "a plus that was not encoded");
        assert_eq!(moment("1960-01-01T00:00:00Z"), Some(0));
        for wrong in ["", "yesterday", "2001-01-01", "2001-01-01T00:00:00", "é2001-01-01T00:00:00Z"] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        for text in ["", "plain", "a b&c=d+%", "é☃"] {
            assert_eq!(decode(&encode(text)).unwrap(), text);
        }
        assert_eq!(Query::new("a=1&cursor=x&b=%20").without("cursor"), "a=1&b=%20");
    }
}
