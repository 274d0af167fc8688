//! Turns: what is said in them, what they cost and how they end.

use hostel_agents::{Driver, Encoded, Event, Heard, Hosting, Input, Kind, Mode, Outcome, Setup, Usage, driver};
use serde_json::{Value, json};

use crate::acp::talk::{ask, finished, names, opened, own, prompted, three, update};
use crate::support::{exit, hear, killed, send, setup, stopped};

#[test]
fn what_comes_outside_a_turn_is_no_part_of_one() {
    let mut driver = opened(Hosting::Warm);
    let chunk = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "early" } });
    assert_eq!(update(&mut *driver, chunk.clone()), []);
    send(&mut *driver, &Input::Prompt { turn: 1, text: "x" });
    let other = r#"{"method":"session/update","params":{"sessionId":"T","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"of another"}}}}"#;
    assert_eq!(hear(&mut *driver, &[other, r#"{"id":77,"result":{"stopReason":"end_turn"}}"#]), Heard::default());
    let heard = hear(&mut *driver, &[r#"{"id":2,"result":{"stopReason":"end_turn"}}"#]);
    assert_eq!(names(&heard.events), ["result"]);
    assert_eq!(update(&mut *driver, chunk), []);
    // Answers nobody waits for.
    assert_eq!(hear(&mut *driver, &[r#"{"id":2,"result":{}}"#, r#"{"id":0,"error":{}}"#]), Heard::default());
}

#[test]
fn calls_are_told_once_in_any_order() {
    let call = |extra: Value| {
        let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c" });
        update.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        update
    };
    let begin = |status: &str, input: Value| json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit", "title": "t", "status": status, "rawInput": input });
    // Dictated bit by bit.
    let mut driver = prompted(Hosting::Warm);
    assert_eq!(names(&update(&mut *driver, begin("pending", json!({})))), ["tool_began"]);
    assert_eq!(names(&update(&mut *driver, call(json!({ "status": "pending" })))), [""; 0]);
    assert_eq!(names(&update(&mut *driver, call(json!({ "rawInput": { "a": 1 } })))), ["tool_call"]);
    assert_eq!(names(&update(&mut *driver, call(json!({ "status": "in_progress", "rawInput": { "a": 2 } })))), [""; 0]);
    assert_eq!(names(&update(&mut *driver, call(json!({ "status": "completed" })))), ["tool_result"]);
    assert_eq!(names(&update(&mut *driver, call(json!({ "status": "completed" })))), [""; 0]);
    // The id is used again.
    assert_eq!(names(&update(&mut *driver, begin("in_progress", json!({ "b": 1 })))), ["tool_call"]);
    // Over at once, or never heard of before.
    let mut driver = prompted(Hosting::Warm);
    assert_eq!(names(&update(&mut *driver, begin("completed", json!(null)))), ["tool_call", "tool_result"]);
    let events = update(
        &mut *driver,
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "d", "status": "failed", "title": "odd thing" }),
    );
    assert_eq!(names(&events), ["tool_call", "tool_result"]);
    let Event::ToolCall { name, input, .. } = &events[0] else { panic!() };
    assert_eq!((&**name, input.get()), ("odd thing", r#"{"title":"odd thing"}"#));
}

#[test]
fn a_large_input_is_told_whole_and_not_kept() {
    let mut driver = prompted(Hosting::Warm);
    let large = json!({ "content": "x".repeat(2_000_000) });
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "status": "in_progress", "rawInput": large });
    let events = update(&mut *driver, call);
    let [Event::ToolCall { input, .. }] = &events[..] else { panic!("{}", events.len()) };
    assert_eq!(input.get(), large.to_string());
    assert!(driver.save().len() < 100_000);
}

#[test]
fn the_output_of_a_tool_is_found_wherever_it_is() {
    for (update_of, output) in [
        (json!({ "rawOutput": "plain", "content": [{ "type": "content", "content": { "text": "fenced" } }] }), "plain"),
        (json!({ "rawOutput": { "output": "o", "metadata": {} } }), "o"),
        (json!({ "rawOutput": { "error": "e" } }), "e"),
        (json!({ "rawOutput": { "x": 1 } }), r#"{"x":1}"#),
        (
            json!({ "content": [{ "type": "content", "content": { "type": "text", "text": "a" } }, { "type": "diff", "path": "/p" }] }),
            "a\n/p",
        ),
        (json!({ "_meta": { "terminal_output_delta": { "data": "tail" } } }), "head tail"),
        (json!({ "content": [] }), "head "),
    ] {
        let mut driver = prompted(Hosting::Warm);
        let mut last = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" });
        last.as_object_mut().unwrap().extend(update_of.as_object().unwrap().clone());
        if output.starts_with("head") {
            let first = json!({ "terminal_output_delta": { "data": "head " } });
            update(&mut *driver, json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": first }));
        }
        let events = update(&mut *driver, last);
        let Some(Event::ToolResult { output: told, failed: false, .. }) = events.last() else { panic!("{events:?}") };
        assert_eq!(told, output);
    }
}

#[test]
fn messages_are_told_whole_when_another_begins() {
    let mut driver = prompted(Hosting::Warm);
    let mut said = |kind: &str, message: Value, text: &str| {
        let content = json!({ "type": "text", "text": text });
        names(&update(&mut *driver, json!({ "sessionUpdate": kind, "messageId": message, "content": content })))
    };
    assert_eq!(said("agent_message_chunk", json!("1"), "a"), ["text_delta"]);
    assert_eq!(said("agent_message_chunk", json!("1"), "b"), ["text_delta"]);
    assert_eq!(said("agent_message_chunk", json!("2"), "c"), ["text", "text_delta"]);
    assert_eq!(said("agent_thought_chunk", json!(null), "d"), ["text", "thought_delta"]);
    assert_eq!(said("agent_thought_chunk", json!(null), "e"), ["thought_delta"]);
    assert_eq!(said("agent_message_chunk", json!(7), "f"), ["thought", "text_delta"]);
    assert_eq!(said("user_message_chunk", json!(7), "g"), [""; 0]);
}

#[test]
fn plans_and_the_context_are_told() {
    let mut driver = prompted(Hosting::Warm);
    let entries =
        json!([{ "content": "a", "status": "completed", "priority": "high" }, { "content": "b" }, { "status": 1 }, 7]);
    let events = update(&mut *driver, json!({ "sessionUpdate": "plan", "entries": entries }));
    let expected = json!({ "plan": { "entries": [
        { "content": "a", "status": "completed", "priority": "high" },
        { "content": "b", "status": "pending", "priority": "medium" },
    ] } });
    assert_eq!(serde_json::to_value(&events[0]).unwrap(), expected);
    let events = update(&mut *driver, json!({ "sessionUpdate": "usage_update", "used": 7, "size": 100 }));
    assert_eq!(events, [Event::ContextUsage { used: Some(7), limit: Some(100) }]);
}

#[test]
fn stop_reasons_are_outcomes() {
    for (reason, outcome) in [
        (json!("end_turn"), Outcome::Completed),
        (json!("something new"), Outcome::Completed),
        (json!(null), Outcome::Completed),
        (json!("cancelled"), Outcome::Cancelled),
        (json!("refusal"), Outcome::Failed),
        (json!("max_tokens"), Outcome::Failed),
        (json!("max_turn_requests"), Outcome::Failed),
    ] {
        let mut driver = prompted(Hosting::Warm);
        let over = finished(&mut *driver, 2, json!({ "stopReason": reason }));
        assert_eq!(over.outcome, outcome, "{reason}");
        assert_eq!(over.reason.is_empty(), outcome != Outcome::Failed);
        assert!(driver.ready() && !driver.wants_eof());
    }
}

#[test]
fn tokens_are_of_the_turn_and_cached_ones_are_counted_once() {
    let usage = |tokens: Value| finished(&mut *prompted(Hosting::Warm), 2, tokens).usage;
    let of = |input_tokens, output_tokens, cached_tokens| Usage {
        input_tokens,
        output_tokens,
        cached_tokens,
        cost_usd: 0.0,
    };
    let beside = json!({ "inputTokens": 10, "outputTokens": 3, "cachedReadTokens": 5, "cachedWriteTokens": 2, "totalTokens": 20 });
    assert_eq!(usage(json!({ "usage": beside })), of(17, 3, 5));
    let among = json!({ "inputTokens": 10, "outputTokens": 3, "cachedReadTokens": 5, "totalTokens": 13 });
    assert_eq!(usage(json!({ "usage": among })), of(10, 3, 5));
    let quota = json!({ "quota": { "token_count": { "input_tokens": 4, "output_tokens": 2 } } });
    assert_eq!(usage(json!({ "_meta": quota })), of(4, 2, 0));
    let huge =
        json!({ "inputTokens": u64::MAX, "outputTokens": u64::MAX, "cachedReadTokens": u64::MAX, "totalTokens": 1 });
    assert_eq!(usage(json!({ "usage": huge })), of(u64::MAX, u64::MAX, u64::MAX));
    assert_eq!(usage(json!({ "usage": null })), Usage::default());
    assert_eq!(usage(json!({ "usage": { "inputTokens": -1, "outputTokens": "x" } })), Usage::default());
}

#[test]
fn costs_are_differences_of_what_the_session_has_cost() {
    let cost = |driver: &mut dyn Driver, amount: f64, currency: &str| {
        let cost = json!({ "amount": amount, "currency": currency });
        update(driver, json!({ "sessionUpdate": "usage_update", "cost": cost }));
    };
    let mut driver = prompted(Hosting::Warm);
    cost(&mut *driver, 0.25, "USD");
    cost(&mut *driver, 0.5, "USD");
    cost(&mut *driver, 99.0, "EUR");
    assert!((finished(&mut *driver, 2, json!({})).usage.cost_usd - 0.5).abs() < 1e-9);
    send(&mut *driver, &Input::Prompt { turn: 2, text: "x" });
    cost(&mut *driver, 0.75, "USD");
    assert!((finished(&mut *driver, 3, json!({})).usage.cost_usd - 0.25).abs() < 1e-9);

    // A session that was resumed: what it had cost is known from the house, or counting begins
    // with the first word of it.
    for (used, expected) in [(None, 0.25), (Some(Usage { cost_usd: 1.0, ..Usage::default() }), 0.75)] {
        let setup = Setup { resume: Some("S".into()), used, ..setup(Kind::Echo, Hosting::Warm, Mode::Auto) };
        let mut driver = hostel_agents::driver(&setup);
        own(&mut *driver);
        hear(&mut *driver, &[r#"{"id":0,"result":{"agentCapabilities":{"loadSession":true}}}"#]);
        own(&mut *driver);
        hear(&mut *driver, &[r#"{"id":1,"result":null}"#]);
        send(&mut *driver, &Input::Prompt { turn: 1, text: "x" });
        cost(&mut *driver, 1.5, "USD");
        cost(&mut *driver, 1.75, "USD");
        let over = finished(&mut *driver, 2, json!({}));
        assert!((over.usage.cost_usd - expected).abs() < 1e-9, "{over:?}");
    }
}

fn ended(mut driver: Box<dyn Driver>, end: hostel_agents::Exit, stderr: &str) -> Heard {
    let mut heard = Heard::default();
    driver.ended(end, stderr, &mut heard);
    heard
}

#[test]
fn the_end_of_the_process_ends_the_turn_that_waits_for_it() {
    let failed = |heard: &Heard| heard.over.as_ref().map(|over| (over.outcome, over.reason.clone()));
    let why = |reason: &str| Some((Outcome::Failed, reason.to_owned()));
    let fresh = || driver(&setup(Kind::Echo, Hosting::Warm, Mode::Auto));

    for driver in [fresh(), prompted(Hosting::Warm), prompted(Hosting::PerMessage), opened(Hosting::PerMessage)] {
        let heard = ended(driver, exit(3), "no key\n");
        let message = "Claude process exited abnormally (code=3, signal=null): no key";
        assert_eq!(heard.events, [Event::Error { message: message.to_owned() }]);
        assert_eq!(failed(&heard), why(message));
    }
    assert_eq!(failed(&ended(fresh(), exit(0), "")), why("the agent ended without an answer"));
    assert_eq!(
        failed(&ended(prompted(Hosting::PerMessage), exit(0), "bye")),
        why("the agent ended without an answer: bye")
    );
    assert_eq!(failed(&ended(prompted(Hosting::Warm), killed(9), "")), why("echo was killed by signal 9 (SIGKILL)"));
    let cancelled = ended(prompted(Hosting::Warm), stopped(0, 15), "");
    assert_eq!(cancelled.over.unwrap().outcome, Outcome::Cancelled);
    // Nobody waits.
    assert_eq!(ended(opened(Hosting::Warm), exit(1), "x"), Heard::default());
    for hosting in [Hosting::Warm, Hosting::PerMessage] {
        let mut driver = prompted(hosting);
        finished(&mut *driver, 2, json!({}));
        assert_eq!(ended(driver, exit(1), "x"), Heard::default());
    }
}

#[test]
fn the_end_leaves_nothing_half_told() {
    let mut driver = prompted(Hosting::Warm);
    update(
        &mut *driver,
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "half" } }),
    );
    ask(&mut *driver, json!(1), three());
    update(
        &mut *driver,
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "more" } }),
    );
    let heard = ended(driver, killed(9), "");
    assert_eq!(names(&heard.events), ["permission_withdrawn", "text"]);
}

#[test]
fn a_process_for_one_prompt_is_let_go_when_everything_is_said() {
    let mut driver = prompted(Hosting::PerMessage);
    assert!(!driver.wants_eof());
    hear(&mut *driver, &[r#"{"id":1,"method":"fs/write_text_file"}"#]);
    finished(&mut *driver, 2, json!({ "stopReason": "end_turn" }));
    assert!(!driver.ready() && !driver.wants_eof(), "an answer is still to be given");
    own(&mut *driver);
    assert!(driver.wants_eof());
    assert_eq!(driver.encode(&Input::Prompt { turn: 2, text: "x" }), Encoded::Nothing);
}
