//! What a request is, in 32 bytes: the same id with another fingerprint is another request, and a conflict.
//!
//! Invariant: made once, when a request is accepted, of the resolved destination; never made again from what is stored.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::canonical::{NotCanonical, canonical};
use crate::frames::Priority;

/// A request's fingerprint.
pub type Fingerprint = [u8; 32];

/// The version of the envelope that is hashed.
const ENVELOPE: &str = "1";

/// The fingerprint of a request to `dest_ref` (an id, not what the caller typed).
pub fn request(
    kind: &str,
    dest_ref: &str,
    reply_to: Option<&str>,
    priority: Priority,
    meta: Option<&Value>,
    body: &[u8],
) -> Result<Fingerprint, NotCanonical> {
    // A null says as little as nothing, and does not survive the body of a message.
    let meta = meta.filter(|meta| !meta.is_null()).map(canonical).transpose()?.unwrap_or_default();
    let mut hash = Sha256::new();
    for field in [ENVELOPE, kind, dest_ref, reply_to.unwrap_or_default(), priority.as_str(), &meta] {
        hash.update(field.as_bytes());
        hash.update([0]);
    }
    hash.update(sha256(body));
    Ok(hash.finalize().into())
}

/// SHA-256.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::encoding::hex;

    #[test]
    fn fields_cannot_run_into_each_other() {
        let of = |kind: &str, to: &str, reply: Option<&str>, meta: Option<&Value>, body: &str| {
            request(kind, to, reply, Priority::Next, meta, body.as_bytes()).unwrap()
        };
        let base = of("dm", "ab", None, None, "c");
        assert_eq!(base, of("dm", "ab", None, None, "c"));
        assert_ne!(base, of("dm", "a", Some("b"), None, "c"));
        assert_ne!(base, of("dm", "ab", None, Some(&json!({})), "c"));
        assert_ne!(base, of("topic", "ab", None, None, "c"));
        assert_ne!(base, of("dm", "ab", None, None, "d"));
        assert_ne!(base, request("dm", "ab", None, Priority::Now, None, b"c").unwrap());
    }

    #[test]
    fn the_order_of_names_in_meta_is_nothing() {
        let left: Value = serde_json::from_str(r#"{"a":1,"b":2.0}"#).unwrap();
        let right: Value = serde_json::from_str(r#"{"b":2,"a":1}"#).unwrap();
        let of = |meta| request("dm", "x", None, Priority::Next, Some(meta), b"").unwrap();
        assert_eq!(of(&left), of(&right));
        assert!(request("dm", "x", None, Priority::Next, Some(&json!(u64::MAX)), b"").is_err());
    }

    /// Made with another language: sha256 over `1 dm m1  next {"a":1} ` with NULs, then sha256 of `hi`.
    #[test]
    fn a_known_one() {
        let made = request("dm", "m1", None, Priority::Next, Some(&json!({"a": 1})), b"hi").unwrap();
        assert_eq!(hex(&made), KNOWN);
    }

    const KNOWN: &str = "cf6bfedc9b66c1bbc89eaa87eb51c614691825d70fa3ab3a3a20f4122a8ba0af";
}
