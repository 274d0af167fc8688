//! Lines that nobody could have foreseen.

use hostel_agents::{Decision, Encoded, Event, Heard, Hosting, Input, Kind, Mode, driver, restore};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::acp::talk::{INITIALIZED, NEW, prompted};
use crate::support::{exit, setup};

#[test]
fn a_broken_state_is_not_restored() {
    let setup = setup(Kind::Acp, Hosting::Warm, Mode::Auto);
    for saved in ["", "{}", "null", "garbage", "{\"next_id\":-1}"] {
        assert!(restore(&setup, saved).is_err(), "{saved}");
    }
}

#[test]
fn broken_characters_cost_no_more_than_themselves() {
    let mut driver = prompted(Hosting::Warm);
    let mut heard = Heard::default();
    let head = r#"{"method":"session/update","params":{"sessionId":"S","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"#;
    driver.line(&[head.as_bytes(), b"\xff\xc3", br#"b\ud83d"}}}}"#, b"\r"].concat(), &mut heard);
    let Some(Event::TextDelta { text }) = heard.events.first() else { panic!("{heard:?}") };
    assert!(text.starts_with("a\u{fffd}\u{fffd}b"), "{text}");
}

/// Lines that look like something, with anything in the places where it matters.
fn strange_line() -> impl Strategy<Value = Vec<u8>> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..5_u64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        prop::sample::select(vec![
            "session/update",
            "session/request_permission",
            "agent_message_chunk",
            "tool_call",
            "tool_call_update",
            "pending",
            "completed",
            "S",
            "c",
            "text",
            "init",
            "message",
            "assistant",
            "tool_use",
            "tool_result",
            "result",
            "error",
            "step_start",
            "step_finish",
            "message.part.updated",
            "running",
            "tool",
            "plan",
            "usage_update",
        ])
        .prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "id",
        "method",
        "params",
        "result",
        "error",
        "sessionId",
        "update",
        "sessionUpdate",
        "content",
        "type",
        "text",
        "toolCallId",
        "toolCall",
        "status",
        "rawInput",
        "rawOutput",
        "options",
        "optionId",
        "kind",
        "usage",
        "stopReason",
        "cost",
        "amount",
        "entries",
        "_meta",
        "message",
        "role",
        "delta",
        "tool_id",
        "parameters",
        "part",
        "state",
        "tool",
        "callID",
        "tokens",
        "cache",
        "modes",
        "availableModes",
        "configOptions",
        "agentCapabilities",
        "loadSession",
    ]);
    let value = scalar.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(keys.clone(), inner, 0..7).prop_map(|map| map
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    });
    prop_oneof![3 => value.prop_map(|value| value.to_string().into_bytes()), 1 => prop::collection::vec(any::<u8>(), 0..60)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_an_agent_prints_is_too_much(
        lines in prop::collection::vec(strange_line(), 0..20),
        prompt_at in 0..20_usize,
        interrupt_at in 0..20_usize,
        kind in prop::sample::select(vec![Kind::Acp, Kind::Echo, Kind::Gemini, Kind::Opencode]),
        warm in any::<bool>(),
        open in any::<bool>(),
        resume in any::<bool>(),
    ) {
        let hosting = if warm { Hosting::Warm } else { Hosting::PerMessage };
        let mut setup = setup(kind, hosting, Mode::Code);
        setup.resume = resume.then(|| "S".to_owned());
        setup.model = resume.then(|| "m".to_owned());
        let mut driver = driver(&setup);
        let mut heard = Heard::default();
        if open {
            for line in [INITIALIZED, NEW] {
                driver.line(line.as_bytes(), &mut heard);
            }
        }
        let mut overs = 0;
        for (at, line) in lines.iter().enumerate() {
            for input in [
                Some(Input::Own),
                (at == prompt_at).then_some(Input::Prompt { turn: 1, text: "x" }),
                (at == interrupt_at).then_some(Input::Interrupt),
                Some(Input::Decision { request: "1", decision: &Decision::AllowOnce, shown: None }),
            ].into_iter().flatten() {
                if let Encoded::Bytes(bytes) = driver.encode(&input) {
                    prop_assert!(!bytes.is_empty());
                    driver.sent(&input, &mut heard);
                }
            }
            driver.line(line, &mut heard);
            overs += usize::from(heard.over.take().is_some());
            let saved = driver.save();
            driver = restore(&setup, &saved).unwrap();
            prop_assert_eq!(driver.save(), saved);
        }
        driver.ended(exit(1), "", &mut heard);
        overs += usize::from(heard.over.is_some());
        prop_assert!(overs <= 2, "one turn was asked for, and an opening can fail");
        for event in &heard.events {
            serde_json::to_string(event).unwrap();
        }
    }
}
