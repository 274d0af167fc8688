//! opencode 1.18, played: `run` here, `acp` in the module for all ACP agents.

use std::env;
use std::process::exit;

use serde_json::{Value, json};

use crate::acp;
use crate::inbox::{Inbox, OnSignal, whole_stdin};
use crate::known;
use crate::options::Options;
use crate::out::{Out, now_ms};
use crate::session::Session;
use crate::turn::{self, Asking, Ending, Facts, News, Wire};

const FORM: &str = "ses_e22038e27ffe{}";

struct Run {
    out: Out,
    inbox: Inbox,
    facts: Facts,
    session: Session,
    thinking: bool,
    message: String,
    in_step: bool,
    failed: bool,
}

pub(crate) fn main(arguments: &[String]) {
    match arguments.split_first() {
        Some((word, rest)) if word == "run" => run(rest),
        Some((word, rest)) if word == "acp" => {
            Options::read(&known::OPENCODE_ACP, rest)
                .unwrap_or_else(|_| help("opencode acp\n\nstart ACP (Agent Client Protocol) server"));
            acp::main(acp::Flavour::Opencode, &configured_model(), "build", true);
        }
        Some((word, _)) if word == "--version" || word == "-v" => {
            let mut out = Out::new();
            out.str("1.18.33").end();
            out.flush();
        }
        _ => help("opencode run [message..]\nopencode acp"),
    }
}

/// An argument it does not know gets the whole help, and no word about which.
fn help(text: &str) -> ! {
    eprintln!("{text}");
    exit(1)
}

fn configuration() -> Value {
    let text = env::var("OPENCODE_CONFIG_CONTENT").unwrap_or_default();
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

fn configured_model() -> String {
    configuration()["model"].as_str().unwrap_or("fake/fake-model").to_owned()
}

/// What the configuration says about shell commands: `ask`, `allow` or `deny`.
pub(crate) fn permission() -> String {
    let of = |value: &Value| {
        let rule = value.as_str().or_else(|| value["bash"].as_str()).or_else(|| value["bash"]["*"].as_str());
        rule.or_else(|| value["*"].as_str()).map(str::to_owned)
    };
    let separate: Value =
        serde_json::from_str(&env::var("OPENCODE_PERMISSION").unwrap_or_default()).unwrap_or(Value::Null);
    of(&separate).or_else(|| of(&configuration()["permission"])).unwrap_or_else(|| "allow".to_owned())
}

fn run(arguments: &[String]) -> ! {
    const HELP: &str = "opencode run [message..]\n\nrun opencode with a message";
    let options = Options::read(&known::OPENCODE_RUN, arguments).unwrap_or_else(|_| help(HELP));
    if options.choice("--format", &["default", "json"]).is_err() {
        help(HELP);
    }
    // Standard input is read to its end in any case; words with spaces get quotes.
    let quoted = |word: &String| if word.contains(' ') { format!("\"{word}\"") } else { word.clone() };
    let words: Vec<String> = options.words.iter().map(quoted).collect();
    let mut prompt = words.join(" ");
    let piped = whole_stdin(None);
    if !piped.is_empty() {
        prompt = if prompt.is_empty() { piped } else { format!("{prompt}\n{piped}") };
    }
    if prompt.trim().is_empty() {
        eprintln!("Error: You must provide a message or a command");
        exit(1);
    }
    let here = env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    let cwd = options.value("--dir").map_or(here, str::to_owned);
    let wanted = match options.value("--session") {
        None if options.has("--continue") => Session::latest(),
        id => id.map(str::to_owned),
    };
    let session = match &wanted {
        None => Session::create(FORM, None, &cwd),
        Some(id) => Session::resume(id, &cwd).unwrap_or_else(|| {
            eprintln!("Error: Session not found");
            exit(1)
        }),
    };
    let auto = options.has("--auto");
    let agent = options.value("--agent").unwrap_or("build");
    let mut run = Run {
        out: Out::new(),
        inbox: Inbox::new(OnSignal::Die, OnSignal::Die),
        facts: Facts {
            model: options.value("--model").map_or_else(configured_model, str::to_owned),
            mode: if auto { format!("{agent}, auto") } else { agent.to_owned() },
            resumed: wanted,
            mortal_tools: false,
        },
        session,
        thinking: options.has("--thinking"),
        message: String::new(),
        in_step: false,
        failed: false,
    };
    turn::run(&mut run, &prompt);
    exit(i32::from(run.failed))
}

impl Run {
    fn line(&mut self, kind: &str, mut part: Value) {
        part["id"] = json!(self.out.fresh("prt_"));
        part["messageID"] = json!(self.message);
        part["sessionID"] = json!(self.session.id);
        self.out.headed("type", kind, &json!({"timestamp": now_ms(), "sessionID": self.session.id, "part": part}));
    }

    fn open_step(&mut self) {
        if !self.in_step {
            self.in_step = true;
            self.message = self.out.fresh("msg_");
            self.line(
                "step_start",
                json!({"type": "step-start", "snapshot": "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}),
            );
        }
    }

    fn close_step(&mut self, reason: &str, read: u64, written: u64) {
        self.open_step();
        let tokens = json!({
            "total": read + written, "input": read, "output": written, "reasoning": 0, "cache": {"write": 0, "read": 0},
        });
        let cost = (read + written * 2) as f64 / 1e6;
        self.line("step_finish", json!({"type": "step-finish", "reason": reason, "tokens": tokens, "cost": cost}));
        self.in_step = false;
    }

    fn tool(&mut self, id: &str, state: &Value) {
        self.open_step();
        self.line("tool_use", json!({"type": "tool", "tool": "bash", "callID": id, "state": state}));
        self.close_step("tool-calls", 1, 1);
    }
}

impl Wire for Run {
    fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    fn begin(&mut self, _prompt: &str) {}

    /// There are no deltas; but the first word of the model opens a step, which is the first line of all.
    fn delta(&mut self, _text: &str) {
        self.open_step();
    }

    fn text(&mut self, text: &str, _streamed: bool) {
        self.open_step();
        self.line("text", json!({"type": "text", "text": text, "time": {"start": now_ms(), "end": now_ms()}}));
    }

    fn thought(&mut self, text: &str) {
        if self.thinking {
            self.open_step();
            self.line("reasoning", json!({"type": "reasoning", "text": text}));
        }
    }

    // A call is told when it is over.
    fn tool_call(&mut self, _id: &str, _command: &str) {}

    fn tool_result(&mut self, id: &str, command: &str, output: &str, code: i32) {
        let metadata = json!({"output": output, "exit": code, "truncated": false});
        let state = json!({
            "status": "completed", "input": {"command": command}, "output": output, "metadata": metadata,
            "title": command, "time": {"start": now_ms(), "end": now_ms()},
        });
        self.tool(id, &state);
    }

    fn tool_refused(&mut self, id: &str, command: &str, why: &str) -> bool {
        eprintln!("! permission requested: bash ({command}); auto-rejecting");
        self.tool(id, &json!({"status": "error", "input": {"command": command}, "error": why}));
        false
    }

    fn ask(&mut self, _id: &str, _command: &str) -> Asking {
        match permission().as_str() {
            "deny" => Asking::Refused("The configuration forbids it.".to_owned()),
            "ask" if !self.facts.mode.ends_with("auto") => {
                Asking::Refused("The user rejected permission to use this specific tool call.".to_owned())
            }
            _ => Asking::Allowed,
        }
    }

    fn arrival(&mut self, _line: &str) -> News {
        News::Nothing
    }

    fn eof(&mut self) -> News {
        News::Nothing
    }

    fn end(&mut self, ending: &Ending) {
        let (read, written) = self.session.last;
        match ending {
            // A refusal has ended the turn with its own step.
            Ending::Done(_) if !self.in_step => {}
            Ending::Done(_) | Ending::Interrupted(_) => self.close_step("stop", read, written),
            Ending::Failed(why) => {
                self.failed = true;
                let data = json!({"message": why, "statusCode": 500, "isRetryable": false});
                let fields = json!({
                    "timestamp": now_ms(), "sessionID": self.session.id, "error": {"name": "APIError", "data": data},
                });
                self.out.headed("type", "error", &fields);
            }
        }
    }
}
