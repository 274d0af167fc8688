//! Gemini CLI: its command lines, and its recorded runs for one prompt. Its ACP is tested with that of the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use hostel_agents::{Encoded, Event, Exit, Hosting, Input, Kind, Mode, Outcome, Raw, Setup, driver, launch, restore};
use support::{Told, Transcript, check, exit, hear, names, setup, stopped};

/// The process of a transcript and its end.
fn case(name: &str) -> (Setup, Exit) {
    let mode = match name {
        "tool" | "tool-parallel" | "tool-fails" => Mode::Auto,
        "write-auto-edit" => Mode::Code,
        _ => Mode::Ask,
    };
    let mut setup = setup(Kind::Gemini, Hosting::PerMessage, mode);
    setup.prompt = Some("hello there".to_owned());
    if name == "resume" {
        setup.resume = Some("efb38bf4-6238-46b6-aab1-1b446466b7d7".to_owned());
    }
    let exit = match name {
        "error-401" => exit(145),
        "error-500" => exit(244),
        "error-drop" => exit(1),
        "slow-sigint" => stopped(0, 0),
        _ => exit(0),
    };
    (setup, exit)
}

fn runs() -> Vec<String> {
    let names: Vec<String> = names("gemini").into_iter().filter(|name| !name.starts_with("acp-")).collect();
    assert_eq!(names.len(), 14);
    names
}

#[test]
fn every_transcript_comes_to_its_events() {
    for name in runs() {
        let (setup, end) = case(&name);
        let transcript = Transcript::read("gemini", &name, |_| Told::Foreign);
        check("gemini", &name, &transcript.replay(driver(&setup), end, "", |driver| driver));
    }
}

#[test]
fn a_restored_driver_goes_on_where_the_saved_one_was() {
    for name in runs() {
        let (setup, end) = case(&name);
        let transcript = Transcript::read("gemini", &name, |_| Told::Foreign);
        let whole = transcript.replay(driver(&setup), end, "", |driver| driver);
        let swapped = transcript.replay(driver(&setup), end, "", |driver| restore(&setup, &driver.save()).unwrap());
        assert_eq!(whole, swapped, "{name}");
    }
    assert!(restore(&case("simple").0, "{}").is_err());
    assert!(restore(&case("simple").0, "garbage").is_err());
}

fn one(change: impl FnOnce(&mut Setup)) -> Setup {
    let mut setup = setup(Kind::Gemini, Hosting::PerMessage, Mode::Auto);
    setup.prompt = Some("say hi".to_owned());
    change(&mut setup);
    setup
}

#[test]
fn command_lines() {
    let run = "-p 'say hi' --output-format stream-json --approval-mode";
    let piped = "--output-format stream-json --approval-mode yolo";
    let warm = |mode| move |setup: &mut Setup| (setup.hosting, setup.mode, setup.prompt) = (Hosting::Warm, mode, None);
    let cases = [
        (one(|_| {}), format!("gemini {run} yolo")),
        (one(|s| s.mode = Mode::Code), format!("gemini {run} auto_edit")),
        (one(|s| s.mode = Mode::Plan), format!("gemini {run} plan")),
        (one(|s| s.mode = Mode::Ask), format!("gemini {run} default")),
        (one(|s| s.model = Some("pro".into())), format!("gemini {run} yolo --model pro")),
        (one(|s| s.resume = Some("ID".into())), format!("gemini {run} yolo --resume ID")),
        (one(|s| s.command = vec!["/x/g".into(), "--debug".into()]), format!("/x/g --debug {run} yolo")),
        (one(|s| s.prompt = Some("x".repeat(100_001))), format!("gemini {piped}")),
        (one(|s| s.prompt = Some("--help".into())), format!("gemini {piped}")),
        (one(|s| s.prompt = Some("a\0b".into())), format!("gemini {piped}")),
        (one(warm(Mode::Auto)), "gemini --acp --approval-mode yolo".to_owned()),
        (one(warm(Mode::Code)), "gemini --acp --approval-mode auto_edit".to_owned()),
        (one(warm(Mode::Plan)), "gemini --acp --approval-mode plan".to_owned()),
        (one(warm(Mode::Ask)), "gemini --acp --approval-mode default".to_owned()),
    ];
    for (setup, expected) in cases {
        let launch = launch(&setup);
        let words = std::iter::once(&launch.program).chain(&launch.args);
        let quoted = words.map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() });
        assert_eq!(quoted.collect::<Vec<_>>().join(" "), expected);
        assert_eq!(launch.prompt_in_args, expected.contains("-p "));
        assert!(launch.env.contains(&("TERM".to_owned(), "dumb".to_owned())));
    }
    let mut warm = one(warm(Mode::Ask));
    (warm.model, warm.resume) = (Some("pro".into()), Some("ID".into()));
    // The session is loaded by ACP.
    assert_eq!(launch(&warm).args, ["--acp", "--approval-mode", "default", "--model", "pro"]);
}

#[test]
fn a_prompt_that_is_no_argument_goes_by_standard_input_once() {
    let text = "-x ".repeat(50_000);
    let setup = one(|setup| setup.prompt = Some(text.clone()));
    let mut driver = driver(&setup);
    let prompt = Input::Prompt { turn: 1, text: &text };
    assert!(driver.ready() && !driver.wants_eof());
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Nothing);
    assert_eq!(driver.encode(&prompt), Encoded::Bytes(text.clone().into_bytes()));
    driver.sent(&prompt, &mut Default::default());
    assert!(!driver.ready() && driver.wants_eof());
    assert_eq!(driver.encode(&prompt), Encoded::Nothing);
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Signal);
    assert_eq!(driver.encode(&Input::Own), Encoded::Nothing);
}

#[test]
fn older_and_stranger_lines() {
    let mut driver = driver(&one(|_| {}));
    let heard = hear(
        &mut *driver,
        &[
            "Loaded cached credentials.",
            r#"{"type":"init","session_id":"S","model":"m"}"#,
            r#"{"type":"message","role":"assistant","content":"whole"}"#,
            r#"{"type":"message","role":"assistant","content":"piece","delta":true}"#,
            r#"{"type":"tool_use","tool_name":"replace","tool_id":"t1","parameters":{"a":1}}"#,
            r#"{"type":"tool_result","tool_id":"t1","status":"error","output":"out"}"#,
            r#"{"type":"tool_result","tool_id":"read_file-17-2","status":"success","output":{"odd":true}}"#,
            r#"{"type":"tool_result","status":"error"}"#,
            r#"{"type":"error","severity":"warning","message":"careful"}"#,
            r#"{"type":"news"}"#,
            "[]",
        ],
    );
    let result = |id: &str, name: &str, output: &str, failed| Event::ToolResult {
        id: id.to_owned(),
        name: name.to_owned(),
        output: output.to_owned(),
        failed,
    };
    assert_eq!(
        heard.events[1..],
        [
            Event::Text { text: "whole".into(), streamed: false },
            Event::TextDelta { text: "piece".into() },
            Event::Text { text: "piece".into(), streamed: true },
            Event::ToolCall { id: "t1".into(), name: "edit".into(), input: Raw::of(&serde_json::json!({ "a": 1 })) },
            result("t1", "edit", "out", true),
            result("read_file-17-2", "read", "{\"odd\":true}", false),
            result("", "", "The tool failed.", true),
            Event::Error { message: "careful".into() },
        ]
    );
    let mut heard = Default::default();
    driver.ended(exit(0), "", &mut heard);
    assert_eq!(heard.over.unwrap().outcome, Outcome::Completed);
}

#[test]
fn an_error_without_a_result_fails_the_turn() {
    let mut driver = driver(&one(|_| {}));
    hear(&mut *driver, &[r#"{"type":"error","severity":"error","message":"no quota"}"#]);
    let mut heard = Default::default();
    driver.ended(exit(0), "", &mut heard);
    let over = heard.over.unwrap();
    assert_eq!((over.outcome, &*over.reason), (Outcome::Failed, "no quota"));
}
