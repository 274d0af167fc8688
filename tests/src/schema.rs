//! The schema of the SDKs (`sdk/schema/schema.json`), and whether a value is what it says.
//!
//! As much of JSON Schema 2020-12 as that file uses; a word it does not know ends the test, so that nothing written there
//! goes unchecked. A field that the schema does not name is an error wherever the schema says so.

use std::path::Path;

use serde_json::{Map, Value};

/// The document.
pub struct Schema {
    /// All of it.
    pub root: Value,
}

/// An operation of the document.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// The HTTP method, or that of JSON-RPC.
    pub method: String,
    /// The HTTP path; empty for JSON-RPC.
    pub path: String,
    /// What it takes.
    pub takes: Option<String>,
    /// What it answers: a definition, or a media type.
    pub answer: String,
    /// Statuses of answers, and of refusals.
    pub statuses: (Vec<u64>, Vec<u64>),
}

impl Schema {
    /// Reads it.
    ///
    /// # Panics
    /// If it is not there, or no JSON.
    pub fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/schema/schema.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { root: serde_json::from_str(&text).expect("schema.json is JSON") }
    }

    /// The operations of the mesh daemon (`mesh`) or of the house (`house`).
    pub fn operations(&self, of: &str) -> Vec<Operation> {
        let text = |row: &Value, name: &str| row[name].as_str().map(str::to_owned);
        let numbers = |row: &Value, name: &str| -> Vec<u64> {
            row[name].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        let rows = self.root["operations"][of].as_array().expect("a list of operations");
        rows.iter()
            .map(|row| Operation {
                name: text(row, "name").expect("a name"),
                method: text(row, "method").expect("a method"),
                path: text(row, "path").unwrap_or_default(),
                takes: text(row, "request").or_else(|| text(row, "params")),
                answer: text(row, "answer").expect("an answer"),
                statuses: (numbers(row, "statuses"), numbers(row, "errors")),
            })
            .collect()
    }

    /// The definition of an event's data (`events`) or of an update (`updates`), by its name.
    ///
    /// # Errors
    /// If there is none.
    pub fn definition_of(&self, table: &str, name: &str) -> Result<&str, String> {
        self.root[table][name].as_str().ok_or_else(|| format!("the schema has no `{name}` among its {table}"))
    }

    /// Whether a value is what a definition says.
    ///
    /// # Errors
    /// Where it is not.
    pub fn check(&self, definition: &str, value: &Value) -> Result<(), String> {
        let schema = &self.root["$defs"][definition];
        if schema.is_null() {
            return Err(format!("there is no definition `{definition}`"));
        }
        self.fits(schema, value).map_err(|problem| format!("{definition}{problem}: {value}"))
    }

    fn fits(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let words = schema.as_object().ok_or_else(|| " has a schema that is no object".to_owned())?;
        for (word, rule) in words {
            match word.as_str() {
                "description" | "x-volatile" | "x-unordered" | "x-spellings" | "required" | "additionalProperties" => {}
                "$ref" => {
                    let name = rule.as_str().and_then(|path| path.strip_prefix("#/$defs/")).unwrap_or_default();
                    let target = self.root["$defs"].get(name).ok_or_else(|| format!(" refers to `{rule}`"))?;
                    self.fits(target, value)?;
                }
                "type" => has_type(rule, value)?,
                "enum" => {
                    if !rule.as_array().is_some_and(|values| values.contains(value)) {
                        return Err(format!(" is {value}, none of {rule}"));
                    }
                }
                "const" => {
                    if rule != value {
                        return Err(format!(" is {value} and not {rule}"));
                    }
                }
                "anyOf" => {
                    let mut parts = rule.as_array().into_iter().flatten();
                    if !parts.any(|part| self.fits(part, value).is_ok()) {
                        return Err(format!(" is {value}, which fits nothing of {rule}"));
                    }
                }
                "minimum" | "maximum" => in_bounds(word, rule, value)?,
                "format" => has_format(rule, value)?,
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.fits(rule, item).map_err(|problem| format!("/{index}{problem}"))?;
                    }
                }
                "properties" => {}
                unknown => return Err(format!(" has a word this test does not know: {unknown}")),
            }
        }
        value.as_object().map_or(Ok(()), |members| self.has_members(words, members))
    }

    fn has_members(&self, words: &Map<String, Value>, members: &Map<String, Value>) -> Result<(), String> {
        for name in words.get("required").and_then(Value::as_array).into_iter().flatten() {
            if !name.as_str().is_some_and(|name| members.contains_key(name)) {
                return Err(format!(" lacks {name}"));
            }
        }
        let properties = words.get("properties").and_then(Value::as_object);
        for (name, value) in members {
            let known = properties.and_then(|properties| properties.get(name));
            let checked = match (known, words.get("additionalProperties")) {
                (Some(schema), _) => self.fits(schema, value),
                (None, None | Some(Value::Bool(true))) => Ok(()),
                (None, Some(Value::Bool(false))) => Err(" is not in the schema".to_owned()),
                (None, Some(schema)) => self.fits(schema, value),
            };
            checked.map_err(|problem| format!("/{name}{problem}"))?;
        }
        Ok(())
    }
}

fn has_type(rule: &Value, value: &Value) -> Result<(), String> {
    let is = |word: &str| match word {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => false,
    };
    let fits = match rule {
        Value::String(word) => is(word),
        Value::Array(words) => words.iter().filter_map(Value::as_str).any(is),
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!(" is no {rule}")) }
}

fn in_bounds(word: &str, rule: &Value, value: &Value) -> Result<(), String> {
    let (Some(bound), Some(number)) = (rule.as_f64(), value.as_f64()) else { return Ok(()) };
    let fits = if word == "minimum" { number >= bound } else { number <= bound };
    if fits { Ok(()) } else { Err(format!(" is {number}, beyond the {word} {bound}")) }
}

/// A point in time; `null` has none, and a type of its own that says so.
fn has_format(rule: &Value, value: &Value) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Ok(()) };
    let shape: String = text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    let is_time = shape.starts_with("0000-00-00T00:00:00") && (shape.ends_with('Z') || shape.ends_with("00:00"));
    match rule.as_str() {
        Some("date-time") if is_time => Ok(()),
        _ => Err(format!(" is no {rule}: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema {
            root: json!({"$defs": {
                "Point": {"type": "object", "required": ["x"], "additionalProperties": false, "properties": {
                    "x": {"type": "integer", "minimum": 0}, "at": {"type": ["string", "null"], "format": "date-time"},
                    "of": {"$ref": "#/$defs/Kind"}, "list": {"type": "array", "items": {"$ref": "#/$defs/Kind"}},
                    "map": {"type": "object", "additionalProperties": {"type": "boolean"}}}},
                "Kind": {"enum": ["a", "b"]},
                "Odd": {"pattern": "x"},
            }}),
        }
    }

    #[test]
    fn what_fits_and_what_does_not() {
        let schema = schema();
        let good = json!({"x": 1, "at": "2026-01-02T03:04:05.678Z", "of": "a", "list": ["b", "a"], "map": {"y": true}});
        schema.check("Point", &good).unwrap();
        schema.check("Point", &json!({"x": 0, "at": null})).unwrap();
        for (wrong, where_) in [
            (json!({}), "lacks"),
            (json!({"x": -1}), "/x"),
            (json!({"x": 1.5}), "/x"),
            (json!({"x": 1, "y": 2}), "/y is not in the schema"),
            (json!({"x": 1, "at": "yesterday"}), "/at"),
            (json!({"x": 1, "list": ["a", "c"]}), "/list/1"),
            (json!({"x": 1, "map": {"y": 1}}), "/map/y"),
            (json!([]), "is no"),
        ] {
            let problem = schema.check("Point", &wrong).unwrap_err();
            assert!(problem.contains(where_), "{problem}");
        }
        assert!(schema.check("Odd", &json!("x")).is_err(), "a word that is not known is not passed over");
        assert!(schema.check("Nothing", &json!(1)).is_err());
    }
}
