//! Whatever an agent prints and whatever is told to it, in any order: no driver of any kind panics, and the promises
//! of [`Driver`] hold.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::fs;
use std::sync::LazyLock;

use hostel_agents::{
    Decision, Driver, Encoded, Event, Exit, Heard, Hosting, Input, Kind, Mode, Outcome, Setup, driver, restore,
};
use proptest::prelude::*;
use support::{exit, killed, setup, stopped};

/// Every line of every transcript.
static LINES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut files: Vec<_> = ["claude", "codex", "gemini", "opencode"]
        .into_iter()
        .flat_map(|program| fs::read_dir(support::fixtures(program)).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    let lines = files.iter().flat_map(|file| {
        let content = fs::read(file).unwrap();
        content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>()
    });
    lines.collect()
});

#[derive(Clone, Debug)]
enum Step {
    Line(Vec<u8>),
    Prompt(String),
    Decide(usize, Decision),
    Interrupt,
    Own,
    Restore,
}

/// A recorded line, whole or damaged.
fn recorded() -> impl Strategy<Value = Vec<u8>> {
    let damage = proptest::option::of((any::<prop::sample::Index>(), any::<u8>()));
    (any::<prop::sample::Index>(), damage, proptest::option::of(any::<prop::sample::Index>())).prop_map(
        |(line, damage, cut)| {
            let mut line = line.get(&LINES).clone();
            if let Some((at, byte)) = damage.filter(|_| !line.is_empty()) {
                let at = at.index(line.len());
                line[at] = byte;
            }
            if let Some(cut) = cut.filter(|_| !line.is_empty()) {
                line.truncate(cut.index(line.len()));
            }
            line
        },
    )
}

/// JSON with the words drivers look for, in places they do not expect.
fn composed() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "type",
        "subtype",
        "method",
        "id",
        "params",
        "result",
        "error",
        "item",
        "message",
        "content",
        "text",
        "event",
        "delta",
        "system",
        "init",
        "assistant",
        "user",
        "stream_event",
        "control_request",
        "can_use_tool",
        "request",
        "request_id",
        "input",
        "session/update",
        "session/request_permission",
        "sessionUpdate",
        "tool_call",
        "toolCall",
        "options",
        "optionId",
        "item.updated",
        "agent_message",
        "usage",
        "thread",
        "turn",
        "turn/completed",
        "threadId",
        "tool_use",
        "tool_result",
        "part",
        "state",
        "sessionID",
        "step_finish",
        "status",
        "update",
        "sessionId",
    ]);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        words.clone().prop_map(serde_json::Value::from),
        ".{0,8}".prop_map(serde_json::Value::from),
    ];
    let value = leaf.prop_recursive(4, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::hash_map(words.clone(), inner, 0..6).prop_map(|map| {
                serde_json::Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    });
    value.prop_map(|value| value.to_string().into_bytes())
}

fn step() -> impl Strategy<Value = Step> {
    let decision = prop_oneof![
        Just(Decision::AllowOnce),
        Just(Decision::AllowAlways),
        ".{0,8}".prop_map(Decision::Reject),
        ".{0,8}".prop_map(Decision::RejectWithEdit),
        prop::collection::vec((".{0,8}", ".{0,8}"), 0..3).prop_map(Decision::Answers),
    ];
    prop_oneof![
        8 => recorded().prop_map(Step::Line),
        2 => composed().prop_map(Step::Line),
        1 => prop::collection::vec(any::<u8>(), 0..64).prop_map(Step::Line),
        2 => ".{0,16}".prop_map(Step::Prompt),
        2 => (0..4usize, decision).prop_map(|(which, decision)| Step::Decide(which, decision)),
        1 => Just(Step::Interrupt),
        3 => Just(Step::Own),
        1 => Just(Step::Restore),
    ]
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let hosting = prop_oneof![Just(Hosting::Warm), Just(Hosting::PerMessage)];
    let mode = prop::sample::select(vec![Mode::Auto, Mode::Code, Mode::Plan, Mode::Ask]);
    let prompt = prop::sample::select(vec!["hi", "-hi"]);
    (prop::sample::select(Kind::ALL.to_vec()), hosting, mode, prompt, any::<bool>()).prop_map(
        |(kind, hosting, mode, prompt, resume)| {
            let mut setup = setup(kind, hosting, mode);
            setup.command = if kind == Kind::Acp { vec!["agent".into()] } else { vec![] };
            setup.prompt = (hosting == Hosting::PerMessage).then(|| prompt.to_owned());
            setup.resume = resume.then(|| "s".to_owned());
            setup
        },
    )
}

fn any_exit() -> impl Strategy<Value = Exit> {
    let lost = Exit { code: -1, signal: 0, lost: true, stopped: false };
    prop::sample::select(vec![
        exit(0),
        exit(1),
        exit(255),
        killed(9),
        killed(64),
        stopped(143, 0),
        stopped(-1, 9),
        lost,
    ])
}

/// Says it if it can be said now. Looking at what to say never changes anything.
fn say(driver: &mut dyn Driver, input: &Input<'_>, heard: &mut Heard) -> bool {
    let before = driver.save();
    let encoded = driver.encode(input);
    assert_eq!(driver.encode(input), encoded);
    assert_eq!(driver.save(), before);
    match encoded {
        Encoded::Bytes(bytes) => {
            assert!(!bytes.is_empty());
            driver.sent(input, heard);
            true
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics_and_turns_end_once(
        setup in any_setup(),
        steps in prop::collection::vec(step(), 0..60),
        end in any_exit(),
        stderr in ".{0,20}",
    ) {
        let mut driver = driver(&setup);
        let mut asked: Vec<String> = Vec::new();
        // The turn that begins with the process, or the one that waits for its handshake.
        let (mut begun, mut over) = (1, 0);
        for step in &steps {
            let mut heard = Heard::default();
            match step {
                Step::Line(line) => driver.line(line, &mut heard),
                Step::Prompt(text) => {
                    let ready = driver.ready();
                    let said = say(&mut *driver, &Input::Prompt { turn: begun, text }, &mut heard);
                    prop_assert_eq!(said, ready, "a prompt can be said exactly when the driver is ready");
                    begun += u64::from(said);
                }
                Step::Decide(which, decision) => {
                    if let Some(request) = asked.get(*which).cloned() {
                        let input = Input::Decision { request: &request, decision, shown: None };
                        if say(&mut *driver, &input, &mut heard) {
                            prop_assert!(!say(&mut *driver, &input, &mut heard), "a question is answered once");
                        }
                    }
                }
                Step::Interrupt => {
                    say(&mut *driver, &Input::Interrupt, &mut heard);
                }
                Step::Own => {
                    let wanted = driver.wants();
                    prop_assert_eq!(&driver.wants(), &wanted);
                    if wanted.is_some() {
                        driver.sent(&Input::Own, &mut heard);
                    }
                }
                Step::Restore => driver = restore(&setup, &driver.save()).unwrap(),
            }
            for event in &heard.events {
                if let Event::PermissionAsked { request, summary, .. } = event {
                    asked.insert(0, request.clone());
                    prop_assert!(!summary.contains(char::is_control), "{}", summary);
                    prop_assert!(summary.chars().count() < 4096);
                }
                let written = serde_json::to_string(event).unwrap();
                let read: Event = serde_json::from_str(&written).unwrap();
                prop_assert_eq!(&serde_json::to_string(&read).unwrap(), &written, "an event can be kept");
            }
            over += u64::from(over_well(&heard));
            prop_assert!(over <= begun);
        }
        let mut heard = Heard::default();
        driver.ended(end, &stderr, &mut heard);
        over += u64::from(over_well(&heard));
        prop_assert!(over <= begun);
    }
}

/// Whether a turn is over: a failure with words and no other end with any, and a cost that can be one.
fn over_well(heard: &Heard) -> bool {
    if let Some(over) = &heard.over {
        assert_eq!(over.reason.is_empty(), over.outcome != Outcome::Failed, "{over:?}");
        assert!(over.usage.cost_usd.is_finite() && over.usage.cost_usd >= 0.0, "{over:?}");
    }
    heard.over.is_some()
}

/// A conversation in which everything is said as soon as it can be, from its first prompt to its end.
fn converse(kind: Kind, hosting: Hosting, lines: &[&str]) -> Outcome {
    let mut setup = setup(kind, hosting, Mode::Auto);
    setup.command = if kind == Kind::Acp { vec!["agent".into()] } else { vec![] };
    let mut driver = driver(&setup);
    let mut outcome = None;
    let mut prompted = false;
    for line in lines {
        let mut heard = Heard::default();
        if driver.wants().is_some() {
            driver.sent(&Input::Own, &mut heard);
        }
        if !prompted {
            prompted = say(&mut *driver, &Input::Prompt { turn: 1, text: "hi" }, &mut heard);
        }
        driver.line(line.as_bytes(), &mut heard);
        over_well(&heard);
        outcome = outcome.or(heard.over.map(|over| over.outcome));
        driver = restore(&setup, &driver.save()).unwrap();
    }
    let mut heard = Heard::default();
    driver.ended(exit(0), "", &mut heard);
    over_well(&heard);
    outcome.or(heard.over.map(|over| over.outcome)).unwrap()
}

const ACP_OPENING: [&str; 2] = [r#"{"id":0,"result":{}}"#, r#"{"id":1,"result":{"sessionId":"s"}}"#];
const CODEX_OPENING: [&str; 2] = [r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{"thread":{"id":"t"}}}"#];

#[test]
fn a_failure_without_words_gets_some() {
    use Hosting::{PerMessage, Warm};
    for (kind, hosting, opening, failure) in [
        (Kind::Claude, Warm, [].as_slice(), r#"{"type":"result","is_error":true}"#),
        (Kind::Claude, Warm, &[], r#"{"type":"result","subtype":"","is_error":true,"result":" ","errors":[""]}"#),
        (Kind::Acp, Warm, &ACP_OPENING, r#"{"id":2,"error":{"message":"","data":{"details":""}}}"#),
        (Kind::Codex, Warm, &CODEX_OPENING, r#"{"id":3,"error":{"message":""}}"#),
        (Kind::Codex, PerMessage, &[], r#"{"type":"turn.failed","error":{"message":""}}"#),
        (Kind::Codex, PerMessage, &[], r#"{"type":"error","message":""}"#),
        (Kind::Gemini, PerMessage, &[], r#"{"type":"result","status":"error","error":{"message":""}}"#),
        (Kind::Gemini, PerMessage, &[], r#"{"type":"error","message":""}"#),
        (Kind::Opencode, PerMessage, &[], r#"{"type":"error","error":{"name":"","data":{"message":""}}}"#),
    ] {
        assert_eq!(converse(kind, hosting, &[opening, &[failure]].concat()), Outcome::Failed, "{failure}");
    }
}

#[test]
fn a_cost_that_cannot_be_is_none() {
    let cost = r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","cost":{"amount":1e300}}}}"#;
    let answer = r#"{"id":2,"result":{"stopReason":"end_turn"}}"#;
    converse(Kind::Acp, Hosting::Warm, &[ACP_OPENING.as_slice(), &[cost, answer]].concat());
    for result in [
        r#"{"type":"result","total_cost_usd":1e300}"#,
        r#"{"type":"result","model_usage_since_last_result":{"m":{"costUSD":-5}}}"#,
        r#"{"type":"result","model_usage_since_last_result":{"m":{"costUSD":1e308},"n":{"costUSD":1e308}}}"#,
    ] {
        converse(Kind::Claude, Hosting::Warm, &[result]);
    }
    let step = r#"{"type":"step_finish","part":{"cost":1e308}}"#;
    converse(Kind::Opencode, Hosting::PerMessage, &[step, step]);
}

#[test]
fn questions_that_are_open_at_once_have_names_of_their_own() {
    let mut driver = driver(&setup(Kind::Codex, Hosting::Warm, Mode::Ask));
    let mut heard = Heard::default();
    for id in ["7", r#""\"7\"""#, r#""7""#] {
        let line = format!(r#"{{"id":{id},"method":"item/commandExecution/requestApproval","params":{{}}}}"#);
        driver.line(line.as_bytes(), &mut heard);
    }
    let mut names: Vec<_> = heard
        .events
        .iter()
        .map(|event| match event {
            Event::PermissionAsked { request, .. } => request.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
}
