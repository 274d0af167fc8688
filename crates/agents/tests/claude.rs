//! Claude's recorded conversations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use hostel_agents::{
    Decision, Driver, Encoded, Event, Exit, Heard, Hosting, Input, Kind, Mode, Outcome, Raw, Setup, Shown, Usage,
    driver, restore,
};
use serde_json::Value;
use support::{Told, Transcript, check, exit, hear, killed, names, send, setup, stopped};

fn translate(line: &Value) -> Told {
    let inner = &line["response"]["response"];
    match line["type"].as_str().unwrap() {
        "user" => Told::Prompt(line["message"]["content"].as_str().unwrap().to_owned()),
        "control_request" if line["request"]["subtype"] == "interrupt" => Told::Interrupt,
        "control_response" => {
            let decision = if let Some(answers) = inner["updatedInput"]["answers"].as_object() {
                let answer =
                    |(question, answer): (&String, &Value)| (question.clone(), answer.as_str().unwrap().to_owned());
                Decision::Answers(answers.iter().map(answer).collect())
            } else if inner["behavior"] == "deny" {
                Decision::Reject(inner["message"].as_str().unwrap().to_owned())
            } else if inner["updatedPermissions"].is_array() {
                Decision::AllowAlways
            } else {
                Decision::AllowOnce
            };
            Told::Decision(line["response"]["request_id"].as_str().unwrap().to_owned(), decision)
        }
        _ => Told::Foreign,
    }
}

/// The process of a transcript and its end.
fn case(name: &str) -> (Setup, Exit, &'static str) {
    let spoken_to = support::fixtures("claude").join(format!("{name}.stdin.jsonl")).exists();
    let (hosting, mode) = if spoken_to { (Hosting::Warm, Mode::Ask) } else { (Hosting::PerMessage, Mode::Code) };
    let mut setup = setup(Kind::Claude, hosting, mode);
    setup.prompt = (!spoken_to).then(|| "hello there".to_owned());
    if name.starts_with("resume") && name != "resume-first" {
        setup.resume = Some("88c108be-ab21-46eb-9b95-aa8403e8ac1a".to_owned());
    }
    let (exit, stderr) = match name {
        "resume-unknown" => (exit(1), "No conversation found with session ID: 00000000-0000-4000-8000-000000000000\n"),
        "error-401" | "error-500" | "permission-denied-interrupt" | "permission-interrupted" => (exit(1), ""),
        "slow-sigint" => (stopped(0, 0), ""),
        "slow-sigterm" => (stopped(143, 0), ""),
        _ => (exit(0), ""),
    };
    (setup, exit, stderr)
}

fn own_names() -> Vec<String> {
    let names: Vec<String> = names("claude").into_iter().filter(|name| !name.starts_with("acp-")).collect();
    assert_eq!(names.len(), 31);
    names
}

#[test]
fn every_transcript_comes_to_its_events() {
    for name in own_names() {
        let (setup, exit, stderr) = case(&name);
        let transcript = Transcript::read("claude", &name, translate);
        check("claude", &name, &transcript.replay(driver(&setup), exit, stderr, |driver| driver));
    }
}

#[test]
fn a_restored_driver_goes_on_as_if_nothing_had_happened() {
    for name in own_names() {
        let (setup, exit, stderr) = case(&name);
        let transcript = Transcript::read("claude", &name, translate);
        let plain = transcript.replay(driver(&setup), exit, stderr, |driver| driver);
        let swapped =
            transcript.replay(driver(&setup), exit, stderr, |driver| restore(&setup, &driver.save()).unwrap());
        assert_eq!(plain, swapped, "{name}");
    }
}

fn warm(mode: Mode) -> Box<dyn Driver> {
    driver(&setup(Kind::Claude, Hosting::Warm, mode))
}

fn prompted(mode: Mode) -> Box<dyn Driver> {
    let mut driver = warm(mode);
    send(&mut *driver, &Input::Prompt { turn: 1, text: "hi" });
    driver
}

fn per_message(mode: Mode, prompt: &str) -> Box<dyn Driver> {
    let mut setup = setup(Kind::Claude, Hosting::PerMessage, mode);
    setup.prompt = Some(prompt.to_owned());
    driver(&setup)
}

const ASKED: &str = r#"{"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"rm -rf /\n\u001b[2J"},"tool_use_id":"call_1"}}"#;
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"ok"}"#;

#[test]
fn a_turn_begins_with_the_mark_and_ends_with_the_result() {
    let mut driver = warm(Mode::Ask);
    assert!(driver.ready() && !driver.wants_eof());
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Nothing);
    let line = send(&mut *driver, &Input::Prompt { turn: 1, text: "a\nb \"c\"" });
    assert_eq!(line.matches('\n').count(), 1, "{line}");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["message"], serde_json::json!({"role": "user", "content": "a\nb \"c\""}));
    assert!(!driver.ready());
    assert_eq!(driver.encode(&Input::Prompt { turn: 2, text: "x" }), Encoded::Later);
    let heard = hear(&mut *driver, &[DONE]);
    assert_eq!(heard.over.unwrap().outcome, Outcome::Completed);
    assert!(driver.ready() && !driver.wants_eof());
}

#[test]
fn a_prompt_for_one_message_is_told_once_and_stdin_closed() {
    let long = "x".repeat(100_001);
    for prompt in ["-dash", long.as_str(), "nul\0"] {
        let mut driver = per_message(Mode::Auto, prompt);
        assert!(driver.ready() && !driver.wants_eof());
        assert_eq!(send(&mut *driver, &Input::Prompt { turn: 1, text: prompt }), prompt);
        assert!(driver.wants_eof() && !driver.ready());
        assert_eq!(driver.encode(&Input::Interrupt), Encoded::Signal);
    }
    let mut driver = per_message(Mode::Auto, "in the arguments");
    assert!(!driver.ready() && !driver.wants_eof());
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Signal);
    assert_eq!(hear(&mut *driver, &[DONE]).over, None);
}

#[test]
fn a_message_that_may_be_asked_about_closes_stdin_after_its_result() {
    let mut driver = per_message(Mode::Ask, "hi");
    send(&mut *driver, &Input::Prompt { turn: 1, text: "hi" });
    hear(&mut *driver, &[ASKED]);
    assert!(!driver.wants_eof());
    send(&mut *driver, &Input::Decision { request: "q1", decision: &Decision::AllowOnce, shown: None });
    let heard = hear(&mut *driver, &[DONE]);
    assert!(heard.over.is_none() && driver.wants_eof() && !driver.ready());
    let mut heard = Heard::default();
    driver.ended(exit(0), "", &mut heard);
    assert_eq!((heard.events, heard.over.unwrap().outcome), (vec![], Outcome::Completed));
}

#[test]
fn a_question_is_shown_on_one_line_and_answered_once() {
    let mut driver = prompted(Mode::Ask);
    let heard = hear(&mut *driver, &[ASKED, ASKED]);
    let [Event::PermissionAsked { request, call, tool, summary, .. }] = &heard.events[..] else { panic!("{heard:?}") };
    assert_eq!((request.as_str(), call.as_str(), tool.as_str()), ("q1", "call_1", "Bash"));
    assert_eq!(summary, "Bash: rm -rf /⏎␛[2J");
    let no = Decision::Reject(String::new());
    let line = send(&mut *driver, &Input::Decision { request: "q1", decision: &no, shown: None });
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["response"]["response"], serde_json::json!({"behavior": "deny", "message": "The user said no."}));
    assert_eq!(driver.encode(&Input::Decision { request: "q1", decision: &no, shown: None }), Encoded::Nothing);
}

#[test]
fn an_answer_carries_the_id_as_it_was_written() {
    for id in ["7", "\"7\"", "null", "true", "1.50", r#"{"a":[1]}"#, r#""\u00e9""#] {
        let mut driver = prompted(Mode::Ask);
        let heard = hear(&mut *driver, &[&ASKED.replace("\"q1\"", id)]);
        if id == "null" {
            assert_eq!(heard.events, [], "a request without an id cannot be answered");
            continue;
        }
        let [Event::PermissionAsked { request, .. }] = &heard.events[..] else { panic!("{heard:?}") };
        let line = send(&mut *driver, &Input::Decision { request, decision: &Decision::AllowOnce, shown: None });
        assert!(line.contains(&format!("\"request_id\":{id},")), "{line}");
        assert!(line.contains(r#""updatedInput":{"command":"rm -rf /\n\u001b[2J"}"#), "{line}");
    }
}

#[test]
fn requests_we_do_not_know_are_refused_in_order() {
    let mut driver = prompted(Mode::Ask);
    hear(
        &mut *driver,
        &[
            r#"{"type":"control_request","request_id":"a","request":{"subtype":"hook_callback"}}"#,
            r#"{"type":"control_request","request_id":2,"request":{"subtype":"mcp_message"}}"#,
        ],
    );
    let first = driver.wants().unwrap();
    assert_eq!(driver.wants().unwrap(), first, "the same until it is sent");
    assert!(send(&mut *driver, &Input::Own).contains(r#""subtype":"error","request_id":"a""#));
    assert!(send(&mut *driver, &Input::Own).contains(r#""request_id":2"#));
    assert_eq!(driver.wants(), None);
}

#[test]
fn an_edit_takes_the_place_of_the_result_as_far_as_claude_can() {
    let mut driver = prompted(Mode::Ask);
    hear(&mut *driver, &[ASKED]);
    let edit = Decision::RejectWithEdit("use git rm".to_owned());
    let line = send(&mut *driver, &Input::Decision { request: "q1", decision: &edit, shown: None });
    assert!(line.contains(r#""behavior":"deny","message":"use git rm""#), "{line}");
}

#[test]
fn what_a_subagent_says_is_no_part_of_the_answer() {
    let mut driver = prompted(Mode::Auto);
    let heard = hear(
        &mut *driver,
        &[
            r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"sub"}},"parent_tool_use_id":"call_1"}"#,
            r#"{"parent_tool_use_id":"call_1","type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"sub"}}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"sub"},{"type":"tool_use","id":"t","name":"Read","input":{}}]},"parent_tool_use_id":"call_1"}"#,
        ],
    );
    assert!(matches!(&heard.events[..], [Event::ToolCall { name, .. }] if name == "Read"), "{heard:?}");
}

#[test]
fn a_turn_nobody_asked_for_ends_nothing_and_is_waited_for() {
    let unasked =
        DONE.replace("\"result\":\"ok\"", r#""origin":{"kind":"task-notification"},"usage":{"input_tokens":5}"#);
    let mut driver = prompted(Mode::Auto);
    assert_eq!(hear(&mut *driver, &[&unasked]).over, None);
    let own = DONE.replace("\"result\":\"ok\"", r#""usage":{"input_tokens":2},"origin":{"kind":"human"}"#);
    let over = hear(&mut *driver, &[&own]).over.unwrap();
    assert_eq!(over.usage.input_tokens, 7, "what it used is not lost");

    hear(&mut *driver, &[r#"{"type":"system","subtype":"init"}"#]);
    assert!(driver.ready(), "an announcement alone may be anything");
    hear(&mut *driver, &[r#"{"type":"assistant","message":{"content":"back"}}"#]);
    assert!(!driver.ready());
    assert_eq!(driver.encode(&Input::Prompt { turn: 2, text: "x" }), Encoded::Later);
    assert!(matches!(driver.encode(&Input::Interrupt), Encoded::Bytes(_)));
    hear(&mut *driver, &[&unasked]);
    assert!(driver.ready());
}

#[test]
fn the_cost_of_a_turn_is_a_difference_where_only_totals_are_told() {
    let total = |total: &str| DONE.replace("\"result\":\"ok\"", &format!("\"total_cost_usd\":{total}"));
    let mut fresh = prompted(Mode::Auto);
    assert_eq!(hear(&mut *fresh, &[&total("0.5")]).over.unwrap().usage.cost_usd, 0.5);
    send(&mut *fresh, &Input::Prompt { turn: 2, text: "x" });
    assert_eq!(hear(&mut *fresh, &[&total("0.75")]).over.unwrap().usage.cost_usd, 0.25);

    for (used, cost) in [(None, 0.0), (Some(Usage { cost_usd: 0.4, ..Usage::default() }), 0.1)] {
        let mut setup = setup(Kind::Claude, Hosting::Warm, Mode::Auto);
        setup.resume = Some("s".into());
        setup.used = used;
        let mut resumed = driver(&setup);
        send(&mut *resumed, &Input::Prompt { turn: 1, text: "x" });
        assert_eq!(hear(&mut *resumed, &[&total("0.5")]).over.unwrap().usage.cost_usd, cost);
    }
}

#[test]
fn an_interrupt_that_came_too_late_does_not_touch_the_next_turn() {
    let failed = DONE.replace("\"is_error\":false", "\"is_error\":true");
    let mut driver = prompted(Mode::Auto);
    let Encoded::Bytes(_) = driver.encode(&Input::Interrupt) else { panic!() };
    hear(&mut *driver, &[DONE]);
    driver.sent(&Input::Interrupt, &mut Heard::default());
    send(&mut *driver, &Input::Prompt { turn: 2, text: "x" });
    assert_eq!(hear(&mut *driver, &[&failed]).over.unwrap().outcome, Outcome::Failed);
    send(&mut *driver, &Input::Prompt { turn: 3, text: "x" });
    assert!(send(&mut *driver, &Input::Interrupt).contains("interrupt-2"));
    assert_eq!(hear(&mut *driver, &[&failed]).over.unwrap().outcome, Outcome::Cancelled);
}

#[test]
fn older_and_odd_lines() {
    let mut driver = prompted(Mode::Auto);
    let heard = hear(
        &mut *driver,
        &[
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"a"},{"type":"tool_use","id":"1","name":"Bash","input":{}},{"type":"text","text":"b"},{"type":"tool_use","id":"2","name":"Read","input":null}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"2","content":[{"type":"text","text":"x"},{"type":"image"},{"type":"text","text":"y"}],"is_error":true}]}}"#,
            r#"{"type":"tool_progress","tool_name":"Bash","status":"half way"}"#,
            r#"{"type":"assistant","message":{"content":[]}}"#,
            r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"cut \ud83d"}}}"#,
            r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{"}}}"#,
            r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":""}}}"#,
            r#" {"type":"system","subtype":"compact_boundary","session_id":"s2"} "#,
            r#"["type","system"]"#,
            r#"{"type":["system"]}"#,
            "not json",
            "",
        ],
    );
    let mut events = heard.events.iter();
    let text = |text: &str, streamed| Event::Text { text: text.to_owned(), streamed };
    assert!(matches!(events.next(), Some(Event::ToolCall { id, .. }) if id == "1"));
    assert!(matches!(events.next(), Some(Event::ToolCall { id, input, .. }) if id == "2" && input.get() == "null"));
    assert_eq!(events.next(), Some(&text("ab", false)));
    let result = Event::ToolResult { id: "2".into(), name: "Read".into(), output: "x\ny".into(), failed: true };
    assert_eq!(events.next(), Some(&result));
    assert!(matches!(events.next(), Some(Event::ToolProgress { message, .. }) if message == "half way"));
    assert_eq!(events.next(), Some(&text("", false)));
    assert_eq!(events.next(), Some(&Event::TextDelta { text: "cut \u{fffd}\u{fffd}\u{fffd}".into() }));
    assert!(matches!(events.next(), Some(Event::Init { subtype, .. }) if subtype == "compact_boundary"));
    assert_eq!(events.next(), None);
    assert_eq!(driver.session_id(), Some("s2"));
}

#[test]
fn a_line_that_is_not_utf8_costs_a_character() {
    let mut driver = prompted(Mode::Auto);
    let mut heard = Heard::default();
    let line =
        b"{\"type\":\"stream_event\",\"event\":{\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\xffb\"}}}\r";
    driver.line(line, &mut heard);
    assert_eq!(heard.events, [Event::TextDelta { text: "a\u{fffd}b".into() }]);
}

#[test]
fn a_process_that_vanishes_ends_the_turn_and_withdraws_its_questions() {
    let mut driver = prompted(Mode::Ask);
    hear(&mut *driver, &[ASKED]);
    let mut heard = Heard::default();
    driver.ended(killed(9), "", &mut heard);
    assert_eq!(heard.events, [Event::PermissionWithdrawn { request: "q1".into() }]);
    let over = heard.over.unwrap();
    assert_eq!((over.outcome, over.reason.as_str()), (Outcome::Failed, "claude was killed by signal 9 (SIGKILL)"));

    let mut idle = prompted(Mode::Ask);
    hear(&mut *idle, &[DONE]);
    let mut heard = Heard::default();
    idle.ended(exit(1), "gone", &mut heard);
    assert_eq!(heard, Heard::default());

    for mut unasked in [warm(Mode::Ask), per_message(Mode::Ask, "hi"), per_message(Mode::Auto, "-hi")] {
        let mut heard = Heard::default();
        unasked.ended(exit(1), "bad option", &mut heard);
        let over = heard.over.expect("a turn was waiting for it");
        assert!(over.outcome == Outcome::Failed && over.reason.ends_with(": bad option"), "{over:?}");
    }
}

#[test]
fn a_foreign_state_is_not_restored() {
    let setup = setup(Kind::Claude, Hosting::Warm, Mode::Ask);
    for saved in ["", "null", "[1]", "{\"running\":1}"] {
        assert!(restore(&setup, saved).is_err(), "{saved}");
    }
}

#[test]
fn an_answer_is_about_what_was_shown_and_not_about_what_is_remembered() {
    let input = Raw::of(&serde_json::json!({"command": "shown"}));
    let shown = Some(Shown { tool: "Shown", input: &input });
    for (decision, has_rule) in
        [(Decision::AllowOnce, false), (Decision::AllowAlways, true), (Decision::Answers(Vec::new()), false)]
    {
        let mut driver = prompted(Mode::Ask);
        hear(&mut *driver, &[ASKED]);
        let line = send(&mut *driver, &Input::Decision { request: "q1", decision: &decision, shown });
        assert!(line.contains(r#""updatedInput":{"command":"shown"}"#), "{line}");
        assert_eq!(line.contains(r#""toolName":"Shown""#), has_rule, "{line}");
    }
}
