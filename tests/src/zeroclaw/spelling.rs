//! Both spellings of every key, checked in every frame that comes.

use serde_json::{Map, Value};

/// Values of these keys are an agent's own and are passed on as they are.
const OPAQUE: [&str; 4] = ["raw_input", "rawInput", "input", "requestedSchema"];

/// `session_id` as `sessionId`.
fn camel(key: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for character in key.chars() {
        if character == '_' {
            upper = true;
        } else if upper {
            out.push(character.to_ascii_uppercase());
            upper = false;
        } else {
            out.push(character);
        }
    }
    out
}

/// Whether a key of ours is written in camelCase.
fn is_camel(key: &str) -> bool {
    key.chars().any(|character| character.is_ascii_uppercase())
}

/// Checks that every key of several words is there in both spellings with one value, and leaves the first.
///
/// # Errors
/// Which key is alone, or has two values.
pub fn fold(value: &Value) -> Result<Value, String> {
    match value {
        Value::Array(items) => items.iter().map(fold).collect::<Result<Vec<_>, _>>().map(Value::Array),
        Value::Object(members) => {
            let mut folded = Map::new();
            for (key, value) in members {
                if key.contains('_') && members.get(&camel(key)) != Some(value) {
                    return Err(format!("`{key}` has no `{}` of the same value in {members:?}", camel(key)));
                }
                if is_camel(key) {
                    if !members.keys().any(|other| other.contains('_') && camel(other) == *key) {
                        return Err(format!("`{key}` stands alone in {members:?}"));
                    }
                    continue;
                }
                let inner = if OPAQUE.contains(&key.as_str()) { value.clone() } else { fold(value)? };
                folded.insert(key.clone(), inner);
            }
            Ok(Value::Object(folded))
        }
        plain => Ok(plain.clone()),
    }
}

/// A frame with its result or params folded. `elicitation/create` has one spelling by design.
///
/// # Errors
/// As [`fold`].
pub fn fold_frame(frame: &Value) -> Result<Value, String> {
    let mut folded = frame.clone();
    if frame["method"] == "elicitation/create" {
        return Ok(folded);
    }
    for part in ["result", "params"] {
        if let Some(value) = frame.get(part) {
            folded[part] = fold(value).map_err(|reason| format!("{reason}\n  in the frame {frame}"))?;
        }
    }
    Ok(folded)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_spelling_alone_is_found() {
        assert_eq!(
            fold(&json!({"a_b": 1, "aB": 1, "c": [{"d_e": 2, "dE": 2}]})),
            Ok(json!({"a_b": 1, "c": [{"d_e": 2}]}))
        );
        for wrong in [json!({"a_b": 1}), json!({"aB": 1}), json!({"a_b": 1, "aB": 2}), json!([{"x": {"a_b": 1}}])] {
            assert!(fold(&wrong).is_err(), "{wrong}");
        }
        assert!(fold(&json!({"raw_input": {"file_path": 1}, "rawInput": {"file_path": 1}})).is_ok());
    }
}
