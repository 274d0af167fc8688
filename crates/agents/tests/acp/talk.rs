//! An agent at different points of a conversation, and what can be said to and by it.

use hostel_agents::{Driver, Encoded, Event, Hosting, Input, Kind, Mode, TurnOver, driver};
use serde_json::{Value, json};

use crate::support::{hear, send, setup};

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
pub(crate) const NEW: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"S"}}"#;

/// An agent that is ready for its first prompt.
pub(crate) fn opened(hosting: Hosting) -> Box<dyn Driver> {
    let mut driver = driver(&setup(Kind::Echo, hosting, Mode::Auto));
    for answer in [INITIALIZED, NEW] {
        assert!(!driver.ready());
        assert_eq!(driver.encode(&Input::Prompt { turn: 1, text: "x" }), Encoded::Later);
        send(&mut *driver, &Input::Own);
        assert_eq!(driver.wants(), None);
        hear(&mut *driver, &[answer]);
    }
    assert!(driver.ready());
    driver
}

/// An agent in the middle of its first turn, whose request has the id 2.
pub(crate) fn prompted(hosting: Hosting) -> Box<dyn Driver> {
    let mut driver = opened(hosting);
    let prompt = send(&mut *driver, &Input::Prompt { turn: 1, text: "a \"b\"\n" });
    let expected = json!({
        "jsonrpc": "2.0", "id": 2, "method": "session/prompt",
        "params": { "sessionId": "S", "prompt": [{ "type": "text", "text": "a \"b\"\n" }] },
    });
    assert_eq!(serde_json::from_str::<Value>(&prompt).unwrap(), expected);
    assert!(!driver.ready());
    driver
}

pub(crate) fn update(driver: &mut dyn Driver, update: Value) -> Vec<Event> {
    let line =
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "S", "update": update } });
    hear(driver, &[&line.to_string()]).events
}

pub(crate) fn ask(driver: &mut dyn Driver, id: Value, options: Value) -> Vec<Event> {
    let tool = json!({ "toolCallId": "c", "title": "ls", "kind": "execute", "rawInput": { "command": "ls" } });
    let params = json!({ "sessionId": "S", "toolCall": tool, "options": options });
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params });
    hear(driver, &[&line.to_string()]).events
}

pub(crate) fn three() -> Value {
    json!([
        { "optionId": "A", "kind": "allow_always", "name": "Always" },
        { "optionId": "O", "kind": "allow_once", "name": "Once" },
        { "optionId": "R", "kind": "reject_once", "name": "No" },
    ])
}

pub(crate) fn own(driver: &mut dyn Driver) -> Value {
    let shown = driver.wants();
    assert_eq!(shown, driver.wants());
    serde_json::from_str(&send(driver, &Input::Own)).unwrap()
}

pub(crate) fn names(events: &[Event]) -> Vec<String> {
    let name = |event| serde_json::to_value(event).unwrap().as_object().unwrap().keys().next().unwrap().clone();
    events.iter().map(name).collect()
}

pub(crate) fn finished(driver: &mut dyn Driver, id: u64, result: Value) -> TurnOver {
    let line = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let heard = hear(driver, &[&line]);
    assert!(heard.events.iter().any(|event| matches!(event, Event::Result { .. })));
    heard.over.unwrap()
}
