//! The built-in agent, spoken to through pipes by the driver that speaks to it in the house.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::thread::JoinHandle;

use hostel_agents::echo::program;
use hostel_agents::{
    Decision, Driver, Encoded, Event, Heard, Hosting, Input, Kind, Mode, Outcome, TurnOver, driver, launch,
};
use serde_json::{Value, json};
use support::{exit, setup};

/// A running agent.
struct Agent {
    driver: Box<dyn Driver>,
    input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
    program: JoinHandle<io::Result<()>>,
    turn: u64,
}

/// What a turn came to.
struct Turn {
    events: Vec<Event>,
    over: TurnOver,
}

impl Turn {
    /// All whole messages, joined.
    fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            Event::Text { text, .. } => Some(&**text),
            _ => None,
        });
        texts.collect()
    }

    fn pieces(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::TextDelta { .. })).count()
    }
}

fn start() -> (PipeWriter, BufReader<PipeReader>, JoinHandle<io::Result<()>>) {
    let (their_input, input) = io::pipe().unwrap();
    let (output, their_output) = io::pipe().unwrap();
    let program = std::thread::spawn(move || program::run(BufReader::new(their_input), their_output));
    (input, BufReader::new(output), program)
}

impl Agent {
    fn start(hosting: Hosting, resume: Option<&str>) -> Self {
        let (input, output, program) = start();
        let mut setup = setup(Kind::Echo, hosting, Mode::Auto);
        setup.resume = resume.map(str::to_owned);
        Agent { driver: driver(&setup), input: Some(input), output, program, turn: 0 }
    }

    fn say(&mut self, input: &Input<'_>, heard: &mut Heard) {
        let Encoded::Bytes(bytes) = self.driver.encode(input) else { panic!("{input:?} cannot be said") };
        self.input.as_ref().unwrap().write_all(&bytes).unwrap();
        self.driver.sent(input, heard);
    }

    /// Says what the driver wants to say, then reads a line.
    fn step(&mut self, heard: &mut Heard) {
        while self.driver.wants().is_some() {
            self.say(&Input::Own, heard);
        }
        let mut line = Vec::new();
        assert!(self.output.read_until(b'\n', &mut line).unwrap() > 0, "the agent has ended");
        self.driver.line(&line, heard);
    }

    /// A whole turn. `meanwhile` gets each event and may say something.
    fn turn(&mut self, text: &str, mut meanwhile: impl FnMut(&Event) -> Option<Input<'static>>) -> Turn {
        let mut heard = Heard::default();
        while !self.driver.ready() {
            self.step(&mut heard);
        }
        self.turn += 1;
        self.say(&Input::Prompt { turn: self.turn, text }, &mut heard);
        let mut seen = heard.events.len();
        while heard.over.is_none() {
            self.step(&mut heard);
            let said: Vec<Input<'_>> = heard.events[seen..].iter().filter_map(&mut meanwhile).collect();
            seen = heard.events.len();
            for input in said {
                self.say(&input, &mut heard);
            }
        }
        Turn { events: heard.events, over: heard.over.unwrap() }
    }

    fn asked(&mut self, text: &str) -> Turn {
        self.turn(text, |_| None)
    }

    /// Ends its input; it must end, and say nothing more.
    fn end(mut self) -> Vec<u8> {
        self.input = None;
        let mut rest = Vec::new();
        io::Read::read_to_end(&mut self.output, &mut rest).unwrap();
        self.program.join().unwrap().unwrap();
        rest
    }
}

fn completed(turn: &Turn) {
    assert_eq!((turn.over.outcome, &*turn.over.reason), (Outcome::Completed, ""));
    assert!(matches!(turn.events.last(), Some(Event::Result { .. })));
}

#[test]
fn it_does_what_the_prompt_says() {
    let mut agent = Agent::start(Hosting::Warm, None);
    let cwd = std::env::current_dir().unwrap();
    for (prompt, answer) in [
        ("hello \"there\"\n", "echo: hello \"there\"\n"),
        ("", "echo: "),
        ("sleep 0.05", "sleeping done"),
        ("sleep soundly", "echo: sleep soundly"),
        ("sleep -1", "echo: sleep -1"),
        ("sleep inf", "echo: sleep inf"),
        ("stream 3", "0 1 2 "),
        ("stream 0", ""),
        ("stream of words", "echo: stream of words"),
        ("tool", "tool done"),
        ("tool box", "echo: tool box"),
        ("think", "thought done"),
        ("cwd", cwd.to_str().unwrap()),
        (" stream 1 ", "0 "),
    ] {
        let turn = agent.asked(prompt);
        completed(&turn);
        assert_eq!(turn.text(), answer, "{prompt:?}");
    }
    assert_eq!(agent.end(), b"");
}

#[test]
fn pieces_come_as_they_were_asked_for() {
    let mut agent = Agent::start(Hosting::Warm, None);
    assert_eq!(agent.asked("stream 1000").pieces(), 1000);
    let turn = agent.asked("sleep 0");
    assert_eq!(turn.pieces(), 2);
    for (kib, pieces) in [(0, 0), (1, 1), (32, 1), (33, 2), (1000, 32)] {
        let turn = agent.asked(&format!("big {kib}"));
        let text = turn.text();
        assert_eq!((text.len(), turn.pieces()), (kib * 1024, pieces));
        assert!(text.bytes().all(|byte| byte == b'x'));
    }
}

#[test]
fn a_tool_and_a_thought_are_seen() {
    let mut agent = Agent::start(Hosting::Warm, None);
    let turn = agent.asked("tool");
    let [_, call, result, ..] = &turn.events[..] else { panic!("{:?}", turn.events) };
    let Event::ToolCall { id, name, input } = call else { panic!("{call:?}") };
    assert_eq!((&**id, &**name, input.get()), ("call_1", "bash", r#"{"command":"echo hello"}"#));
    let Event::ToolResult { id, output, failed: false, .. } = result else { panic!("{result:?}") };
    assert_eq!((&**id, &**output), ("call_1", "hello\n"));
    let turn = agent.asked("think");
    assert_eq!(turn.events[1], Event::Thought { text: "pondering".to_owned(), streamed: true });
}

#[test]
fn words_are_counted() {
    let mut agent = Agent::start(Hosting::Warm, None);
    let usage = agent.asked("one two three").over.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (3, 4));
}

#[test]
fn it_fails_when_told_to() {
    let mut agent = Agent::start(Hosting::Warm, None);
    let turn = agent.asked("fail");
    assert_eq!(turn.over.outcome, Outcome::Failed);
    assert_eq!(turn.over.reason, "The turn failed, as it was asked to.");
    assert_eq!(turn.events.last(), Some(&Event::Error { message: turn.over.reason.clone() }));
    completed(&agent.asked("again"));
}

#[test]
fn it_asks_and_hears_the_answer() {
    const NO: &Decision = &Decision::Reject(String::new());
    for (decision, answer, asks_again) in
        [(&Decision::AllowOnce, "approved", true), (NO, "denied", true), (&Decision::AllowAlways, "approved", false)]
    {
        let mut agent = Agent::start(Hosting::Warm, None);
        for asks in [true, asks_again] {
            let mut asked = false;
            let turn = agent.turn("approve", |event| {
                let Event::PermissionAsked { request, tool, summary, .. } = event else { return None };
                assert_eq!((&**tool, &**summary), ("bash", "bash: touch approved.txt"));
                asked = true;
                let request = String::leak(request.clone());
                Some(Input::Decision { request, decision, shown: None })
            });
            completed(&turn);
            assert_eq!((&*turn.text(), asked), (answer, asks));
            let failed = turn.events.iter().find_map(|event| match event {
                Event::ToolResult { failed, .. } => Some(*failed),
                _ => None,
            });
            assert_eq!(failed, Some(answer == "denied"));
        }
    }
}

#[test]
fn a_turn_can_be_interrupted_wherever_it_is() {
    let mut agent = Agent::start(Hosting::Warm, None);
    for prompt in ["sleep 600", "approve", "stream 100000000"] {
        let mut interrupted = false;
        let turn = agent.turn(prompt, |event| {
            let begun = matches!(event, Event::TextDelta { .. } | Event::PermissionAsked { .. });
            (begun && !std::mem::replace(&mut interrupted, begun)).then_some(Input::Interrupt)
        });
        assert_eq!((turn.over.outcome, &*turn.over.reason), (Outcome::Cancelled, ""), "{prompt}");
        assert!(!turn.text().contains("done") && !turn.text().contains("denied"));
    }
    assert_eq!(agent.asked("still here").text(), "echo: still here");
}

#[test]
fn it_listens_before_it_waits() {
    let mut agent = Agent::start(Hosting::Warm, None);
    // What it says before a pause comes before the pause, which is longer than a test may take.
    let turn = agent.turn("sleep 3600", |event| matches!(event, Event::TextDelta { .. }).then_some(Input::Interrupt));
    assert_eq!(turn.over.outcome, Outcome::Cancelled);
}

#[test]
fn it_loads_any_session_and_remembers_nothing() {
    let mut agent = Agent::start(Hosting::Warm, Some("of another day"));
    completed(&agent.asked("hello"));
    assert_eq!(agent.driver.session_id(), Some("of another day"));
    let mut first = Agent::start(Hosting::Warm, None);
    first.asked("hello");
    let id = first.driver.session_id().unwrap();
    assert!(id.starts_with(&format!("echo-{}-", std::process::id())), "{id}");
}

#[test]
fn a_process_for_one_message_is_let_go_after_it() {
    let mut agent = Agent::start(Hosting::PerMessage, None);
    assert!(!agent.driver.wants_eof());
    let turn = agent.asked("hello");
    completed(&turn);
    assert!(agent.driver.wants_eof());
    let mut heard = Heard::default();
    agent.driver.ended(exit(0), "", &mut heard);
    assert_eq!(heard, Heard::default());
    assert_eq!(agent.end(), b"");
}

#[test]
fn the_end_of_its_input_ends_whatever_it_does() {
    for prompt in ["sleep 600", "approve", "stream 100000000"] {
        let (input, mut output, program) = start();
        let params = json!({ "sessionId": "S", "prompt": prompt });
        writeln!(&input, "{}", json!({ "id": 1, "method": "session/prompt", "params": params })).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        drop(input);
        let mut rest = String::new();
        io::Read::read_to_string(&mut output, &mut rest).unwrap();
        let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
        assert_eq!((&last["id"], &last["result"]["stopReason"]), (&json!(1), &json!("cancelled")));
        program.join().unwrap().unwrap();
    }
}

#[test]
fn strange_input_gets_an_answer_or_none() {
    let (input, mut output, program) = start();
    let mut answer = |line: &str| {
        writeln!(&input, "{line}").unwrap();
        let mut answer = String::new();
        output.read_line(&mut answer).unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    assert_eq!(answer("what?")["error"]["code"], -32700);
    assert_eq!(answer(r#"{"id":"x","method":"session/set_mode"}"#)["error"]["code"], -32601);
    assert_eq!(answer(r#"{"id":3,"method":"session/prompt","params":{}}"#)["error"]["code"], -32602);
    // None of these is answered: the next answer is that to `session/new`.
    for line in ["", r#"{"method":"session/cancel"}"#, r#"{"id":77,"result":{}}"#, r#"{"method":"x"}"#] {
        writeln!(&input, "{line}").unwrap();
    }
    assert_eq!(answer(r#"{"id":4,"method":"session/new"}"#)["id"], 4);
    drop(input);
    program.join().unwrap().unwrap();
}

#[test]
fn its_command_is_the_houses() {
    let mut setup = setup(Kind::Echo, Hosting::Warm, Mode::Plan);
    setup.command = vec!["/opt/hostel".into(), "echo-agent".into()];
    let launch = launch(&setup);
    assert_eq!((&*launch.program, &launch.args[..]), ("/opt/hostel", &["echo-agent".to_owned()][..]));
    assert!(!launch.prompt_in_args);
}
