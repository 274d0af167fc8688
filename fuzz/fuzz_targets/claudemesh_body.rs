//! Whatever is posted to the claudemesh door: each way to read it either gives what another reader finds in it, or a
//! refusal that names a field; nothing is taken from a body in which a name stands twice.
#![no_main]

use hostel_doors::claudemesh::fuzzing::{Refusal, body};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    // A key may stand before the body, with a NUL between.
    let (key, bytes) = match input.iter().position(|byte| *byte == 0) {
        Some(end) => (Some(&input[..end]), &input[end + 1..]),
        None => (None, input),
    };
    let document = serde_json::from_slice::<Value>(bytes);
    let readings = match body(bytes, key) {
        Ok(readings) => readings,
        Err((status, word, field)) => {
            assert_eq!(status, 400);
            match word.as_str() {
                // What nests too deeply for another reader is JSON all the same.
                "invalid_json" => assert!(document.is_err() && field.is_none()),
                "invalid" => assert!(!document.as_ref().is_ok_and(Value::is_object) || field.is_some() || many(bytes)),
                other => panic!("{other}"),
            }
            return;
        }
    };
    // What one reader takes for an object another may find too deep, or its texts broken.
    let Ok(document) = document else { return };
    assert!(document.is_object());
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    let given = |names: [&str; 2]| names.into_iter().find_map(text);
    match readings.send {
        Ok(send) => {
            assert_eq!((Some(send.to.as_str()), Some(send.message.as_str())), (text("to"), text("message")));
            assert!(!send.to.is_empty());
            assert_eq!(send.reply_to.as_deref(), given(["replyToId", "reply_to_id"]));
            assert_eq!(send.priority.as_str(), text("priority").unwrap_or("next"));
            assert_eq!(send.meta.as_ref(), document.get("meta").filter(|meta| !meta.is_null()));
            assert!(send.meta.is_none_or(|meta| meta.is_object()));
            let id = given(["client_message_id", "clientMessageId"]);
            assert!(id.is_none() || send.client_message_id.as_deref() == id, "an id nobody has given");
            let id = send.client_message_id.unwrap_or_else(|| "x".to_owned());
            assert!(!id.is_empty() && id.len() <= 256 && !id.chars().any(char::is_control));
        }
        Err(refusal) => named(&refusal),
    }
    match readings.post {
        Ok(post) => {
            assert_eq!((Some(post.topic.as_str()), Some(post.message.as_str())), (text("topic"), text("message")))
        }
        Err(refusal) => named(&refusal),
    }
    match readings.profile {
        Ok(profile) => {
            assert_eq!(profile.summary.as_deref(), text("summary"));
            assert!(profile.status.is_none_or(|status| ["idle", "working", "dnd"].contains(&status.as_str())));
        }
        Err(refusal) => named(&refusal),
    }
    match readings.register {
        Ok(register) => {
            assert!(register.token.len() == 64 && register.token.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert_eq!(Some(register.session_id.as_str()), text("session_id"));
        }
        Err(refusal) => named(&refusal),
    }
    match readings.state {
        Ok(change) => {
            assert_eq!(Some(change.key.as_str()), text("key"));
            assert!(!change.key.is_empty() && document.get("value").is_some());
            assert_eq!(change.value.as_ref(), document.get("value").filter(|value| !value.is_null()));
        }
        Err(refusal) => named(&refusal),
    }
    match readings.task {
        Ok(task) => assert_eq!((Some(task.title.as_str()), task.body.as_deref()), (text("title"), text("body"))),
        Err(refusal) => named(&refusal),
    }
    match readings.step {
        Ok(step) => assert!(Some(step.id.as_str()) == text("id") && step.lease_s.is_none()),
        Err(refusal) => named(&refusal),
    }
});

/// A refusal of a field says which.
fn named((status, word, field): &Refusal) {
    assert_eq!(*status, 400);
    assert!(matches!(word.as_str(), "invalid" | "idempotency_key_mismatch"), "{word}");
    assert!(field.as_ref().is_some_and(|field| !field.is_empty()));
}

/// So many fields that nobody means them.
fn many(bytes: &[u8]) -> bool {
    bytes.iter().filter(|byte| **byte == b':').count() > 1000
}
