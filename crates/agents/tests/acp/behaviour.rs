//! Turns, questions, interruptions and ends, on lines made up for the purpose.

use hostel_agents::{
    Decision, Driver, Encoded, Event, Heard, Hosting, Input, Kind, Mode, Outcome, Setup, TurnOver, Usage, driver,
    restore,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{exit, hear, killed, send, setup, stopped};

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#;
const NEW: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"S"}}"#;

/// An agent that is ready for its first prompt.
fn opened(hosting: Hosting) -> Box<dyn Driver> {
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
fn prompted(hosting: Hosting) -> Box<dyn Driver> {
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

fn update(driver: &mut dyn Driver, update: Value) -> Vec<Event> {
    let line =
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "S", "update": update } });
    hear(driver, &[&line.to_string()]).events
}

fn ask(driver: &mut dyn Driver, id: Value, options: Value) -> Vec<Event> {
    let tool = json!({ "toolCallId": "c", "title": "ls", "kind": "execute", "rawInput": { "command": "ls" } });
    let params = json!({ "sessionId": "S", "toolCall": tool, "options": options });
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params });
    hear(driver, &[&line.to_string()]).events
}

fn three() -> Value {
    json!([
        { "optionId": "A", "kind": "allow_always", "name": "Always" },
        { "optionId": "O", "kind": "allow_once", "name": "Once" },
        { "optionId": "R", "kind": "reject_once", "name": "No" },
    ])
}

fn own(driver: &mut dyn Driver) -> Value {
    let shown = driver.wants();
    assert_eq!(shown, driver.wants());
    serde_json::from_str(&send(driver, &Input::Own)).unwrap()
}

fn names(events: &[Event]) -> Vec<String> {
    let name = |event| serde_json::to_value(event).unwrap().as_object().unwrap().keys().next().unwrap().clone();
    events.iter().map(name).collect()
}

#[test]
fn what_we_do_not_offer_is_refused_in_the_order_it_was_asked_for() {
    let mut driver = prompted(Hosting::Warm);
    let ids = [json!(0), json!("0"), json!(1.5), json!([1])];
    for (id, method) in ids.iter().zip(["fs/read_text_file", "terminal/create", "x", "authenticate"]) {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} }).to_string();
        assert_eq!(hear(&mut *driver, &[&line]), Heard::default());
    }
    for id in ids {
        let refusal = own(&mut *driver);
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&id, &json!(-32601)));
    }
    assert_eq!(driver.wants(), None);
    // Own words that wait do not keep a turn from ending.
    hear(&mut *driver, &[r#"{"id":9,"method":"x"}"#, r#"{"id":2,"result":{"stopReason":"end_turn"}}"#]);
    assert!(driver.ready() && driver.wants().is_some());
}

#[test]
fn an_agent_that_asks_without_end_is_not_answered_without_end() {
    let mut driver = prompted(Hosting::Warm);
    for id in 0..5000 {
        driver.line(format!(r#"{{"id":{id},"method":"x"}}"#).as_bytes(), &mut Heard::default());
    }
    let mut answers = 0;
    while driver.wants().is_some() {
        own(&mut *driver);
        answers += 1;
    }
    assert_eq!(answers, 1024);
}

#[test]
fn decisions_become_the_options_of_their_kind() {
    let once = json!([{ "optionId": "O", "kind": "allow_once" }]);
    let always = json!([{ "optionId": "A", "kind": "allow_always" }]);
    let no = || Decision::Reject("because".to_owned());
    let answers = |answer: &str| Decision::Answers(vec![("Which?".to_owned(), answer.to_owned())]);
    let cases = [
        (three(), Decision::AllowOnce, Some("O")),
        (three(), Decision::AllowAlways, Some("A")),
        (three(), no(), Some("R")),
        (three(), Decision::RejectWithEdit("instead".to_owned()), Some("R")),
        (three(), answers("Always"), Some("A")),
        (three(), answers("R"), Some("R")),
        (three(), answers("else"), None),
        (once.clone(), Decision::AllowAlways, Some("O")),
        (once, no(), None),
        // More than was granted is never taken.
        (always, Decision::AllowOnce, None),
        (json!([]), Decision::AllowAlways, None),
        (json!("odd"), no(), None),
    ];
    for (options, decision, expected) in cases {
        let mut driver = prompted(Hosting::Warm);
        ask(&mut *driver, json!(7), options.clone());
        let answer = send(&mut *driver, &Input::Decision { request: "7", decision: &decision });
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], 7);
        let outcome = match expected {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        assert_eq!(answer["result"]["outcome"], outcome, "{decision:?} of {options}");
        let again = driver.encode(&Input::Decision { request: "7", decision: &decision });
        assert_eq!(again, Encoded::Nothing);
    }
}

#[test]
fn questions_are_told_apart_by_the_type_of_their_ids() {
    let mut driver = prompted(Hosting::Warm);
    for (id, request) in [(json!(7), "7"), (json!("7"), "\"7\""), (json!(7.5), "7.5")] {
        let events = ask(&mut *driver, id.clone(), three());
        let Some(Event::PermissionAsked { request: told, call, tool, summary, .. }) = events.last() else {
            panic!("{events:?}")
        };
        assert_eq!((&**told, &**call, &**tool, &**summary), (request, "c", "bash", "bash: ls"));
    }
    for request in ["7.5", "\"7\"", "7"] {
        let answer = send(&mut *driver, &Input::Decision { request, decision: &Decision::AllowOnce });
        assert!(answer.contains(&format!("\"id\":{request},")), "{answer}");
    }
    let unknown = driver.encode(&Input::Decision { request: "8", decision: &Decision::AllowOnce });
    assert_eq!(unknown, Encoded::Nothing);
}

#[test]
fn a_question_that_is_asked_again_under_its_id_replaces_the_first() {
    let mut driver = prompted(Hosting::Warm);
    assert_eq!(names(&ask(&mut *driver, json!(1), three())), ["tool_call", "permission_asked"]);
    assert_eq!(names(&ask(&mut *driver, json!(1), three())), ["permission_withdrawn", "permission_asked"]);
    assert_eq!(driver.wants(), None);
}

#[test]
fn a_question_can_be_taken_back() {
    let mut driver = prompted(Hosting::Warm);
    ask(&mut *driver, json!("q"), three());
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"q"}}"#;
    let heard = hear(&mut *driver, &[cancel, cancel]);
    assert_eq!(heard.events, [Event::PermissionWithdrawn { request: "\"q\"".to_owned() }]);
    assert_eq!(own(&mut *driver)["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(driver.wants(), None);
}

#[test]
fn questions_nobody_can_be_asked_are_cancelled() {
    for mut driver in [opened(Hosting::Warm), driver(&setup(Kind::Echo, Hosting::Warm, Mode::Auto))] {
        while driver.wants().is_some() {
            own(&mut *driver);
        }
        assert_eq!(ask(&mut *driver, json!(3), three()), []);
        assert_eq!(
            own(&mut *driver),
            json!({ "jsonrpc": "2.0", "id": 3, "result": { "outcome": { "outcome": "cancelled" } } })
        );
    }
    let mut driver = prompted(Hosting::Warm);
    for id in 0..100 {
        ask(&mut *driver, json!(id), three());
    }
    assert_eq!(own(&mut *driver)["id"], 64);
    let odd = r#"{"id":1000,"method":"session/request_permission","params":{"toolCall":7}}"#;
    assert_eq!(hear(&mut *prompted(Hosting::Warm), &[odd]), Heard::default());
}

#[test]
fn an_interruption_voids_the_open_questions() {
    let mut driver = prompted(Hosting::Warm);
    ask(&mut *driver, json!(5), three());
    let mut heard = Heard::default();
    let Encoded::Bytes(cancel) = driver.encode(&Input::Interrupt) else { panic!() };
    assert_eq!(
        serde_json::from_slice::<Value>(&cancel).unwrap(),
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "S" } })
    );
    driver.sent(&Input::Interrupt, &mut heard);
    assert_eq!(heard.events, [Event::PermissionWithdrawn { request: "5".to_owned() }]);
    assert_eq!(own(&mut *driver)["id"], 5);
    // Whatever it asks from now on.
    assert_eq!(ask(&mut *driver, json!(6), three()), []);
    assert_eq!(own(&mut *driver)["id"], 6);
    // What it still says belongs to the turn, and an error is no failure of a turn that was stopped.
    let said = update(&mut *driver, json!({ "sessionUpdate": "agent_message_chunk", "content": { "text": "oh" } }));
    assert_eq!(names(&said), ["tool_result", "text_delta"]);
    let heard = hear(&mut *driver, &[r#"{"id":2,"error":{"code":-1,"message":"aborted"}}"#]);
    assert_eq!(names(&heard.events), ["text"]);
    assert_eq!(heard.over.unwrap().outcome, Outcome::Cancelled);
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Nothing);
    assert!(driver.ready());
}

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

fn finished(driver: &mut dyn Driver, id: u64, result: Value) -> TurnOver {
    let line = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let heard = hear(driver, &[&line]);
    assert!(heard.events.iter().any(|event| matches!(event, Event::Result { .. })));
    heard.over.unwrap()
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

    // A session that was resumed: what it had cost is known from the house, or not at all.
    for (used, expected) in [(None, 0.0), (Some(Usage { cost_usd: 1.0, ..Usage::default() }), 0.5)] {
        let setup = Setup { resume: Some("S".into()), used, ..setup(Kind::Echo, Hosting::Warm, Mode::Auto) };
        let mut driver = hostel_agents::driver(&setup);
        own(&mut *driver);
        hear(&mut *driver, &[r#"{"id":0,"result":{"agentCapabilities":{"loadSession":true}}}"#]);
        own(&mut *driver);
        hear(&mut *driver, &[r#"{"id":1,"result":null}"#]);
        send(&mut *driver, &Input::Prompt { turn: 1, text: "x" });
        cost(&mut *driver, 1.5, "USD");
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
                Some(Input::Decision { request: "1", decision: &Decision::AllowOnce }),
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
