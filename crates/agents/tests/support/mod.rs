//! Replays recorded conversations: `NAME.jsonl` is what a program printed, `NAME.stdin.jsonl`, where there is one,
//! what it was told and when (`after` so many printed lines), `NAME.events` what it comes to.
//!
//! `HOSTEL_UPDATE=1` writes the `.events` files anew. Read what has changed before you keep it.

#![allow(dead_code, unreachable_pub)] // each test program uses a part

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hostel_agents::{Decision, Driver, Encoded, Exit, Heard, Hosting, Input, Kind, Mode, Setup};
use serde_json::Value;

/// A setup with nothing special.
pub fn setup(kind: Kind, hosting: Hosting, mode: Mode) -> Setup {
    Setup {
        kind,
        hosting,
        mode,
        model: None,
        resume: None,
        cwd: "/home/dev/project".into(),
        command: vec![],
        prompt: None,
        root: false,
        used: None,
    }
}

/// An end with this exit status.
pub fn exit(code: i32) -> Exit {
    Exit { code, signal: 0, lost: false, stopped: false }
}

/// An end by a signal that was not the house's.
pub fn killed(signal: i32) -> Exit {
    Exit { code: -1, signal, lost: false, stopped: false }
}

/// An end after the house had signalled.
pub fn stopped(code: i32, signal: i32) -> Exit {
    Exit { code, signal, lost: false, stopped: true }
}

/// Where the transcripts of a program are.
pub fn fixtures(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(program)
}

/// The names of all transcripts of a program.
pub fn names(program: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixtures(program))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".jsonl")?.to_owned()))
        .filter(|name| !name.ends_with(".stdin"))
        .collect();
    names.sort();
    names
}

/// Something that was told to a program, in our words.
#[derive(Debug, PartialEq)]
pub enum Told {
    /// What the driver wants to say by itself.
    Own,
    /// A prompt.
    Prompt(String),
    /// An answer to the question that was asked last.
    Decision(String, Decision),
    /// Stop.
    Interrupt,
    /// Something we never say; the transcript has the response to it.
    Foreign,
}

/// A recorded conversation.
pub struct Transcript {
    /// Printed lines.
    pub lines: Vec<Vec<u8>>,
    /// What was told, and after how many lines.
    pub told: Vec<(usize, Told)>,
}

impl Transcript {
    /// Reads one; `translate` puts what was told into our words.
    pub fn read(program: &str, name: &str, translate: fn(&Value) -> Told) -> Self {
        let dir = fixtures(program);
        let printed = fs::read(dir.join(format!("{name}.jsonl"))).unwrap();
        let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        let told = fs::read_to_string(dir.join(format!("{name}.stdin.jsonl"))).unwrap_or_default();
        let told = told
            .lines()
            .map(|line| {
                let entry: Value = serde_json::from_str(line).unwrap();
                (entry["after"].as_u64().unwrap() as usize, translate(&entry["line"]))
            })
            .collect();
        Transcript { lines, told }
    }

    /// All that is heard, as text: one line per event, input and end of a turn.
    ///
    /// `swap` gets the driver after every step and may put another in its place.
    pub fn replay(
        &self,
        mut driver: Box<dyn Driver>,
        exit: Exit,
        stderr: &str,
        swap: impl Fn(Box<dyn Driver>) -> Box<dyn Driver>,
    ) -> String {
        let mut out = String::new();
        let mut turn = 0;
        let mut told = self.told.iter().peekable();
        for number in 0..=self.lines.len() {
            while let Some((_, input)) = told.next_if(|(after, _)| *after <= number) {
                driver = swap(tell(driver, input, &mut turn, &mut out));
            }
            let Some(line) = self.lines.get(number) else { break };
            let mut heard = Heard::default();
            driver.line(line, &mut heard);
            show(&mut out, &(number + 1).to_string(), line, &heard);
            driver = swap(driver);
        }
        let mut heard = Heard::default();
        if driver.wants_eof() {
            out.push_str("eof\n");
        }
        driver.ended(exit, stderr, &mut heard);
        show(&mut out, "end", b"", &heard);
        writeln!(out, "session {}", driver.session_id().unwrap_or("-")).unwrap();
        out
    }
}

fn tell(mut driver: Box<dyn Driver>, told: &Told, turn: &mut u64, out: &mut String) -> Box<dyn Driver> {
    let input = match told {
        Told::Own => Input::Own,
        Told::Prompt(text) => Input::Prompt { turn: *turn + 1, text },
        Told::Decision(request, decision) => Input::Decision { request, decision, shown: None },
        Told::Interrupt => Input::Interrupt,
        Told::Foreign => return driver,
    };
    match driver.encode(&input) {
        Encoded::Bytes(bytes) => {
            assert!(!bytes.is_empty());
            for line in String::from_utf8(bytes).unwrap().lines() {
                writeln!(out, "> {line}").unwrap();
            }
            let mut heard = Heard::default();
            driver.sent(&input, &mut heard);
            show(out, "sent", b"", &heard);
            *turn += u64::from(matches!(told, Told::Prompt(_)));
        }
        other => writeln!(out, "> {other:?}").unwrap(),
    }
    driver
}

/// What was heard of one line.
fn show(out: &mut String, at: &str, line: &[u8], heard: &Heard) {
    let printed: Value = serde_json::from_slice(line).unwrap_or_default();
    for event in &heard.events {
        let mut event = serde_json::to_value(event).unwrap();
        for fields in event.as_object_mut().unwrap().values_mut() {
            if let Some(raw) = fields.get_mut("raw") {
                assert_eq!(*raw, printed, "the raw of an event is its line");
                *raw = Value::from("the line");
            }
        }
        writeln!(out, "{at} {event}").unwrap();
    }
    if let Some(over) = &heard.over {
        let usage = serde_json::to_value(over.usage).unwrap();
        writeln!(out, "{at} over {:?} {:?} {usage}", over.outcome, over.reason).unwrap();
    }
}

/// Compares with the checked-in events, or writes them.
pub fn check(program: &str, name: &str, heard: &str) {
    let path = fixtures(program).join(format!("{name}.events"));
    if std::env::var_os("HOSTEL_UPDATE").is_some() {
        fs::write(&path, heard).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    for (number, (heard, expected)) in heard.lines().zip(expected.lines()).enumerate() {
        assert_eq!(heard, expected, "{}:{}", path.display(), number + 1);
    }
    assert_eq!(heard.lines().count(), expected.lines().count(), "{}", path.display());
}

/// What a driver makes of some lines, without anything being told.
pub fn hear(driver: &mut dyn Driver, lines: &[&str]) -> Heard {
    let mut heard = Heard::default();
    for line in lines {
        driver.line(line.as_bytes(), &mut heard);
    }
    heard
}

/// Tells it and returns the bytes.
pub fn send(driver: &mut dyn Driver, input: &Input<'_>) -> String {
    let Encoded::Bytes(bytes) = driver.encode(input) else { panic!("{input:?} cannot be said now") };
    let mut heard = Heard::default();
    driver.sent(input, &mut heard);
    assert_eq!(heard, Heard::default());
    String::from_utf8(bytes).unwrap()
}
