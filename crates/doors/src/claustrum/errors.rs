//! The contract's errors: one constructor per code, each with the exact words.
//!
//! A message is bytes, not text, because it may quote what is not UTF-8; the encoder makes it so.
//! Nothing here decides when an error applies.

use super::gojson::Object;
use hostel_house::insiders::Refusal;
use std::borrow::Cow;

/// What goes into a reply's `error` member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The number clients test for.
    pub code: i64,
    /// The words.
    pub message: Cow<'static, [u8]>,
}

/// The line was not a request.
pub const PARSE: i64 = -32700;
/// `jsonrpc` was not `2.0`.
pub const VERSION: i64 = -32600;
/// No such method.
pub const METHOD: i64 = -32601;
/// The params do not fit the method, or what they name does not allow it.
pub const PARAMS: i64 = -32602;
/// The operating system refused, or we failed.
pub const INTERNAL: i64 = -32603;
/// The token was missing or wrong, or the client is a process inside the house that may not.
pub const UNAUTHORIZED: i64 = -32001;
/// A process's stdin queue is full.
pub const BACKPRESSURE: i64 = -32002;
/// A stdin chunk starts behind what has been applied.
pub const OFFSET_GAP: i64 = -32003;

impl RpcError {
    /// An error whose words are fixed.
    pub const fn fixed(code: i64, message: &'static str) -> Self {
        Self { code, message: Cow::Borrowed(message.as_bytes()) }
    }

    /// An error whose words are put together.
    pub fn worded(code: i64, message: impl Into<Vec<u8>>) -> Self {
        Self { code, message: Cow::Owned(message.into()) }
    }

    /// -32603 with the words of whatever failed.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        Self::worded(INTERNAL, cause.to_string())
    }

    /// -32602 with fixed words.
    pub const fn params(message: &'static str) -> Self {
        Self::fixed(PARAMS, message)
    }

    /// A process inside the house may not.
    pub(crate) fn refused(refusal: &Refusal) -> Self {
        Self::worded(UNAUTHORIZED, refusal.text())
    }

    /// Params that are absent or mistyped.
    pub const fn invalid_params() -> Self {
        Self::params("Invalid params")
    }

    /// Appends the error object.
    pub fn write(&self, out: &mut Vec<u8>) {
        Object::open(out).signed("code", self.code).string("message", &self.message).close();
    }
}

/// Appends a whole error reply line.
pub fn push_error(out: &mut Vec<u8>, id: &[u8], error: &RpcError) {
    push_head(out, id);
    out.extend_from_slice(b"\"error\":");
    error.write(out);
    out.extend_from_slice(b"}\n");
}

/// Appends a whole success reply line; `result` appends the result object.
pub fn push_result(out: &mut Vec<u8>, id: &[u8], result: impl FnOnce(&mut Vec<u8>)) {
    push_head(out, id);
    out.extend_from_slice(b"\"result\":");
    result(out);
    out.extend_from_slice(b"}\n");
}

/// Appends the reply line of a finished call.
pub fn push_reply(out: &mut Vec<u8>, id: &[u8], outcome: &Result<Vec<u8>, RpcError>) {
    match outcome {
        Ok(result) => push_result(out, id, |out| out.extend_from_slice(result)),
        Err(error) => push_error(out, id, error),
    }
}

/// Appends what both kinds of reply start with; a comma follows the id.
pub fn push_head(out: &mut Vec<u8>, id: &[u8]) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id);
    out.push(b',');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_their_members_in_order() {
        let mut out = Vec::new();
        push_error(&mut out, b"null", &RpcError::fixed(PARSE, "Parse error"));
        push_result(&mut out, b"7", |out| out.extend_from_slice(b"{}"));
        push_reply(&mut out, b"\"a\"", &Err(RpcError::worded(METHOD, "Unknown namespace: <x>")));
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"Unknown namespace: \u003cx\u003e"}}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
