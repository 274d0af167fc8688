//! A refusal, and what a request can come to.

use serde::Serialize;

/// A refusal.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Failure {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }
}

/// A result ready to be sent, or a refusal.
pub(crate) type Outcome = Result<serde_json::Value, Failure>;
