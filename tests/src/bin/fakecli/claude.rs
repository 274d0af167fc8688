//! Claude Code 2.1, played: one turn with the prompt as an argument or on standard input, or a kept process with
//! messages, control requests and answers as JSON lines on standard input.

use std::env;
use std::process::exit;
use std::time::Duration;

use serde_json::{Value, json};

use crate::claude_lines::{Format, Lines, VERSION};
use crate::inbox::{Arrival, Inbox, OnSignal, whole_stdin};
use crate::known;
use crate::options::{Options, Refused};
use crate::out::Out;
use crate::session::Session;
use crate::turn::{self, Asking, Ending, Facts, News, Verdict, Wire};

const MODES: [&str; 7] = ["acceptEdits", "auto", "bypassPermissions", "default", "manual", "dontAsk", "plan"];
const FORM: &str = "c1a0de00-0000-4000-8000-{}";
/// How long standard input is waited for when there is a prompt already.
const PATIENCE: Duration = Duration::from_secs(3);
const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected.";

struct Claude {
    lines: Lines,
    inbox: Inbox,
    facts: Facts,
    can_ask: bool,
    may_bypass: bool,
    replay: bool,
    /// Deltas are wanted.
    partial: bool,
    /// The process lives on after a turn.
    kept: bool,
    /// Messages that came while a turn ran: the next turn takes them all together.
    waiting: Vec<String>,
    /// Standard input has ended.
    closed: bool,
    /// The id of our open question, and the input it was about.
    asked: Option<(String, Value)>,
    /// The tool call that has no result yet.
    calling: Option<String>,
    /// The user allowed it for the rest of the session.
    always: bool,
    denials: Vec<Value>,
    failed: bool,
}

pub(crate) fn main(arguments: &[String]) {
    let options = Options::read(&known::CLAUDE, arguments).unwrap_or_else(|refused| match refused {
        Refused::Unknown(option) => fail(&format!("error: unknown option '{option}'")),
        Refused::NoValue(option) => fail(&format!("error: option '{option} <value>' argument missing")),
    });
    if options.has("--version") {
        let mut out = Out::new();
        out.str(VERSION).str(" (Claude Code)").end();
        return out.flush();
    }
    let choice = |name: &str, choices: &[&str]| match options.choice(name, choices) {
        Ok(value) => value.map(str::to_owned),
        Err(value) => fail(&format!(
            "error: option '{name} <value>' argument '{value}' is invalid. Allowed choices are {}.",
            choices.join(", ")
        )),
    };
    let format = match choice("--output-format", &["text", "json", "stream-json"]).as_deref() {
        Some("stream-json") => Format::Stream,
        Some("json") => Format::Json,
        _ => Format::Text,
    };
    let streamed = choice("--input-format", &["text", "stream-json"]).as_deref() == Some("stream-json");
    let mut mode = choice("--permission-mode", &MODES).unwrap_or_else(|| "manual".to_owned());
    if options.has("--dangerously-skip-permissions") {
        "bypassPermissions".clone_into(&mut mode);
    }
    if mode == "bypassPermissions" && rustix::process::geteuid().is_root() && env::var_os("IS_SANDBOX").is_none() {
        fail("--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons");
    }
    if !options.has("--print") {
        fail("Error: this stand-in has no interactive mode; use --print");
    }
    if format == Format::Stream && !options.has("--verbose") {
        fail("Error: When using --print, --output-format=stream-json requires --verbose");
    }
    if streamed && format != Format::Stream {
        fail("Error: --input-format=stream-json requires output-format=stream-json.");
    }
    let model = options.value("--model").unwrap_or("claude-opus-5-5").to_owned();
    let (session, resumed) = session(&options);
    let inbox = Inbox::new(OnSignal::Tell, OnSignal::CleanExit(143));
    let partial = options.has("--include-partial-messages") && format == Format::Stream;
    let mut claude = Claude {
        lines: Lines::new(format, partial, model.clone(), session),
        inbox,
        facts: Facts { model, mode: mode.clone(), resumed, mortal_tools: false },
        can_ask: options.value("--permission-prompt-tool") == Some("stdio"),
        may_bypass: mode == "bypassPermissions" || options.has("--allow-dangerously-skip-permissions"),
        replay: options.has("--replay-user-messages"),
        partial,
        kept: streamed,
        waiting: Vec::new(),
        closed: false,
        asked: None,
        calling: None,
        always: false,
        denials: Vec::new(),
        failed: false,
    };
    if streamed {
        claude.serve();
    }
    // An argument and standard input together are one prompt, so a host should close what it does not use.
    let mut prompt = options.words.join(" ");
    let piped = whole_stdin((!prompt.is_empty()).then_some(PATIENCE));
    if !piped.trim().is_empty() {
        prompt = if prompt.is_empty() { piped } else { format!("{prompt}\n{piped}") };
    }
    if prompt.trim().is_empty() {
        fail("Error: Input must be provided either through stdin or as a prompt argument when using --print");
    }
    turn::run(&mut claude, &prompt);
    exit(i32::from(claude.failed));
}

fn fail(text: &str) -> ! {
    eprintln!("{text}");
    exit(1)
}

fn session(options: &Options) -> (Session, Option<String>) {
    let cwd = env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
    let wanted = match (options.has("--continue"), options.value("--resume")) {
        (true, _) => Session::latest(),
        (false, id) => id.map(str::to_owned),
    };
    let Some(id) = wanted else {
        return (Session::create(FORM, options.value("--session-id").map(str::to_owned), &cwd), None);
    };
    let Some(mut session) = Session::resume(&id, &cwd) else {
        let mut out = Out::new();
        let problem = format!("No conversation found with session ID: {id}");
        out.value(&json!({
            "type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0, "session_id": id,
            "errors": [problem], "total_cost_usd": 0, "permission_denials": [], "result_index": 0,
        }));
        out.flush();
        fail(&problem);
    };
    session.cwd = cwd;
    if options.has("--fork-session") {
        let mut fork = Session::create(FORM, None, &session.cwd);
        fork.turns = session.turns;
        session = fork;
    }
    (session, Some(id))
}

impl Claude {
    /// The kept process.
    fn serve(&mut self) -> ! {
        self.inbox.listen();
        loop {
            if !self.waiting.is_empty() {
                let prompt = std::mem::take(&mut self.waiting).join("\n");
                turn::run(self, &prompt);
                continue;
            }
            if self.closed {
                exit(i32::from(self.failed));
            }
            match self.inbox.next() {
                Arrival::Line(line) => drop(self.arrival(&line)),
                Arrival::Eof => self.closed = true,
                Arrival::Interrupt => exit(0),
                Arrival::Tool { .. } => {}
            }
        }
    }

    fn control(&mut self, id: &str, request: &Value) -> News {
        let mut news = News::Nothing;
        let answer = match request["subtype"].as_str().unwrap_or_default() {
            "initialize" => Ok(json!({"commands": [], "agents": [], "output_style": "default", "models": []})),
            "interrupt" => {
                if let Some((asked, _)) = self.asked.take() {
                    self.lines.control("control_cancel_request", &json!({"request_id": asked}));
                }
                news = News::Interrupt;
                Ok(json!({"still_queued": []}))
            }
            "set_permission_mode" => self.set_mode(request["mode"].as_str().unwrap_or_default()),
            "set_model" => {
                let model = request["model"].as_str().unwrap_or("claude-opus-5-5");
                model.clone_into(&mut self.lines.model);
                model.clone_into(&mut self.facts.model);
                Ok(json!({"model": model}))
            }
            "set_max_thinking_tokens" | "get_context_usage" => Ok(json!({})),
            "mcp_status" => Ok(json!({"mcpServers": []})),
            other => Err((format!("Unsupported control request subtype: {other}"), "unsupported_request")),
        };
        let response = match answer {
            Ok(response) => json!({"subtype": "success", "request_id": id, "response": response}),
            Err((error, code)) => json!({"subtype": "error", "request_id": id, "error": error, "error_code": code}),
        };
        let changed = request["subtype"] == "set_permission_mode" && response["subtype"] == "success";
        self.lines.control("control_response", &json!({"response": response}));
        if changed {
            let mode = if self.facts.mode == "manual" { "default" } else { self.facts.mode.as_str() };
            self.lines.system(json!({"subtype": "status", "status": null, "permissionMode": mode}));
            self.lines.out.flush();
        }
        news
    }

    fn set_mode(&mut self, mode: &str) -> Result<Value, (String, &'static str)> {
        if !MODES.contains(&mode) {
            return Err((format!("Invalid permission mode: {mode}"), "invalid_request"));
        }
        if mode == "bypassPermissions" && !self.may_bypass {
            let why = "Cannot set permission mode to bypassPermissions because the session was not launched with \
                       --dangerously-skip-permissions";
            return Err((why.to_owned(), "bypass_not_launched"));
        }
        mode.clone_into(&mut self.facts.mode);
        Ok(json!({"mode": mode}))
    }

    fn answered(&mut self, response: &Value) -> News {
        let Some((_, input)) = self.asked.take_if(|(id, _)| response["request_id"] == id.as_str()) else {
            return News::Nothing;
        };
        let decision = &response["response"];
        if response["subtype"] != "success" {
            return News::Verdict(Verdict::Deny(response["error"].as_str().unwrap_or_default().to_owned()));
        }
        if decision["behavior"] == "allow" {
            self.always |= decision["updatedPermissions"].as_array().is_some_and(|list| !list.is_empty());
            let changed = &decision["updatedInput"];
            let command = changed["command"].as_str().filter(|command| input["command"] != **command);
            let answers = changed["answers"].as_object().into_iter().flatten();
            let words: Vec<&str> = answers.filter_map(|(_, answer)| answer.as_str()).collect();
            let words = if words.is_empty() { None } else { Some(words.join(", ")) };
            return News::Verdict(Verdict::Allow { command: command.map(str::to_owned), words });
        }
        if decision["interrupt"] == true {
            return News::Verdict(Verdict::Stop);
        }
        News::Verdict(Verdict::Deny(decision["message"].as_str().unwrap_or_default().to_owned()))
    }

    /// Shows a call and asks about it.
    fn question(&mut self, id: &str, tool: &str, input: Value, more: &[(&str, Value)]) {
        self.lines.tool_use(id, tool, &input);
        self.calling = Some(id.to_owned());
        let request = self.lines.out.fresh_uuid();
        let mut fields = json!({
            "subtype": "can_use_tool", "tool_name": tool, "display_name": tool, "input": input, "tool_use_id": id,
        });
        for (name, value) in more {
            fields[*name] = value.clone();
        }
        self.lines.control("control_request", &json!({"request_id": request, "request": fields}));
        self.asked = Some((request, input));
    }
}

impl Wire for Claude {
    fn out(&mut self) -> &mut Out {
        &mut self.lines.out
    }

    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn session(&mut self) -> &mut Session {
        &mut self.lines.session
    }

    fn begin(&mut self, prompt: &str) {
        self.denials.clear();
        self.lines.init(&self.facts.mode.clone());
        if self.replay {
            self.lines.replay(prompt);
        }
    }

    fn delta(&mut self, text: &str) {
        self.lines.delta(text);
    }

    fn text(&mut self, text: &str, _streamed: bool) {
        self.lines.text(text, false);
    }

    fn thought(&mut self, text: &str) {
        self.lines.thought(text);
    }

    fn tool_call(&mut self, id: &str, command: &str) {
        self.lines.tool_use(id, "Bash", &json!({"command": command}));
        self.calling = Some(id.to_owned());
    }

    fn tool_result(&mut self, id: &str, _command: &str, output: &str, code: i32) {
        self.calling = None;
        let output = output.trim_end();
        let text = if code == 0 { output.to_owned() } else { format!("Exit code {code}\n{output}") };
        self.lines.tool_result(id, &text, code != 0);
    }

    fn tool_refused(&mut self, id: &str, command: &str, why: &str) -> bool {
        self.calling = None;
        self.denials.push(json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": command}}));
        self.lines.tool_result(id, why, true);
        true
    }

    fn ask(&mut self, id: &str, command: &str) -> Asking {
        let input = json!({"command": command});
        let refuse = |claude: &mut Self, why: &str| {
            claude.lines.tool_use(id, "Bash", &input);
            claude.calling = Some(id.to_owned());
            let fields =
                json!({"subtype": "permission_denied", "tool_name": "Bash", "tool_use_id": id, "message": why});
            claude.lines.system(fields);
            Asking::Refused(why.to_owned())
        };
        match self.facts.mode.as_str() {
            "bypassPermissions" | "auto" => {}
            "plan" | "dontAsk" => return refuse(self, "this mode does not allow it"),
            _ if self.always => {}
            _ if !self.can_ask || self.closed => return refuse(self, "needs approval"),
            _ => {
                let rules = json!([{"toolName": "Bash", "ruleContent": command}]);
                let suggestion =
                    json!({"type": "addRules", "rules": rules, "behavior": "allow", "destination": "localSettings"});
                let more = [("description", json!(command)), ("permission_suggestions", json!([suggestion]))];
                self.question(id, "Bash", input, &more);
                return Asking::Asked;
            }
        }
        self.tool_call(id, command);
        Asking::Allowed
    }

    fn ask_choice(&mut self, id: &str, question: &str) -> Asking {
        if !self.can_ask || self.closed {
            return Asking::Refused("there is nobody to ask".to_owned());
        }
        let options = json!([{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]);
        let input = json!({"questions": [
            {"question": question, "header": "Choice", "multiSelect": false, "options": options},
        ]});
        self.question(id, "AskUserQuestion", input, &[("requires_user_interaction", json!(true))]);
        Asking::Asked
    }

    fn whole_blocks(&mut self, only: bool) {
        self.lines.partial = self.partial && !only;
    }

    fn withdraw(&mut self) {
        if let Some((asked, _)) = self.asked.take() {
            self.lines.control("control_cancel_request", &json!({"request_id": asked}));
        }
    }

    fn arrival(&mut self, line: &str) -> News {
        if line.is_empty() {
            return News::Nothing;
        }
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            self.lines.out.flush();
            fail(&format!("Error parsing streaming input line: {line}"));
        };
        match message["type"].as_str().unwrap_or_default() {
            "user" => {
                let content = &message["message"]["content"];
                let parts = content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
                let text = content.as_str().map_or_else(|| parts.collect::<Vec<&str>>().join("\n"), str::to_owned);
                self.waiting.push(text);
                News::Nothing
            }
            "control_request" => {
                let id = message["request_id"].as_str().unwrap_or_default().to_owned();
                self.control(&id, &message["request"])
            }
            "control_response" => self.answered(&message["response"]),
            _ => News::Nothing,
        }
    }

    fn eof(&mut self) -> News {
        self.closed = true;
        // Who is gone cannot say yes.
        match self.asked.take() {
            Some(_) => News::Verdict(Verdict::Deny("Tool permission stream closed".to_owned())),
            None => News::Nothing,
        }
    }

    fn end(&mut self, ending: &Ending) {
        let denials = ("permission_denials", json!(self.denials));
        match ending {
            Ending::Done(text) => {
                self.failed = false;
                self.lines.close_message("end_turn");
                self.lines.result(text, &[denials]);
            }
            Ending::Failed(why) => {
                self.failed = true;
                self.lines.close_message("end_turn");
                let text = self.lines.api_error(why);
                let more = [
                    ("is_error", json!(true)),
                    ("api_error_status", json!(500)),
                    ("terminal_reason", json!("api_error")),
                ];
                self.lines.result(&text, &more);
            }
            Ending::Interrupted(said) => {
                if !said.is_empty() {
                    self.lines.text(said, true);
                }
                let (marker, reason) = match self.calling.take() {
                    Some(call) => {
                        self.lines.tool_result(&call, REJECTED, true);
                        ("[Request interrupted by user for tool use]", "aborted_tools")
                    }
                    None => ("[Request interrupted by user]", "aborted_streaming"),
                };
                self.lines.user_text(marker);
                self.lines.close_message("end_turn");
                // A signal ends the one-turn mode, with success of all things.
                self.failed = self.kept;
                let more = [
                    ("is_error", json!(true)),
                    ("subtype", json!("error_during_execution")),
                    ("errors", json!(["interrupted"])),
                    ("stop_reason", Value::Null),
                    ("terminal_reason", json!(reason)),
                    denials,
                ];
                self.lines.result("", &more);
            }
        }
    }
}
