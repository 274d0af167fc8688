//! Whether a frame is what a data file says.
//!
//! An object must have exactly the keys that are written, unless one of them is `"..."`. A text `"${ANY}"` stands for
//! any value, `"${STR}"` for any text, `"${NUM}"` for any number; with `=name` the value is kept. `${name}` inside a text
//! is filled in first.

use serde_json::Value;

use crate::pattern::Names;

/// Compares, and keeps what was to be kept.
///
/// # Errors
/// Where the two differ.
pub fn matches(expected: &Value, got: &Value, names: &mut Names) -> Result<(), String> {
    match (expected, got) {
        (Value::String(text), _) if is_wild(text) => wild(text, got, names),
        (Value::String(text), Value::String(other)) => {
            let filled = fill(text, names);
            if filled == *other { Ok(()) } else { Err(format!("{other:?} is not {filled:?}")) }
        }
        (Value::Array(items), Value::Array(others)) => {
            if items.len() != others.len() {
                return Err(format!("{} items instead of {}: {got}", others.len(), items.len()));
            }
            items.iter().zip(others).try_for_each(|(item, other)| matches(item, other, names))
        }
        (Value::Object(members), Value::Object(others)) => {
            let open = members.contains_key("...");
            for (key, value) in members.iter().filter(|(key, _)| *key != "...") {
                let other = others.get(key).ok_or_else(|| format!("no `{key}` in {got}"))?;
                matches(value, other, names).map_err(|reason| format!("`{key}`: {reason}"))?;
            }
            match others.keys().find(|key| !open && !members.contains_key(*key)) {
                Some(extra) => Err(format!("unexpected `{extra}` in {got}")),
                None => Ok(()),
            }
        }
        _ if expected == got => Ok(()),
        _ => Err(format!("{got} is not {expected}")),
    }
}

fn inside(text: &str) -> Option<(&str, Option<&str>)> {
    let word = text.strip_prefix("${")?.strip_suffix('}')?;
    Some(word.split_once('=').map_or((word, None), |(word, name)| (word, Some(name))))
}

fn is_wild(text: &str) -> bool {
    inside(text).is_some_and(|(word, _)| matches!(word, "ANY" | "STR" | "NUM"))
}

fn wild(text: &str, got: &Value, names: &mut Names) -> Result<(), String> {
    let Some((word, name)) = inside(text) else { return Ok(()) };
    let fits = match word {
        "STR" => got.as_str().is_some_and(|text| !text.is_empty()),
        "NUM" => got.is_number(),
        _ => true,
    };
    if !fits {
        return Err(format!("{got} is no {word}"));
    }
    if let Some(name) = name {
        let value = got.as_str().map_or_else(|| got.to_string(), str::to_owned);
        names.insert(name.to_owned(), value);
    }
    Ok(())
}

/// A text with what is known filled in.
pub fn fill(text: &str, names: &Names) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn exact_unless_it_is_said() {
        let mut names = Names::new();
        assert!(matches(&json!({"a": 1}), &json!({"a": 1}), &mut names).is_ok());
        assert!(matches(&json!({"a": 1}), &json!({"a": 1, "b": 2}), &mut names).is_err());
        assert!(matches(&json!({"a": 1, "...": 1}), &json!({"a": 1, "b": 2}), &mut names).is_ok());
        assert!(matches(&json!({"a": 1}), &json!({}), &mut names).is_err());
        assert!(matches(&json!([1]), &json!([1, 2]), &mut names).is_err());
        assert!(matches(&json!("${NUM}"), &json!("x"), &mut names).is_err());
        assert!(matches(&json!({"id": "${STR=kept}"}), &json!({"id": "abc"}), &mut names).is_ok());
        assert!(matches(&json!("is ${kept}"), &json!("is abc"), &mut names).is_ok());
        assert!(matches(&json!("${kept}"), &json!("other"), &mut names).is_err());
    }
}
