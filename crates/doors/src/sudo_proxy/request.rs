//! A request, decoded.
//!
//! Invariant: an object and nothing else; every known key at most once and of its own type, so that no two readers of
//! the same line can see two different commands. What is not known is skipped without being looked into.
//!
//! It judges no content: that is [`super::gates`]'s work.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error as _;
use serde::de::MapAccess;
use serde::de::Visitor;
use serde::de::value::MapAccessDeserializer;

/// What is asked of the door.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// Run the pipeline once somebody agreed.
    #[default]
    Exec,
    /// End the door.
    Stop,
    /// Say that it is there.
    Ping,
}

impl Action {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Action; 3] = [Action::Exec, Action::Stop, Action::Ping];

    /// Its name on the wire, and in the table of what processes inside the house may do.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Action::Exec => "exec",
            Action::Stop => "stop",
            Action::Ping => "ping",
        }
    }
}

/// A request as it was sent, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request(Fields);

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename = "Request")]
pub(crate) struct Fields {
    #[serde(default = "fresh_id")]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) host: String,
    #[serde(default = "unknown")]
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) time: String,
    #[serde(default)]
    pub(crate) pipeline: Vec<Vec<String>>,
    #[serde(default)]
    pub(crate) action: Action,
    #[serde(default, deserialize_with = "names_once")]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default = "yes")]
    pub(crate) privileged: bool,
    #[serde(default)]
    pub(crate) forward_agent: bool,
    #[serde(default)]
    pub(crate) version: String,
}

fn fresh_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn yes() -> bool {
    true
}

/// Reads a line.
pub(crate) fn decode(line: &[u8]) -> Result<Fields, serde_json::Error> {
    serde_json::from_slice::<Request>(line).map(|request| request.0)
}

impl<'de> Deserialize<'de> for Request {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A derived reader would also take a list, each field at its place.
        struct ObjectOnly;

        impl<'de> Visitor<'de> for ObjectOnly {
            type Value = Request;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("struct Request")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Request, A::Error> {
                Fields::deserialize(MapAccessDeserializer::new(map)).map(Request)
            }
        }

        deserializer.deserialize_any(ObjectOnly)
    }
}

fn names_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct NamesOnce;

    impl<'de> Visitor<'de> for NamesOnce {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a map")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut names = BTreeMap::new();
            while let Some((name, value)) = map.next_entry()? {
                if names.insert(name, value).is_some() {
                    return Err(A::Error::custom("duplicate name in `env`"));
                }
            }
            Ok(names)
        }
    }

    deserializer.deserialize_map(NamesOnce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        decode(line.as_bytes()).expect_err(line).to_string()
    }

    #[test]
    fn defaults() {
        let request = decode(b" {}\r").unwrap();
        assert!(uuid::Uuid::parse_str(&request.id).is_ok_and(|id| id.get_version_num() == 4));
        assert_eq!(request.id, request.id.to_lowercase());
        assert_eq!(request.session, "unknown");
        assert_eq!((request.action, request.privileged, request.forward_agent), (Action::Exec, true, false));
        assert!(request.pipeline.is_empty() && request.env.is_empty());
        assert!([request.host, request.time, request.reason, request.version].iter().all(String::is_empty));
    }

    #[test]
    fn an_object_and_nothing_else() {
        for line in ["[]", r#"["id"]"#, "3", "null", "\"x\"", "true", "", "{} {}", "\u{feff}{}", "hello"] {
            assert!(decode(line.as_bytes()).is_err(), "{line}");
        }
        assert_eq!(error("[]"), "invalid type: sequence, expected struct Request at line 1 column 2");
        assert_eq!(error("3"), "invalid type: integer `3`, expected struct Request at line 1 column 1");
    }

    #[test]
    fn known_keys_once_and_of_their_type() {
        assert_eq!(error(r#"{"id":"a","id":"b"}"#), "duplicate field `id` at line 1 column 14");
        assert_eq!(error(r#"{"\u0069d":"a","id":"b"}"#), "duplicate field `id` at line 1 column 19");
        assert_eq!(error(r#"{"env":{"A":"1","A":"1"}}"#), "duplicate name in `env` at line 1 column 24");
        for key in ["id", "host", "session", "time", "reason", "version"] {
            for value in ["null", "1", "true", "[]", "{}"] {
                assert!(decode(format!(r#"{{"{key}":{value}}}"#).as_bytes()).is_err(), "{key} {value}");
            }
        }
        for line in [
            r#"{"pipeline":null}"#,
            r#"{"pipeline":"a"}"#,
            r#"{"pipeline":["a"]}"#,
            r#"{"pipeline":[[1]]}"#,
            r#"{"pipeline":[[null]]}"#,
            r#"{"pipeline":{"0":["a"]}}"#,
            r#"{"env":null}"#,
            r#"{"env":[]}"#,
            r#"{"env":{"A":null}}"#,
            r#"{"env":{"A":1}}"#,
            r#"{"privileged":null}"#,
            r#"{"privileged":"true"}"#,
            r#"{"privileged":1}"#,
            r#"{"forward_agent":0}"#,
            r#"{"action":null}"#,
            r#"{"action":"Ping"}"#,
            r#"{"action":"run"}"#,
            r#"{"action":{"ping":null,"x":1}}"#,
        ] {
            assert!(decode(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_skipped() {
        let deep = format!(
            r#"{{"x":{}{},"y":1e999,"z":{},"x":0,"id":"k"}}"#,
            "[".repeat(5000),
            "]".repeat(5000),
            "9".repeat(30)
        );
        assert_eq!(decode(deep.as_bytes()).unwrap().id, "k");
        assert_ne!(decode(br#"{"ID":"k"}"#).unwrap().id, "k");
    }

    #[test]
    fn text_is_text() {
        for line in [&br#"{"id":"\ud800"}"#[..], b"{\"id\":\"\x01\"}", b"{\"id\":\"\xff\"}", b"{\"x\":\"\x01\"}"] {
            assert!(decode(line).is_err());
        }
    }
}
