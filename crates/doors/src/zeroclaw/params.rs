//! Parameters of a request, read field by field.
//!
//! Invariant: a field may come in either spelling; in both with different values it is refused. `null` is the same as
//! absent. Unknown fields are ignored, so that a newer client is understood.

use serde_json::Map;
use serde_json::Value;

use super::code;
use super::keys;
use crate::rpc::Failure;

/// The fields of a request.
#[derive(Debug, Default)]
pub(crate) struct Params(Map<String, Value>);

fn bad(message: impl Into<String>) -> Failure {
    Failure::new(code::PARAMS, message)
}

impl Params {
    /// Takes `params` of a request; a list is taken in the order of `fields`.
    pub(crate) fn read(params: Value, fields: &[&str]) -> Result<Self, Failure> {
        match params {
            Value::Object(members) => Ok(Params(members)),
            Value::Array(items) if items.len() <= fields.len() => {
                Ok(Params(fields.iter().map(|field| (*field).to_owned()).zip(items).collect()))
            }
            Value::Array(items) => Err(bad(format!("{} values for {} fields", items.len(), fields.len()))),
            _ => Err(bad("`params` are missing")),
        }
    }

    /// A field of a list of objects.
    pub(crate) fn of(value: &Value, what: &str) -> Result<Self, Failure> {
        match value {
            Value::Object(members) => Ok(Params(members.clone())),
            _ => Err(bad(format!("{what} is not an object"))),
        }
    }

    /// A field in the one spelling it has.
    pub(crate) fn exact(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A field in either spelling.
    pub(crate) fn get(&self, key: &str) -> Result<Option<&Value>, Failure> {
        let snake = self.exact(key);
        let camel = keys::camel(key);
        if camel == key {
            return Ok(snake);
        }
        match (snake, self.exact(&camel)) {
            (Some(one), Some(other)) if one != other => Err(bad(format!("`{key}` and `{camel}` differ"))),
            (snake, camel) => Ok(snake.or(camel)),
        }
    }

    /// A text, if there is one.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, Failure> {
        match self.get(key)? {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(bad(format!("`{key}` is not a string"))),
        }
    }

    /// A text that has to be there.
    pub(crate) fn need(&self, key: &str) -> Result<&str, Failure> {
        self.text(key)?.ok_or_else(|| bad(format!("`{key}` is missing")))
    }

    /// Yes or no, if it was said.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Failure> {
        match self.get(key)? {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(bad(format!("`{key}` is neither true nor false"))),
        }
    }

    /// A number from 0, if there is one.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Failure> {
        match self.get(key)? {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| bad(format!("`{key}` is not a whole number from 0"))),
        }
    }

    /// A number from 0 that counts things.
    pub(crate) fn count(&self, key: &str) -> Result<Option<usize>, Failure> {
        Ok(self.number(key)?.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// A list, empty if there is none.
    pub(crate) fn list(&self, key: &str) -> Result<&[Value], Failure> {
        match self.get(key)? {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(bad(format!("`{key}` is not a list"))),
        }
    }

    /// Texts by name, empty if there are none. The names are left as they are.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<(String, String)>, Failure> {
        let members = match self.get(key)? {
            None => return Ok(Vec::new()),
            Some(Value::Object(members)) => members,
            Some(_) => return Err(bad(format!("`{key}` is not an object"))),
        };
        let text = |(name, value): (&String, &Value)| match value {
            Value::String(text) => Ok((name.clone(), text.clone())),
            _ => Err(bad(format!("`{key}` holds something that is not a string"))),
        };
        members.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(value: Value) -> Params {
        Params::read(value, &["session_id", "prompt"]).unwrap()
    }

    #[test]
    fn either_spelling_but_not_two_values() {
        assert_eq!(params(json!({"session_id": "a"})).need("session_id"), Ok("a"));
        assert_eq!(params(json!({"sessionId": "a"})).need("session_id"), Ok("a"));
        assert_eq!(params(json!({"sessionId": "a", "session_id": "a"})).need("session_id"), Ok("a"));
        assert_eq!(params(json!({"sessionId": "a", "session_id": null})).need("session_id"), Ok("a"));
        let refused = params(json!({"sessionId": "a", "session_id": "b"}));
        assert_eq!(refused.need("session_id").unwrap_err().code, code::PARAMS);
    }

    #[test]
    fn null_is_absent_and_types_are_checked() {
        let params = params(json!({"a": null, "b": 1, "c": "x", "d": [1], "e": {"k": "v"}, "f": {"k": 1}}));
        assert_eq!(params.text("a"), Ok(None));
        assert!(params.need("a").is_err() && params.need("zz").is_err());
        assert!(params.text("b").is_err() && params.number("c").is_err() && params.flag("c").is_err());
        assert_eq!(params.number("b"), Ok(Some(1)));
        assert_eq!(params.list("d").unwrap().len(), 1);
        assert!(params.list("a").unwrap().is_empty() && params.list("b").is_err());
        assert_eq!(params.texts("e"), Ok(vec![("k".to_owned(), "v".to_owned())]));
        assert!(params.texts("f").is_err() && params.texts("b").is_err());
    }

    #[test]
    fn lists_are_taken_in_order() {
        let taken = params(json!(["s", "hello"]));
        assert_eq!((taken.need("session_id"), taken.need("prompt")), (Ok("s"), Ok("hello")));
        assert!(params(json!(["s"])).need("prompt").is_err());
        assert!(Params::read(json!([1, 2, 3]), &["a", "b"]).is_err());
        assert!(Params::read(Value::Null, &["a"]).is_err());
    }
}
