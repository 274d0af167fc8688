//! Whatever is posted to the codecast door: a call, judged like another reader judges it and answered under its id as
//! that was written, or a sentence about what is wrong; and what is kept with a session reads the same again.
#![no_main]

use std::collections::BTreeMap;

use hostel_agents::Mode;
use hostel_doors::codecast::fuzzing::{ledger, request};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// An answer of ours.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Refusal>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Refusal {
    code: i64,
    message: String,
}

fuzz_target!(|body: &[u8]| {
    posted(body);
    if let Ok(text) = std::str::from_utf8(body) {
        kept(text);
    }
});

fn posted(body: &[u8]) {
    // Another reader: members as they were written. It knows no repeated ones, and takes the last.
    let members = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body);
    let (answer, refusals) = match request(body) {
        Ok(answers) => answers,
        Err((is_json, text)) => {
            assert!(!text.is_empty() && !text.contains('\n'));
            assert!(
                is_json || serde_json::from_slice::<Value>(body).is_err(),
                "what is JSON is said to be none: {text}"
            );
            return;
        }
    };
    let Ok(members) = members else {
        // What is passed over may hold bytes that are no text.
        assert!(std::str::from_utf8(body).is_err(), "a call is an object");
        return;
    };
    let id = members.get("id").map(|id| id.get()).filter(|id| *id != "null");
    let params = members.get("params").map(|params| serde_json::from_str::<Value>(params.get()).expect("it was read"));
    let params = params.unwrap_or_default();
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    let mode = text("mode").map(|mode| Mode::named(mode).is_some());
    let session = text("sessionId").is_some();
    let taken = [
        text("path").is_some() && mode != Some(false),
        session && mode == Some(true),
        session,
        session,
        session && text("message").is_some(),
    ];
    let method = members.get("method").and_then(|method| serde_json::from_str::<Option<String>>(method.get()).ok());
    let read = read(&answer);
    assert_eq!(read.id.map(RawValue::get), id, "the id comes back as it was written");
    assert!(read.error.is_none());
    let said: (Option<String>, [bool; 5]) =
        serde_json::from_str(read.result.map_or("", RawValue::get)).expect("a result");
    assert_eq!(said, (method.flatten(), taken));
    assert_eq!(refusals.len(), taken.iter().filter(|taken| !**taken).count());
    for refusal in &refusals {
        let read = self::read(refusal);
        assert_eq!(read.id.map(RawValue::get), id);
        let error = read.error.expect("a refusal");
        assert!(read.result.is_none() && matches!(error.code, -32602 | -32000) && !error.message.is_empty());
    }
}

fn read(answer: &[u8]) -> Answer<'_> {
    assert!(!answer.contains(&b'\n'), "an answer is one line");
    serde_json::from_slice(answer).expect("an answer is JSON")
}

/// What is kept with a session, read and written.
fn kept(text: &str) {
    for last in [0, 7, u64::MAX] {
        let Some((again, owed)) = ledger(text, last) else { continue };
        assert!(owed.iter().all(|(from, to)| from < to), "{owed:?}");
        assert_eq!(ledger(&again, last), Some((again.clone(), owed)));
    }
}
