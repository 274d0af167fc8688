//! A conversation with an agent, with the promises a driver makes.
//!
//! It is held twice: by a driver that lives through all of it, and by one that is saved and restored on the way.

use hostel_agents::{
    Decision, Driver, Encoded, Event, Exit, Heard, Hosting, Input, Kind, Mode, Outcome, Setup, driver, launch, restore,
};
use serde_json::Value;

/// The longest summary of a question.
const SUMMARY_LIMIT: usize = 4096;
/// Questions that are looked at after each step; there may be hundreds.
const QUESTIONS_SEEN: usize = 4;

/// The conversation with one process.
pub struct Conversation {
    setup: Setup,
    whole: Box<dyn Driver>,
    restored: Box<dyn Driver>,
    /// The turn of this process is not told to the agent yet.
    waiting: bool,
    /// A turn was told and is not over.
    running: bool,
    turns: u64,
    /// Questions that wait for an answer, the oldest first.
    questions: Vec<String>,
    /// What was said and thought in pieces since the last whole.
    said: String,
    thought: String,
}

impl Conversation {
    /// A process that has just been started.
    pub fn new(setup: Setup) -> Self {
        let launch = launch(&setup);
        assert!(!launch.program.is_empty());
        assert!(launch.args.iter().all(|word| !word.contains('\0')), "a word that no command line can hold");
        let prompt = setup.prompt.as_deref().unwrap_or_default();
        if launch.prompt_in_args {
            assert!(launch.args.iter().any(|word| word == prompt), "the prompt is among the words");
            assert!(!prompt.is_empty() && !prompt.starts_with('-'), "a prompt that would be an option");
        }
        let whole = driver(&setup);
        let restored = restore(&setup, &whole.save()).expect("what was saved can be restored");
        Conversation {
            setup,
            whole,
            restored,
            waiting: !launch.prompt_in_args,
            running: launch.prompt_in_args,
            turns: 0,
            questions: Vec::new(),
            said: String::new(),
            thought: String::new(),
        }
    }

    /// Questions that wait for an answer.
    pub fn questions(&self) -> &[String] {
        &self.questions
    }

    /// The number of the next turn.
    pub fn next_turn(&self) -> u64 {
        self.turns + 1
    }

    /// The agent prints a line. To one of the two it comes with a carriage return.
    pub fn line(&mut self, line: &[u8]) {
        let wanted = self.whole.wants();
        let (mut heard, mut again) = (Heard::default(), Heard::default());
        self.whole.line(line, &mut heard);
        self.restored.line(&[line, b"\r"].concat(), &mut again);
        self.take(&heard, &again);
        let now = self.whole.wants();
        let given_up = now.is_none() && self.whole.wants_eof();
        assert!(wanted.is_none() || now == wanted || given_up, "own words have changed before they were sent");
    }

    /// Whether this can be said now; if so, [`Conversation::sent`] is to follow.
    pub fn say(&self, input: &Input<'_>) -> bool {
        let encoded = self.whole.encode(input);
        assert_eq!(self.whole.encode(input), encoded, "asking again gives the same words");
        assert_eq!(self.restored.encode(input), encoded);
        match (input, &encoded) {
            (Input::Own, Encoded::Bytes(bytes)) => assert_eq!(self.whole.wants().as_ref(), Some(bytes)),
            (Input::Prompt { .. }, _) => {
                assert_eq!(
                    matches!(encoded, Encoded::Bytes(_)),
                    self.whole.ready(),
                    "a prompt can be put when it is time"
                );
            }
            _ => {}
        }
        self.look();
        let Encoded::Bytes(bytes) = encoded else { return false };
        self.readable(&bytes);
        true
    }

    /// What the driver wants to say by itself, if it can be read.
    pub fn wants(&self) -> bool {
        let wanted = self.whole.wants();
        assert_eq!(self.whole.wants(), wanted);
        self.look();
        if let Some(bytes) = &wanted {
            self.readable(bytes);
        }
        wanted.is_some()
    }

    /// The mark of an input is read; other lines may have come since it was said.
    pub fn sent(&mut self, input: &Input<'_>) {
        let (mut heard, mut again) = (Heard::default(), Heard::default());
        self.whole.sent(input, &mut heard);
        self.restored.sent(input, &mut again);
        match input {
            Input::Prompt { .. } => {
                (self.waiting, self.running) = (false, true);
                self.turns += 1;
            }
            Input::Decision { request, .. } => self.questions.retain(|open| open != request),
            Input::Own | Input::Interrupt => {}
        }
        self.take(&heard, &again);
    }

    /// One of the two drivers is saved and restored.
    pub fn restore(&mut self) {
        self.restored = restore(&self.setup, &self.restored.save()).expect("what was saved can be restored");
        self.look();
    }

    /// The process ends.
    pub fn end(mut self, exit: Exit, stderr: &str) {
        let ran = self.running;
        let (mut heard, mut again) = (Heard::default(), Heard::default());
        self.whole.ended(exit, stderr, &mut heard);
        self.restored.ended(exit, stderr, &mut again);
        self.take(&heard, &again);
        assert!(!ran || heard.over.is_some(), "a running turn is over with its process");
        assert!(self.questions.is_empty(), "nobody waits for an answer any more");
    }

    /// Lines of JSON, where the agent is spoken to in lines.
    fn readable(&self, bytes: &[u8]) {
        assert!(!bytes.is_empty());
        if self.setup.hosting == Hosting::Warm
            || self.setup.mode == Mode::Ask && self.setup.kind == Kind::Claude
            || self.is_acp()
        {
            let lines = bytes.strip_suffix(b"\n").expect("whole lines are written");
            for line in lines.split(|byte| *byte == b'\n') {
                // The id of a question comes back as it was, and may be nested deeper than this reader goes.
                let read = serde_json::from_slice::<Value>(line);
                assert!(
                    read.is_ok_and(|read| read.is_object()) || !crate::json::comparable(line),
                    "a line that is no message"
                );
            }
        }
    }

    fn is_acp(&self) -> bool {
        match self.setup.kind {
            Kind::Acp | Kind::Echo => true,
            Kind::Gemini | Kind::Opencode => self.setup.hosting == Hosting::Warm,
            Kind::Claude | Kind::Codex => false,
        }
    }

    /// Both drivers are in the same state.
    fn look(&self) {
        let (whole, restored) = (&self.whole, &self.restored);
        assert_eq!(whole.save(), restored.save());
        assert_eq!(whole.wants(), restored.wants());
        assert_eq!((whole.ready(), whole.wants_eof()), (restored.ready(), restored.wants_eof()));
        assert_eq!(whole.session_id(), restored.session_id());
    }

    fn take(&mut self, heard: &Heard, again: &Heard) {
        assert_eq!(heard, again, "a restored driver hears the same");
        for event in &heard.events {
            self.event(event);
        }
        if let Some(over) = &heard.over {
            assert!(self.running || self.waiting, "a turn is over once");
            (self.running, self.waiting) = (false, false);
            assert!(self.said.is_empty() && self.thought.is_empty(), "something was said in pieces and never whole");
            assert_eq!(over.reason.is_empty(), over.outcome != Outcome::Failed, "{over:?}");
            assert!(over.usage.cost_usd.is_finite() && over.usage.cost_usd >= 0.0, "{over:?}");
        }
        self.look();
        assert!(!(self.running && self.whole.ready()), "the agent has a turn and takes another");
        let decision = &Decision::AllowOnce;
        let answer = |request| self.whole.encode(&Input::Decision { request, decision, shown: None });
        for request in self.questions.iter().rev().take(QUESTIONS_SEEN) {
            assert!(matches!(answer(request), Encoded::Bytes(_)), "a question that was asked can be answered");
        }
        for event in heard.events.iter().rev().take(QUESTIONS_SEEN) {
            if let Event::PermissionWithdrawn { request } = event
                && !self.questions.contains(request)
            {
                assert_eq!(answer(request), Encoded::Nothing, "a question that is gone needs no answer");
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let written = serde_json::to_string(event).expect("an event can be written");
        let read: Event = serde_json::from_str(&written).expect("an event can be read");
        assert_eq!(read, *event);
        match event {
            Event::TurnStarted { .. } | Event::TurnEnded { .. } | Event::PermissionAnswered { .. } => {
                panic!("{event:?} is for the house to say");
            }
            Event::PermissionAsked { request, summary, .. } => {
                assert!(!summary.contains(char::is_control), "{summary:?}");
                assert!(summary.chars().count() < SUMMARY_LIMIT);
                assert!(!self.questions.contains(request), "two questions of one name");
                self.questions.push(request.clone());
            }
            Event::PermissionWithdrawn { request } => {
                let at = self.questions.iter().position(|open| open == request).expect("a question that was open");
                self.questions.remove(at);
            }
            Event::TextDelta { text } if self.is_acp() => self.said.push_str(text),
            Event::ThoughtDelta { text } if self.is_acp() => self.thought.push_str(text),
            Event::Text { text, .. } if self.is_acp() => assert_eq!(*text, std::mem::take(&mut self.said)),
            Event::Thought { text, .. } if self.is_acp() => assert_eq!(*text, std::mem::take(&mut self.thought)),
            _ => {}
        }
    }
}
