//! Two spellings of every key of several words: `session_id` and `sessionId`.
//!
//! Invariant: both spellings carry the same value. What agents and people wrote (the input of a tool) is passed on as
//! it is.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

/// Which spellings are sent.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Spelling {
    /// Every key in both.
    #[default]
    Both,
    /// `session_id`.
    Snake,
    /// `sessionId`.
    Camel,
}

impl Spelling {
    /// Both keys of a value; the second is there only where it differs and is wanted.
    fn of<'a>(self, key: &'a str) -> (Cow<'a, str>, Option<Cow<'a, str>>) {
        let camel = camel(key);
        match (self, camel) {
            (_, Cow::Borrowed(same)) => (Cow::Borrowed(same), None),
            (Spelling::Both, camel) => (Cow::Borrowed(key), Some(camel)),
            (Spelling::Snake, _) => (Cow::Borrowed(key), None),
            (Spelling::Camel, camel) => (camel, None),
        }
    }
}

/// Values of these keys are not ours to spell.
const OPAQUE: [&str; 2] = ["raw_input", "input"];

/// `session_id` as `sessionId`; a key of one word as it is.
pub(crate) fn camel(key: &str) -> Cow<'_, str> {
    if !key.contains('_') {
        return Cow::Borrowed(key);
    }
    let mut out = String::with_capacity(key.len());
    let mut upper = false;
    for character in key.chars() {
        match character {
            '_' => upper = !out.is_empty(),
            _ if upper => {
                out.extend(character.to_uppercase());
                upper = false;
            }
            _ => out.push(character),
        }
    }
    Cow::Owned(out)
}

/// A result of ours with every key in the spellings that are wanted, at every depth.
pub(crate) fn spell(value: Value, spelling: Spelling) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(|item| spell(item, spelling)).collect()),
        Value::Object(members) => {
            let mut spelled = Map::new();
            for (key, value) in members {
                let value = if OPAQUE.contains(&key.as_str()) { value } else { spell(value, spelling) };
                let (first, second) = spelling.of(&key);
                if let Some(second) = second {
                    spelled.insert(second.into_owned(), value.clone());
                }
                spelled.insert(first.into_owned(), value);
            }
            Value::Object(spelled)
        }
        plain => plain,
    }
}

/// An object written key by key, each in the spellings that are wanted. For what is sent often.
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    spelling: Spelling,
    first: bool,
}

impl<'a> Object<'a> {
    /// Begins an object.
    pub(crate) fn open(out: &'a mut Vec<u8>, spelling: Spelling) -> Self {
        out.push(b'{');
        Object { out, spelling, first: true }
    }

    /// A member of any value of ours.
    pub(crate) fn value<V: Serialize + ?Sized>(&mut self, key: &str, value: &V) -> &mut Self {
        let (first, second) = self.spelling.of(key);
        self.member(&first, value);
        if let Some(second) = second {
            self.member(&second, value);
        }
        self
    }

    fn member<V: Serialize + ?Sized>(&mut self, key: &str, value: &V) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        // Keys are our own words and need no escaping; writing to memory does not fail.
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        let before = self.out.len();
        if serde_json::to_writer(&mut *self.out, value).is_err() {
            self.out.truncate(before);
            self.out.extend_from_slice(b"null");
        }
    }

    /// Ends it.
    pub(crate) fn close(&mut self) {
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_joined() {
        for (snake, expected) in
            [("cwd", "cwd"), ("session_id", "sessionId"), ("data_b64", "dataB64"), ("a_b_c", "aBC"), ("_x", "x")]
        {
            assert_eq!(camel(snake), expected);
        }
    }

    #[test]
    fn both_at_every_depth_but_not_in_what_is_not_ours() {
        let value = json!({"session_id": "s", "list": [{"a_b": {"c_d": 1}}], "raw_input": {"file_path": "x"}});
        assert_eq!(
            spell(value.clone(), Spelling::Both),
            json!({
                "session_id": "s", "sessionId": "s",
                "list": [{"a_b": {"c_d": 1, "cD": 1}, "aB": {"c_d": 1, "cD": 1}}],
                "raw_input": {"file_path": "x"}, "rawInput": {"file_path": "x"},
            })
        );
        assert_eq!(spell(value.clone(), Spelling::Snake), value);
        assert_eq!(
            spell(value, Spelling::Camel),
            json!({"sessionId": "s", "list": [{"aB": {"cD": 1}}], "rawInput": {"file_path": "x"}})
        );
    }

    #[test]
    fn written_by_hand_it_is_the_same() {
        let write = |spelling| {
            let mut out = Vec::new();
            let mut object = Object::open(&mut out, spelling);
            object.value("type", "a\"b").value("session_id", "s").value("turn", &1).close();
            serde_json::from_slice::<Value>(&out).unwrap()
        };
        assert_eq!(write(Spelling::Both), json!({"type": "a\"b", "session_id": "s", "sessionId": "s", "turn": 1}));
        assert_eq!(write(Spelling::Snake), json!({"type": "a\"b", "session_id": "s", "turn": 1}));
        assert_eq!(write(Spelling::Camel), json!({"type": "a\"b", "sessionId": "s", "turn": 1}));
    }
}
