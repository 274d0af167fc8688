//! Gemini CLI 0.61, played: `-p` or standard input here, `--acp` in the module for all ACP agents.

use std::env;
use std::process::exit;
use std::time::Duration;

use serde_json::{Value, json};

use crate::acp;
use crate::inbox::{Inbox, OnSignal, whole_stdin};
use crate::known;
use crate::options::{Options, Refused};
use crate::out::Out;
use crate::session::Session;
use crate::turn::{self, Asking, Ending, Facts, News, Wire};

const VERSION: &str = "0.61.0";
const FORM: &str = "9e000000-0000-4000-8000-{}";
const TIMESTAMP: &str = "2026-01-01T00:00:00.000Z";
/// How long standard input is waited for when there is a prompt already.
const PATIENCE: Duration = Duration::from_millis(500);

struct Gemini {
    out: Out,
    inbox: Inbox,
    facts: Facts,
    session: Session,
    calls: u64,
    failed: bool,
}

pub(crate) fn main(arguments: &[String]) {
    let options = Options::read(&known::GEMINI, arguments).unwrap_or_else(|refused| match refused {
        Refused::Unknown(option) => fail(1, &format!("Unknown argument: {}", option.trim_start_matches('-'))),
        Refused::NoValue(option) => {
            fail(1, &format!("Not enough arguments following: {}", option.trim_start_matches('-')))
        }
    });
    if options.has("--version") {
        let mut out = Out::new();
        out.str(VERSION).end();
        return out.flush();
    }
    let choice = |name: &str, choices: &[&str]| match options.choice(name, choices) {
        Ok(value) => value.map(str::to_owned),
        Err(value) => {
            let name = name.trim_start_matches('-');
            fail(1, &format!("Invalid values:\n  Argument: {name}, Given: \"{value}\", Choices: {choices:?}"))
        }
    };
    let format = choice("--output-format", &["text", "json", "stream-json"]);
    let mode = choice("--approval-mode", &["default", "auto_edit", "yolo", "plan"]);
    if options.has("--yolo") && mode.is_some() {
        fail(1, "Cannot use both --yolo (-y) and --approval-mode together. Use --approval-mode=yolo instead.");
    }
    let mode = mode.unwrap_or_else(|| if options.has("--yolo") { "yolo" } else { "default" }.to_owned());
    let named = options.value("--model").map(str::to_owned).or_else(|| env::var("GEMINI_MODEL").ok());
    let model = named.unwrap_or_else(|| "auto".to_owned());
    let believed = env::var("GEMINI_CLI_TRUST_WORKSPACE").is_ok_and(|value| value == "true");
    let trusted = believed || options.has("--skip-trust");
    if options.has("--acp") {
        let mode = if mode == "auto_edit" { "autoEdit" } else { mode.as_str() };
        acp::main(acp::Flavour::Gemini, &model, mode, trusted);
    }
    if format.as_deref() != Some("stream-json") {
        fail(1, "this stand-in speaks stream-json only");
    }
    if !trusted {
        fail(
            55,
            "Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust` or trust it.",
        );
    }
    let cwd = env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    let wanted = options.value("--resume").map(|id| match id {
        "latest" => Session::latest().unwrap_or_default(),
        id => id.to_owned(),
    });
    let session = match &wanted {
        None => Session::create(FORM, options.value("--session-id").map(str::to_owned), &cwd),
        // A session belongs to the directory it was made in.
        Some(id) => Session::resume(id, &cwd).filter(|session| session.cwd == cwd).unwrap_or_else(|| {
            fail(42, &format!("Error resuming session: Invalid session identifier \"{id}\"."));
        }),
    };
    let mut gemini = Gemini {
        out: Out::new(),
        inbox: Inbox::new(OnSignal::Exit(0), OnSignal::Exit(0)),
        facts: Facts { model, mode, resumed: wanted, mortal_tools: false },
        session,
        calls: 0,
        failed: false,
    };
    turn::run(&mut gemini, &prompt(&options));
    // 500 modulo 256
    exit(if gemini.failed { 244 } else { 0 });
}

fn fail(code: i32, text: &str) -> ! {
    eprintln!("{text}");
    exit(code)
}

fn prompt(options: &Options) -> String {
    let words = options.value("--prompt").map_or_else(|| options.words.join(" "), str::to_owned);
    let piped = whole_stdin((!words.is_empty()).then_some(PATIENCE));
    match (words.is_empty(), piped.is_empty()) {
        (true, true) => fail(42, "No input provided via stdin. Input can be provided by piping data into gemini."),
        (true, false) => piped,
        (false, true) => words,
        (false, false) => format!("{piped}\n\n{words}"),
    }
}

impl Gemini {
    fn line(&mut self, kind: &str, mut fields: Value) {
        fields["timestamp"] = json!(TIMESTAMP);
        self.out.headed("type", kind, &fields);
    }
}

impl Wire for Gemini {
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

    fn begin(&mut self, prompt: &str) {
        let (id, model) = (self.session.id.clone(), self.facts.model.clone());
        self.line("init", json!({"session_id": id, "model": model}));
        self.line("message", json!({"role": "user", "content": prompt}));
    }

    fn delta(&mut self, text: &str) {
        self.out.str(r#"{"type":"message","timestamp":""#).str(TIMESTAMP).str(r#"","role":"assistant","content":"#);
        self.out.quoted(text).str(r#","delta":true}"#).end();
    }

    fn text(&mut self, text: &str, streamed: bool) {
        if !streamed {
            self.delta(text);
        }
    }

    fn thought(&mut self, _text: &str) {}

    fn tool_call(&mut self, id: &str, command: &str) {
        self.calls += 1;
        let name = "run_shell_command";
        let id = format!("{name}__{id}");
        self.line("tool_use", json!({"tool_name": name, "tool_id": id, "parameters": {"command": command}}));
    }

    fn tool_result(&mut self, id: &str, _command: &str, output: &str, _code: i32) {
        // Whatever the exit code, it is a success.
        let id = format!("run_shell_command__{id}");
        self.line("tool_result", json!({"tool_id": id, "status": "success", "output": output.trim_end()}));
    }

    fn tool_refused(&mut self, id: &str, _command: &str, why: &str) -> bool {
        let id = format!("run_shell_command__{id}");
        let error = json!({"type": "tool_not_registered", "message": why});
        self.line("tool_result", json!({"tool_id": id, "status": "error", "output": why, "error": error}));
        true
    }

    fn ask(&mut self, id: &str, command: &str) -> Asking {
        self.tool_call(id, command);
        // Without a person there is no shell tool but in this mode.
        match self.facts.mode.as_str() {
            "yolo" => Asking::Allowed,
            _ => Asking::Refused("Tool \"run_shell_command\" not found.".to_owned()),
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
        let count = json!({
            "total_tokens": read + written, "input_tokens": read, "output_tokens": written, "cached": 0, "input": read,
        });
        let mut stats = count.clone();
        stats["duration_ms"] = json!(1);
        stats["tool_calls"] = json!(self.calls);
        stats["models"] = json!({&self.facts.model: count});
        match ending {
            Ending::Done(_) | Ending::Interrupted(_) => {
                self.line("result", json!({"status": "success", "stats": stats}));
            }
            Ending::Failed(why) => {
                self.failed = true;
                let error = json!({"type": "unknown", "message": format!("[API Error: {why}]")});
                self.line("result", json!({"status": "error", "error": error, "stats": stats}));
            }
        }
    }
}
