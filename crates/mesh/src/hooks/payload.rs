//! What a hook gets on its standard input: one JSON object, and then the end.
//!
//! Invariant: what is written has at most as many bytes as allowed. What had to be cut off is said (`_truncated`), and
//! what says which event it is about is never cut.

use hostel_wire::frames::Kind;
use hostel_wire::iso;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::name::HookName;
use super::redact::{self, Field};
use crate::inbox::InboxRow;

/// Crockford's digits, lower case.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The id of a message's event: a ULID made of when the broker took it and of who sent it under which id. It is the same
/// each time the message is looked at, also from an inbox that was made anew, so a hook that is run again has the same
/// ids to answer with.
pub(super) fn event_id(row: &InboxRow) -> String {
    let digest = Sha256::new()
        .chain_update(row.mesh.as_bytes())
        .chain_update([0])
        .chain_update(row.sender_member_id.as_bytes())
        .chain_update([0])
        .chain_update(row.client_message_id.as_bytes())
        .finalize();
    ulid(row.created_at.unwrap_or_default(), &digest)
}

/// The id of another event, by its place in the ring.
pub(super) fn ring_id(boot: &str, n: u64, ts: u64) -> String {
    let digest = Sha256::new().chain_update(boot.as_bytes()).chain_update(n.to_be_bytes()).finalize();
    ulid(ts, &digest)
}

fn ulid(ms: u64, digest: &[u8]) -> String {
    let mut bytes = [0; 16];
    bytes[6..].copy_from_slice(digest.get(..10).unwrap_or(&[0; 10]));
    let value = (u128::from(ms & 0xffff_ffff_ffff) << 80) | u128::from_be_bytes(bytes);
    (0..26).rev().map(|place| char::from(DIGITS[((value >> (place * 5)) & 31) as usize])).collect()
}

/// What a hook is told of a message.
pub(super) fn of_message(row: &InboxRow, hook: &HookName, event_id: &str) -> Value {
    let mut payload = json!({
        "event": if row.kind == Kind::File { "file_shared" } else { "message" },
        "event_id": event_id, "hook": hook.to_string(), "mesh": row.mesh, "ts": iso(row.received_at),
        "kind": row.kind.as_str(), "topic": row.topic,
        "from": {"member_id": row.sender_member_id, "pubkey": row.sender_pubkey, "name": row.sender_name},
        "body": row.body, "meta": row.meta.clone().unwrap_or_else(|| json!({})), "priority": row.priority.as_str(),
        "mentions": row.mentions, "message_id": row.broker_message_id, "idempotency_key": row.client_message_id,
        "reply_to_id": row.reply_to_id, "verified": row.verified, "_truncated": false,
    });
    if let Some(file) = &row.file {
        payload["file"] = file.clone();
    }
    payload
}

/// What a hook is told of anything else; `data` is the event's own.
pub(super) fn of_event(event: &str, hook: &HookName, event_id: &str, mesh: &str, ts: u64, data: &Value) -> Value {
    let mut payload = json!({
        "event": event, "event_id": event_id, "hook": hook.to_string(), "mesh": mesh, "ts": iso(ts),
        "_truncated": false,
    });
    if let (Some(payload), Some(data)) = (payload.as_object_mut(), data.as_object()) {
        for (key, value) in data {
            payload.entry(key).or_insert_with(|| value.clone());
        }
    }
    payload
}

/// As it is written: without what shall not be told, and cut to `most` bytes.
pub(super) fn written(mut payload: Value, redacted: &[Field], most: usize) -> Vec<u8> {
    redact::redact(&mut payload, redacted);
    let whole = payload.to_string();
    if whole.len() <= most {
        return whole.into_bytes();
    }
    payload["_truncated"] = true.into();
    // The text first: it is what is long. Then what people put beside it.
    for key in ["body", "meta", "file", "to", "mentions", "_redacted"] {
        let over = payload.to_string().len().saturating_sub(most);
        if over == 0 {
            break;
        }
        let Some(value) = payload.get_mut(key) else { continue };
        match value {
            Value::String(text) => cut(text, over),
            other => *other = Value::Null,
        }
    }
    let text = payload.to_string();
    if text.len() <= most {
        return text.into_bytes();
    }
    // Only what names the event is left; that has a few hundred bytes at the most.
    let kept = ["event", "event_id", "hook", "mesh", "ts", "kind", "verified", "_truncated"];
    if let Some(fields) = payload.as_object_mut() {
        fields.retain(|key, _| kept.contains(&key.as_str()));
    }
    payload.to_string().into_bytes()
}

/// Cuts at least so many bytes off a text, as they are written in JSON.
fn cut(text: &mut String, over: usize) {
    let written = |text: &str| Value::from(text).to_string().len();
    let most = written(text).saturating_sub(over);
    let (mut fits, mut too_long) = (0, text.len());
    while fits < too_long {
        let middle = text.floor_char_boundary((fits + too_long).div_ceil(2));
        if middle <= fits {
            break;
        }
        if written(&text[..middle]) <= most {
            fits = middle;
        } else {
            too_long = middle - 1;
        }
    }
    text.truncate(text.floor_char_boundary(fits));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_same_each_time() {
        let row = super::super::tests::row();
        let id = event_id(&row);
        assert!(hostel_wire::ids::is_ulid(&id));
        assert_eq!(id, event_id(&InboxRow { id: "another row".into(), received_at: 77, ..row.clone() }));
        assert_ne!(id, event_id(&InboxRow { client_message_id: "other".into(), ..row.clone() }));
        assert_ne!(id, event_id(&InboxRow { sender_member_id: "other".into(), ..row }));
        assert!(hostel_wire::ids::is_ulid(&ring_id("boot", 7, 12)));
    }

    #[test]
    fn what_is_too_long_is_cut_and_said() {
        let row = super::super::tests::row();
        for body in ["x".repeat(5000), "\u{1}\"\\".repeat(2000), "ü".repeat(3000)] {
            let row = InboxRow { body: Some(body.clone()), ..row.clone() };
            let payload = of_message(&row, &HookName::Dm, &event_id(&row));
            let text = written(payload.clone(), &[], 2048);
            assert!(text.len() <= 2048 && text.len() > 1900, "{}", text.len());
            let read: Value = serde_json::from_slice(&text).unwrap();
            assert_eq!(read["_truncated"], true);
            assert!(body.starts_with(read["body"].as_str().unwrap()));
            assert_eq!(serde_json::from_slice::<Value>(&written(payload.clone(), &[], 1 << 20)).unwrap(), payload);
        }
        let row = InboxRow { meta: Some(json!({"x": "y".repeat(9000)})), ..row };
        let text = written(of_message(&row, &HookName::Dm, "id"), &[], 1024);
        let read: Value = serde_json::from_slice(&text).unwrap();
        assert!(text.len() <= 1024 && read["event_id"] == "id" && read["meta"] == Value::Null, "{read}");
    }

    #[test]
    fn other_events_cannot_change_what_they_are_called() {
        let data = json!({"reason": "closed", "event_id": "forged"});
        let payload = of_event("disconnect", &HookName::Disconnect, "id", "lab", 0, &data);
        assert_eq!((&payload["event_id"], &payload["reason"]), (&json!("id"), &json!("closed")));
    }
}
