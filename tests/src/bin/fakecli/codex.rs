//! Codex 0.166, played: `exec` and `exec resume` here, `app-server` in a module of its own.

use std::env;
use std::path::Path;
use std::process::exit;

use serde_json::{Value, json};

use crate::app_server;
use crate::inbox::{Inbox, OnSignal, whole_stdin};
use crate::known;
use crate::options::{Known, Options, Refused};
use crate::out::Out;
use crate::session::Session;
use crate::turn::{self, Asking, Ending, Facts, News, Wire};

const VERSION: &str = "codex-cli 0.166.0";
pub(crate) const FORM: &str = "01a00000-0000-7000-8000-{}";
pub(crate) const MODEL: &str = "gpt-5.5";
pub(crate) const OVERLOADED: &str = "We’re currently experiencing high demand, which may cause temporary errors.";

struct Exec {
    out: Out,
    inbox: Inbox,
    facts: Facts,
    session: Session,
    items: u64,
    /// The item of the running command.
    running: String,
    failed: bool,
}

pub(crate) fn main(arguments: &[String]) {
    // Options may stand before the command, too.
    let mut arguments = arguments.to_vec();
    match arguments.first().map(String::as_str) {
        Some("--version" | "-V") => {
            let mut out = Out::new();
            out.str(VERSION).end();
            out.flush();
        }
        Some("exec" | "e") => exec(&arguments.split_off(1)),
        Some("app-server") => {
            let options = read(&known::CODEX_APP_SERVER, &arguments.split_off(1), "app-server");
            let model = configured(&options, "model").unwrap_or_else(|| MODEL.to_owned());
            app_server::main(model);
        }
        other => {
            refuse(&format!("error: unrecognized subcommand '{}'", other.unwrap_or_default()), "[OPTIONS] <COMMAND>")
        }
    }
}

fn refuse(problem: &str, usage: &str) -> ! {
    eprintln!("{problem}\n\nUsage: codex {usage}\n\nFor more information, try '--help'.");
    exit(2)
}

fn read(taken: &Known, arguments: &[String], command: &str) -> Options {
    Options::read(taken, arguments).unwrap_or_else(|refused| match refused {
        Refused::Unknown(option) => refuse(&format!("error: unexpected argument '{option}' found"), command),
        Refused::NoValue(option) => {
            refuse(&format!("error: a value is required for '{option} <VALUE>' but none was supplied"), command)
        }
    })
}

/// A value given by `-c key=value`.
fn configured(options: &Options, key: &str) -> Option<String> {
    let mut pairs = options.all("--config").iter().filter_map(|pair| pair.split_once('='));
    pairs.rfind(|(given, _)| *given == key).map(|(_, value)| value.trim_matches('"').to_owned())
}

fn exec(arguments: &[String]) -> ! {
    let at = arguments.iter().position(|argument| argument == "resume").unwrap_or(arguments.len());
    let options = read(&known::CODEX_EXEC, &arguments[..at], "exec [OPTIONS] [PROMPT]");
    let resume = (at < arguments.len())
        .then(|| read(&known::CODEX_RESUME, &arguments[at + 1..], "exec resume [OPTIONS] [SESSION_ID] [PROMPT]"));
    let has = |name: &str| options.has(name) || resume.as_ref().is_some_and(|resume| resume.has(name));
    let sandboxes = ["read-only", "workspace-write", "danger-full-access"];
    let sandbox = options.choice("--sandbox", &sandboxes).unwrap_or_else(|value| {
        refuse(&format!("error: invalid value '{value}' for '--sandbox <SANDBOX_MODE>'"), "exec [OPTIONS] [PROMPT]")
    });
    let bypass = has("--dangerously-bypass-approvals-and-sandbox");
    let mode = if bypass { "danger-full-access" } else { sandbox.unwrap_or("read-only") }.to_owned();
    if let Some(directory) = options.value("--cd")
        && let Err(problem) = env::set_current_dir(directory)
    {
        eprintln!("Error: {directory}: {problem}");
        exit(1);
    }
    let mut words = options.words.clone();
    let mut id = None;
    if let Some(resume) = &resume {
        let mut more = resume.words.clone();
        id = if resume.has("--last") { Session::latest() } else { (!more.is_empty()).then(|| more.remove(0)) };
        words = more;
    }
    let prompt = prompt(words.first().map(String::as_str));
    let cwd = env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    if !has("--skip-git-repo-check") && !bypass && !in_work_tree(Path::new(&cwd)) {
        eprintln!("Not inside a trusted directory and --skip-git-repo-check was not specified.");
        exit(1);
    }
    let given = resume.as_ref().and_then(|resume| resume.value("--model")).or_else(|| options.value("--model"));
    let model = given.map(str::to_owned).or_else(|| configured(&options, "model")).unwrap_or_else(|| MODEL.to_owned());
    let session = match &id {
        None => Session::create(FORM, None, &cwd),
        Some(id) => Session::resume(id, &cwd).unwrap_or_else(|| {
            eprintln!("Error: thread/resume: thread/resume failed: no rollout found for thread id {id}");
            exit(1)
        }),
    };
    let mut session = session;
    session.cwd = cwd;
    if !has("--json") {
        eprintln!("OpenAI Codex v0.166.0");
    }
    let mut exec = Exec {
        out: Out::new(),
        inbox: Inbox::new(OnSignal::Exit(1), OnSignal::Die),
        facts: Facts { model, mode, resumed: id, mortal_tools: true },
        session,
        items: 0,
        running: String::new(),
        failed: false,
    };
    turn::run(&mut exec, &prompt);
    exit(i32::from(exec.failed))
}

/// Standard input is read to its end in any case: whoever leaves it open waits for ever.
fn prompt(word: Option<&str>) -> String {
    let piped = whole_stdin(None);
    match word {
        Some(word) if word != "-" && piped.is_empty() => word.to_owned(),
        Some(word) if word != "-" => format!("{word}\n\n<stdin>\n{piped}\n</stdin>"),
        _ if piped.trim().is_empty() => {
            eprintln!("No prompt provided via stdin.");
            exit(1)
        }
        _ => piped,
    }
}

fn in_work_tree(directory: &Path) -> bool {
    directory.ancestors().any(|folder| folder.join(".git").exists())
}

/// A command as codex shows it.
pub(crate) fn shown(command: &str) -> String {
    format!("/bin/bash -lc '{}'", command.replace('\'', "'\\''"))
}

impl Exec {
    fn item(&mut self, word: &str, item: &Value) {
        self.out.headed("type", word, &json!({"item": item}));
    }

    fn fresh_item(&mut self) -> String {
        self.items += 1;
        format!("item_{}", self.items - 1)
    }

    fn command(&mut self, word: &str, command: &str, output: &str, code: Option<i32>) {
        let status = match code {
            None => "in_progress",
            Some(0) => "completed",
            Some(_) => "failed",
        };
        let id = self.running.clone();
        let item = json!({
            "id": id, "type": "command_execution", "command": shown(command), "aggregated_output": output,
            "exit_code": code, "status": status,
        });
        self.item(word, &item);
    }
}

impl Wire for Exec {
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

    fn begin(&mut self, _prompt: &str) {
        let id = self.session.id.clone();
        self.out.headed("type", "thread.started", &json!({"thread_id": id}));
        self.out.headed("type", "turn.started", &json!({}));
    }

    fn delta(&mut self, _text: &str) {}

    fn text(&mut self, text: &str, _streamed: bool) {
        let id = self.fresh_item();
        self.item("item.completed", &json!({"id": id, "type": "agent_message", "text": text}));
    }

    fn thought(&mut self, text: &str) {
        let id = self.fresh_item();
        self.item("item.completed", &json!({"id": id, "type": "reasoning", "text": text}));
    }

    fn tool_call(&mut self, _id: &str, command: &str) {
        self.running = self.fresh_item();
        self.command("item.started", command, "", None);
    }

    fn tool_result(&mut self, _id: &str, command: &str, output: &str, code: i32) {
        self.command("item.completed", command, output, Some(code));
    }

    fn tool_refused(&mut self, _id: &str, _command: &str, _why: &str) -> bool {
        // What the sandbox stops leaves no item at all.
        true
    }

    fn ask(&mut self, id: &str, command: &str) -> Asking {
        if self.facts.mode == "read-only" {
            return Asking::Refused("Read-only file system".to_owned());
        }
        self.tool_call(id, command);
        Asking::Allowed
    }

    fn arrival(&mut self, _line: &str) -> News {
        News::Nothing
    }

    fn eof(&mut self) -> News {
        News::Nothing
    }

    fn end(&mut self, ending: &Ending) {
        match ending {
            Ending::Done(_) | Ending::Interrupted(_) => {
                // The sum over the whole thread.
                let usage = json!({
                    "input_tokens": self.session.read, "cached_input_tokens": 0, "cache_write_input_tokens": 0,
                    "output_tokens": self.session.written, "reasoning_output_tokens": 0,
                });
                self.out.headed("type", "turn.completed", &json!({"usage": usage}));
            }
            Ending::Failed(why) => {
                self.failed = true;
                let message = if why.is_empty() { OVERLOADED } else { why };
                let retry = format!("Reconnecting... 1/1 ({message})");
                self.out.headed("type", "error", &json!({"message": retry}));
                self.out.headed("type", "error", &json!({"message": message}));
                self.out.headed("type", "turn.failed", &json!({"error": {"message": message}}));
            }
        }
    }
}
