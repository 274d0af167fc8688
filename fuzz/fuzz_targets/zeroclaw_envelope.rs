//! Whatever a zeroclaw client sends in a frame: it is exactly one kind of thing, what is answered is answered under
//! an id the client may have meant, and an answer to us is never answered.
#![no_main]

use hostel_doors::zeroclaw::code;
use hostel_doors::zeroclaw::fuzzing::{Frame, frame};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let document = serde_json::from_str::<Value>(text.trim());
    let member = |name: &str| document.as_ref().ok().and_then(|document| document.get(name));
    let is_object = document.as_ref().is_ok_and(Value::is_object);
    let answers = is_object && (member("result").is_some() || member("error").is_some());
    match frame(bytes) {
        Frame::Blank => assert!(text.trim().is_empty()),
        Frame::Request { id, method, params } => {
            assert!(is_object && !answers);
            assert_eq!(member("jsonrpc").and_then(Value::as_str), Some("2.0"));
            assert_eq!(member("method").and_then(Value::as_str), Some(method.as_str()));
            assert_eq!(id.as_ref(), member("id"), "the id of a request is its own");
            assert!(id.as_ref().is_none_or(is_id));
            assert_eq!(params.as_ref(), member("params"));
            assert!(params.is_none_or(|params| params.is_object() || params.is_array()));
        }
        Frame::Response { id, result } => {
            assert!(answers && member("method").is_none());
            assert_eq!(id.as_ref(), member("id").filter(|id| is_id(id)));
            assert_eq!(result.as_ref(), member("result").filter(|_| member("error").is_none()));
        }
        Frame::Refused { id, refusal: (number, message) } => {
            assert!(!text.trim().is_empty() && !message.is_empty() && !message.contains('\n'));
            assert!(!answers || member("method").is_some(), "an answer to us is answered");
            assert_eq!(number, if document.is_ok() { code::REQUEST } else { code::PARSE });
            assert!(is_id(&id));
            assert!(id.is_null() || Some(&id) == member("id"), "an id nobody has sent");
        }
    }
    // Blanks around a frame, and how its line ends, mean nothing.
    let padded = [b" \t", bytes, b" \r"].concat();
    if document.is_ok() {
        assert_eq!(format!("{:?}", frame(&padded)), format!("{:?}", frame(bytes)));
    }
});

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_number() || id.is_null()
}
