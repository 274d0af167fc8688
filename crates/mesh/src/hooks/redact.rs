//! What a hook is not told: fields that are taken out of what it gets.
//!
//! Invariant: a field that was taken out is named in `_redacted` and nowhere else in what the hook gets. A path that
//! goes into a text reaches into the JSON that text holds; a text that holds none has nothing to take out.

use serde_json::Value;

/// Steps of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
    Each,
}

/// A path to a field: `body.password`, `meta.tokens[0]`, `$.meta['api key']`, `body.items[*].secret`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    text: String,
    steps: Vec<Step>,
}

/// What every hook must know of its event.
const NEEDED: [&str; 5] = ["event", "event_id", "hook", "mesh", "ts"];

/// The longest path and the most steps of one.
const LONGEST: usize = 512;
const MOST_STEPS: usize = 32;

impl Field {
    /// Reads a path.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() || text.len() > LONGEST {
            return Err("must be a path of 1 to 512 bytes");
        }
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, left) = match rest.strip_prefix('[') {
                Some(inside) => bracket(inside)?,
                None => word(rest.strip_prefix('.').unwrap_or(rest))?,
            };
            steps.push(step);
            rest = left;
        }
        match steps.first() {
            None => Err("leads nowhere"),
            Some(Step::Key(key)) if NEEDED.contains(&key.as_str()) || key.starts_with('_') => {
                Err("cannot be taken out: every hook needs it")
            }
            Some(Step::Key(_)) if steps.len() <= MOST_STEPS => Ok(Self { text: text.to_owned(), steps }),
            Some(Step::Key(_)) => Err("has more than 32 steps"),
            Some(_) => Err("must begin with a name, as in `body.password`"),
        }
    }
}

/// A step in brackets: a number, a star, or a name in quotes.
fn bracket(text: &str) -> Result<(Step, &str), &'static str> {
    const WRONG: &str = "has brackets that hold neither a number, a `*` nor a name in quotes";
    for quote in ['\'', '"'] {
        if let Some(inside) = text.strip_prefix(quote) {
            let (name, left) = inside.split_once(quote).ok_or(WRONG)?;
            return Ok((Step::Key(name.to_owned()), left.strip_prefix(']').ok_or(WRONG)?));
        }
    }
    let (inside, left) = text.split_once(']').ok_or(WRONG)?;
    match inside {
        "*" => Ok((Step::Each, left)),
        digits => digits.parse().map(|index| (Step::Index(index), left)).map_err(|_| WRONG),
    }
}

/// A step between dots.
fn word(text: &str) -> Result<(Step, &str), &'static str> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, left) = text.split_at(end);
    match name {
        "" => Err("has an empty step; names of any kind are written ['name']"),
        "*" => Ok((Step::Each, left)),
        _ if left == "." => Err("ends with a dot"),
        name => Ok((Step::Key(name.to_owned()), left)),
    }
}

/// Takes fields out and says which.
pub(super) fn redact(payload: &mut Value, fields: &[Field]) {
    let mut taken: Vec<Value> = Vec::new();
    for field in fields {
        if remove(payload, &field.steps) {
            taken.push(field.text.clone().into());
        }
    }
    if !taken.is_empty()
        && let Some(payload) = payload.as_object_mut()
    {
        payload.insert("_redacted".to_owned(), taken.into());
    }
}

/// Removes what a path leads to; whether there was anything.
fn remove(value: &mut Value, steps: &[Step]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return false };
    if let Value::String(text) = value {
        // What somebody sends is often JSON in a text.
        let Ok(mut inside) = serde_json::from_str::<Value>(text) else { return false };
        let removed = (inside.is_object() || inside.is_array()) && remove(&mut inside, steps);
        if removed {
            *text = inside.to_string();
        }
        return removed;
    }
    if rest.is_empty() {
        return match (step, value) {
            (Step::Key(key), Value::Object(object)) => object.remove(key).is_some(),
            (Step::Index(index), Value::Array(list)) if *index < list.len() => {
                // The place stays, so that what comes after it keeps its own.
                list[*index] = Value::Null;
                true
            }
            (Step::Each, Value::Array(list)) => !std::mem::take(list).is_empty(),
            (Step::Each, Value::Object(object)) => !std::mem::take(object).is_empty(),
            _ => false,
        };
    }
    match (step, value) {
        (Step::Key(key), Value::Object(object)) => object.get_mut(key).is_some_and(|value| remove(value, rest)),
        (Step::Index(index), Value::Array(list)) => list.get_mut(*index).is_some_and(|value| remove(value, rest)),
        (Step::Each, Value::Array(list)) => list.iter_mut().fold(false, |any, value| remove(value, rest) | any),
        (Step::Each, Value::Object(object)) => object.values_mut().fold(false, |any, value| remove(value, rest) | any),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn without(mut payload: Value, paths: &[&str]) -> Value {
        let fields: Vec<Field> = paths.iter().map(|path| Field::parse(path).unwrap()).collect();
        redact(&mut payload, &fields);
        payload
    }

    #[test]
    fn fields_are_taken_out_and_named() {
        let payload = json!({"body": "plain", "meta": {"api_key": 1, "keep": 2, "list": [{"k": 1}, {"k": 2}]}});
        assert_eq!(
            without(payload.clone(), &["meta.api_key", "meta.nothing", "body.password"]),
            json!({"body": "plain", "meta": {"keep": 2, "list": [{"k": 1}, {"k": 2}]}, "_redacted": ["meta.api_key"]})
        );
        assert_eq!(without(payload.clone(), &["$.meta.list[*].k"])["meta"]["list"], json!([{}, {}]));
        assert_eq!(without(payload.clone(), &["meta['list'][0]"])["meta"]["list"], json!([null, {"k": 2}]));
        assert_eq!(without(payload.clone(), &["meta.*"])["meta"], json!({}));
        let whole = without(payload.clone(), &["body"]);
        assert!(whole.get("body").is_none() && whole["_redacted"] == json!(["body"]));
        assert_eq!(without(payload.clone(), &["meta.none[3].x"]), payload);
    }

    #[test]
    fn a_path_reaches_into_json_in_a_text() {
        let payload = json!({"body": "{\"user\":\"ada\",\"password\":\"x\",\"in\":{\"deep\":[1,{\"pin\":2}]}}"});
        let out = without(payload, &["body.password", "body.in.deep[1].pin"]);
        let body: Value = serde_json::from_str(out["body"].as_str().unwrap()).unwrap();
        assert_eq!(body, json!({"user": "ada", "in": {"deep": [1, {}]}}));
        let text = json!({"body": "\"just a text\""});
        assert_eq!(without(text.clone(), &["body.password"]), text);
    }

    #[test]
    fn paths_that_are_none() {
        for text in
            ["", "$", ".", "body.", "body..x", "[0]", "*", "body[", "body[x]", "body['x]", "event_id", "_redacted"]
        {
            assert!(Field::parse(text).is_err(), "{text}");
        }
        assert!(Field::parse(&"a.".repeat(600)).is_err() && Field::parse(&["a"; 40].join(".")).is_err());
    }
}
