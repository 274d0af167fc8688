//! One member set and removed, everything else left alone.

use serde_json::json;

use super::*;

const PATH: [&str; 2] = ["mcpServers", "hostel"];

fn entry() -> Value {
    json!({"command": "/bin/hostel", "args": ["mcp"]})
}

fn added(text: &str) -> String {
    let once = set(text, &PATH, &entry()).unwrap();
    assert_eq!(set(&once, &PATH, &entry()).unwrap(), once, "twice is once");
    once
}

#[test]
fn into_nothing() {
    let made = "{\n  \"mcpServers\": {\n    \"hostel\": {\n      \"args\": [\n        \"mcp\"\n      ],\n      \"command\": \"/bin/hostel\"\n    }\n  }\n}";
    for empty in ["", "\n", "  "] {
        let text = added(empty);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["hostel"], entry());
    }
    assert_eq!(added(""), format!("{made}\n"));
    assert_eq!(added("{}"), made);
    assert_eq!(added("{\n}\n"), format!("{made}\n"));
}

#[test]
fn beside_others_and_out_again() {
    for text in [
        "{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\"}\n  },\n  \"z\": [1, 2]\n}\n",
        "{\n\t\"mcpServers\": {\n\t\t\"x\": {}\n\t}\n}",
        "{\"mcpServers\": {\"x\": {}}, \"b\": 2}",
        "{\"mcpServers\":{\"x\":1,\"y\":2}}",
        "{\r\n  \"mcpServers\": {\r\n    \"x\": {}\r\n  }\r\n}\r\n",
        "// mine\n{\n  // servers\n  \"mcpServers\": {\n    \"x\": {}, // the first\n    \"y\": {} // the last\n  }, /* more */\n}\n",
        "{\n  \"mcpServers\": {\n    \"x\": {},\n  },\n}\n",
        "{\"mcpServers\": {}}",
    ] {
        let once = added(text);
        assert_ne!(once, text);
        assert!(once.contains("\"hostel\""));
        assert_eq!(remove(&once, &PATH).unwrap(), text, "{once}");
        assert_eq!(remove(text, &PATH).unwrap(), text);
    }
}

#[test]
fn the_last_comma_and_comments_stay_where_they_were() {
    let text = "{\n  \"mcpServers\": {\n    \"y\": {} // the last\n  }\n}";
    let once = added(text);
    assert!(once.contains("\"y\": {}, // the last\n    \"hostel\": {\n      \"args\""), "{once}");
    let windows = added("{\r\n  \"a\": 1\r\n}");
    assert!(!windows.replace("\r\n", "").contains('\n'), "{windows:?}");
}

#[test]
fn an_old_entry_is_replaced_in_its_place() {
    let text = "{\n  \"mcpServers\": {\n    \"hostel\": {\"command\": \"old\"}, // ours\n    \"x\": 1\n  }\n}";
    let once = added(text);
    assert!(once.contains("// ours\n    \"x\": 1\n  }\n}") && !once.contains("old"), "{once}");
    let gone = remove(&once, &PATH).unwrap();
    assert!(gone.contains("// ours\n    \"x\": 1") && !gone.contains("hostel"), "{gone}");
}

#[test]
fn a_new_object_on_the_way() {
    let once = added("{\n    \"a\": 1\n}\n");
    assert!(
        once.starts_with("{\n    \"a\": 1,\n    \"mcpServers\": {\n        \"hostel\": {\n            \"args\""),
        "{once}"
    );
    assert!(remove(&once, &PATH).unwrap().ends_with("\"mcpServers\": {}\n}\n"));
}

#[test]
fn what_is_no_json_is_left_alone() {
    for wrong in [
        "[]",
        "{",
        "{\"a\" 1}",
        "{\"a\": }",
        "{\"a\": 1 \"b\": 2}",
        "nonsense",
        "{\"a\": tru}",
        "{} {}",
        "{\"a\": \"x}",
        "/* {}",
        "{\"mcpServers\": []}",
        "{\"mcpServers\": 3}",
        "{\"mcpServers\": {\"x\": 01}}",
    ] {
        assert!(set(wrong, &PATH, &entry()).is_err(), "{wrong}");
    }
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(500), "]".repeat(500));
    assert!(set(&deep, &PATH, &entry()).is_err());
}

#[test]
fn names_and_texts_with_anything_in_them() {
    let text = "{\"a\\\"}\": \"// no comment } \\\\\", \"mcpServers\": {\"ho\\u0073tel\": 1}}";
    let once = added(text);
    assert!(once.starts_with("{\"a\\\"}\": \"// no comment } \\\\\", "), "{once}");
    assert_eq!(remove(&once, &PATH).unwrap(), "{\"a\\\"}\": \"// no comment } \\\\\", \"mcpServers\": {}}");
}
