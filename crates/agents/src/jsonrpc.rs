//! JSON-RPC 2.0 as lines: a message taken apart, and messages put together.
//!
//! Invariant: an id is kept as the JSON it was, so that an answer carries an id of the same type. Nothing here fails
//! on a strange line: what is no message is `None`.
//!
//! It knows no method.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::text::{self, Field};

/// There is no such method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// The parameters are not those of the method.
pub(crate) const INVALID_PARAMS: i64 = -32602;

/// A line, taken apart.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// The other side wants an answer.
    Request {
        /// Its id, as JSON.
        id: &'a str,
        /// What it wants.
        method: Cow<'a, str>,
        /// With what.
        params: Field<'a>,
    },
    /// The other side tells something.
    Notification {
        /// What it tells.
        method: Cow<'a, str>,
        /// With what.
        params: Field<'a>,
    },
    /// The answer to a request of ours.
    Response {
        /// The id we gave, if it is one.
        id: Option<u64>,
        /// What came of it; the result may be missing.
        result: Result<Field<'a>, Failure>,
    },
}

/// Why a request failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    /// The error's number.
    pub(crate) code: i64,
    /// For people: its message, and its details where it has some.
    pub(crate) message: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: Field<'a>,
    #[serde(borrow)]
    method: Field<'a>,
    #[serde(borrow)]
    params: Field<'a>,
    #[serde(borrow)]
    result: Field<'a>,
    #[serde(borrow)]
    error: Field<'a>,
}

/// The message on a line.
pub(crate) fn parse(line: &str) -> Option<Message<'_>> {
    let line: Line<'_> = text::parse(line)?;
    match (text::string(line.method), line.id) {
        (Some(method), Some(id)) => Some(Message::Request { id: id.get(), method, params: line.params }),
        (Some(method), None) => Some(Message::Notification { method, params: line.params }),
        (None, Some(id)) => {
            let result = line.error.map_or(Ok(line.result), |error| Err(failure(error)));
            Some(Message::Response { id: id.get().parse().ok(), result })
        }
        (None, None) => None,
    }
}

fn failure(error: &RawValue) -> Failure {
    #[derive(Deserialize)]
    struct Error<'a> {
        #[serde(borrow)]
        code: Field<'a>,
        #[serde(borrow)]
        message: Field<'a>,
        #[serde(borrow)]
        data: Field<'a>,
    }
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        details: Field<'a>,
        #[serde(borrow)]
        message: Field<'a>,
    }
    let Some(error) = text::parse::<Error<'_>>(error.get()) else {
        return Failure { code: 0, message: error.get().to_owned() };
    };
    let code = error.code.and_then(|code| code.get().parse().ok()).unwrap_or(0);
    let said = plain(&text::string(error.message).unwrap_or_default());
    let details = text::string(error.data).or_else(|| {
        let data: Data<'_> = text::object(error.data)?;
        text::string(data.details).or_else(|| text::string(data.message))
    });
    let message = match details.map(|details| plain(&details)).filter(|details| !details.is_empty()) {
        Some(details) if said.is_empty() => details,
        Some(details) if !said.contains(&details) => format!("{said}: {details}"),
        _ if said.is_empty() => format!("error {code}"),
        _ => said,
    };
    Failure { code, message }
}

/// A message for people. Some programs hand on the error of a web service as JSON: its own message is meant.
fn plain(message: &str) -> String {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        error: Field<'a>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow)]
        message: Field<'a>,
    }
    let inner = text::parse::<Outer<'_>>(message)
        .and_then(|outer| text::object::<Inner<'_>>(outer.error))
        .and_then(|inner| text::words(inner.message));
    inner.unwrap_or_else(|| message.trim().to_owned())
}

/// A request as a line.
pub(crate) fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a, T: Serialize> {
        jsonrpc: &'static str,
        id: u64,
        method: &'a str,
        params: &'a T,
    }
    line(&Request { jsonrpc: "2.0", id, method, params })
}

/// A notification as a line.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, T: Serialize> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a T,
    }
    line(&Notification { jsonrpc: "2.0", method, params })
}

/// An answer as a line. `id` is JSON.
pub(crate) fn response(id: &str, result: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a, T: Serialize> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        result: &'a T,
    }
    line(&Response { jsonrpc: "2.0", id: raw(id), result })
}

/// A refusal as a line. `id` is JSON.
pub(crate) fn refusal(id: &str, code: i64, message: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Error<'a> {
        code: i64,
        message: &'a str,
    }
    #[derive(Serialize)]
    struct Refusal<'a> {
        jsonrpc: &'static str,
        id: &'a RawValue,
        error: Error<'a>,
    }
    line(&Refusal { jsonrpc: "2.0", id: raw(id), error: Error { code, message } })
}

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).unwrap_or(RawValue::NULL)
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Nothing that is put together here can fail to be JSON; an empty line would be passed over by any reader.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure_of(line: &str) -> Failure {
        match parse(line) {
            Some(Message::Response { result: Err(failure), .. }) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_told_apart() {
        assert!(matches!(
            parse(r#"{"id":"a","method":"m","params":{}}"#),
            Some(Message::Request { id: "\"a\"", params: Some(_), .. })
        ));
        assert!(matches!(parse(r#"{"method":"m","id":null}"#), Some(Message::Notification { params: None, .. })));
        assert!(matches!(
            parse(r#"{"id":7,"result":null}"#),
            Some(Message::Response { id: Some(7), result: Ok(None) })
        ));
        assert!(matches!(parse(r#"{"id":"7","result":1}"#), Some(Message::Response { id: None, result: Ok(Some(_)) })));
        for nothing in ["{}", "[]", "7", "", "{", r#"{"jsonrpc":"2.0"}"#, r#"{"method":7}"#] {
            assert!(parse(nothing).is_none(), "{nothing}");
        }
    }

    #[test]
    fn failures_are_told_in_plain_words() {
        for (error, code, message) in [
            (r#"{"code":-32000,"message":"Authentication required"}"#, -32000, "Authentication required"),
            (r#"{"code":401,"message":"{\"error\":{\"code\":401,\"message\":\"no key\"}}"}"#, 401, "no key"),
            (r#"{"code":-32603,"message":"Internal error","data":{"details":"gone"}}"#, -32603, "Internal error: gone"),
            (r#"{"code":1,"message":"Internal error: gone","data":"gone"}"#, 1, "Internal error: gone"),
            (r#"{"data":{"message":"only this"}}"#, 0, "only this"),
            (r#"{"code":5}"#, 5, "error 5"),
            (r#"{"code":5,"message":" ","data":{"details":""}}"#, 5, "error 5"),
            (r#""odd""#, 0, "\"odd\""),
        ] {
            let failure = failure_of(&format!(r#"{{"id":1,"error":{error}}}"#));
            assert_eq!((failure.code, failure.message.as_str()), (code, message), "{error}");
        }
    }

    #[test]
    fn an_answer_has_the_id_it_was_asked_with() {
        for id in ["0", "\"0\"", "1.5", "true", "[1]", "18446744073709551616"] {
            let answer = String::from_utf8(response(id, &1)).unwrap();
            assert_eq!(answer, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":1}}\n"));
        }
        let refused = String::from_utf8(refusal("3", METHOD_NOT_FOUND, "no \"x\"")).unwrap();
        assert_eq!(
            refused,
            "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32601,\"message\":\"no \\\"x\\\"\"}}\n"
        );
    }
}
