//! One layer of settings as TOML: what a key may hold, and where in the text a mistake is.
//!
//! Invariant: every key is optional and every unknown key is refused.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error as _;
use serde::de::SeqAccess;
use serde::de::Visitor;

use crate::text;

/// A mistake in a layer.
#[derive(Debug)]
pub(super) struct Problem {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Layer {
    pub(super) doors: Doors,
    pub(super) journal: Journal,
    pub(super) limits: Limits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Doors {
    pub(super) claustrum: Claustrum,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Claustrum {
    pub(super) enabled: Option<bool>,
    pub(super) listen: Option<OneOrMany>,
    pub(super) reported_version: Option<String>,
    pub(super) shutdown_needs_auth: Option<bool>,
    pub(super) reattach: Option<Reattach>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) dir: Option<String>,
    pub(super) quota: Option<Size>,
    pub(super) per_process_quota: Option<Size>,
    pub(super) on_full: Option<OnFull>,
    pub(super) floor: Option<Size>,
    pub(super) keep_count: Option<u64>,
    pub(super) keep_age: Option<Time>,
    pub(super) keep_bytes: Option<Size>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) connections: Option<usize>,
    pub(super) reconnect: Option<Time>,
    pub(super) start: Option<Time>,
    pub(super) shutdown: Option<Time>,
    pub(super) log: Option<Size>,
}

/// What a reattach does to those who already receive the process.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reattach {
    /// They go on receiving.
    Share,
    /// Only the newest receives.
    Transfer,
}

impl Reattach {
    /// As it is written in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reattach::Share => "share",
            Reattach::Transfer => "transfer",
        }
    }
}

/// What happens when the journals have used up their space.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OnFull {
    /// The process waits until there is room.
    Hold,
    /// The oldest output is given up.
    DropOldest,
}

impl OnFull {
    /// As it is written in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            OnFull::Hold => "hold",
            OnFull::DropOldest => "drop-oldest",
        }
    }
}

impl<'de> Deserialize<'de> for OnFull {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "hold" => Ok(OnFull::Hold),
            "drop-oldest" => Ok(OnFull::DropOldest),
            other => Err(D::Error::custom(format!("`{other}` is not one of \"hold\", \"drop-oldest\""))),
        }
    }
}

/// A number of bytes, as text with a unit or as a plain number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Size;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a size such as \"10 GiB\"")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Size, E> {
                text::parse_size(value).map(Size).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Size, E> {
                u64::try_from(value).map(Size).map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Size, E> {
                Ok(Size(value))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A length of time, as text with units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Time;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a duration such as \"7d\"")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Time, E> {
                text::parse_duration(value).map(Time).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, _value: i64) -> Result<Time, E> {
                Err(E::custom("a duration is written as text, for example \"7d\" or \"1h 30m\""))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// One text or a list of texts.
#[derive(Clone, Debug)]
pub(super) struct OneOrMany(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = OneOrMany;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a list of texts")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![value.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMany, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<String>()? {
                    list.push(item);
                }
                Ok(OneOrMany(list))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl Layer {
    /// Reads a document; the first mistake ends it.
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start).min(text.len());
            let line = text.get(..start).unwrap_or(text).matches('\n').count() + 1;
            Problem { line, message: reword(error.message()) }
        })
    }
}

/// The reader's own words, in ours, on one line.
fn reword(message: &str) -> String {
    let message = message.trim().replace('\n', ", ");
    let Some(rest) = message.strip_prefix("unknown field ") else {
        return message;
    };
    match rest.split_once(", expected one of ").or_else(|| rest.split_once(", expected ")) {
        Some((name, known)) => format!("unknown key {name}, the keys here are {known}"),
        None => format!("unknown key {rest}"),
    }
}
