//! Compares JSON values with what a data file says.
//!
//! An object must have exactly the keys that are written, unless one of them is `"..."`. A text that is one of the
//! placeholders `${ANY}`, `${STR}`, `${NUM}` and `${PID}` stands for any value, any text that is not empty, any number,
//! any whole number. Other texts are patterns.

use serde_json::Value;

use super::pattern::{self, Kind, Names, Pattern};

/// Compares, and keeps what is to be kept.
///
/// # Errors
/// Where the two differ.
pub(super) fn compare(expected: &Value, got: &Value, names: &mut Names) -> Result<(), String> {
    match (expected, got) {
        (Value::String(text), _) if pattern::whole_wildcard(text).is_some() => {
            let (kind, name) = pattern::whole_wildcard(text).unwrap_or((Kind::Any, None));
            let fits = match kind {
                Kind::Text => got.as_str().is_some_and(|text| !text.is_empty()),
                Kind::Number => got.is_number(),
                Kind::Digits => got.is_u64(),
                Kind::Any => true,
            };
            if !fits {
                return Err(format!("{got} does not fit {text}"));
            }
            if let Some(name) = name {
                names.insert(name, got.as_str().map_or_else(|| got.to_string(), str::to_owned));
            }
            Ok(())
        }
        (Value::String(text), Value::String(other)) => {
            let found = Pattern::compile(text, names)?.matches(other.as_bytes());
            names.extend(found.ok_or_else(|| {
                let shown = pattern::render_text(text, names).unwrap_or_else(|_| text.clone());
                format!("{other:?} is not {shown:?}")
            })?);
            Ok(())
        }
        (Value::Array(items), Value::Array(others)) => {
            if items.len() != others.len() {
                return Err(format!("{} items instead of {}", others.len(), items.len()));
            }
            let mut pairs = items.iter().zip(others).enumerate();
            pairs.try_for_each(|(index, (item, other))| {
                compare(item, other, names).map_err(|reason| format!("[{index}]: {reason}"))
            })
        }
        (Value::Object(members), Value::Object(others)) => {
            for (key, value) in members.iter().filter(|(key, _)| *key != "...") {
                let other = others.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
                compare(value, other, names).map_err(|reason| format!("`{key}`: {reason}"))?;
            }
            let open = members.contains_key("...");
            match others.keys().find(|key| !open && !members.contains_key(*key)) {
                Some(extra) => Err(format!("`{extra}` is not expected")),
                None => Ok(()),
            }
        }
        _ if expected == got => Ok(()),
        _ => Err(format!("{got} is not {expected}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_equal_unless_the_file_leaves_them_open() {
        let mut names = Names::new();
        let mut fits = |expected: Value, got: Value| compare(&expected, &got, &mut names).is_ok();
        assert!(fits(json!({"a": 1, "b": [null, true]}), json!({"b": [null, true], "a": 1})));
        assert!(!fits(json!({"a": 1}), json!({"a": 1, "b": 2})));
        assert!(fits(json!({"a": 1, "...": 1}), json!({"a": 1, "b": 2})));
        assert!(!fits(json!({"a": 1, "...": 1}), json!({"b": 2})));
        assert!(!fits(json!({"a": 1}), json!({})));
        assert!(!fits(json!({"a": null}), json!({})));
        assert!(!fits(json!([1]), json!([1, 2])));
        assert!(!fits(json!([1, 2]), json!([2, 1])));
        assert!(!fits(json!("1"), json!(1)));
        assert!(!fits(json!(1), json!("1")));
    }

    #[test]
    fn placeholders_have_types_and_are_kept() {
        let mut names = Names::new();
        let mut fits = |expected: Value, got: Value| compare(&expected, &got, &mut names).is_ok();
        assert!(fits(json!("${NUM}"), json!(1.5)) && !fits(json!("${NUM}"), json!("1")));
        assert!(fits(json!("${PID}"), json!(15)) && !fits(json!("${PID}"), json!(-1)));
        assert!(fits(json!("${STR}"), json!("x")) && !fits(json!("${STR}"), json!("")));
        assert!(!fits(json!("${STR}"), json!(1)));
        assert!(fits(json!("${ANY}"), json!(null)) && fits(json!("${ANY}"), json!([1])));
        assert!(fits(json!({"id": "${STR=kept}", "n": "${NUM=number}"}), json!({"id": "abc", "n": 7})));
        assert!(fits(json!("is ${kept}, ${number}"), json!("is abc, 7")));
        assert!(!fits(json!("${kept}"), json!("other")));
        assert!(fits(json!("a ${ANY} b"), json!("a x b")) && !fits(json!("a ${ANY} b"), json!("a x")));
        assert!(!fits(json!("${unknown}"), json!("${unknown}")));
    }
}
