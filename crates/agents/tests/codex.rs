//! Codex's recorded conversations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use hostel_agents::{
    Decision, Driver, Encoded, Event, Exit, Heard, Hosting, Input, Kind, Mode, Outcome, PlanEntry, Raw, Setup, Shown,
    Usage, driver, restore,
};
use serde_json::Value;
use support::{Told, Transcript, check, exit, hear, names, send, setup, stopped};

fn translate(line: &Value) -> Told {
    match line["method"].as_str() {
        Some("initialize" | "thread/start" | "thread/resume") => Told::Own,
        Some("turn/start") => Told::Prompt(line["params"]["input"][0]["text"].as_str().unwrap().to_owned()),
        Some("turn/interrupt") => Told::Interrupt,
        Some(_) => Told::Foreign,
        None => {
            let decision = match line["result"]["decision"].as_str().unwrap() {
                "accept" => Decision::AllowOnce,
                "acceptForSession" => Decision::AllowAlways,
                // We have no word for `cancel`, which also stops the turn.
                "decline" | "cancel" => Decision::Reject("no".to_owned()),
                other => panic!("{other}"),
            };
            Told::Decision(line["id"].to_string(), decision)
        }
    }
}

/// The process of a transcript and its end.
fn case(name: &str) -> (Setup, Exit, &'static str) {
    let warm = name.starts_with("app-");
    let mut setup = setup(Kind::Codex, if warm { Hosting::Warm } else { Hosting::PerMessage }, Mode::Ask);
    setup.prompt = (!warm).then(|| "hello there".to_owned());
    match name {
        "resume" => {
            setup.resume = Some("01a1ddfa-9fc4-7ff0-ace2-e665e17fac8b".to_owned());
            setup.used = Some(Usage { input_tokens: 12, output_tokens: 3, ..Usage::default() });
        }
        "app-resume" => setup.resume = Some("01a1ddfa-c887-7111-84e6-755959c29a54".to_owned()),
        "app-resume-unknown" => setup.resume = Some("00000000-0000-4000-8000-000000000000".to_owned()),
        _ => {}
    }
    let (exit, stderr) = match name {
        "error-401" | "error-500" | "error-drop" => (exit(1), ""),
        "slow-sigint" => (stopped(1, 0), ""),
        "slow-sigterm" => (stopped(-1, 15), ""),
        _ => (exit(0), ""),
    };
    (setup, exit, stderr)
}

fn own_names() -> Vec<String> {
    let names: Vec<String> = names("codex").into_iter().filter(|name| !name.starts_with("acp-")).collect();
    assert_eq!(names.len(), 31);
    names
}

#[test]
fn every_transcript_comes_to_its_events() {
    for name in own_names() {
        let (setup, exit, stderr) = case(&name);
        let transcript = Transcript::read("codex", &name, translate);
        check("codex", &name, &transcript.replay(driver(&setup), exit, stderr, |driver| driver));
    }
}

#[test]
fn a_restored_driver_goes_on_as_if_nothing_had_happened() {
    for name in own_names() {
        let (setup, exit, stderr) = case(&name);
        let transcript = Transcript::read("codex", &name, translate);
        let plain = transcript.replay(driver(&setup), exit, stderr, |driver| driver);
        let swapped =
            transcript.replay(driver(&setup), exit, stderr, |driver| restore(&setup, &driver.save()).unwrap());
        assert_eq!(plain, swapped, "{name}");
    }
}

fn exec(prompt: &str) -> Box<dyn Driver> {
    let mut setup = setup(Kind::Codex, Hosting::PerMessage, Mode::Code);
    setup.prompt = Some(prompt.to_owned());
    driver(&setup)
}

/// An app server with an open thread `t`.
fn server() -> Box<dyn Driver> {
    let mut driver = driver(&setup(Kind::Codex, Hosting::Warm, Mode::Ask));
    send(&mut *driver, &Input::Own);
    hear(&mut *driver, &[r#"{"id":1,"result":{}}"#]);
    send(&mut *driver, &Input::Own);
    hear(&mut *driver, &[r#"{"id":2,"result":{"thread":{"id":"t"},"model":"m"}}"#]);
    assert!(driver.ready());
    driver
}

/// One in a turn `u`.
fn busy() -> Box<dyn Driver> {
    let mut driver = server();
    send(&mut *driver, &Input::Prompt { turn: 1, text: "hi" });
    hear(&mut *driver, &[r#"{"id":3,"result":{"turn":{"id":"u"}}}"#]);
    driver
}

fn text(text: &str, streamed: bool) -> Event {
    Event::Text { text: text.to_owned(), streamed }
}

fn delta(text: &str) -> Event {
    Event::TextDelta { text: text.to_owned() }
}

#[test]
fn lines_of_older_versions_come_to_the_same_events() {
    let mut driver = exec("hi");
    let heard = hear(
        &mut *driver,
        &[
            r#"{"type":"thread.started","thread_id":"t","model":"gpt"}"#,
            r#"{"type":"turn.started"}"#,
            r#"{"type":"item.started","item_type":"command_execution","command":"ls"}"#,
            r#"{"type":"item.completed","item_type":"command_execution","output":"a\n"}"#,
            r#"{"type":"item.started","item_type":"file_change","file":"a.txt"}"#,
            r#"{"type":"item.completed","item_type":"file_change","summary":"1 line"}"#,
            r#"{"type":"item.started","item_type":"mcp_tool_call","tool_name":"find","parameters":{"q":1}}"#,
            r#"{"type":"item.completed","item_type":"mcp_tool_call","tool_name":"find","result":"found"}"#,
            r#"{"type":"item.started","item_type":"agent_message"}"#,
            r#"{"type":"item.updated","item_type":"agent_message","text":"He"}"#,
            r#"{"type":"item.updated","item_type":"agent_message","text":"Hello"}"#,
            r#"{"type":"item.completed","item_type":"agent_message","text":"Hello!"}"#,
            r#"{"type":"turn.completed"}"#,
        ],
    );
    let call = |name: &str, input: &str| Event::ToolCall {
        id: String::new(),
        name: name.to_owned(),
        input: Raw::of(&serde_json::from_str::<Value>(input).unwrap()),
    };
    let result = |name: &str, output: &str| Event::ToolResult {
        id: String::new(),
        name: name.to_owned(),
        output: output.to_owned(),
        failed: false,
    };
    assert!(
        matches!(&heard.events[0], Event::Init { session_id: Some(id), model: Some(model), .. } if id == "t" && model == "gpt")
    );
    let expected = [
        call("bash", "\"ls\""),
        result("bash", "a\n"),
        call("edit", "\"a.txt\""),
        result("edit", "1 line"),
        call("find", "{\"q\":1}"),
        result("find", "found"),
        delta("He"),
        delta("llo"),
        text("Hello!", true),
    ];
    assert_eq!(heard.events[1..10], expected);
    assert!(matches!(&heard.events[10], Event::Result { session_id: Some(id), .. } if id == "t"));
    assert_eq!(heard.events.len(), 11);
    let mut heard = Heard::default();
    driver.ended(exit(0), "", &mut heard);
    assert_eq!(heard.over.unwrap().outcome, Outcome::Completed);
}

#[test]
fn a_text_that_is_replaced_instead_of_extended_is_never_cut_within_a_character() {
    let mut driver = exec("hi");
    let line =
        |text: &str| format!(r#"{{"type":"item.updated","item":{{"id":"i","type":"agent_message","text":"{text}"}}}}"#);
    let lines = ["aé", "aêb", "", "x", "x€y", "x€"].map(line);
    let heard = hear(&mut *driver, &lines.each_ref().map(String::as_str));
    assert_eq!(heard.events, [delta("aé"), delta("êb"), delta("x"), delta("€y")]);
}

#[test]
fn a_failed_turn_is_told_in_every_shape() {
    for (line, reason) in [
        (r#"{"type":"turn.failed","error":"boom"}"#, "boom"),
        (r#"{"type":"turn.failed","error":{"message":"boom"}}"#, "boom"),
        (r#"{"type":"turn.failed"}"#, "Turn failed"),
        (r#"{"type":"error","message":"boom"}"#, "boom"),
    ] {
        let mut driver = exec("hi");
        let heard = hear(&mut *driver, &[line]);
        assert_eq!(heard.events, [Event::Error { message: reason.to_owned() }], "{line}");
        let mut heard = Heard::default();
        driver.ended(exit(1), "", &mut heard);
        let over = heard.over.unwrap();
        assert_eq!((over.outcome, over.reason.as_str()), (Outcome::Failed, reason), "{line}");
    }
}

#[test]
fn plans_searches_and_warnings_of_exec() {
    let mut driver = exec("hi");
    let heard = hear(
        &mut *driver,
        &[
            r#"{"type":"item.started","item":{"id":"1","type":"todo_list","items":[{"text":"a","completed":true},{"text":"b","completed":false}]}}"#,
            r#"{"type":"item.completed","item":{"id":"2","type":"web_search","query":"rust"}}"#,
            r#"{"type":"item.completed","item":{"id":"3","type":"error","message":"careful"}}"#,
            r#"{"type":"item.completed","item":{"id":"4","type":"mcp_tool_call","server":"s","tool":"t","arguments":{},"error":{"message":"no"},"status":"failed"}}"#,
        ],
    );
    let entry = |content: &str, status: &str| PlanEntry {
        content: content.to_owned(),
        status: status.to_owned(),
        priority: "medium".to_owned(),
    };
    assert_eq!(heard.events[0], Event::Plan { entries: vec![entry("a", "completed"), entry("b", "pending")] });
    assert!(
        matches!(&heard.events[1], Event::ToolCall { name, input, .. } if name == "web_search" && input.get() == "\"rust\"")
    );
    assert!(matches!(&heard.events[2], Event::ToolResult { name, failed: false, .. } if name == "web_search"));
    assert_eq!(heard.events[3], Event::Notice { message: "careful".to_owned() });
    assert!(matches!(&heard.events[5], Event::ToolResult { output, failed: true, .. } if output == "no"));
}

#[test]
fn tokens_of_a_resumed_thread_are_a_difference_or_not_told() {
    let line = r#"{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":5}}"#;
    let known = Usage { input_tokens: 7, cached_tokens: 4, output_tokens: 9, cost_usd: 0.0 };
    for (resume, used, input, output) in [(None, None, 10, 5), (Some("t"), None, 0, 0), (Some("t"), Some(known), 3, 0)]
    {
        let mut setup = setup(Kind::Codex, Hosting::PerMessage, Mode::Code);
        setup.prompt = Some("hi".to_owned());
        setup.resume = resume.map(str::to_owned);
        setup.used = used;
        let mut driver = driver(&setup);
        hear(&mut *driver, &[line]);
        let mut heard = Heard::default();
        driver.ended(exit(0), "", &mut heard);
        let usage = heard.over.unwrap().usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (input, output), "{resume:?}");
    }
}

#[test]
fn exec_is_told_by_stdin_what_could_be_taken_for_something_else() {
    let long = "x".repeat(100_001);
    for prompt in ["resume", "help", "review", "fork", "-", long.as_str()] {
        let mut driver = exec(prompt);
        assert!(driver.ready() && !driver.wants_eof(), "{prompt}");
        assert_eq!(send(&mut *driver, &Input::Prompt { turn: 1, text: prompt }), prompt);
        assert!(driver.wants_eof() && !driver.ready());
        assert_eq!(driver.encode(&Input::Interrupt), Encoded::Signal);
    }
}

#[test]
fn the_handshake_is_the_drivers_own_and_nothing_is_said_before_it() {
    let mut driver = driver(&setup(Kind::Codex, Hosting::Warm, Mode::Plan));
    assert!(!driver.ready());
    assert_eq!(driver.encode(&Input::Prompt { turn: 1, text: "x" }), Encoded::Later);
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Nothing);
    assert!(send(&mut *driver, &Input::Own).contains("\"initialize\""));
    assert_eq!(driver.wants(), None);
    hear(&mut *driver, &[r#"{"id":1,"result":{}}"#]);
    let said = send(&mut *driver, &Input::Own);
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({"method": "initialized"}));
    assert_eq!(lines[1]["params"]["sandbox"], "read-only");
    assert_eq!(lines[1]["params"]["approvalPolicy"], "on-request");
    assert!(!driver.ready());
}

#[test]
fn a_handshake_that_fails_fails_the_turn_that_waits_for_it() {
    let mut driver = driver(&setup(Kind::Codex, Hosting::Warm, Mode::Ask));
    send(&mut *driver, &Input::Own);
    let heard = hear(&mut *driver, &[r#"{"id":1,"error":{"code":-1,"message":"too old"}}"#]);
    assert_eq!(heard.over.unwrap().reason, "too old");
    assert!(driver.wants_eof() && !driver.ready() && driver.wants().is_none());
    let mut heard = Heard::default();
    driver.ended(exit(0), "", &mut heard);
    assert_eq!(heard, Heard::default());

    let mut dead = hostel_agents::driver(&setup(Kind::Codex, Hosting::Warm, Mode::Ask));
    let mut heard = Heard::default();
    dead.ended(exit(1), "no such option", &mut heard);
    let message = "Claude process exited abnormally (code=1, signal=null): no such option";
    assert_eq!(heard.over.unwrap().reason, message);
}

#[test]
fn ids_of_questions_may_be_of_any_type() {
    let ask = |id: &str| {
        format!(
            r#"{{"method":"item/commandExecution/requestApproval","id":{id},"params":{{"threadId":"t","itemId":"c","command":"ls"}}}}"#
        )
    };
    let mut driver = busy();
    for id in ["0", "\"0\"", "1.0", "{\"x\":1}"] {
        let heard = hear(&mut *driver, &[&ask(id), &ask(id)]);
        let [Event::PermissionAsked { request, .. }] = &heard.events[..] else { panic!("{id}: {heard:?}") };
        assert_eq!(
            driver.encode(&Input::Decision { request: "-", decision: &Decision::AllowOnce, shown: None }),
            Encoded::Nothing
        );
        let answer = driver.encode(&Input::Decision { request, decision: &Decision::AllowOnce, shown: None });
        let expected = format!("{{\"id\":{id},\"result\":{{\"decision\":\"accept\"}}}}\n");
        assert_eq!(answer, Encoded::Bytes(expected.into_bytes()));
    }
}

#[test]
fn every_question_is_answered_in_its_own_words() {
    let questions = r#"[{"id":"q","question":"Which?","header":"h"}]"#;
    let answers = Decision::Answers(vec![("Which?".to_owned(), "B".to_owned())]);
    let no = Decision::Reject("no".to_owned());
    let edit = Decision::RejectWithEdit("so".to_owned());
    for (method, params, decision, result) in [
        ("item/commandExecution/requestApproval", "{}", &Decision::AllowAlways, r#"{"decision":"acceptForSession"}"#),
        ("item/fileChange/requestApproval", "{}", &no, r#"{"decision":"decline"}"#),
        ("item/fileChange/requestApproval", "{}", &edit, r#"{"decision":"decline"}"#),
        (
            "item/permissions/requestApproval",
            r#"{"permissions":{"network":{"enabled":true}}}"#,
            &Decision::AllowOnce,
            r#"{"permissions":{"network":{"enabled":true}},"scope":"turn"}"#,
        ),
        (
            "item/permissions/requestApproval",
            r#"{"permissions":{"network":{"enabled":true}}}"#,
            &no,
            r#"{"permissions":{},"scope":"turn"}"#,
        ),
        (
            "item/tool/requestUserInput",
            &format!("{{\"questions\":{questions}}}"),
            &answers,
            r#"{"answers":{"q":{"answers":["B"]}}}"#,
        ),
        ("item/tool/requestUserInput", "{}", &no, r#"{"answers":{}}"#),
        ("mcpServer/elicitation/request", "{}", &no, r#"{"action":"decline"}"#),
        ("mcpServer/elicitation/request", "{}", &Decision::AllowOnce, r#"{"action":"accept","content":{}}"#),
    ] {
        let mut driver = busy();
        let heard = hear(&mut *driver, &[&format!(r#"{{"method":"{method}","id":5,"params":{params}}}"#)]);
        assert!(matches!(&heard.events[..], [Event::PermissionAsked { .. }]), "{method}: {heard:?}");
        let said = send(&mut *driver, &Input::Decision { request: "5", decision, shown: None });
        assert_eq!(said, format!("{{\"id\":5,\"result\":{result}}}\n"), "{method}");
    }
}

#[test]
fn a_request_we_do_not_know_is_refused_and_a_resolved_one_withdrawn() {
    let mut driver = busy();
    hear(&mut *driver, &[r#"{"method":"attestation/generate","id":"x","params":{}}"#]);
    let said = send(&mut *driver, &Input::Own);
    assert!(said.starts_with(r#"{"id":"x","error":{"code":-32601,"#), "{said}");
    let heard = hear(
        &mut *driver,
        &[
            r#"{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","command":"ls"}}"#,
            r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#,
            r#"{"method":"serverRequest/resolved","params":{"threadId":"t","requestId":0}}"#,
        ],
    );
    assert_eq!(heard.events[1..], [Event::PermissionWithdrawn { request: "0".to_owned() }]);
}

#[test]
fn a_turn_that_ends_withdraws_its_own_questions_alone() {
    let mut driver = busy();
    let heard = hear(
        &mut *driver,
        &[
            r#"{"method":"item/commandExecution/requestApproval","id":0,"params":{"threadId":"t","command":"ls"}}"#,
            r#"{"method":"item/commandExecution/requestApproval","id":1,"params":{"threadId":"sub","command":"ls"}}"#,
            r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"interrupted"}}}"#,
        ],
    );
    assert_eq!(heard.events[2], Event::PermissionWithdrawn { request: "0".to_owned() });
    assert_eq!(heard.over.unwrap().outcome, Outcome::Cancelled);
    assert!(matches!(
        driver.encode(&Input::Decision { request: "1", decision: &Decision::AllowOnce, shown: None }),
        Encoded::Bytes(_)
    ));
}

#[test]
fn what_belongs_to_another_thread_or_turn_is_passed_over() {
    let mut driver = busy();
    let heard = hear(
        &mut *driver,
        &[
            r#"{"method":"item/agentMessage/delta","params":{"threadId":"sub","delta":"x"}}"#,
            r#"{"method":"item/completed","params":{"threadId":"sub","item":{"type":"agentMessage","text":"x"}}}"#,
            r#"{"method":"turn/completed","params":{"threadId":"sub","turn":{"id":"v","status":"completed"}}}"#,
            r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"old","status":"completed"}}}"#,
            r#"{"id":99,"error":{"message":"no such turn"}}"#,
            r#"{"method":"who/knows","params":7}"#,
            r#"{"method":7}"#,
            r#"[1]"#,
            "rubbish",
        ],
    );
    assert_eq!(heard, Heard::default());
}

#[test]
fn a_turn_that_is_refused_fails() {
    let mut driver = server();
    send(&mut *driver, &Input::Prompt { turn: 1, text: "hi" });
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Later, "the turn has no id yet");
    let heard = hear(&mut *driver, &[r#"{"id":3,"error":{"code":-32600,"message":"no"}}"#]);
    assert_eq!(heard.events, [Event::Error { message: "no".to_owned() }]);
    assert_eq!(heard.over.unwrap().outcome, Outcome::Failed);
    assert!(driver.ready());
    assert!(send(&mut *driver, &Input::Prompt { turn: 2, text: "hi" }).contains("\"id\":4"));
}

#[test]
fn plans_progress_and_thoughts_of_the_app_server() {
    let mut driver = busy();
    let heard = hear(
        &mut *driver,
        &[
            r#"{"method":"turn/plan/updated","params":{"threadId":"t","plan":[{"step":"a","status":"inProgress"}]}}"#,
            r#"{"method":"item/started","params":{"threadId":"t","item":{"type":"mcpToolCall","id":"1","server":"s","tool":"find","arguments":{"q":1},"status":"inProgress"}}}"#,
            r#"{"method":"item/mcpToolCall/progress","params":{"threadId":"t","itemId":"1","message":"half"}}"#,
            r#"{"method":"item/completed","params":{"threadId":"t","item":{"type":"mcpToolCall","id":"1","tool":"find","arguments":{},"result":{"content":[{"type":"text","text":"x"}]},"status":"completed"}}}"#,
            r#"{"method":"item/reasoning/summaryPartAdded","params":{"threadId":"t","itemId":"2"}}"#,
            r#"{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"t","itemId":"2","delta":"one"}}"#,
            r#"{"method":"item/reasoning/summaryPartAdded","params":{"threadId":"t","itemId":"2"}}"#,
            r#"{"method":"item/reasoning/summaryTextDelta","params":{"threadId":"t","itemId":"2","delta":"two"}}"#,
            r#"{"method":"item/completed","params":{"threadId":"t","item":{"type":"reasoning","id":"2","summary":["one","two"],"content":[]}}}"#,
            r#"{"method":"warning","params":{"message":"hot"}}"#,
        ],
    );
    let thought = |text: &str| Event::ThoughtDelta { text: text.to_owned() };
    assert!(matches!(&heard.events[0], Event::Plan { entries } if entries[0].status == "in_progress"));
    assert!(matches!(&heard.events[1], Event::ToolCall { name, .. } if name == "find"));
    assert!(
        matches!(&heard.events[2], Event::ToolProgress { name, message, .. } if name == "find" && message == "half")
    );
    assert!(matches!(&heard.events[3], Event::ToolResult { output, failed: false, .. } if output == "x"));
    assert_eq!(heard.events[4..7], [thought("one"), thought("\n\n"), thought("two")]);
    assert_eq!(heard.events[7], Event::Thought { text: "one\n\ntwo".to_owned(), streamed: true });
    assert_eq!(heard.events[8], Event::Notice { message: "hot".to_owned() });
}

#[test]
fn a_server_that_vanishes_in_a_turn_leaves_what_it_had_said() {
    let mut driver = busy();
    hear(&mut *driver, &[r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","delta":"half"}}"#]);
    let mut heard = Heard::default();
    driver.ended(exit(0), "", &mut heard);
    assert_eq!(heard.events, [text("half", true)]);
    assert_eq!(heard.over.unwrap().reason, "codex ended without an answer");
}

#[test]
fn more_rights_are_those_that_were_shown() {
    let mut driver = busy();
    let asked =
        r#"{"method":"item/permissions/requestApproval","id":5,"params":{"permissions":{"network":{"enabled":true}}}}"#;
    hear(&mut *driver, &[asked]);
    let input = Raw::of(&serde_json::json!({"permissions": {"shown": true}}));
    let shown = Some(Shown { tool: "permissions", input: &input });
    let said = send(&mut *driver, &Input::Decision { request: "5", decision: &Decision::AllowOnce, shown });
    assert!(said.contains(r#""permissions":{"shown":true}"#), "{said}");
}
