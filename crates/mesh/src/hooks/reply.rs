//! What a hook prints: an answer, or a verdict.
//!
//! Invariant: what cannot be understood to the last byte is not sent, and never lets a message through.

use hostel_wire::frames::Priority;
use serde_json::{Map, Value};

/// What a hook of an event wants to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// How urgent.
    pub priority: Priority,
    /// What goes beside it.
    pub meta: Map<String, Value>,
}

/// What the gate decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// As it is.
    Allow,
    /// Not at all, for a reason.
    Drop(String),
    /// Otherwise; what is absent stays.
    Replace {
        /// The text.
        body: Option<String>,
        /// What goes beside it; null takes it away.
        meta: Option<Value>,
        /// A task's title.
        title: Option<String>,
    },
}

/// The longest reason that is passed on.
const REASON: usize = 500;

/// Reads the answer of a hook: nothing, or an object with `reply`.
pub fn reply(output: &[u8]) -> Result<Option<Reply>, &'static str> {
    let Some(mut object) = object(output)? else { return Ok(None) };
    let text = match object.remove("reply") {
        Some(Value::String(text)) if !text.is_empty() => text,
        Some(_) => return Err("`reply` is no text, or an empty one"),
        None => return Err("it printed an object without `reply`"),
    };
    let priority = match object.remove("priority") {
        None | Some(Value::Null) => Priority::default(),
        Some(Value::String(word)) => Priority::parse(&word).ok_or("`priority` is none of now, next, low")?,
        Some(_) => return Err("`priority` is none of now, next, low"),
    };
    let meta = match object.remove("meta") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(meta)) => meta,
        Some(_) => return Err("`meta` is no object"),
    };
    Ok(Some(Reply { text, priority, meta }))
}

/// Reads the verdict of the gate; nothing at all lets it pass.
pub fn verdict(output: &[u8]) -> Result<Verdict, &'static str> {
    let Some(mut object) = object(output)? else { return Ok(Verdict::Allow) };
    let action = object.remove("action");
    match action.as_ref().and_then(Value::as_str) {
        Some("allow") => Ok(Verdict::Allow),
        Some("drop") => {
            let reason = match object.remove("reason") {
                Some(Value::String(reason)) => reason.chars().filter(|c| !c.is_control()).take(REASON).collect(),
                _ => String::new(),
            };
            Ok(Verdict::Drop(reason))
        }
        Some("replace") => {
            let mut text = |key: &str, wrong: &'static str| match object.remove(key) {
                None => Ok(None),
                Some(Value::String(text)) => Ok(Some(text)),
                Some(_) => Err(wrong),
            };
            let (body, title) = (text("body", "`body` is no text")?, text("title", "`title` is no text")?);
            let meta = match object.remove("meta") {
                Some(meta) if !meta.is_object() && !meta.is_null() => return Err("`meta` is no object"),
                meta => meta,
            };
            Ok(Verdict::Replace { body, meta, title })
        }
        _ => Err("`action` is none of allow, drop, replace"),
    }
}

/// The one object that was printed; `None` if nothing was.
fn object(output: &[u8]) -> Result<Option<Map<String, Value>>, &'static str> {
    let output = output.trim_ascii();
    if output.is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice(output) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err("it printed JSON that is no object"),
        Err(_) => Err("it printed something that is no JSON"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers() {
        assert_eq!(reply(b" \n"), Ok(None));
        let answer = reply(br#"{"reply":"yes","priority":"now","meta":{"a":1},"more":2}"#).unwrap().unwrap();
        assert_eq!((answer.text.as_str(), answer.priority), ("yes", Priority::Now));
        assert_eq!(answer.meta, *json!({"a": 1}).as_object().unwrap());
        assert_eq!(reply(br#"{"reply":"yes"}"#).unwrap().unwrap().priority, Priority::Next);
        for garbage in [
            "hello",
            "{}",
            "[]",
            "{\"reply\":1}",
            "{\"reply\":\"\"}",
            "{\"reply\":\"a\"} {\"reply\":\"b\"}",
            "{\"reply\":\"a\",\"priority\":\"soon\"}",
            "{\"reply\":\"a\",\"meta\":[]}",
            "{\"reply\":\"a\"",
            "\u{0}",
        ] {
            assert!(reply(garbage.as_bytes()).is_err(), "{garbage}");
        }
    }

    #[test]
    fn verdicts() {
        assert_eq!(verdict(b""), Ok(Verdict::Allow));
        assert_eq!(verdict(br#"{"action":"allow"}"#), Ok(Verdict::Allow));
        assert_eq!(verdict(br#"{"action":"drop","reason":"a\nb"}"#), Ok(Verdict::Drop("ab".into())));
        let replaced = Verdict::Replace { body: Some("x".into()), meta: None, title: None };
        assert_eq!(verdict(br#"{"action":"replace","body":"x"}"#), Ok(replaced));
        let titled = Verdict::Replace { body: None, meta: Some(Value::Null), title: Some("t".into()) };
        assert_eq!(verdict(br#"{"action":"replace","meta":null,"title":"t"}"#), Ok(titled));
        for garbage in [
            "ok",
            "{}",
            "{\"action\":\"pass\"}",
            "{\"action\":1}",
            "{\"action\":\"replace\",\"body\":1}",
            "{\"action\":\"replace\",\"title\":1}",
        ] {
            assert!(verdict(garbage.as_bytes()).is_err(), "{garbage}");
        }
    }
}
