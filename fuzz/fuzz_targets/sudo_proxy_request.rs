//! Whatever a client sends as its request: it is refused with one line under the id it was sent with, or everything of
//! it that a person will see and that will run is as the gates promise, whoever else reads the same bytes.
#![no_main]

use std::collections::BTreeMap;

use hostel_doors::sudo_proxy::characters::is_forbidden;
use hostel_doors::sudo_proxy::fuzzing::{STAGES, WINDOW, judge, parse_time};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// A moment that seeds may name.
const NOW: i64 = 1_770_993_000;

fuzz_target!(|bytes: &[u8]| {
    let document = serde_json::from_slice::<Value>(bytes).ok();
    let text = |key: &str| document.as_ref().and_then(|document| document.get(key)).and_then(Value::as_str);
    let clean = |text: &String| !text.chars().any(is_forbidden);
    match judge(bytes, NOW) {
        Err(line) => {
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
            let answer: Value = serde_json::from_slice(&line).expect("an answer is JSON");
            assert_eq!(answer["status"], "error");
            assert_eq!(answer["version"], "1.2.0");
            let id = answer["id"].as_str().expect("an answer has an id");
            let message = answer["message"].as_str().expect("a refusal says why");
            let undecoded = message.starts_with("invalid JSON: ");
            // The other reader gives up on depth and numbers that are skipped here.
            assert!(undecoded || document.is_none() || text("id").is_none_or(|sent| sent == id));
            assert!(!undecoded || id.is_empty());
        }
        Ok(passed) => {
            assert!(passed.pipeline.len() <= STAGES);
            assert!(passed.pipeline.iter().all(|words| !words.is_empty() && words.iter().all(clean)));
            assert!(passed.env.iter().all(|(name, value)| clean(name) && clean(value)));
            let allowed = |name: &str| {
                ["LANG", "TZ", "HOME", "DEBIAN_FRONTEND", "TERM"].contains(&name) || name.starts_with("LC_")
            };
            assert!(passed.env.keys().all(|name| allowed(name) && !name.contains('=')));
            assert!(passed.shown.iter().chain([&passed.id, &passed.time]).all(clean));
            assert!(!(passed.wants.0 && passed.wants.1), "root has no agent");
            let age = NOW - parse_time(&passed.time).expect("a time that was judged");
            assert!((-i64::from(WINDOW.lead)..=i64::from(WINDOW.age)).contains(&age));
            // Another reader sees the same command.
            let Some(document) = &document else { return };
            assert!(document.is_object());
            assert!(text("id").is_none_or(|id| id == passed.id));
            let words = |stages: &Value| serde_json::from_value::<Vec<Vec<String>>>(stages.clone());
            assert_eq!(
                document.get("pipeline").map_or(Vec::new(), |stages| words(stages).expect("words")),
                passed.pipeline
            );
            let names = |env: &Value| serde_json::from_value::<BTreeMap<String, String>>(env.clone());
            assert_eq!(document.get("env").map_or(BTreeMap::new(), |env| names(env).expect("names")), passed.env);
            assert_eq!(document.get("privileged").map_or(Some(true), Value::as_bool), Some(passed.wants.0));
        }
    }
});
