//! What was in a sealed message, of any version: read, written and read again it is the same message, and it speaks of
//! the request it speaks of alone.
#![no_main]

use hostel_wire::body::{BODY_VERSION, Body, MENTION_LIMIT};
use hostel_wire::encoding::hex;
use hostel_wire::frames::Priority;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((version, bytes)) = bytes.split_first() else { return };
    let Ok(body) = Body::from_bytes(u32::from(*version), bytes) else { return };
    assert!(body.mentions.len() <= MENTION_LIMIT);
    if u32::from(*version) < BODY_VERSION {
        assert_eq!(body.body.as_bytes(), bytes, "older versions are the text itself");
        assert!(body.matches("any", "any"));
        return;
    }
    // A signature is of the bytes it was read from, and is not written again.
    let unsigned = Body { signature: None, ..body.clone() };
    assert_eq!(Body::from_bytes(BODY_VERSION, &body.to_bytes()).expect("our own writing"), unsigned);
    let id = body.client_message_id.clone().expect("an id");
    let fingerprint = body.fingerprint.expect("a fingerprint");
    assert!(body.matches(&id, &hex(&fingerprint)));
    assert!(!body.matches(&format!("{id}x"), &hex(&fingerprint)));
    let mut other = fingerprint;
    other[0] ^= 1;
    assert!(!body.matches(&id, &hex(&other)));
    if let Ok(one) = body.fingerprint_for("dm", "alice", Priority::Next) {
        assert_ne!(Ok(one), body.fingerprint_for("dm", "bob", Priority::Next));
    }
});
