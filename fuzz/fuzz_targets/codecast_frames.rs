//! Events on a stream of the codecast door: each frame is one line of JSON that no client refuses for its length, and
//! the frames together say what the events said.
#![no_main]

use hostel_agents::{Event, Hosting, Kind, Outcome, Raw};
use hostel_doors::codecast::fuzzing::events;
use hostel_fuzz::events::{Said, told};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Older clients refuse lines of this length.
const LONGEST_FRAME: usize = 128 * 1024;
/// What is divided into several frames, or cut, is longer than this.
const LONGEST_TEXT: usize = 112 * 1024;
/// The longest name of anything.
const LONGEST_NAME: usize = 1024;

fuzz_target!(|input: (u8, bool, Vec<Said>)| {
    let kind = Kind::ALL[usize::from(input.0) % Kind::ALL.len()];
    let hosting = if input.1 { Hosting::Warm } else { Hosting::PerMessage };
    let told = told(&input.2);
    let (frames, elements) = events(kind, hosting, &told);
    let values = read(&frames);
    let joined = format!("[{}]", String::from_utf8(elements).expect("text"));
    assert_eq!(serde_json::from_str::<Vec<Value>>(&joined).ok().as_ref(), Some(&values), "an array says the same");
    // One event after the other: what comes of all of them is what comes of each.
    for event in &told {
        let (frames, _) = events(kind, hosting, std::slice::from_ref(event));
        compare(kind, event, &read(&frames));
    }
});

fn read(frames: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(frames).expect("text");
    if text.is_empty() {
        return Vec::new();
    }
    let frame = |frame: &str| {
        assert!(frame.len() <= LONGEST_FRAME && !frame.contains(['\n', '\r']), "a frame of {} bytes", frame.len());
        let json = frame.strip_prefix("data: ").expect("the field of a frame");
        assert!(json.starts_with("{\"type\":\""), "the type is first");
        serde_json::from_str(json).expect("a frame is JSON")
    };
    text.strip_suffix("\n\n").expect("frames are ended").split("\n\n").map(frame).collect()
}

/// The frames of one event against the event.
fn compare(kind: Kind, event: &Event, frames: &[Value]) {
    let all = |name: &str| frames.iter().filter_map(|frame| frame[name].as_str()).collect::<String>();
    let are = |name: &str| frames.iter().all(|frame| frame["type"] == name) && !frames.is_empty();
    let name = |name: &str| name[..name.floor_char_boundary(LONGEST_NAME)].to_owned();
    let same = |raw: Option<&Raw>, found: Option<&Value>| {
        let value = raw.map(|raw| serde_json::from_str::<Value>(raw.get()).expect("it was made so"));
        // What would make a line too long, with all that is in it already, is left out.
        let too_long = |raw: &Raw| frames[0].to_string().len() + raw.get().len() > LONGEST_TEXT;
        assert!(found == value.as_ref() || (found.is_none() && raw.is_some_and(too_long)));
    };
    match event {
        Event::TextDelta { text } => assert!(are("partial") && all("content") == *text),
        Event::Text { text, .. } => assert!(are("text") && all("content") == *text),
        Event::ThoughtDelta { text } => assert!(frames.is_empty() || (are("partial") && all("content") == *text)),
        Event::ToolBegan { name: tool } => assert!(are("tool_use") && all("tool") == name(tool)),
        Event::ToolCall { name: tool, input, .. } => {
            assert!(are("tool_use") && frames.len() == 1 && all("tool") == name(tool));
            match frames[0].get("input") {
                Some(found) if input.get().len() <= LONGEST_TEXT => same(Some(input), Some(found)),
                Some(_) => {}
                None => assert!(frames[0]["message"].is_string() && input.get().len() > LONGEST_TEXT),
            }
        }
        Event::ToolProgress { name: tool, message, raw } => {
            assert!(are("tool_use") && all("message") == *message);
            assert!(frames.iter().all(|frame| frame["tool"] == name(tool)));
            same(raw.as_ref(), frames[0].get("raw"));
        }
        Event::ToolResult { output, .. } if kind != Kind::Claude && !output.is_empty() => {
            assert!(are("tool_use") && all("message") == *output || are("error") && all("message") == *output);
        }
        Event::ToolResult { .. } => assert_eq!(frames.is_empty(), kind == Kind::Claude),
        Event::Error { message } => assert!(are("error") && all("message") == *message),
        Event::Init { subtype, session_id, model, raw } => {
            assert!(are("system") && frames.len() == 1 && all("subtype") == name(subtype));
            assert_eq!(frames[0]["session_id"].as_str(), session_id.as_deref().map(name).as_deref());
            assert_eq!(frames[0]["model"].as_str(), model.as_deref().map(name).as_deref());
            same(raw.as_ref(), frames[0].get("raw"));
        }
        Event::Result { session_id, raw } => {
            assert!(are("result") && frames.len() == 1);
            assert_eq!(frames[0]["session_id"].as_str(), session_id.as_deref().map(name).as_deref());
            same(raw.as_ref(), frames[0].get("raw"));
        }
        Event::PermissionAsked { tool, summary, input, timeout_secs, .. } => {
            assert!(are("system") && frames.len() == 1 && frames[0]["subtype"] == "permission_request");
            assert!(all("tool") == name(tool) && all("summary") == name(summary));
            assert_eq!(frames[0]["timeout_secs"], *timeout_secs);
            same(Some(input), frames[0].get("input"));
        }
        Event::TurnEnded { outcome: Outcome::Failed, text, .. } if !text.is_empty() => {
            assert!(are("error") && all("message") == *text);
        }
        _ => assert!(frames.is_empty() || are("interrupted") || are("error")),
    }
}
