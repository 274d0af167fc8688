//! A second opinion on params: Go's rules for filling a struct, over what `serde_json` read.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// An object's members in the order of the document, repeated ones included.
pub struct Members(pub Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object or null")
            }
            fn visit_unit<E>(self) -> Result<Members, E> {
                Ok(Members(Vec::new()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_any(InOrder)
    }
}

/// The value of a field of each type that params have.
#[derive(Debug, Clone, PartialEq)]
pub enum Field {
    Text(String),
    Signed(i64),
    Unsigned(u64),
    Flag(bool),
    MaybeSigned(Option<i64>),
    MaybeUnsigned(Option<u64>),
    MaybeFlag(Option<bool>),
    List(Vec<String>),
    Map(Vec<(String, String)>),
}

impl Field {
    /// Takes a value as Go would; false if it has the wrong type.
    fn take(&mut self, value: &Value) -> bool {
        let null = value.is_null();
        match self {
            Field::Text(_) | Field::Signed(_) | Field::Unsigned(_) | Field::Flag(_) if null => true,
            Field::Text(field) => put(field, value.as_str().map(str::to_owned)),
            Field::Signed(field) => put(field, value.as_i64()),
            Field::Unsigned(field) => put(field, value.as_u64()),
            Field::Flag(field) => put(field, value.as_bool()),
            Field::MaybeSigned(field) => put(field, if null { Some(None) } else { value.as_i64().map(Some) }),
            Field::MaybeUnsigned(field) => put(field, if null { Some(None) } else { value.as_u64().map(Some) }),
            Field::MaybeFlag(field) => put(field, if null { Some(None) } else { value.as_bool().map(Some) }),
            Field::List(field) if null => put(field, Some(Vec::new())),
            Field::List(field) => value.as_array().is_some_and(|elements| {
                field.resize(elements.len(), String::new());
                field.iter_mut().zip(elements).all(|(slot, element)| match element {
                    Value::Null => true,
                    Value::String(text) => put(slot, Some(text.clone())),
                    _ => false,
                })
            }),
            Field::Map(field) if null => put(field, Some(Vec::new())),
            // The other reader sorted the keys and dropped repeated ones; the caller compares without order.
            Field::Map(field) => value.as_object().is_some_and(|members| {
                members.iter().all(|(key, value)| {
                    let text = match value {
                        Value::Null => String::new(),
                        Value::String(text) => text.clone(),
                        _ => return false,
                    };
                    field.retain(|(known, _)| known != key);
                    field.push((key.clone(), text));
                    true
                })
            }),
        }
    }
}

fn put<T>(field: &mut T, value: Option<T>) -> bool {
    value.map(|value| *field = value).is_some()
}

/// Fills the named fields from `members`; none if one of them has the wrong type.
pub fn fill(members: &Members, names: &[&str], mut fields: Vec<Field>) -> Option<Vec<Field>> {
    for (key, value) in &members.0 {
        let folded = |text: &str| text.replace('\u{17f}', "s").replace('\u{212a}', "k").to_ascii_lowercase();
        let place = names
            .iter()
            .position(|name| name == key)
            .or_else(|| names.iter().position(|name| folded(name) == folded(key)));
        if let Some(field) = place.and_then(|place| fields.get_mut(place))
            && !field.take(value)
        {
            return None;
        }
    }
    for field in &mut fields {
        if let Field::Map(members) = field {
            members.sort();
        }
    }
    Some(fields)
}
