//! The built-in agent itself: a small ACP agent on standard input and output, scripted by its prompts.
//!
//! Invariant: it is always listening: one thread reads, another works, so that a turn can be cancelled in the middle of
//! a wait, a question or a stream. What it says is written at once when it pauses, and after 5 ms or 64 KiB while
//! it does not.
//!
//! Alone among the modules of this crate it is no pure function: it is a program that happens to live here. It
//! touches no file, asks no network and remembers nothing of a conversation.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::jsonrpc::{self, Message};
use crate::text::{self, Field};

/// The longest line it reads.
const LINE_LIMIT: u64 = 256 * 1024 * 1024;

/// Prompts that may wait.
const WAITING_LIMIT: usize = 64;

/// The most that is held back.
const BUFFER_LIMIT: usize = 64 * 1024;

/// The longest that anything is held back.
const BUFFER_TIME: Duration = Duration::from_millis(5);

/// The largest piece of a `big` answer.
const PIECE: usize = 32 * 1024;

/// The longest sleep.
const SLEEP_LIMIT: f64 = 7.0 * 24.0 * 3600.0;

/// Turns without end are asked for by mistake.
const STREAM_LIMIT: u64 = 100_000_000;

/// Something inside the agent went wrong.
const INTERNAL_ERROR: i64 = -32603;

/// Speaks the Agent Client Protocol until the input ends.
///
/// # Errors
/// Reading or writing failed.
pub fn run(input: impl BufRead, output: impl Write + Send) -> io::Result<()> {
    let agent = Agent {
        out: Mutex::new(Out { sink: output, held: Vec::new(), since: Instant::now() }),
        desk: Mutex::new(Desk::default()),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| agent.work());
        let heard = agent.listen(input);
        agent.close();
        let worked = worker.join().unwrap_or_else(|_| Err(io::Error::other("the agent's worker panicked")));
        heard.and(worked)
    })
}

struct Agent<W> {
    out: Mutex<Out<W>>,
    desk: Mutex<Desk>,
    changed: Condvar,
}

/// What is to be done, and what was answered.
#[derive(Default)]
struct Desk {
    prompts: VecDeque<Prompt>,
    /// The prompt that is worked on.
    current: Option<Arc<Stop>>,
    /// The answer to the question that was asked last.
    answer: Option<(u64, Answer)>,
    questions: u64,
    sessions: u64,
    closed: bool,
}

struct Prompt {
    id: String,
    text: String,
    stop: Arc<Stop>,
}

/// A turn's session, and whether it is to stop.
struct Stop {
    session: String,
    wanted: AtomicBool,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Answer {
    Once,
    Always,
    No,
}

/// Standard output, held back a little.
struct Out<W> {
    sink: W,
    held: Vec<u8>,
    since: Instant,
}

impl<W: Write> Out<W> {
    fn flush(&mut self) -> io::Result<()> {
        self.sink.write_all(&self.held)?;
        self.held.clear();
        self.sink.flush()
    }
}

/// Why a turn ended before its end.
enum Early {
    Cancelled,
    Failed(String),
    Io(io::Error),
}

impl From<io::Error> for Early {
    fn from(error: io::Error) -> Self {
        Early::Io(error)
    }
}

impl<W: Write> Agent<W> {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line, written within [`BUFFER_TIME`] as long as more follow; `now` if none does.
    fn write(&self, line: &[u8], now: bool) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out.held.is_empty() {
            out.since = Instant::now();
        }
        out.held.extend_from_slice(line);
        if now || out.held.len() >= BUFFER_LIMIT || out.since.elapsed() >= BUFFER_TIME { out.flush() } else { Ok(()) }
    }

    fn listen(&self, mut input: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if (&mut input).take(LINE_LIMIT).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            match jsonrpc::parse(&text::line(&line)) {
                Some(Message::Request { id, method, params }) => self.requested(id, &method, params)?,
                Some(Message::Notification { method, params }) if method == "session/cancel" => self.cancel(params),
                Some(Message::Response { id: Some(id), result }) => self.answered(id, result.ok().flatten()),
                Some(_) => {}
                None if line.trim_ascii().is_empty() => {}
                None => self.write(&jsonrpc::refusal("null", -32700, "Parse error"), true)?,
            }
        }
    }

    /// No more input: whatever is being done is stopped.
    fn close(&self) {
        let mut desk = self.desk();
        desk.closed = true;
        for stop in desk.prompts.iter().map(|prompt| &prompt.stop).chain(&desk.current) {
            stop.wanted.store(true, Ordering::Relaxed);
        }
        self.changed.notify_all();
    }

    fn requested(&self, id: &str, method: &str, params: Field<'_>) -> io::Result<()> {
        let answer = match method {
            "initialize" => {
                let result = json!({
                    "protocolVersion": 1,
                    "agentCapabilities": { "loadSession": true },
                    "agentInfo": { "name": "echo", "title": "Echo", "version": env!("CARGO_PKG_VERSION") },
                    "authMethods": [],
                });
                jsonrpc::response(id, &result)
            }
            "session/new" => {
                let mut desk = self.desk();
                desk.sessions += 1;
                let session = format!("echo-{}-{}", std::process::id(), desk.sessions);
                jsonrpc::response(id, &json!({ "sessionId": session }))
            }
            "session/load" => jsonrpc::response(id, &json!({})),
            "session/prompt" => match self.prompted(id, params) {
                Some(refusal) => refusal,
                None => return Ok(()),
            },
            _ => jsonrpc::refusal(id, jsonrpc::METHOD_NOT_FOUND, "Method not found"),
        };
        self.write(&answer, true)
    }

    /// Puts a prompt on the desk, or says why not.
    fn prompted(&self, id: &str, params: Field<'_>) -> Option<Vec<u8>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(borrow)]
            session_id: Field<'a>,
            #[serde(borrow)]
            prompt: Field<'a>,
        }
        let params = text::object::<Params<'_>>(params);
        let Some((session, prompt)) = params.and_then(|params| Some((text::owned(params.session_id)?, params.prompt?)))
        else {
            return Some(jsonrpc::refusal(id, jsonrpc::INVALID_PARAMS, "Invalid params"));
        };
        let mut desk = self.desk();
        if desk.prompts.len() >= WAITING_LIMIT {
            return Some(jsonrpc::refusal(id, INTERNAL_ERROR, "Too many prompts are waiting"));
        }
        let stop = Arc::new(Stop { session, wanted: AtomicBool::new(false) });
        desk.prompts.push_back(Prompt { id: id.to_owned(), text: text::content(Some(prompt)), stop });
        self.changed.notify_all();
        None
    }

    fn cancel(&self, params: Field<'_>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(borrow)]
            session_id: Field<'a>,
        }
        let Some(session) = text::object::<Params<'_>>(params).and_then(|params| text::owned(params.session_id)) else {
            return;
        };
        let desk = self.desk();
        let turns = desk.prompts.iter().map(|prompt| &prompt.stop).chain(&desk.current);
        for turn in turns.filter(|turn| turn.session == session) {
            turn.wanted.store(true, Ordering::Relaxed);
        }
        self.changed.notify_all();
    }

    fn answered(&self, id: u64, result: Field<'_>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Outer<'a> {
            #[serde(borrow)]
            outcome: Field<'a>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Outcome<'a> {
            #[serde(borrow)]
            option_id: Field<'a>,
        }
        let option = text::object::<Outer<'_>>(result)
            .and_then(|outer| text::object::<Outcome<'_>>(outer.outcome))
            .and_then(|outcome| text::string(outcome.option_id));
        let answer = match option.as_deref() {
            Some("once") => Answer::Once,
            Some("always") => Answer::Always,
            _ => Answer::No,
        };
        self.desk().answer = Some((id, answer));
        self.changed.notify_all();
    }

    /// The next prompt; `None` when there will be none.
    fn next(&self) -> Option<Prompt> {
        let mut desk = self.desk();
        desk.current = None;
        loop {
            if let Some(prompt) = desk.prompts.pop_front() {
                desk.current = Some(Arc::clone(&prompt.stop));
                return Some(prompt);
            }
            if desk.closed {
                return None;
            }
            desk = self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn work(&self) -> io::Result<()> {
        let mut allowed = false;
        while let Some(prompt) = self.next() {
            let mut turn =
                Turn { agent: self, stop: &prompt.stop, head: head(&prompt.stop.session), line: Vec::new(), words: 0 };
            let done = turn.run(&prompt.text, &mut allowed);
            let (input, output) = (words(&prompt.text), turn.words);
            let usage = json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output });
            let answer = match done {
                Ok(()) => jsonrpc::response(&prompt.id, &json!({ "stopReason": "end_turn", "usage": usage })),
                Err(Early::Cancelled) => {
                    jsonrpc::response(&prompt.id, &json!({ "stopReason": "cancelled", "usage": usage }))
                }
                Err(Early::Failed(message)) => jsonrpc::refusal(&prompt.id, INTERNAL_ERROR, &message),
                Err(Early::Io(error)) => return Err(error),
            };
            self.write(&answer, true)?;
        }
        Ok(())
    }

    /// Waits until something is so, for at most that long. Gives whether it came to be.
    fn wait(&self, limit: Option<Duration>, mut until: impl FnMut(&mut Desk) -> bool) -> io::Result<bool> {
        self.write(b"", true)?;
        let begun = Instant::now();
        let mut desk = self.desk();
        loop {
            if until(&mut desk) {
                return Ok(true);
            }
            desk = match limit.map(|limit| limit.saturating_sub(begun.elapsed())) {
                Some(left) if left.is_zero() => return Ok(false),
                Some(left) => self.changed.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(desk).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// What comes before each update of a session.
fn head(session: &str) -> Vec<u8> {
    let session = json!(session);
    format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":"#).into_bytes()
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The turn that is worked on.
struct Turn<'a, W> {
    agent: &'a Agent<W>,
    stop: &'a Stop,
    head: Vec<u8>,
    line: Vec<u8>,
    words: u64,
}

impl<W: Write> Turn<'_, W> {
    fn run(&mut self, prompt: &str, allowed: &mut bool) -> Result<(), Early> {
        let (order, number) = prompt.trim().split_once(' ').unwrap_or((prompt.trim(), ""));
        let count = || number.trim().parse::<u64>().ok().filter(|count| *count <= STREAM_LIMIT);
        match order {
            "sleep" if number.trim().parse::<f64>().is_ok_and(|s| (0.0..=SLEEP_LIMIT).contains(&s)) => {
                self.say("sleeping")?;
                self.sleep(number.trim().parse().unwrap_or(0.0))?;
                self.say(" done")
            }
            "stream" if count().is_some() => {
                for n in 0..count().unwrap_or(0) {
                    self.say(&format!("{n} "))?;
                }
                Ok(())
            }
            "big" if count().is_some() => {
                let piece = "x".repeat(PIECE);
                let mut left = count().unwrap_or(0).saturating_mul(1024);
                while left > 0 {
                    let size = left.min(PIECE as u64);
                    self.say(&piece[..usize::try_from(size).unwrap_or(PIECE)])?;
                    left -= size;
                }
                Ok(())
            }
            "tool" if number.is_empty() => self.tool(),
            "think" if number.is_empty() => {
                self.update(&json!({
                    "sessionUpdate": "agent_thought_chunk",
                    "content": { "type": "text", "text": "pondering" },
                }))?;
                self.say("thought done")
            }
            "cwd" if number.is_empty() => {
                let cwd = std::env::current_dir()?;
                self.say(&cwd.to_string_lossy())
            }
            "fail" if number.is_empty() => Err(Early::Failed("The turn failed, as it was asked to.".to_owned())),
            "approve" if number.is_empty() => self.approve(allowed),
            _ => self.say(&format!("echo: {prompt}")),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.wanted.load(Ordering::Relaxed)
    }

    /// A piece of the answer.
    fn say(&mut self, text: &str) -> Result<(), Early> {
        #[derive(Serialize)]
        struct Content<'a> {
            r#type: &'static str,
            text: &'a str,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Chunk<'a> {
            session_update: &'static str,
            content: Content<'a>,
        }
        self.words += words(text);
        let content = Content { r#type: "text", text };
        self.update(&Chunk { session_update: "agent_message_chunk", content })
    }

    fn update(&mut self, update: &impl Serialize) -> Result<(), Early> {
        if self.stopped() {
            return Err(Early::Cancelled);
        }
        self.line.clear();
        self.line.extend_from_slice(&self.head);
        serde_json::to_writer(&mut self.line, update).map_err(io::Error::from)?;
        self.line.extend_from_slice(b"}}\n");
        Ok(self.agent.write(&self.line, false)?)
    }

    fn sleep(&self, seconds: f64) -> Result<(), Early> {
        if self.agent.wait(Some(Duration::from_secs_f64(seconds)), |_| self.stopped())? {
            return Err(Early::Cancelled);
        }
        Ok(())
    }

    fn tool(&mut self) -> Result<(), Early> {
        self.update(&json!({
            "sessionUpdate": "tool_call",
            "toolCallId": "call_1",
            "title": "echo hello",
            "kind": "execute",
            "status": "in_progress",
            "rawInput": { "command": "echo hello" },
        }))?;
        self.ended("completed", "hello\n")?;
        self.say("tool done")
    }

    fn ended(&mut self, status: &str, output: &str) -> Result<(), Early> {
        self.update(&json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call_1",
            "status": status,
            "content": [{ "type": "content", "content": { "type": "text", "text": output } }],
        }))
    }

    fn approve(&mut self, allowed: &mut bool) -> Result<(), Early> {
        let answer = if *allowed { Answer::Once } else { self.ask()? };
        *allowed |= answer == Answer::Always;
        if answer == Answer::No {
            self.ended("failed", "The tool was refused.")?;
            self.say("denied")
        } else {
            self.ended("completed", "")?;
            self.say("approved")
        }
    }

    fn ask(&mut self) -> Result<Answer, Early> {
        let id = {
            let mut desk = self.agent.desk();
            desk.answer = None;
            desk.questions += 1;
            desk.questions - 1
        };
        let params = json!({
            "sessionId": self.stop.session,
            "toolCall": {
                "toolCallId": "call_1",
                "title": "touch approved.txt",
                "kind": "execute",
                "status": "pending",
                "rawInput": { "command": "touch approved.txt" },
            },
            "options": [
                { "optionId": "once", "name": "Allow once", "kind": "allow_once" },
                { "optionId": "always", "name": "Allow for this session", "kind": "allow_always" },
                { "optionId": "no", "name": "Reject", "kind": "reject_once" },
            ],
        });
        self.agent.write(&jsonrpc::request(id, "session/request_permission", &params), true)?;
        let mut answer = None;
        self.agent.wait(None, |desk| {
            answer = desk.answer.filter(|(own, _)| *own == id).map(|(_, answer)| answer);
            answer.is_some() || self.stopped()
        })?;
        answer.filter(|_| !self.stopped()).ok_or(Early::Cancelled)
    }
}
