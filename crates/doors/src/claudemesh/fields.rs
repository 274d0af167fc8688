//! The fields of a request's body.
//!
//! Invariant: a body is one JSON object in UTF-8 in which no name stands twice. A field that is asked for is given with
//! the type that was asked for, or refused by its name; `null` is as if it were not there; what nobody asks for is
//! passed over, however deep it is.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::Refused;

/// How often a name may stand in a body at all: what is looked for is looked for in a list.
const MOST: usize = 1000;

/// A body.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Fields<'a> {
    /// Reads a body.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Refused> {
        let text = std::str::from_utf8(body).map_err(|_| Refused::json("the body is not UTF-8"))?;
        let members = match serde_json::from_str::<Members<'_>>(text) {
            Ok(Members(members)) => members,
            Err(error) if error.is_data() => {
                return Err(Refused::invalid("the body is not a JSON object of a reasonable number of fields"));
            }
            Err(error) => return Err(Refused::json(format!("the body is not JSON: {error}"))),
        };
        let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find_map(|pair| (pair[0] == pair[1]).then_some(pair[0])) {
            let shown: String = twice.chars().filter(|c| !c.is_control()).take(64).collect();
            return Err(Refused::field(shown.clone(), format!("`{shown}` stands more than once")));
        }
        Ok(Self { members })
    }

    /// As it was written; `None` for null.
    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.members.iter().find(|(other, _)| other == name)?.1;
        Some(found).filter(|value| value.get() != "null")
    }

    /// A field by one of its spellings; both may be given if they say the same.
    fn either<T: DeserializeOwned + PartialEq>(
        &self,
        names: &[&'static str],
        what: &str,
    ) -> Result<Option<T>, Refused> {
        let mut found: Option<T> = None;
        for name in names {
            let Some(raw) = self.raw(name) else { continue };
            let value = serde_json::from_str(raw.get())
                .map_err(|_| Refused::field(*name, format!("`{name}` must be {what}")))?;
            match &found {
                Some(other) if *other != value => {
                    let first = names.first().copied().unwrap_or_default();
                    return Err(Refused::field(first, format!("`{first}` and `{name}` say different things")));
                }
                _ => found = Some(value),
            }
        }
        Ok(found)
    }

    /// A text.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<String>, Refused> {
        self.either(&[name], "a text")
    }

    /// A text under either of two names.
    pub(super) fn text_of(&self, names: &[&'static str]) -> Result<Option<String>, Refused> {
        self.either(names, "a text")
    }

    /// A text that must be there and say something.
    pub(super) fn required(&self, name: &'static str) -> Result<String, Refused> {
        self.required_of(&[name])
    }

    /// The same under either of two names.
    pub(super) fn required_of(&self, names: &[&'static str]) -> Result<String, Refused> {
        let name = names.first().copied().unwrap_or_default();
        let text = self.text_of(names)?.ok_or_else(|| Refused::field(name, format!("`{name}` is missing")))?;
        if text.is_empty() {
            return Err(Refused::field(name, format!("`{name}` is empty")));
        }
        Ok(text)
    }

    /// True or false.
    pub(super) fn flag(&self, name: &'static str) -> Result<Option<bool>, Refused> {
        self.either(&[name], "true or false")
    }

    /// A whole number.
    pub(super) fn number<T: DeserializeOwned + PartialEq>(&self, names: &[&'static str]) -> Result<Option<T>, Refused> {
        self.either(names, "a whole number")
    }

    /// A list of texts.
    pub(super) fn texts(&self, name: &'static str) -> Result<Option<Vec<String>>, Refused> {
        self.either(&[name], "a list of texts")
    }

    /// Anything that can be read as this.
    pub(super) fn typed<T: DeserializeOwned + PartialEq>(
        &self,
        name: &'static str,
        what: &str,
    ) -> Result<Option<T>, Refused> {
        self.either(&[name], what)
    }

    /// An object, with numbers that everybody reads alike.
    pub(super) fn object(&self, name: &'static str) -> Result<Option<Value>, Refused> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let wrong = |why: String| Refused::field(name, why);
        let value: Value = serde_json::from_str(raw.get()).map_err(|_| wrong(format!("`{name}` must be an object")))?;
        if !value.is_object() {
            return Err(wrong(format!("`{name}` must be an object")));
        }
        // Looked at as it was written: in a value a number is rounded already.
        hostel_wire::canonical::check_numbers(raw.get()).map_err(|error| wrong(format!("`{name}`: {error}")))?;
        Ok(Some(value))
    }

    /// Whether a field stands there at all, also as null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(other, _)| other == name)
    }

    /// A value, whatever it is, with numbers that everybody reads alike.
    pub(super) fn exact(&self, name: &'static str) -> Result<Option<Value>, Refused> {
        if let Some(raw) = self.raw(name) {
            let checked = hostel_wire::canonical::check_numbers(raw.get());
            checked.map_err(|error| Refused::field(name, format!("`{name}`: {error}")))?;
        }
        self.value(name)
    }

    /// A value, whatever it is.
    pub(super) fn value(&self, name: &'static str) -> Result<Option<Value>, Refused> {
        self.typed(name, "JSON that is not too deep")
    }
}

struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = object.next_entry::<Name<'de>, &RawValue>()? {
                    if members.len() == MOST {
                        return Err(serde::de::Error::custom("too many fields"));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// A name, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use serde_json::json;

    use super::*;

    fn error(body: &str) -> (&'static str, Option<String>) {
        let refused = Fields::read(body.as_bytes()).unwrap_err();
        (if refused.code == "invalid_json" { "json" } else { "shape" }, refused.field.map(Cow::into_owned))
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in ["", "{", "{} {}", "nonsense", "{\"a\":}", "{\"a\":1,}"] {
            assert_eq!(error(body), ("json", None), "{body}");
        }
        for body in ["[]", "1", "\"x\"", "null", "true"] {
            assert_eq!(error(body), ("shape", None), "{body}");
        }
        assert_eq!(error(r#"{"a":1,"b":2,"\u0061":3}"#), ("shape", Some("a".to_owned())));
        assert!(Fields::read(b"{\"a\":\"\xff\"}").unwrap_err().code == "invalid_json");
        let many = format!("{{{}}}", (0..1001).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(","));
        assert_eq!(error(&many), ("shape", None));
    }

    #[test]
    fn fields_have_their_type_or_are_named() {
        let body = br#"{"a":"x","b":5,"n":null,"l":["y"],"t":true,"o":{"k":[1.5,null]},"bad":"\ud800"}"#;
        let fields = Fields::read(body).unwrap();
        assert_eq!(fields.text("a").unwrap().unwrap(), "x");
        assert_eq!(fields.text("n").unwrap(), None);
        assert_eq!(fields.text("absent").unwrap(), None);
        for name in ["b", "l", "t", "o", "bad"] {
            assert_eq!(fields.text(name).unwrap_err().field.as_deref(), Some(name));
        }
        assert_eq!(fields.number::<u32>(&["b"]).unwrap(), Some(5));
        assert_eq!(fields.texts("l").unwrap().unwrap(), ["y"]);
        assert_eq!(fields.flag("t").unwrap(), Some(true));
        assert_eq!(fields.object("o").unwrap().unwrap(), json!({"k": [1.5, null]}));
        assert!(fields.object("l").is_err() && fields.object("a").is_err());
        assert!(fields.required("absent").is_err());
    }

    #[test]
    fn two_spellings_are_one_field() {
        let read = |body: &str| Fields::read(body.as_bytes()).unwrap().text_of(&["replyToId", "reply_to_id"]);
        assert_eq!(read(r#"{"replyToId":"a"}"#).unwrap().as_deref(), Some("a"));
        assert_eq!(read(r#"{"reply_to_id":"a"}"#).unwrap().as_deref(), Some("a"));
        assert_eq!(read(r#"{"reply_to_id":"a","replyToId":"a"}"#).unwrap().as_deref(), Some("a"));
        assert_eq!(read(r#"{"reply_to_id":null,"replyToId":"a"}"#).unwrap().as_deref(), Some("a"));
        assert_eq!(read(r#"{"reply_to_id":"b","replyToId":"a"}"#).unwrap_err().field.as_deref(), Some("replyToId"));
    }

    #[test]
    fn depth_and_numbers_hurt_nobody() {
        let deep = format!("{{\"x\":{}{},\"a\":\"y\"}}", "[".repeat(100_000), "]".repeat(100_000));
        let fields = Fields::read(deep.as_bytes()).unwrap();
        assert_eq!(fields.text("a").unwrap().unwrap(), "y");
        assert!(fields.object("x").is_err() && fields.value("x").is_err());
        let fields = Fields::read(br#"{"meta":{"n":123456789012345678901234567890}}"#).unwrap();
        assert_eq!(fields.object("meta").unwrap_err().field.as_deref(), Some("meta"));
    }
}
