//! What a hook prints, of any content: an answer whose every part another reader finds too, a verdict, or nothing. What
//! is not understood never lets a message through. The first byte says which.
#![no_main]

use hostel_mesh::hooks::redact::Field;
use hostel_mesh::hooks::reply::{self, Verdict};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let other: Option<Value> = serde_json::from_slice(bytes.trim_ascii()).ok();
    match which % 3 {
        0 => match reply::reply(bytes) {
            Ok(None) => assert!(bytes.trim_ascii().is_empty()),
            Ok(Some(answer)) => {
                let other = other.expect("what is answered is JSON");
                assert_eq!(other["reply"], answer.text);
                assert!(!answer.text.is_empty());
                assert!(answer.meta.is_empty() || other["meta"] == Value::Object(answer.meta));
            }
            Err(reason) => assert!(!reason.is_empty()),
        },
        1 => match reply::verdict(bytes) {
            Ok(Verdict::Allow) => {
                assert!(bytes.trim_ascii().is_empty() || other.is_some_and(|other| other["action"] == "allow"));
            }
            Ok(Verdict::Drop(reason)) => assert!(!reason.chars().any(char::is_control)),
            Ok(Verdict::Replace { body, meta, title }) => {
                let other = other.expect("a verdict is JSON");
                assert!(other["action"] == "replace" && body.is_none_or(|body| other["body"] == body));
                assert!(title.is_none_or(|title| other["title"] == title));
                assert!(meta.is_none_or(|meta| meta.is_null() || other["meta"] == meta));
            }
            Err(reason) => assert!(!reason.is_empty()),
        },
        _ => {
            let Ok(path) = std::str::from_utf8(bytes) else { return };
            // A path that is read means the same each time; one that is not says why.
            match Field::parse(path) {
                Ok(field) => assert_eq!(Field::parse(path), Ok(field)),
                Err(reason) => assert!(!reason.is_empty()),
            }
        }
    }
});
