//! The house's words in one spelling and of a bounded length.

use serde_json::Value;

/// The longest text that is kept whole.
const TEXT: usize = 8 << 10;

/// Members of one list or object that are kept.
const MEMBERS: usize = 200;

/// How deep a value is looked into.
const DEPTH: usize = 16;

/// A value without the second spelling of its keys, its texts cut.
pub(super) fn shaped(value: Value) -> Value {
    shape(value, DEPTH)
}

fn shape(value: Value, depth: usize) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text, TEXT)),
        Value::Array(_) | Value::Object(_) if depth == 0 => Value::String("…".to_owned()),
        Value::Array(items) => {
            Value::Array(items.into_iter().take(MEMBERS).map(|item| shape(item, depth - 1)).collect())
        }
        Value::Object(mut members) => {
            let twins: Vec<String> = members.keys().filter(|key| key.contains('_')).map(|key| camel(key)).collect();
            for twin in twins {
                members.remove(&twin);
            }
            Value::Object(
                members.into_iter().take(MEMBERS).map(|(key, member)| (key, shape(member, depth - 1))).collect(),
            )
        }
        other => other,
    }
}

/// The beginning of a text that is too long, and how much is missing.
pub(in crate::mcp) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(limit));
        text.push_str(&format!("… [{} more bytes]", whole - limit));
    }
    text
}

fn camel(snake: &str) -> String {
    let mut words = snake.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_spelling_and_bounded_texts() {
        let shaped = shaped(json!({"tool_call_id": "c", "toolCallId": "c", "text": "é".repeat(TEXT), "n": 1}));
        assert_eq!(shaped["tool_call_id"], "c");
        assert!(shaped.get("toolCallId").is_none());
        let text = shaped["text"].as_str().unwrap();
        assert!(text.len() < TEXT + 40 && text.ends_with("more bytes]"), "{}", text.len());
        let mut deep = json!(1);
        for _ in 0..50 {
            deep = json!([deep]);
        }
        assert!(super::shaped(deep).to_string().contains('…'));
    }
}
