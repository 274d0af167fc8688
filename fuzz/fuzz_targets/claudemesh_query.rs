//! Whatever stands behind the question mark: parameters within their bounds, or a refusal that names one; what is
//! encoded reads the same again.
#![no_main]

use hostel_doors::claudemesh::fuzzing::{encoded, lists, query};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (inbox, events) = query(text);
    match inbox {
        Ok(inbox) => {
            assert!((1..=1000).contains(&inbox.limit));
            // Nothing comes from nowhere.
            for (name, value) in [("topic", &inbox.topic), ("from", &inbox.from), ("cursor", &inbox.cursor)] {
                if let Some(value) = value {
                    assert!(!value.is_empty() && value.len() <= text.len());
                    let again = query(&format!("{name}={}", encoded(value).0)).0.expect("it was read before");
                    let read = match name {
                        "topic" => again.topic,
                        "from" => again.from,
                        _ => again.cursor,
                    };
                    assert_eq!(read.as_ref(), Some(value));
                }
            }
        }
        Err((status, word, field)) => {
            assert_eq!((status, word.as_str()), (400, "invalid"));
            assert!(field.is_some_and(|field| text.contains('=') && !field.is_empty()));
        }
    }
    match events {
        Ok((names, topic)) => {
            assert!(names.len() <= 64);
            assert!(names.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
            assert!(topic.is_none_or(|topic| (1..=64).contains(&topic.len()) && topic == topic.to_lowercase()));
        }
        Err((status, word, field)) => {
            assert_eq!((status, word.as_str()), (400, "invalid"));
            assert!(field.is_some_and(|field| field == "events" || field == "topic"));
        }
    }
    let (state, tasks) = lists(text);
    assert!(state.is_ok_and(|list| (1..=1000).contains(&list.limit)) || text.contains('='));
    assert!(tasks.is_ok_and(|list| (1..=1000).contains(&list.limit)) || text.contains('='));
    let (written, read) = encoded(text);
    assert!(written.is_ascii() && !written.contains(['&', '=', '+', ' ', '<', '>', '"']));
    assert_eq!(read.as_deref(), Some(text));
});
