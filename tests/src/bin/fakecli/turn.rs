//! One turn: the steps of the script, told in the words of whichever CLI is being played.
//!
//! Output is flushed whenever the turn waits for anything, so what was said can be seen before it ends. A wait hears
//! standard input and signals at once.

use std::env;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};

use crate::inbox::{Arrival, Inbox};
use crate::logbook;
use crate::out::Out;
use crate::script::{self, Step};
use crate::session::Session;
use crate::tools;

/// How often a fast stream looks up from its work.
const LOOK_UP: u64 = 256;
/// Texts longer than this are not cut into words.
const WORDY: usize = 16 << 10;

/// What a prompt can ask about.
pub(crate) struct Facts {
    pub(crate) model: String,
    pub(crate) mode: String,
    pub(crate) resumed: Option<String>,
    /// The CLI ends its tools when it is killed.
    pub(crate) mortal_tools: bool,
}

/// What a line that came in during a turn means for it.
pub(crate) enum News {
    Nothing,
    Interrupt,
    Verdict(Verdict),
}

/// The answer to a question.
pub(crate) enum Verdict {
    /// Yes; perhaps with another command, perhaps with an answer in words.
    Allow { command: Option<String>, words: Option<String> },
    /// No; the turn goes on.
    Deny(String),
    /// No, and stop.
    Stop,
}

/// What becomes of the wish to ask.
pub(crate) enum Asking {
    /// There is nothing to ask in this mode.
    Allowed,
    /// There is nobody to ask, or the mode forbids it.
    Refused(String),
    /// The question is out.
    Asked,
}

/// How a turn ends.
pub(crate) enum Ending {
    Done(String),
    Interrupted(String),
    Failed(String),
}

/// Why a step does not come to its end.
enum Stop {
    Interrupted,
    Failed(String),
    /// A refusal ends the turn without a word.
    Quiet,
}

/// A CLI's own words.
pub(crate) trait Wire {
    fn out(&mut self) -> &mut Out;
    fn inbox(&self) -> &Inbox;
    fn facts(&self) -> &Facts;
    fn session(&mut self) -> &mut Session;

    fn begin(&mut self, prompt: &str);
    fn delta(&mut self, text: &str);
    /// A block of text is complete; its deltas came before if it was streamed.
    fn text(&mut self, text: &str, streamed: bool);
    fn thought(&mut self, text: &str);
    fn tool_call(&mut self, id: &str, command: &str);
    fn tool_result(&mut self, id: &str, command: &str, output: &str, code: i32);
    /// Whether the turn goes on after that.
    fn tool_refused(&mut self, id: &str, command: &str, why: &str) -> bool;
    /// After this the question's call is on its way, if it was not shown before.
    fn ask(&mut self, id: &str, command: &str) -> Asking;
    /// Asks the user to choose; only claude can.
    fn ask_choice(&mut self, _id: &str, _question: &str) -> Asking {
        Asking::Refused("there is nobody to ask".to_owned())
    }
    /// Whole blocks without their pieces from now on, or with them again.
    fn whole_blocks(&mut self, _only: bool) {}
    /// The open question needs no answer any more.
    fn withdraw(&mut self) {}
    fn arrival(&mut self, line: &str) -> News;
    fn eof(&mut self) -> News;
    fn end(&mut self, ending: &Ending);
}

/// Plays one prompt to its end.
pub(crate) fn run(wire: &mut dyn Wire, prompt: &str) {
    let steps = script::parse(prompt);
    let session = wire.session().id.clone();
    logbook::note_prompt(&session, prompt);
    if let [Step::Stderr(text)] = steps.as_slice() {
        wire.out().flush();
        eprintln!("{text}");
        std::process::exit(1);
    }
    wire.session().begin(prompt);
    wire.begin(prompt);
    let mut turn = Turn { wire, block: String::new(), said: String::new() };
    let mut linger = false;
    let stop = steps.iter().try_for_each(|step| {
        linger |= matches!(step, Step::Lingering { .. });
        turn.step(step)
    });
    let (ending, word) = match stop {
        Err(Stop::Interrupted) => {
            tools::end_running();
            (Ending::Interrupted(std::mem::take(&mut turn.block)), "interrupted")
        }
        Err(Stop::Failed(why)) => {
            turn.close_block();
            (Ending::Failed(why), "failed")
        }
        Ok(()) | Err(Stop::Quiet) => {
            turn.close_block();
            (Ending::Done(std::mem::take(&mut turn.said)), "done")
        }
    };
    let said = match &ending {
        Ending::Done(text) | Ending::Interrupted(text) => text.as_str(),
        Ending::Failed(_) => "",
    };
    wire.session().end(said);
    logbook::note_end(&session, word);
    wire.end(&ending);
    wire.out().flush();
    if linger {
        mute(wire);
    }
}

struct Turn<'a> {
    wire: &'a mut dyn Wire,
    /// The text block being said.
    block: String,
    /// The last block that was complete: the answer.
    said: String,
}

impl Turn<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Say(text) => self.say(text),
            Step::Stream(count, pause) => self.stream(*count, *pause)?,
            Step::Sleep(time) => {
                self.piece("sleeping");
                self.wait(*time)?;
                self.piece(" done");
            }
            Step::Think(text) => {
                self.close_block();
                self.wire.thought(text);
                self.say(&format!("thought about {text}"));
            }
            Step::Tool(command) => self.tool(command, false)?,
            Step::Ask(command) => self.tool(command, true)?,
            Step::Question(text) => self.question(text)?,
            Step::Crash(code) => self.crash(*code),
            Step::Stderr(text) => {
                self.wire.out().flush();
                eprintln!("{text}");
                std::process::exit(1);
            }
            Step::Fail(why) => return Err(Stop::Failed(why.clone())),
            Step::Garbage => {
                self.close_block();
                garbage(self.wire.out());
                self.say("after the garbage");
            }
            Step::BigLine(size) => {
                self.close_block();
                self.wire.text(&"x".repeat(*size), false);
                self.say("big line done");
            }
            Step::Hang => {
                self.piece("hanging");
                self.wire.out().flush();
                tools::hang();
            }
            Step::Lingering { mute: true } => {
                self.piece("going mute");
                mute(self.wire);
            }
            Step::Lingering { mute: false } => self.say("lingering"),
            Step::Grandchild => {
                self.wire.out().flush();
                let pid = tools::leave_holder();
                self.say(&format!("grandchild {pid}"));
            }
            Step::Events(count) => self.events(*count)?,
            Step::Model => self.say(&self.wire.facts().model.clone()),
            Step::Mode => self.say(&self.wire.facts().mode.clone()),
            Step::Cwd => {
                let cwd = self.wire.session().cwd.clone();
                self.say(&cwd);
            }
            Step::Env(name) => self.say(&env::var(name).unwrap_or_else(|_| "unset".to_owned())),
            Step::ResumeId => self.say(&self.wire.facts().resumed.clone().unwrap_or_else(|| "none".to_owned())),
            Step::Recall => {
                let turns = &self.wire.session().turns;
                let before: Vec<&str> = turns[..turns.len() - 1].iter().map(|turn| turn.0.as_str()).collect();
                let text = format!("earlier: {}", before.join(" | "));
                self.say(&text);
            }
        }
        Ok(())
    }

    fn piece(&mut self, text: &str) {
        self.wire.delta(text);
        self.block.push_str(text);
    }

    fn say(&mut self, text: &str) {
        self.close_block();
        if text.len() <= WORDY {
            for word in text.split_inclusive(' ') {
                self.piece(word);
            }
            return;
        }
        let mut rest = text;
        while !rest.is_empty() {
            let mut cut = rest.len().min(1 << 10);
            while !rest.is_char_boundary(cut) {
                cut += 1;
            }
            let (head, tail) = rest.split_at(cut);
            self.piece(head);
            rest = tail;
        }
    }

    fn close_block(&mut self) {
        if !self.block.is_empty() {
            self.wire.text(&self.block, true);
            self.said = std::mem::take(&mut self.block);
        }
    }

    fn stream(&mut self, count: u64, pause: Duration) -> Result<(), Stop> {
        self.close_block();
        for number in 0..count {
            if !pause.is_zero() {
                self.wait(pause)?;
            } else if number % LOOK_UP == 0 {
                self.look_up()?;
            }
            self.piece(&format!("{number} "));
        }
        Ok(())
    }

    fn events(&mut self, count: u64) -> Result<(), Stop> {
        self.close_block();
        let mut id = String::new();
        self.wire.whole_blocks(true);
        for number in 0..count {
            match number % 4 {
                0 => self.wire.thought(&format!("thought {number}")),
                1 => self.wire.text(&format!("text {number}"), false),
                2 => {
                    id = self.wire.out().fresh("call_");
                    self.wire.tool_call(&id, "true");
                }
                _ => self.wire.tool_result(&id, "true", "", 0),
            }
            if number % LOOK_UP == 0 {
                self.look_up()?;
            }
        }
        self.wire.whole_blocks(false);
        self.say(&format!("{count} events"));
        Ok(())
    }

    fn tool(&mut self, command: &str, ask: bool) -> Result<(), Stop> {
        self.close_block();
        let id = self.wire.out().fresh("call_");
        let mut command = command.to_owned();
        if ask {
            let asking = self.wire.ask(&id, &command);
            match self.verdict(asking)? {
                Verdict::Allow { command: Some(other), .. } => command = other,
                Verdict::Allow { .. } => {}
                Verdict::Deny(why) => {
                    if !self.wire.tool_refused(&id, &command, &why) {
                        return Err(Stop::Quiet);
                    }
                    self.say(&if why.is_empty() { "denied".to_owned() } else { format!("denied: {why}") });
                    return Ok(());
                }
                Verdict::Stop => return Err(Stop::Interrupted),
            }
        } else {
            self.wire.tool_call(&id, &command);
        }
        self.wire.out().flush();
        let directory = self.wire.session().cwd.clone();
        let mine = tools::start(&command, &directory, self.wire.facts().mortal_tools, self.wire.inbox().sender());
        loop {
            let arrival = self.wire.inbox().next();
            if let Arrival::Tool { number, output, code } = arrival {
                if number != mine {
                    continue;
                }
                self.wire.tool_result(&id, &command, &output, code);
                self.say(&format!("tool said: {}", output.trim_end()));
                return Ok(());
            }
            self.hear(arrival)?;
        }
    }

    fn question(&mut self, text: &str) -> Result<(), Stop> {
        self.close_block();
        let id = self.wire.out().fresh("call_");
        let asking = self.wire.ask_choice(&id, text);
        match self.verdict(asking)? {
            Verdict::Allow { words, .. } => {
                let words = words.unwrap_or_else(|| "nothing".to_owned());
                self.wire.tool_result(&id, text, &words, 0);
                self.say(&format!("chose {words}"));
                Ok(())
            }
            Verdict::Deny(why) => {
                self.wire.tool_refused(&id, text, &why);
                self.say(&format!("denied: {why}"));
                Ok(())
            }
            Verdict::Stop => Err(Stop::Interrupted),
        }
    }

    fn verdict(&mut self, asking: Asking) -> Result<Verdict, Stop> {
        match asking {
            Asking::Allowed => return Ok(Verdict::Allow { command: None, words: None }),
            Asking::Refused(why) => return Ok(Verdict::Deny(why)),
            Asking::Asked => {}
        }
        self.wire.out().flush();
        loop {
            let arrival = self.wire.inbox().next();
            match self.hear(arrival) {
                Ok(Some(verdict)) => return Ok(verdict),
                Ok(None) => {}
                Err(stop) => {
                    self.wire.withdraw();
                    return Err(stop);
                }
            }
        }
    }

    fn wait(&mut self, time: Duration) -> Result<(), Stop> {
        self.wire.out().flush();
        let deadline = Instant::now() + time;
        while let Some(arrival) = self.wire.inbox().next_until(deadline) {
            self.hear(arrival)?;
        }
        Ok(())
    }

    fn look_up(&mut self) -> Result<(), Stop> {
        while let Some(arrival) = self.wire.inbox().at_once() {
            self.hear(arrival)?;
        }
        Ok(())
    }

    fn hear(&mut self, arrival: Arrival) -> Result<Option<Verdict>, Stop> {
        let news = match arrival {
            Arrival::Line(line) => self.wire.arrival(&line),
            Arrival::Eof => self.wire.eof(),
            Arrival::Interrupt => News::Interrupt,
            // The end of a tool nobody waits for any more.
            Arrival::Tool { .. } => News::Nothing,
        };
        self.wire.out().flush();
        match news {
            News::Nothing => Ok(None),
            News::Interrupt => Err(Stop::Interrupted),
            News::Verdict(verdict) => Ok(Some(verdict)),
        }
    }

    fn crash(&mut self, code: i32) -> ! {
        self.piece("about to crash");
        self.wire.out().flush();
        if let Some(signal) = Signal::from_named_raw(-code) {
            kill_process(getpid(), signal).expect("a process may signal itself");
        }
        std::process::exit(code)
    }
}

/// Gives up standard output and does nothing for the rest of its life.
fn mute(wire: &mut dyn Wire) -> ! {
    wire.out().flush();
    let null = std::fs::File::options().write(true).open("/dev/null").expect("/dev/null");
    rustix::stdio::dup2_stdout(&null).expect("stdout can be replaced");
    std::thread::sleep(tools::LIFE);
    std::process::exit(0)
}

/// Whatever a broken program may print.
fn garbage(out: &mut Out) {
    let lines: [&[u8]; 14] = [
        b"this is no JSON",
        b"",
        b"   ",
        b"\xff\xfe\x80 not UTF-8 \xc3\x28",
        b"{\"type\":\"text\",\"text\":\"\xff\xfe\"}",
        b"null",
        b"17",
        b"\"a string\"",
        b"[1,2,3]",
        b"{}",
        b"{\"type\":\"nobody_knows_this\",\"method\":\"nobody/knows\",\"x\":{\"y\":[]}}",
        b"{\"type\":17,\"method\":[],\"id\":{},\"params\":\"no\",\"item\":3,\"part\":null}",
        b"{\"type\":\"assistant\",\"message\":{\"content\":\"cut off in the mid",
        b"\x1b[31mcoloured\x1b[0m text\r",
    ];
    for line in lines {
        out.bytes(line).end();
    }
    let deep = "[".repeat(10_000);
    out.str(&deep).end();
    out.flush();
}
