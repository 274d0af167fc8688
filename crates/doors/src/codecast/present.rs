//! What happened in a session, in this contract's words. Pure.
//!
//! The catalogue has fewer words than the house: thoughts, plans and the results of claude's tools are not in it. What
//! a person must know is told in a word that is: a question to them is a `system` event, a turn that failed without
//! saying so is an `error`.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use hostel_agents::{Event, Hosting, Kind, Outcome};
use hostel_house::sessions::{Cause, Entry};

use super::event::Out;

/// How many errors of a turn are remembered.
const REMEMBERED: usize = 16;

/// Tells the events of one session, in order.
#[derive(Debug)]
pub(super) struct Presenter {
    kind: Kind,
    hosting: Hosting,
    /// The turn the last event belonged to; 0 before the first.
    turn: u64,
    /// Errors of this turn that were told.
    told: VecDeque<u64>,
    /// A turn that is over has been told as interrupted.
    interrupted: bool,
}

impl Presenter {
    pub(super) fn new(kind: Kind, hosting: Hosting) -> Self {
        Self { kind, hosting, turn: 0, told: VecDeque::new(), interrupted: false }
    }

    /// The next turn will be this one, whether or not it ever starts.
    pub(super) fn expect(&mut self, turn: u64) {
        self.turn = turn;
    }

    /// Writes an event; often nothing.
    pub(super) fn tell(&mut self, entry: &Entry, out: &mut Out) {
        if !matches!(entry.event, Event::TurnEnded { .. }) {
            self.turn = entry.turn;
        }
        match &entry.event {
            Event::TextDelta { text } => out.text("partial", "content", text),
            Event::Text { text, .. } => out.text("text", "content", text),
            Event::ThoughtDelta { text } if self.shows_thoughts() => out.text("partial", "content", text),
            Event::ToolBegan { name } => out.event("tool_use").name("tool", name).end(),
            Event::ToolCall { name, input, .. } => out.tool_call(name, input.get()),
            Event::ToolProgress { name, message, raw } => {
                out.tool_message(name, message, raw.as_ref().map(hostel_agents::Raw::get));
            }
            Event::ToolResult { name, output, failed, .. } => self.tool_result(name, output, *failed, out),
            Event::Init { subtype, session_id, model, raw } => out
                .event("system")
                .name("subtype", subtype)
                .optional_name("session_id", session_id.as_deref())
                .optional_name("model", model.as_deref())
                .raw("raw", raw.as_ref().map(hostel_agents::Raw::get))
                .end(),
            Event::Result { session_id, raw } => out
                .event("result")
                .optional_name("session_id", session_id.as_deref())
                .raw("raw", raw.as_ref().map(hostel_agents::Raw::get))
                .end(),
            Event::Error { message } => self.error(message, out),
            Event::PermissionAsked { approval, tool, summary, input, timeout_secs, .. } => out
                .event("system")
                .name("subtype", "permission_request")
                .name("approval", approval)
                .name("tool", tool)
                .name("summary", summary)
                .number("timeout_secs", *timeout_secs)
                .raw("input", Some(input.get()))
                .end(),
            Event::TurnStarted { .. } => {
                self.told.clear();
                self.interrupted = false;
            }
            Event::TurnEnded { turn, outcome, text, .. } => self.turn_ended(*turn, *outcome, text, out),
            Event::ThoughtDelta { .. }
            | Event::Thought { .. }
            | Event::PermissionAnswered { .. }
            | Event::PermissionWithdrawn { .. }
            | Event::Plan { .. }
            | Event::ContextUsage { .. }
            | Event::Notice { .. } => {}
        }
    }

    /// Events that are no longer there.
    pub(super) fn gap(from: u64, to: u64, out: &mut Out) {
        out.event("system").name("subtype", "gap").number("from", from).number("to", to).end();
    }

    /// opencode's older output had its thoughts among the pieces of the answer.
    fn shows_thoughts(&self) -> bool {
        self.kind == Kind::Opencode && self.hosting == Hosting::PerMessage
    }

    fn tool_result(&mut self, name: &str, output: &str, failed: bool, out: &mut Out) {
        match self.kind {
            Kind::Claude => {}
            Kind::Gemini | Kind::Opencode if failed => {
                let message = if output.is_empty() { format!("{name} failed") } else { output.to_owned() };
                self.error(&message, out);
            }
            _ => out.tool_message(name, output, None),
        }
    }

    fn error(&mut self, message: &str, out: &mut Out) {
        self.told.push_back(digest(message));
        if self.told.len() > REMEMBERED {
            self.told.pop_front();
        }
        out.error(message);
    }

    fn turn_ended(&mut self, turn: u64, outcome: Outcome, text: &str, out: &mut Out) {
        // A prompt that was taken back while it waited: nothing that was shown has ended.
        let waited = self.turn != 0 && turn != self.turn;
        self.turn = if waited { self.turn } else { turn };
        match outcome {
            Outcome::Completed => {}
            Outcome::Failed if text.is_empty() || self.told.contains(&digest(text)) => {}
            Outcome::Failed => out.error(text),
            Outcome::Cancelled if waited || self.interrupted => {}
            // Whoever removes a session knows; everybody else learns it from the end of the stream.
            Outcome::Cancelled if text.contains(Cause::SessionRemoved.word()) => {}
            Outcome::Cancelled if text.contains(Cause::TimeLimit.word()) => self.error(text, out),
            Outcome::Cancelled => {
                self.interrupted = true;
                out.bare("interrupted");
            }
        }
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use crate::codecast::event::Shape;
    use hostel_agents::{Raw, Usage};
    use serde_json::{Value, json};

    fn told_by(presenter: &mut Presenter, turn: u64, events: Vec<Event>) -> Vec<Value> {
        let mut out = Out::new(Shape::Elements);
        for event in events {
            presenter.tell(&Entry { seq: 1, turn, time_ns: 0, event }, &mut out);
        }
        let text = String::from_utf8(out.take(0)).unwrap();
        serde_json::from_str(&format!("[{text}]")).unwrap()
    }

    fn told(kind: Kind, events: Vec<Event>) -> Vec<Value> {
        told_by(&mut Presenter::new(kind, Hosting::PerMessage), 1, events)
    }

    fn ended(turn: u64, outcome: Outcome, text: &str) -> Event {
        Event::TurnEnded { turn, outcome, text: text.into(), usage: Usage::default() }
    }

    fn started(turn: u64) -> Event {
        Event::TurnStarted { turn, prompt: "p".into(), door: "codecast".into() }
    }

    fn error(message: &str) -> Event {
        Event::Error { message: message.into() }
    }

    #[test]
    fn the_catalogue() {
        let raw = Raw::of(&json!({"type": "system", "x": 1}));
        let events = vec![
            started(1),
            Event::Init {
                subtype: "init".into(),
                session_id: Some("s".into()),
                model: Some("m".into()),
                raw: Some(raw.clone()),
            },
            Event::TextDelta { text: "Let me ".into() },
            Event::ThoughtDelta { text: "hm".into() },
            Event::Thought { text: "hm".into(), streamed: true },
            Event::ToolBegan { name: "Bash".into() },
            Event::ToolCall { id: "1".into(), name: "Bash".into(), input: Raw::of(&json!({"command": "ls"})) },
            Event::ToolProgress { name: "Bash".into(), message: "running".into(), raw: Some(raw.clone()) },
            Event::ToolResult { id: "1".into(), name: "Bash".into(), output: "a".into(), failed: false },
            Event::Text { text: String::new(), streamed: false },
            Event::Result { session_id: Some("s".into()), raw: Some(raw) },
            ended(1, Outcome::Completed, "Let me"),
        ];
        assert_eq!(
            told(Kind::Claude, events),
            [
                json!({"type": "system", "subtype": "init", "session_id": "s", "model": "m",
                       "raw": {"type": "system", "x": 1}}),
                json!({"type": "partial", "content": "Let me "}),
                json!({"type": "tool_use", "tool": "Bash"}),
                json!({"type": "tool_use", "tool": "Bash", "input": {"command": "ls"}}),
                json!({"type": "tool_use", "tool": "Bash", "message": "running", "raw": {"type": "system", "x": 1}}),
                json!({"type": "text", "content": ""}),
                json!({"type": "result", "session_id": "s", "raw": {"type": "system", "x": 1}}),
            ]
        );
    }

    #[test]
    fn unknown_members_are_left_out_and_the_type_is_first() {
        let mut out = Out::new(Shape::Elements);
        let event = Event::Init { subtype: "init".into(), session_id: None, model: None, raw: Some(Raw::null()) };
        let mut presenter = Presenter::new(Kind::Codex, Hosting::PerMessage);
        presenter.tell(&Entry { seq: 1, turn: 1, time_ns: 0, event }, &mut out);
        assert_eq!(out.take(0), br#"{"type":"system","subtype":"init","raw":null}"#);
    }

    #[test]
    fn results_of_tools_by_kind() {
        let result = |failed| Event::ToolResult { id: "1".into(), name: "bash".into(), output: "out".into(), failed };
        let message = json!({"type": "tool_use", "tool": "bash", "message": "out"});
        let failure = json!({"type": "error", "message": "out"});
        for (kind, fine, failed) in [
            (Kind::Claude, None, None),
            (Kind::Codex, Some(&message), Some(&message)),
            (Kind::Gemini, Some(&message), Some(&failure)),
            (Kind::Opencode, Some(&message), Some(&failure)),
            (Kind::Echo, Some(&message), Some(&message)),
        ] {
            assert_eq!(told(kind, vec![result(false)]).first(), fine, "{kind:?}");
            assert_eq!(told(kind, vec![result(true)]).first(), failed, "{kind:?}");
        }
    }

    #[test]
    fn thoughts_of_old_opencode_only() {
        let thought = || Event::ThoughtDelta { text: "hm".into() };
        assert_eq!(told(Kind::Opencode, vec![thought()]), [json!({"type": "partial", "content": "hm"})]);
        let mut warm = Presenter::new(Kind::Opencode, Hosting::Warm);
        assert!(told_by(&mut warm, 1, vec![thought()]).is_empty());
        assert!(told(Kind::Gemini, vec![thought()]).is_empty());
    }

    #[test]
    fn a_failure_is_told_once() {
        let events = vec![started(1), error("no key"), ended(1, Outcome::Failed, "no key")];
        assert_eq!(told(Kind::Claude, events), [json!({"type": "error", "message": "no key"})]);
        let events = vec![started(1), error("a warning"), ended(1, Outcome::Failed, "killed")];
        assert_eq!(told(Kind::Claude, events).len(), 2);
        let mut presenter = Presenter::new(Kind::Claude, Hosting::PerMessage);
        told_by(&mut presenter, 1, vec![started(1), error("no key"), ended(1, Outcome::Failed, "no key")]);
        let again = told_by(&mut presenter, 2, vec![started(2), ended(2, Outcome::Failed, "no key")]);
        assert_eq!(again, [json!({"type": "error", "message": "no key"})], "another turn is another failure");
    }

    #[test]
    fn an_interrupt_is_told_once_and_only_for_what_was_shown() {
        let cancelled = |turn| ended(turn, Outcome::Cancelled, "cancelled (client_rpc)");
        let interrupted = [json!({"type": "interrupted"})];
        assert_eq!(told(Kind::Claude, vec![started(1), cancelled(2), cancelled(1), cancelled(3)]), interrupted);
        // Nothing of the turn was ever seen: it was stopped before it started.
        assert_eq!(told(Kind::Claude, vec![cancelled(1), cancelled(2)]), interrupted);
        let mut presenter = Presenter::new(Kind::Claude, Hosting::PerMessage);
        presenter.expect(5);
        assert!(told_by(&mut presenter, 6, vec![cancelled(6)]).is_empty());
        assert_eq!(told_by(&mut presenter, 5, vec![cancelled(5)]), interrupted);
    }

    #[test]
    fn why_it_was_cancelled_matters() {
        let removed = ended(1, Outcome::Cancelled, "cancelled (session_removed)");
        assert!(told(Kind::Claude, vec![started(1), removed]).is_empty());
        let late = ended(1, Outcome::Cancelled, "stopped after an hour (time_limit)");
        assert_eq!(told(Kind::Claude, vec![started(1), late])[0]["type"], "error");
    }

    #[test]
    fn a_question_is_shown() {
        let event = Event::PermissionAsked {
            request: "r".into(),
            approval: "a".into(),
            call: "c".into(),
            tool: "Bash".into(),
            input: Raw::of(&json!({"command": "ls"})),
            summary: "run ls".into(),
            timeout_secs: 60,
        };
        assert_eq!(
            told(Kind::Claude, vec![event]),
            [json!({"type": "system", "subtype": "permission_request", "approval": "a", "tool": "Bash",
                    "summary": "run ls", "timeout_secs": 60, "input": {"command": "ls"}})]
        );
    }
}
