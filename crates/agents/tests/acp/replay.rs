//! Replays a recorded ACP conversation with a driver that may open it in other words than the recorded client: ids in
//! the recording become the driver's own, and what the recording has no answer to is answered with `{}`.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::fs;

use hostel_agents::{Decision, Driver, Encoded, Exit, Heard, Input};
use serde_json::Value;

use crate::support;

/// A recorded conversation.
pub(crate) struct Recording {
    lines: Vec<String>,
    told: Vec<(usize, Value)>,
}

impl Recording {
    pub(crate) fn read(program: &str, name: &str) -> Self {
        let dir = support::fixtures(program);
        let printed = fs::read_to_string(dir.join(format!("{name}.jsonl"))).unwrap();
        let told = fs::read_to_string(dir.join(format!("{name}.stdin.jsonl"))).unwrap();
        let told = told.lines().map(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            (entry["after"].as_u64().unwrap() as usize, entry["line"].clone())
        });
        Recording { lines: printed.lines().map(str::to_owned).collect(), told: told.collect() }
    }

    /// The session that is loaded in it.
    pub(crate) fn resumed(&self) -> Option<String> {
        let load = self.told.iter().find(|(_, line)| line["method"] == "session/load")?;
        Some(load.1["params"]["sessionId"].as_str().unwrap().trim().to_owned())
    }

    /// All that is said and heard, one line each. `swap` may put another driver in the place of the one it gets.
    pub(crate) fn replay(
        &self,
        driver: Box<dyn Driver>,
        end: Exit,
        swap: impl Fn(Box<dyn Driver>) -> Box<dyn Driver>,
    ) -> String {
        let mut play = Play {
            driver,
            out: String::new(),
            requests: self
                .told
                .iter()
                .map(|(_, line)| line.clone())
                .filter(|line| line["method"].is_string())
                .collect(),
            ids: HashMap::new(),
            unanswered: VecDeque::new(),
            prompts: VecDeque::new(),
            turn: 0,
        };
        let mut told = self.told.iter().peekable();
        for number in 0..=self.lines.len() {
            while let Some((_, line)) = told.next_if(|(after, _)| *after <= number) {
                play.told(line);
            }
            play.speak();
            play.driver = swap(play.driver);
            let Some(line) = self.lines.get(number) else { break };
            play.hear(&(number + 1).to_string(), line);
            play.driver = swap(play.driver);
            let last_of_history = line.contains("available_commands_update");
            if last_of_history || !self.lines[number + 1..].iter().any(|line| line.contains("available_commands")) {
                play.answer_the_rest();
            }
        }
        assert!(play.prompts.is_empty(), "prompts were never put: {:?}", play.prompts);
        if play.driver.wants_eof() {
            play.out.push_str("eof\n");
        }
        let mut heard = Heard::default();
        play.driver.ended(end, "", &mut heard);
        show(&mut play.out, "end", "", &heard);
        writeln!(play.out, "session {}", play.driver.session_id().unwrap_or("-")).unwrap();
        play.out
    }
}

struct Play {
    driver: Box<dyn Driver>,
    out: String,
    /// Requests of the recorded client whose ids have no counterpart yet.
    requests: Vec<Value>,
    ids: HashMap<u64, u64>,
    /// Ids of requests the recorded client did not make.
    unanswered: VecDeque<u64>,
    prompts: VecDeque<String>,
    turn: u64,
}

impl Play {
    /// What the recorded client said, in our words. What a driver says by itself is left to it.
    fn told(&mut self, line: &Value) {
        match line["method"].as_str() {
            Some("session/prompt") => {
                let text = line["params"]["prompt"][0]["text"].as_str().unwrap();
                self.prompts.push_back(text.to_owned());
            }
            Some("session/cancel") => self.say(&Input::Interrupt),
            Some(_) => {}
            None => {
                let request = line["id"].to_string();
                let decision = match line["result"]["outcome"]["optionId"].as_str().unwrap() {
                    "reject" | "cancel" => Decision::Reject("no".to_owned()),
                    _ => Decision::AllowOnce,
                };
                self.say(&Input::Decision { request: &request, decision: &decision, shown: None });
            }
        }
    }

    fn speak(&mut self) {
        while self.driver.wants().is_some() {
            self.say(&Input::Own);
        }
        if self.driver.ready()
            && let Some(text) = self.prompts.pop_front()
        {
            self.turn += 1;
            self.say(&Input::Prompt { turn: self.turn, text: &text });
        }
    }

    fn say(&mut self, input: &Input<'_>) {
        let Encoded::Bytes(bytes) = self.driver.encode(input) else { panic!("{input:?} cannot be said") };
        let mut heard = Heard::default();
        self.driver.sent(input, &mut heard);
        let text = String::from_utf8(bytes).unwrap();
        let line = text.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'));
        let version = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
        writeln!(self.out, "> {}", line.replace(&version, "\"version\":\"our own\"")).unwrap();
        show(&mut self.out, "sent", "", &heard);
        let line: Value = serde_json::from_str(line).unwrap();
        let (Some(id), Some(method)) = (line["id"].as_u64(), line["method"].as_str()) else { return };
        match self.requests.iter().position(|theirs| theirs["method"] == method) {
            Some(at) => {
                let theirs = self.requests.remove(at);
                self.ids.insert(theirs["id"].as_u64().unwrap(), id);
            }
            None => self.unanswered.push_back(id),
        }
    }

    fn hear(&mut self, at: &str, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap();
        let line = match message["id"].as_u64() {
            Some(id) if message["method"].is_null() => {
                let own = self.ids.get(&id).unwrap_or_else(|| panic!("an answer to {id}, which nobody asked"));
                line.replacen(&format!("\"id\":{id}"), &format!("\"id\":{own}"), 1)
            }
            _ => line.to_owned(),
        };
        let mut heard = Heard::default();
        self.driver.line(line.as_bytes(), &mut heard);
        show(&mut self.out, at, &line, &heard);
    }

    fn answer_the_rest(&mut self) {
        while let Some(id) = self.unanswered.pop_front() {
            self.ids.insert(u64::MAX, id);
            self.hear("answer", &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, u64::MAX));
        }
    }
}

fn show(out: &mut String, at: &str, line: &str, heard: &Heard) {
    for event in &heard.events {
        let mut event = serde_json::to_value(event).unwrap();
        for fields in event.as_object_mut().unwrap().values_mut() {
            if let Some(raw) = fields.get_mut("raw") {
                assert_eq!(raw.to_string(), serde_json::from_str::<Value>(line).unwrap().to_string());
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
