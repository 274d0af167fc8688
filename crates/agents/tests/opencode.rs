//! opencode: its command lines, and its recorded runs for one prompt. Its ACP is tested with that of the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use hostel_agents::{Event, Exit, Hosting, Kind, Mode, Outcome, Raw, Setup, driver, launch, restore};
use serde_json::json;
use support::{Told, Transcript, check, exit, hear, killed, names, setup};

/// The process of a transcript and its end.
fn case(name: &str) -> (Setup, Transcript, Exit) {
    let mode = match name {
        "permission-auto" => Mode::Auto,
        "permission-denied-headless" => Mode::Ask,
        _ => Mode::Code,
    };
    let mut setup = setup(Kind::Opencode, Hosting::PerMessage, mode);
    setup.prompt = Some("hello there".to_owned());
    if name == "resume" {
        setup.resume = Some("ses_e2202d088ffe54lxsztr4S2F8U".to_owned());
    }
    let mut transcript = Transcript::read("opencode", name, |_| Told::Foreign);
    transcript.told.push((0, Told::Prompt("hello there".to_owned())));
    let exit = match name {
        "error-401" | "error-500" => exit(1),
        "slow-sigint" => killed(2),
        _ => exit(0),
    };
    (setup, transcript, exit)
}

fn runs() -> Vec<String> {
    let names: Vec<String> = names("opencode").into_iter().filter(|name| !name.starts_with("acp-")).collect();
    assert_eq!(names.len(), 13);
    names
}

#[test]
fn every_transcript_comes_to_its_events() {
    for name in runs() {
        let (setup, transcript, end) = case(&name);
        check("opencode", &name, &transcript.replay(driver(&setup), end, "", |driver| driver));
    }
}

#[test]
fn a_restored_driver_goes_on_where_the_saved_one_was() {
    for name in runs() {
        let (setup, transcript, end) = case(&name);
        let whole = transcript.replay(driver(&setup), end, "", |driver| driver);
        let swapped = transcript.replay(driver(&setup), end, "", |driver| restore(&setup, &driver.save()).unwrap());
        assert_eq!(whole, swapped, "{name}");
    }
    assert!(restore(&case("simple").0, "[]").is_err());
}

fn of(hosting: Hosting, mode: Mode, change: impl FnOnce(&mut Setup)) -> Setup {
    let mut setup = setup(Kind::Opencode, hosting, mode);
    setup.prompt = (hosting == Hosting::PerMessage).then(|| "say hi".to_owned());
    change(&mut setup);
    setup
}

#[test]
fn command_lines() {
    use Hosting::{PerMessage, Warm};
    const ASK: &str = r#"{"bash":"ask","edit":"ask"}"#;
    const DENY: &str = r#"{"bash":"deny","edit":"deny"}"#;
    const ALLOW: &str =
        r#"{"*":"allow","bash":"allow","edit":"allow","external_directory":"allow","doom_loop":"allow"}"#;
    let cases = [
        (of(PerMessage, Mode::Auto, |_| {}), "opencode run --format json --auto", Some(ALLOW)),
        (of(PerMessage, Mode::Code, |_| {}), "opencode run --format json", None),
        (of(PerMessage, Mode::Plan, |_| {}), "opencode run --format json --agent plan", Some(DENY)),
        (of(PerMessage, Mode::Ask, |_| {}), "opencode run --format json", Some(ASK)),
        (
            of(PerMessage, Mode::Auto, |s| (s.model, s.resume) = (Some("p/m".into()), Some("ses_1".into()))),
            "opencode run --format json --auto --model p/m --session ses_1",
            Some(ALLOW),
        ),
        (of(PerMessage, Mode::Code, |s| s.command = vec!["/x/o".into()]), "/x/o run --format json", None),
        (of(Warm, Mode::Auto, |_| {}), "opencode acp", Some(ALLOW)),
        (of(Warm, Mode::Code, |_| {}), "opencode acp", None),
        (of(Warm, Mode::Plan, |_| {}), "opencode acp", Some(DENY)),
        (
            of(Warm, Mode::Ask, |s| (s.model, s.resume) = (Some("p/m".into()), Some("ses_1".into()))),
            "opencode acp",
            Some(ASK),
        ),
    ];
    for (setup, words, permission) in cases {
        let launch = launch(&setup);
        assert_eq!([vec![launch.program], launch.args].concat().join(" "), words);
        // However short, the prompt goes by standard input.
        assert!(!launch.prompt_in_args);
        assert!(launch.env.contains(&("TERM".to_owned(), "dumb".to_owned())));
        assert!(launch.env.contains(&("PWD".to_owned(), "/home/dev/project".to_owned())));
        let rules = launch.env.iter().find(|(name, _)| name == "OPENCODE_PERMISSION").map(|(_, rules)| &**rules);
        assert_eq!(rules, permission, "{words}");
        assert!(rules.is_none_or(|rules| serde_json::from_str::<serde_json::Value>(rules).is_ok()));
    }
}

#[test]
fn the_older_shapes() {
    let mut driver = driver(&of(Hosting::PerMessage, Mode::Auto, |_| {}));
    let heard = hear(
        &mut *driver,
        &[
            r#"{"type":"step_start","sessionID":"S","model":"m"}"#,
            r#"{"type":"message.part.updated","sessionID":"S","part":{"type":"thinking","content":"hm"}}"#,
            r#"{"type":"message.part.updated","sessionID":"S","part":{"type":"text","content":"Let "}}"#,
            r#"{"type":"text","sessionID":"S","content":"Let me."}"#,
            r#"{"type":"message.part.updated","part":{"type":"tool","tool":"Bash","state":"pending"}}"#,
            r#"{"type":"message.part.updated","part":{"type":"tool","tool":"Bash","state":"running","input":{"c":1}}}"#,
            r#"{"type":"message.part.updated","part":{"type":"tool","tool":"Bash","state":"completed","output":"o"}}"#,
            r#"{"type":"message.part.updated","part":{"type":"tool","tool":"Task","callID":"c","state":{"status":"running","input":{}}}}"#,
            r#"{"type":"message.part.updated","part":{"type":"tool","tool":"Task","callID":"c","state":{"status":"error","error":"no"}}}"#,
            r#"{"type":"tool_use","part":{"tool":"MultiEdit","state":{"status":"completed","input":{},"output":"done"}}}"#,
            r#"{"type":"text"}"#,
            r#"{"type":"step_finish","sessionID":"S"}"#,
            r#"{"type":"step_start","sessionID":"S"}"#,
            r#"{"type":"step_finish","sessionID":"S"}"#,
        ],
    );
    let call = |id: &str, name: &str, input: serde_json::Value| Event::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        input: Raw::of(&input),
    };
    let result = |id: &str, name: &str, output: &str, failed| Event::ToolResult {
        id: id.to_owned(),
        name: name.to_owned(),
        output: output.to_owned(),
        failed,
    };
    let Event::Init { session_id, model, .. } = &heard.events[0] else { panic!("{heard:?}") };
    assert_eq!((session_id.as_deref(), model.as_deref()), (Some("S"), Some("m")));
    let Event::Result { session_id, raw: Some(raw) } = &heard.events[11] else { panic!("{heard:?}") };
    assert_eq!((session_id.as_deref(), raw.get()), (Some("S"), r#"{"type":"step_finish","sessionID":"S"}"#));
    assert_eq!(
        heard.events[1..11],
        [
            Event::ThoughtDelta { text: "hm".into() },
            Event::TextDelta { text: "Let ".into() },
            Event::Text { text: "Let me.".into(), streamed: true },
            call("", "bash", json!({ "c": 1 })),
            result("", "bash", "o", false),
            call("c", "subagent", json!({})),
            result("c", "subagent", "no", true),
            call("", "edit", json!({})),
            result("", "edit", "done", false),
            Event::Text { text: String::new(), streamed: false },
        ]
    );
    assert_eq!(heard.events.len(), 12, "one init and one result");
}

#[test]
fn errors_of_every_shape_fail_the_turn() {
    for (line, message) in [
        (r#"{"type":"error","error":{"name":"E","data":{"message":"deep"}}}"#, "deep"),
        (r#"{"type":"error","error":{"name":"E","message":"flat"}}"#, "flat"),
        (r#"{"type":"error","error":{"name":"E"}}"#, "E"),
        (r#"{"type":"error","error":"word"}"#, "word"),
        (r#"{"type":"error","message":"old"}"#, "old"),
        (r#"{"type":"error"}"#, "Unknown error"),
    ] {
        let mut driver = driver(&of(Hosting::PerMessage, Mode::Auto, |_| {}));
        let heard = hear(&mut *driver, &[line]);
        assert_eq!(heard.events, [Event::Error { message: message.to_owned() }]);
        let mut heard = Default::default();
        driver.ended(exit(0), "", &mut heard);
        let over = heard.over.unwrap();
        assert_eq!((over.outcome, &*over.reason), (Outcome::Failed, message));
        assert!(heard.events.is_empty(), "no result");
    }
}
