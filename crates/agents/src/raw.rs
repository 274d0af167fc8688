//! JSON kept as it was written.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON value as its text: what an agent printed, neither interpreted nor reordered.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Raw(pub Box<RawValue>);

impl Raw {
    /// The JSON text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The text of `null`.
    #[must_use]
    pub fn null() -> Self {
        Raw(RawValue::NULL.to_owned())
    }

    /// A line that is JSON.
    #[must_use]
    pub(crate) fn line(json: &str) -> Option<Self> {
        RawValue::from_string(json.to_owned()).ok().map(Raw)
    }

    /// Any value of ours as JSON.
    #[must_use]
    pub fn of(value: &impl Serialize) -> Self {
        serde_json::value::to_raw_value(value).map_or_else(|_| Raw::null(), Raw)
    }
}

impl From<&RawValue> for Raw {
    fn from(value: &RawValue) -> Self {
        Raw(value.to_owned())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Raw {}
