//! JSON in the one form in which it is hashed and signed: RFC 8785.
//!
//! Invariant: equal values give equal bytes in every language that follows the RFC, and the text is its own canonical
//! form. A whole number that would come out of a double as another one is refused instead of rounded, because two
//! different requests would otherwise be the same.
//!
//! It does not read JSON; serde_json does.

mod number;

use serde_json::Value;

pub use number::check_numbers;

/// A value may be nested this deep.
pub const DEPTH_LIMIT: usize = 128;

/// A name that the reader takes for something else where it comes first in an object, which is where sorting may put it:
/// what was written with it could not be read again.
const RESERVED: &str = "$serde_json::private::RawValue";

/// Why a value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCanonical {
    /// A double cannot hold it.
    #[error("the number {0} does not survive as a double")]
    Number(String),
    /// Nested too deep.
    #[error("nested deeper than {DEPTH_LIMIT} levels")]
    TooDeep,
    /// A name that cannot be read again.
    #[error("an object has a field `{0}`, which is no name")]
    Name(&'static str),
    /// Not JSON at all.
    #[error("not JSON: {0}")]
    Malformed(String),
}

/// The canonical text of a value.
pub fn canonical(value: &Value) -> Result<String, NotCanonical> {
    let mut out = String::new();
    write_value(&mut out, value, 0)?;
    Ok(out)
}

fn write_value(out: &mut String, value: &Value, depth: usize) -> Result<(), NotCanonical> {
    if depth > DEPTH_LIMIT {
        return Err(NotCanonical::TooDeep);
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => number::write(out, number)?,
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_value(out, item, depth + 1)?;
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            // The RFC sorts by UTF-16 units, which is another order than that of UTF-8 beyond the basic plane.
            fields.sort_unstable_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            out.push('{');
            for (place, (name, item)) in fields.into_iter().enumerate() {
                if name == RESERVED {
                    return Err(NotCanonical::Name(RESERVED));
                }
                if place > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                write_value(out, item, depth + 1)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            control => {
                out.push_str("\\u00");
                out.push_str(&crate::encoding::hex(&[control]));
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(text: &str) -> String {
        canonical(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn the_example_of_the_rfc() {
        let input = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let expected = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                        \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(of(input), expected);
    }

    #[test]
    fn names_are_sorted_by_utf16() {
        let input = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        assert_eq!(of(input), "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}");
    }

    #[test]
    fn a_name_that_cannot_be_read_again_is_refused() {
        let value: Value = serde_json::from_str(r#"{"a":[{"A":1,"$serde_json::private::RawValue":{}}]}"#).unwrap();
        assert_eq!(canonical(&value), Err(NotCanonical::Name(RESERVED)));
        assert!(serde_json::from_str::<Value>(&value.to_string()).is_err());
    }

    #[test]
    fn text_is_escaped_as_little_as_possible() {
        assert_eq!(
            of(r#""\u0000\u0008\u0009\u000c\u001f\u007f\u2028/""#),
            "\"\\u0000\\b\\t\\f\\u001f\u{7f}\u{2028}/\""
        );
        assert_eq!(of(r#"{"":[{}, []]}"#), r#"{"":[{},[]]}"#);
    }

    #[test]
    fn too_deep_is_refused() {
        let mut value = json!(1);
        for _ in 0..=DEPTH_LIMIT {
            value = json!([value]);
        }
        assert_eq!(canonical(&value), Err(NotCanonical::TooDeep));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reading_it_back_gives_the_same_text(value in values()) {
            let text = canonical(&value).unwrap();
            let again: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(canonical(&again).unwrap(), text);
        }
    }
}
