//! What goes back: JSON with a status, and one table from words to numbers.
//!
//! Invariant: every refusal is `{"error", "detail", "field"}` with a stable word; what else belongs to it stands beside
//! them.

use std::borrow::Cow;

use bytes::Bytes;
use hostel_mesh::Refusal;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

use super::outgoing::Body;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request was refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    /// The stable word.
    pub(super) code: Cow<'static, str>,
    /// For people.
    pub(super) detail: Cow<'static, str>,
    /// The field or header it is about.
    pub(super) field: Option<Cow<'static, str>>,
    /// What few refusals have; kept apart so that the others stay small.
    extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
struct Extra {
    /// What else belongs into the body.
    more: Map<String, Value>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refused {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code: code.into(), detail: detail.into(), field: None, extra: None }
    }

    /// A field is missing or wrong.
    pub(super) fn field(field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::invalid(detail).about(field)
    }

    /// The request as a whole is wrong.
    pub(super) fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }

    /// The body is no JSON.
    pub(super) fn json(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_json", detail)
    }

    /// Says what it is about.
    pub(super) fn about(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says when to come back.
    pub(super) fn retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, HeaderValue::from(seconds))
    }

    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.extra.get_or_insert_default().header = Some((name, value));
        self
    }

    /// The answer.
    pub(super) fn response(self) -> Response<Body> {
        let Extra { more: mut body, header } = self.extra.map_or_else(Extra::default, |extra| *extra);
        body.insert("error".to_owned(), self.code.into_owned().into());
        body.insert("detail".to_owned(), self.detail.into_owned().into());
        body.insert("field".to_owned(), self.field.map_or(Value::Null, |field| field.into_owned().into()));
        let mut response = bytes(self.status, JSON, Value::Object(body).to_string());
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let mut more = match refusal.body() {
            Value::Object(body) => body,
            _ => Map::new(),
        };
        for own in ["error", "detail", "field"] {
            more.remove(own);
        }
        let refused = Self {
            status: status(refusal.code()),
            code: refusal.code().to_owned().into(),
            detail: match refusal.detail() {
                "" => refusal.code().replace('_', " ").into(),
                detail => detail.to_owned().into(),
            },
            field: refusal.field_name().map(Cow::Borrowed),
            extra: (!more.is_empty()).then(|| Box::new(Extra { more, header: None })),
        };
        match refusal.retry_after_s() {
            Some(seconds) => refused.retry_after(seconds.max(1)),
            None => refused,
        }
    }
}

/// The status of a word of the mesh or its broker.
pub(super) fn status(code: &str) -> StatusCode {
    match code {
        "invalid" | "invalid_argument" | "bad_query" | "cannot_write" | "malformed" | "invalid_config" => {
            StatusCode::BAD_REQUEST
        }
        "unauthorized" => StatusCode::UNAUTHORIZED,
        "not_shared_with_you"
        | "forbidden"
        | "blocked"
        | "owner_only"
        | "member_only"
        | "capability_denied"
        | "blocked_by_pre_send"
        | "unverified_file"
        | "not_the_claimer"
        | "not_the_assignee" => StatusCode::FORBIDDEN,
        "not_found" | "peer_not_found" | "topic_not_found" | "file_not_found" | "member_not_found"
        | "session_not_found" | "mesh_not_found" | "invite_not_found" | "recipient_unknown" | "state_not_found"
        | "task_not_found" => StatusCode::NOT_FOUND,
        "ambiguous_target"
        | "ambiguous_prefix"
        | "hash_mismatch"
        | "idempotency_key_reused"
        | "not_requeueable"
        | "recipient_revoked"
        | "name_taken"
        | "version_conflict"
        | "already_claimed"
        | "already_completed"
        | "not_claimed"
        | "key_replaced"
        | "too_many_archived_keys"
        | "ephemeral_identity"
        | "session_exists" => StatusCode::CONFLICT,
        "message_too_large" | "file_too_large" | "payload_too_large" | "value_too_large" => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        "rate_limited" | "daemon_busy" | "too_many_streams" | "too_many_sessions" => StatusCode::TOO_MANY_REQUESTS,
        "insufficient_storage" => StatusCode::INSUFFICIENT_STORAGE,
        "member_revoked" | "degraded" | "broker_unavailable" | "closed" | "key_unavailable" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        "not_implemented" | "not_supported" => StatusCode::NOT_IMPLEMENTED,
        "broker_timeout" => StatusCode::GATEWAY_TIMEOUT,
        "internal" | "rotation_abandoned" => StatusCode::INTERNAL_SERVER_ERROR,
        // A word of the broker's that is not ours to judge.
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// An answer in JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(text) => bytes(status, JSON, text),
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Refused::new(status, "internal", format!("the answer cannot be written: {error}")).response()
        }
    }
}

/// An answer in JSON that is written already.
pub(super) fn written(mut text: Vec<u8>) -> Response<Body> {
    // It may wait long to be taken, and only its length is counted.
    text.shrink_to_fit();
    bytes(StatusCode::OK, JSON, text)
}

/// A 200 in JSON.
pub(super) fn ok(value: &impl Serialize) -> Response<Body> {
    json(StatusCode::OK, value)
}

/// An answer of any kind.
pub(super) fn bytes(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_mesh_keeps_its_words() {
        let refusal = Refusal::new("idempotency_key_reused", "the id is taken").with("conflict", "outbox_done_x");
        let refused = Refused::from(refusal);
        assert_eq!((refused.status, refused.code.as_ref()), (StatusCode::CONFLICT, "idempotency_key_reused"));
        assert_eq!(refused.extra.unwrap().more["conflict"], "outbox_done_x");
        let refused = Refused::from(Refusal::offline());
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        let response = refused.response();
        assert!(response.headers().contains_key(header::RETRY_AFTER));
        assert_eq!(Refused::from(Refusal::of_broker("strange_word", "x")).status, StatusCode::BAD_GATEWAY);
    }
}
