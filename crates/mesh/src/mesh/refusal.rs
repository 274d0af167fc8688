//! Why the mesh refuses something: a stable word, a text for people, and what belongs to it.
//!
//! Invariant: the word is one of the contract's and never changes with the text. It knows no HTTP; a door has the table
//! from words to numbers.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Something was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    code: Cow<'static, str>,
    detail: String,
    field: Option<&'static str>,
    more: Map<String, Value>,
    retry_after_s: Option<u64>,
}

impl Refusal {
    /// With a word of ours.
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code: Cow::Borrowed(code), detail: detail.into(), field: None, more: Map::new(), retry_after_s: None }
    }

    /// With a word the broker gave. Only a word is taken, so that nothing else of the broker's gets into its place.
    #[must_use]
    pub fn of_broker(code: &str, detail: &str) -> Self {
        let word = |text: &str| {
            text.len() <= 64 && !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        };
        let code = if word(code) { Cow::Owned(code.to_owned()) } else { Cow::Borrowed("broker_refused") };
        let detail: String = detail.chars().filter(|c| !c.is_control()).take(500).collect();
        Self { code, detail, field: None, more: Map::new(), retry_after_s: None }
    }

    /// A field of the request is wrong: `invalid`.
    pub fn field(field: &'static str, detail: impl Into<String>) -> Self {
        Self { field: Some(field), ..Self::new("invalid", detail) }
    }

    /// The broker cannot be asked now.
    #[must_use]
    pub fn offline() -> Self {
        Self { retry_after_s: Some(1), ..Self::new("broker_unavailable", "there is no connection to the broker") }
    }

    /// The same, with what that means here.
    pub(crate) fn offline_because(detail: String) -> Self {
        Self { detail, ..Self::offline() }
    }

    /// The member's key counts no more.
    #[must_use]
    pub fn revoked() -> Self {
        Self::new("member_revoked", "this member has been revoked")
    }

    /// Our own fault, or the disk's.
    pub fn internal(error: impl std::fmt::Display) -> Self {
        Self::new("internal", error.to_string())
    }

    /// Adds something to the answer's JSON.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more.insert(key.to_owned(), value.into());
        self
    }

    /// Says which field it is about.
    #[must_use]
    pub fn about(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// The stable word.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Whether it is one of this moment: too much at once, a disk that fails, a broker that cannot be reached.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(&*self.code, "rate_limited" | "unavailable" | "daemon_busy" | "broker_unavailable")
    }

    /// For people.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The field it is about.
    #[must_use]
    pub fn field_name(&self) -> Option<&'static str> {
        self.field
    }

    /// When to come back, in seconds.
    #[must_use]
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after_s
    }

    /// The contract's error object.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("error".to_owned(), self.code.clone().into());
        if !self.detail.is_empty() {
            body.insert("detail".to_owned(), self.detail.clone().into());
        }
        if let Some(field) = self.field {
            body.insert("field".to_owned(), field.into());
        }
        body.extend(self.more.clone());
        Value::Object(body)
    }
}

impl From<hostel_store::StoreError> for Refusal {
    fn from(error: hostel_store::StoreError) -> Self {
        match error {
            hostel_store::StoreError::Busy(text) => Self::new("daemon_busy", text),
            other => Self::internal(other),
        }
    }
}
