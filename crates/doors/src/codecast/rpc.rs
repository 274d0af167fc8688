//! The envelope: one call in, one answer out. Pure.
//!
//! Invariant: an answer has a result or an error, never both, and the caller's id exactly as it was written.

use std::borrow::Cow;

use serde::de::{Error as _, IgnoredAny, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::json;

pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const FAILED: i32 = -32000;

/// One call.
#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow, default, deserialize_with = "method")]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) params: Option<Value>,
    #[serde(borrow, default, deserialize_with = "scalar")]
    pub(super) id: Option<&'a RawValue>,
}

/// Why a body is no call; what is said about it.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Unreadable {
    /// It is no JSON.
    Syntax(String),
    /// It is JSON of another shape.
    Shape(String),
}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        match error.is_data() {
            true => Self::Shape(format!("Failed to deserialize the JSON body into the target type: {error}")),
            false => Self::Syntax(format!("Failed to parse the request body as JSON: {error}")),
        }
    }
}

/// Reads a body.
pub(super) fn read(body: &[u8]) -> Result<Call<'_>, Unreadable> {
    // A struct may also be written as an array of its fields. Here an array would be a batch, and there are none.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(body)?;
        let shape = "expected one request object at line 1 column 1";
        return Err(Unreadable::Shape(format!("Failed to deserialize the JSON body into the target type: {shape}")));
    }
    Ok(serde_json::from_slice(body)?)
}

fn method<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    struct Method;
    impl<'de> Visitor<'de> for Method {
        type Value = Option<Cow<'de, str>>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("`method` to be a string")
        }

        fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(text)))
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(text.to_owned())))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    deserializer.deserialize_any(Method)
}

fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    let expected = &"`id` to be a string, a number, a boolean or null";
    match raw.get().as_bytes().first() {
        Some(b'{') => Err(D::Error::invalid_type(Unexpected::Map, expected)),
        Some(b'[') => Err(D::Error::invalid_type(Unexpected::Seq, expected)),
        Some(b'n') => Ok(None),
        _ => Ok(Some(raw)),
    }
}

/// Why a call came to nothing.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Failure {
    pub(super) code: i32,
    pub(super) message: Cow<'static, str>,
}

impl Failure {
    /// The params are not what the method needs.
    pub(super) fn params(message: impl Into<Cow<'static, str>>) -> Self {
        Self { code: INVALID_PARAMS, message: message.into() }
    }

    /// The method was understood and did not work.
    pub(super) fn failed(message: impl Into<Cow<'static, str>>) -> Self {
        Self { code: FAILED, message: message.into() }
    }
}

/// The answer to a call that worked. `first` goes before the result, for those who do not look into it.
pub(super) fn result(id: Option<&RawValue>, first: &str, result: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    out.extend_from_slice(first.as_bytes());
    out.extend_from_slice(b"\"result\":");
    // Our own plain types: they have no way to fail.
    serde_json::to_writer(&mut out, result).ok();
    close(out, id)
}

/// The same with a result that is JSON already.
pub(super) fn raw_result(id: Option<&RawValue>, result: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(result.len() + 64);
    out.extend_from_slice(b"{\"result\":");
    out.extend_from_slice(result);
    close(out, id)
}

/// The answer to a call that did not.
pub(super) fn error(id: Option<&RawValue>, failure: &Failure) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + failure.message.len());
    out.extend_from_slice(format!("{{\"error\":{{\"code\":{},\"message\":", failure.code).as_bytes());
    json::push_string(&mut out, &failure.message);
    out.push(b'}');
    close(out, id)
}

fn close(mut out: Vec<u8>, id: Option<&RawValue>) -> Vec<u8> {
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(id.get().as_bytes());
    }
    out.push(b'}');
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn ids_come_back_as_they_were_written() {
        for id in [r#""a\u0041""#, "7", "7.0", "1e400", "123456789012345678901234567890", "true", r#""""#] {
            let body = format!(r#"{{"method":"x","id":{id},"jsonrpc":"2.0"}}"#);
            let call = read(body.as_bytes()).unwrap();
            assert_eq!(text(result(call.id, "", &1)), format!(r#"{{"result":1,"id":{id}}}"#));
        }
        for body in [r#"{"method":"x"}"#, r#"{"method":"x","id":null}"#] {
            assert_eq!(text(result(read(body.as_bytes()).unwrap().id, "", &1)), r#"{"result":1}"#);
        }
    }

    #[test]
    fn what_is_no_json_and_what_is_no_call() {
        for body in ["", " ", "{", "nope", "{\"method\":", "{\"method\":\"a\"} x", "[1", "{\"method\":\"\\ud800\"}"] {
            let error = read(body.as_bytes()).unwrap_err();
            let Unreadable::Syntax(text) = &error else { panic!("{body}: {error:?}") };
            assert!(text.contains("line 1 column"), "{text}");
        }
        for (body, named) in [
            ("5", "request object"),
            ("\"x\"", "request object"),
            ("[]", "request object"),
            ("[{\"method\":\"x\"}]", "request object"),
            ("{\"method\":5}", "`method`"),
            ("{\"method\":[]}", "`method`"),
            ("{\"method\":\"x\",\"id\":{}}", "`id`"),
            ("{\"method\":\"x\",\"id\":[1]}", "`id`"),
            ("{\"method\":\"x\",\"method\":\"y\"}", "method"),
        ] {
            let error = read(body.as_bytes()).unwrap_err();
            let Unreadable::Shape(text) = &error else { panic!("{body}: {error:?}") };
            assert!(text.contains(named) && text.contains("line 1 column"), "{body}: {text}");
        }
    }

    #[test]
    fn a_missing_method_is_a_call_without_one() {
        for body in ["{}", "{\"method\":null}", " \n{\"id\":1}"] {
            assert_eq!(read(body.as_bytes()).unwrap().method, None);
        }
    }

    #[test]
    fn errors_and_first_words() {
        let call = read(br#"{"id":1}"#).unwrap();
        let failure = Failure::failed("no \"such\" thing");
        assert_eq!(text(error(call.id, &failure)), r#"{"error":{"code":-32000,"message":"no \"such\" thing"},"id":1}"#);
        assert_eq!(text(result(None, "\"ok\":true,", &"x")), r#"{"ok":true,"result":"x"}"#);
        assert_eq!(text(raw_result(call.id, b"[]")), r#"{"result":[],"id":1}"#);
    }
}
