//! The numbered events of a session as the house keeps them, and what must be true of any such list.

use std::time::Duration;

use hostel_tests::wait;
use serde_json::{Value, json};

use super::native::Native;

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) seq: u64,
    pub(crate) turn: u64,
    /// `text_delta`, `turn_started`, …
    pub(crate) kind: String,
    pub(crate) body: Value,
}

impl Event {
    fn parse(line: &str) -> Self {
        let mut line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("no {name}: {line}"));
        let (seq, turn) = (number("seq"), number("turn"));
        let Value::Object(event) = line["event"].take() else { panic!("no event: {line}") };
        let (kind, body) = event.into_iter().next().expect("an event has a kind");
        Self { seq, turn, kind, body }
    }

    pub(crate) fn text(&self) -> &str {
        self.body["text"].as_str().unwrap_or_default()
    }
}

/// Everything of a session, numbered from 1 without gaps.
pub(crate) fn all(native: &mut Native, session: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let params = json!({"session_id": session, "format": "jsonl", "after_seq": after});
        let piece = native.ask("session/export", params);
        for line in piece["text"].as_str().expect("a text").lines() {
            assert!(!line.starts_with(r#"{"gap""#), "events are gone: {line}");
            let event = Event::parse(line);
            assert_eq!(event.seq, events.len() as u64 + 1, "the numbers have a gap or a repeat: {event:?}");
            events.push(event);
        }
        after = piece["last_seq"].as_u64().expect("a number");
        if piece["done"] == true {
            return events;
        }
    }
}

/// One turn.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) prompt: String,
    /// Its pieces of text, in order.
    pub(crate) pieces: Vec<String>,
    /// Blocks that are whole.
    pub(crate) texts: Vec<String>,
    pub(crate) events: Vec<Event>,
    pub(crate) outcome: String,
    pub(crate) text: String,
}

impl Turn {
    /// How many events of a kind it has.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event.kind == kind).count()
    }

    /// Its errors.
    pub(crate) fn errors(&self) -> Vec<&str> {
        let errors = self.events.iter().filter(|event| event.kind == "error");
        errors.map(|event| event.body["message"].as_str().unwrap_or_default()).collect()
    }
}

/// The turns of a session: each begins, has its events and ends, and no other comes in between.
pub(crate) fn turns(events: &[Event]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut open = false;
    for event in events {
        let number = event.body["turn"].as_u64();
        match event.kind.as_str() {
            "turn_started" => {
                assert!(!open, "a turn starts within another: {event:?}");
                open = true;
                turns.push(Turn {
                    number: number.expect("a turn has a number"),
                    prompt: event.body["prompt"].as_str().unwrap_or_default().to_owned(),
                    pieces: Vec::new(),
                    texts: Vec::new(),
                    events: vec![event.clone()],
                    outcome: String::new(),
                    text: String::new(),
                });
            }
            "turn_ended" => {
                let outcome = event.body["outcome"].as_str().unwrap_or_default().to_owned();
                let running = turns.last_mut().filter(|turn| open && Some(turn.number) == number);
                if let Some(turn) = running {
                    open = false;
                    (turn.outcome, turn.text) = (outcome, event.text().to_owned());
                    turn.events.push(event.clone());
                } else {
                    // Taken back while it waited.
                    assert!(!open && outcome == "cancelled", "the end of a turn that does not run: {event:?}");
                    turns.push(Turn {
                        number: number.expect("a turn has a number"),
                        prompt: String::new(),
                        pieces: Vec::new(),
                        texts: Vec::new(),
                        events: vec![event.clone()],
                        outcome,
                        text: event.text().to_owned(),
                    });
                }
            }
            kind => {
                // What an idle agent says belongs to its last turn.
                let Some(turn) = turns.last_mut() else { continue };
                assert_eq!(event.turn, turn.number, "an event of another turn: {event:?}");
                match kind {
                    "text_delta" => turn.pieces.push(event.text().to_owned()),
                    "text" => turn.texts.push(event.text().to_owned()),
                    _ => {}
                }
                turn.events.push(event.clone());
            }
        }
    }
    assert!(!open, "the last turn has no end: {:?}", events.last());
    turns
}

/// The turns of a session, once every one of them has ended.
pub(crate) fn turns_of(native: &mut Native, session: &str) -> Vec<Turn> {
    let limit = Duration::from_secs(60);
    let events = wait::until(limit, &format!("session {session} to rest"), || {
        let listed = native.listed(session).expect("the session is listed");
        if listed["status"] != "idle" {
            return None;
        }
        let events = all(native, session);
        let ended = events.iter().filter(|event| event.kind == "turn_ended").count();
        (listed["turns"] == ended).then_some(events)
    });
    turns(&events)
}
