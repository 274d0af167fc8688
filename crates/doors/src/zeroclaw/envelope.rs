//! What one frame is: a request, a notification, an answer to a question of ours, or nothing that can be served.
//!
//! Invariant: a pure function of the bytes. Nothing is looked up, so an unknown method is a request like any other.

use hostel_agents::Raw;
use serde::Deserialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::value::RawValue;

use super::code;
use crate::rpc::Failure;

/// A frame, understood.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// Nothing but blanks.
    Blank,
    /// A request, or without an id a notification.
    Request {
        /// Text, a number, or null, to be given back as it is; none for a notification.
        id: Option<Raw>,
        /// Its name, known or not.
        method: String,
        /// An object or a list, if there is one.
        params: Option<Value>,
    },
    /// The answer to a question of ours; never answered itself.
    Response {
        /// Which question, where it can be one.
        id: Option<Value>,
        /// Its result; none for an error.
        result: Option<Value>,
    },
    /// Neither; to be answered so.
    Refused {
        /// The frame's id where it has a valid one, else null.
        id: Raw,
        /// Why.
        failure: Failure,
    },
}

/// Reads one frame. Bytes that are not UTF-8 are repaired first.
pub(crate) fn read(frame: &[u8]) -> Incoming {
    let text = String::from_utf8_lossy(frame);
    let text = text.trim();
    if text.is_empty() {
        return Incoming::Blank;
    }
    let refused = |code, message: &str| Incoming::Refused { id: Raw::null(), failure: Failure::new(code, message) };
    match serde_json::from_str(text) {
        Err(error) => refused(code::PARSE, &format!("not JSON: {error}")),
        Ok(Value::Object(members)) => classify(text, members),
        Ok(Value::Array(_)) => refused(code::REQUEST, "batches are not served: send one object per line"),
        Ok(_) => refused(code::REQUEST, "not a request: not an object"),
    }
}

fn classify(text: &str, mut members: Map<String, Value>) -> Incoming {
    let answers = members.contains_key("result") || members.contains_key("error");
    match members.remove("method") {
        None if answers => Incoming::Response {
            id: members.remove("id").filter(is_id),
            result: members.remove("result").filter(|_| !members.contains_key("error")),
        },
        Some(Value::String(method)) if !answers => request(text, method, members),
        None => unclear("no `method`"),
        Some(Value::String(_)) => unclear("a request and an answer at once"),
        Some(_) => unclear("`method` is not a string"),
    }
}

fn unclear(why: &str) -> Incoming {
    Incoming::Refused { id: Raw::null(), failure: Failure::new(code::REQUEST, format!("not a request: {why}")) }
}

fn request(text: &str, method: String, mut members: Map<String, Value>) -> Incoming {
    let id = members.remove("id");
    let valid = id.as_ref().is_none_or(is_id);
    let id = id.map(|id| as_written(text, &id));
    let params = members.remove("params");
    let problem = if members.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        Some("`jsonrpc` is not \"2.0\"")
    } else if !valid {
        Some("`id` is no string, number or null")
    } else if params.as_ref().is_some_and(|params| !params.is_object() && !params.is_array()) {
        Some("`params` is neither an object nor a list")
    } else {
        None
    };
    match problem {
        None => Incoming::Request { id, method, params },
        Some(why) => Incoming::Refused {
            id: id.filter(|_| valid).unwrap_or_else(Raw::null),
            failure: Failure::new(code::REQUEST, format!("not a request: {why}")),
        },
    }
}

/// An id as the frame has it. Only a number that is no plain integer may have lost something when it was read.
fn as_written(text: &str, id: &Value) -> Raw {
    #[derive(Deserialize)]
    struct Frame<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let written = match id.is_f64() {
        true => serde_json::from_str::<Frame<'_>>(text).ok(),
        false => None,
    };
    written.map_or_else(|| Raw::of(id), |frame| Raw::from(frame.id))
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_number() || id.is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(frame: &str) -> (Value, i64) {
        match read(frame.as_bytes()) {
            Incoming::Refused { id, failure } => (serde_json::from_str(id.get()).unwrap(), failure.code),
            other => panic!("{frame}: {other:?}"),
        }
    }

    #[test]
    fn what_is_not_json_or_not_an_object() {
        assert_eq!(refusal("nonsense"), (Value::Null, code::PARSE));
        assert_eq!(refusal(r#"{"jsonrpc":"2.0","id":1,"method":"status""#), (Value::Null, code::PARSE));
        for frame in ["[]", "1", "null", "\"x\"", r#"[{"jsonrpc":"2.0","id":1,"method":"status"}]"#] {
            assert_eq!(refusal(frame), (Value::Null, code::REQUEST), "{frame}");
        }
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"status","params":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(refusal(&deep), (Value::Null, code::PARSE));
    }

    #[test]
    fn requests_with_a_flaw_keep_a_valid_id() {
        for (frame, id) in [
            (r#"{"id":7,"method":"status"}"#, json!(7)),
            (r#"{"jsonrpc":"1.0","id":"a","method":"status"}"#, json!("a")),
            (r#"{"jsonrpc":2.0,"id":null,"method":"status"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":7,"method":"status","params":null}"#, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7,"method":"status","params":"x"}"#, json!(7)),
            (r#"{"jsonrpc":"2.0","id":7,"method":"status","params":1}"#, json!(7)),
            (r#"{"jsonrpc":"2.0","id":true,"method":"status"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"status"}"#, Value::Null),
            (r#"{"method":"status"}"#, Value::Null),
        ] {
            assert_eq!(refusal(frame), (id, code::REQUEST), "{frame}");
        }
    }

    #[test]
    fn what_is_neither_request_nor_answer() {
        for frame in [
            r#"{"jsonrpc":"2.0","id":7}"#,
            "{}",
            r#"{"jsonrpc":"2.0","id":7,"method":5}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":null,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"status","result":1}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"status","error":null}"#,
        ] {
            assert_eq!(refusal(frame), (Value::Null, code::REQUEST), "{frame}");
        }
    }

    #[test]
    fn requests_and_notifications() {
        let request = |id: Option<Value>, params| Incoming::Request {
            id: id.map(|id| Raw::of(&id)),
            method: "status".to_owned(),
            params,
        };
        let read = |frame: &str| read(frame.as_bytes());
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"status"}"#), request(None, None));
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"status","id":null}"#), request(Some(Value::Null), None));
        assert_eq!(
            read(" \t{\"jsonrpc\":\"2.0\",\"method\":\"status\",\"id\":1.5,\"params\":[1]}\r"),
            request(Some(json!(1.5)), Some(json!([1])))
        );
        assert_eq!(read(" \r"), Incoming::Blank);
    }

    #[test]
    fn numbers_come_back_as_they_were_written() {
        for id in
            ["123456789012345678901234567890", "-99999999999999999999", "1.10", "1e3", "-0", "18446744073709551615"]
        {
            let frame = format!(r#"{{"jsonrpc":"2.0","method":"status", "id" : {id} ,"params":{{"id":7}}}}"#);
            let Incoming::Request { id: Some(read), .. } = read(frame.as_bytes()) else { panic!("{frame}") };
            assert_eq!(read.get(), id);
            let flawed = format!(r#"{{"id":{id},"method":"status"}}"#);
            let Incoming::Refused { id: read, .. } = super::read(flawed.as_bytes()) else { panic!("{flawed}") };
            assert_eq!(read.get(), id);
        }
    }

    #[test]
    fn answers_are_never_refused() {
        let answer = |id, result| Incoming::Response { id, result };
        let read = |frame: &str| read(frame.as_bytes());
        assert_eq!(
            read(r#"{"id":"zc-out-0","result":{"a":1}}"#),
            answer(Some(json!("zc-out-0")), Some(json!({"a":1})))
        );
        assert_eq!(read(r#"{"id":"zc-out-0","error":{"code":1}}"#), answer(Some(json!("zc-out-0")), None));
        assert_eq!(read(r#"{"id":{},"result":1}"#), answer(None, Some(json!(1))));
        assert_eq!(read(r#"{"result":null}"#), answer(None, Some(Value::Null)));
    }

    #[test]
    fn broken_utf8_is_repaired() {
        let frame = b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"status\"}";
        let Incoming::Request { id, .. } = read(frame) else { panic!("a request") };
        assert_eq!(id, Some(Raw::of(&json!("\u{fffd}"))));
    }

    proptest::proptest! {
        #[test]
        fn anything_at_all_is_some_kind_of_frame(bytes: Vec<u8>, id: i64, method: String, params: Option<Vec<bool>>) {
            // Whatever it is, it is answered under a valid id or not at all.
            if let Incoming::Refused { id, .. } = read(&bytes) {
                proptest::prop_assert!(is_id(&serde_json::from_str(id.get()).unwrap()));
            }
            let mut frame = json!({"jsonrpc": "2.0", "id": id, "method": method});
            if let Some(params) = &params {
                frame["params"] = json!(params);
            }
            let expected = Incoming::Request {
                id: Some(Raw::of(&id)), method, params: params.map(|params| json!(params)),
            };
            proptest::prop_assert_eq!(read(frame.to_string().as_bytes()), expected);
        }
    }
}
