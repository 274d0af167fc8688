//! An ACP agent, played: JSON-RPC 2.0 lines on standard input and output, with the habits of gemini and opencode
//! where the two differ.
//!
//! One prompt runs at a time. A second one to the busy session interrupts the first with gemini, and waits with the
//! others.

mod words;

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::process::exit;

use serde_json::{Value, json};

use crate::inbox::{Arrival, Inbox, OnSignal};
use crate::out::Out;
use crate::session::Session;
use crate::turn::{self, Facts, News, Wire as _};

#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Flavour {
    Gemini,
    Opencode,
    Plain,
}

struct Open {
    session: Session,
    mode: String,
    model: String,
    resumed: Option<String>,
    /// Commands allowed for the rest of the session.
    always: bool,
}

struct Agent {
    flavour: Flavour,
    trusted: bool,
    out: Out,
    inbox: Inbox,
    facts: Facts,
    model: String,
    mode: String,
    sessions: HashMap<String, Open>,
    waiting: VecDeque<(Value, String, String)>,
    /// The session and the request that are being served.
    current: String,
    request: Value,
    busy: bool,
    message: String,
    /// The number of our open question.
    asked: Option<u64>,
    questions: u64,
}

/// In a folder that is not trusted gemini gives nothing away, whatever it is asked.
pub(crate) fn main(flavour: Flavour, model: &str, mode: &str, trusted: bool) -> ! {
    let mode = if trusted || mode == "plan" { mode } else { "default" };
    let signals = if flavour == Flavour::Gemini { OnSignal::Exit(0) } else { OnSignal::Die };
    let inbox = Inbox::new(signals, signals);
    inbox.listen();
    let mut agent = Agent {
        flavour,
        trusted,
        out: Out::new(),
        inbox,
        facts: Facts { model: model.to_owned(), mode: mode.to_owned(), resumed: None, mortal_tools: false },
        model: model.to_owned(),
        mode: mode.to_owned(),
        sessions: HashMap::new(),
        waiting: VecDeque::new(),
        current: String::new(),
        request: Value::Null,
        busy: false,
        message: String::new(),
        asked: None,
        questions: 0,
    };
    loop {
        if let Some((request, session, prompt)) = agent.waiting.pop_front() {
            agent.play(request, session, &prompt);
            continue;
        }
        match agent.inbox.next() {
            Arrival::Line(line) => drop(agent.arrival(&line)),
            Arrival::Eof => exit(0),
            Arrival::Interrupt | Arrival::Tool { .. } => {}
        }
    }
}

impl Agent {
    fn play(&mut self, request: Value, session: String, prompt: &str) {
        let open = &self.sessions[&session];
        self.facts.model.clone_from(&open.model);
        self.facts.mode.clone_from(&open.mode);
        self.facts.resumed.clone_from(&open.resumed);
        self.current = session;
        self.request = request;
        self.busy = true;
        turn::run(self, prompt);
        self.busy = false;
    }

    fn modes(&self) -> &'static [&'static str] {
        match self.flavour {
            Flavour::Gemini => &["default", "autoEdit", "yolo", "plan"],
            Flavour::Opencode => &["build", "plan"],
            Flavour::Plain => &["default", "auto"],
        }
    }

    fn answer(&mut self, id: &Value, result: &Value) {
        self.out.str(r#"{"jsonrpc":"2.0","id":"#).str(&id.to_string());
        self.out.str(r#","result":"#).str(&result.to_string()).str("}").end();
        self.out.flush();
    }

    fn refuse(&mut self, id: &Value, code: i64, message: &str, data: &Value) {
        let mut error = json!({"code": code, "message": message});
        if !data.is_null() {
            error["data"] = data.clone();
        }
        self.out.value(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
        self.out.flush();
    }

    fn update(&mut self, session: &str, kind: &str, fields: &Value) {
        self.out.str(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":""#).str(session);
        self.out.str(r#"","update":"#);
        let rest = fields.to_string();
        self.out.str(r#"{"sessionUpdate":""#).str(kind).str("\"");
        if rest.len() > 2 {
            self.out.str(",").str(&rest[1..rest.len() - 1]);
        }
        self.out.str("}}}").end();
    }

    fn chunk(&mut self, session: &str, kind: &str, text: &str) {
        let out = &mut self.out;
        out.str(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":""#).str(session);
        out.str(r#"","update":{"sessionUpdate":""#).str(kind).str("\"");
        if self.flavour == Flavour::Opencode {
            out.str(r#","messageId":""#).str(&self.message).str("\"");
        }
        out.str(r#","content":{"type":"text","text":"#).quoted(text).str("}}}}").end();
    }

    fn tool(&mut self, kind: &str, fields: &Value) {
        let session = self.current.clone();
        self.update(&session, kind, fields);
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> News {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let known = self.sessions.contains_key(&session);
        match method {
            "initialize" => {
                let name = match self.flavour {
                    Flavour::Gemini => json!({"name": "gemini-cli", "title": "Gemini CLI", "version": "0.61.0"}),
                    Flavour::Opencode => json!({"name": "OpenCode", "version": "1.18.33"}),
                    Flavour::Plain => json!({"name": "fakecli", "version": "1"}),
                };
                let prompts = json!({"image": true, "embeddedContext": true});
                let capabilities = json!({"loadSession": true, "promptCapabilities": prompts});
                let result = json!({
                    "protocolVersion": 1, "authMethods": [], "agentInfo": name, "agentCapabilities": capabilities,
                });
                self.answer(id, &result);
            }
            "session/new" => self.open_new(id, params["cwd"].as_str().unwrap_or_default()),
            "session/load" => self.load(id, &session, params["cwd"].as_str().unwrap_or_default()),
            "session/prompt" | "session/set_mode" | "session/set_model" | "session/set_config_option" if !known => {
                self.refuse(id, -32602, &format!("Session not found: {session}"), &Value::Null);
            }
            "session/prompt" => {
                let parts = params["prompt"].as_array().into_iter().flatten();
                let text: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
                self.waiting.push_back((id.clone(), session.clone(), text.join("\n")));
                if self.busy && self.current == session && self.flavour == Flavour::Gemini {
                    return News::Interrupt;
                }
            }
            "session/set_mode" => self.set_mode(id, &session, params["modeId"].as_str().unwrap_or_default()),
            "session/set_model" => {
                let model = params["modelId"].as_str().unwrap_or_default();
                self.sessions.entry(session).and_modify(|open| model.clone_into(&mut open.model));
                self.answer(id, &json!({}));
            }
            "session/set_config_option" if self.flavour != Flavour::Gemini => {
                let value = params["value"].as_str().unwrap_or_default();
                if let Some(open) = self.sessions.get_mut(&session) {
                    match params["configId"].as_str() {
                        Some("mode") => value.clone_into(&mut open.mode),
                        Some("model") => value.clone_into(&mut open.model),
                        _ => {}
                    }
                }
                self.answer(id, &json!({"configOptions": []}));
            }
            other => {
                let data = json!({"method": other});
                self.refuse(id, -32601, &format!("\"Method not found\": {other}"), &data);
            }
        }
        News::Nothing
    }

    fn open_new(&mut self, id: &Value, cwd: &str) {
        if self.flavour == Flavour::Gemini && !Path::new(cwd).is_dir() {
            let details = json!({"details": format!("Directory does not exist: {cwd}")});
            return self.refuse(id, -32603, "Internal error", &details);
        }
        let form = match self.flavour {
            Flavour::Gemini => "9e000000-0000-4000-8000-{}",
            Flavour::Opencode => "ses_e22038e27ffe{}",
            Flavour::Plain => "acp-{}",
        };
        let session = Session::create(form, None, cwd);
        let name = session.id.clone();
        self.keep(session, None);
        let mut result = self.opened();
        result["sessionId"] = json!(name);
        self.answer(id, &result);
        let commands = json!({"availableCommands": [{"name": "init", "description": "none"}]});
        self.update(&name, "available_commands_update", &commands);
        self.out.flush();
    }

    fn keep(&mut self, session: Session, resumed: Option<String>) {
        let open = Open { mode: self.mode.clone(), model: self.model.clone(), resumed, always: false, session };
        self.sessions.insert(open.session.id.clone(), open);
    }

    /// What is said about a session when it is opened.
    fn opened(&self) -> Value {
        let names = |name: &&str| json!({"id": name, "name": name});
        let modes: Vec<Value> = self.modes().iter().map(names).collect();
        match self.flavour {
            Flavour::Gemini | Flavour::Plain => json!({
                "modes": {"availableModes": modes, "currentModeId": self.mode},
                "models": {"availableModels": [{"modelId": "auto", "name": "Auto"}], "currentModelId": self.model},
            }),
            Flavour::Opencode => {
                let option = |id: &str, current: &str, options: Value| {
                    json!({
                        "id": id, "name": id, "category": id, "type": "select", "currentValue": current,
                        "options": options,
                    })
                };
                let models = json!([{"value": self.model, "name": self.model}]);
                let modes: Vec<Value> = self.modes().iter().map(|mode| json!({"value": mode, "name": mode})).collect();
                json!({"configOptions": [
                    option("model", &self.model, models), option("mode", &self.mode, json!(modes)),
                ]})
            }
        }
    }

    /// The history comes as updates: after the answer with gemini, before it with the others.
    fn load(&mut self, id: &Value, name: &str, cwd: &str) {
        let Some(session) = Session::resume(name, cwd) else {
            let data = match self.flavour {
                Flavour::Gemini => json!({"details": "No previous sessions found for this project."}),
                Flavour::Opencode | Flavour::Plain => json!({"service": "session"}),
            };
            return self.refuse(id, -32603, "Internal error", &data);
        };
        let turns = session.turns.clone();
        self.keep(session, Some(name.to_owned()));
        let result = self.opened();
        if self.flavour == Flavour::Gemini {
            self.answer(id, &result);
        }
        for (prompt, answer) in turns {
            self.chunk(name, "user_message_chunk", &prompt);
            self.chunk(name, "agent_message_chunk", &answer);
        }
        if self.flavour != Flavour::Gemini {
            self.answer(id, &result);
        }
        self.out.flush();
    }

    fn set_mode(&mut self, id: &Value, session: &str, mode: &str) {
        if !self.modes().contains(&mode) {
            let details = json!({"details": format!("Invalid or unavailable mode: {mode}")});
            return self.refuse(id, -32603, "Internal error", &details);
        }
        if !self.trusted && ["yolo", "autoEdit"].contains(&mode) {
            let details = json!({"details": "Cannot enable privileged approval modes in an untrusted folder."});
            return self.refuse(id, -32603, "Internal error", &details);
        }
        if let Some(open) = self.sessions.get_mut(session) {
            mode.clone_into(&mut open.mode);
        }
        if self.flavour == Flavour::Gemini {
            // It says so as if the model had.
            self.chunk(session, "agent_message_chunk", &format!("[MODE_UPDATE] {mode}"));
        }
        self.answer(id, &json!({}));
    }

    fn permission_request(&mut self, id: &str, command: &str) {
        let number = self.questions;
        self.questions += 1;
        self.asked = Some(number);
        let option = |id: &str, kind: &str| json!({"optionId": id, "kind": kind, "name": id});
        let (options, call) = match self.flavour {
            Flavour::Gemini => (
                json!([
                    option("proceed_always", "allow_always"),
                    option("proceed_once", "allow_once"),
                    option("cancel", "reject_once")
                ]),
                // It does not tell the command anywhere but in the title.
                json!({
                    "toolCallId": id, "status": "pending", "title": command, "content": [], "locations": [],
                    "kind": "execute",
                }),
            ),
            Flavour::Opencode | Flavour::Plain => (
                json!([
                    option("once", "allow_once"),
                    option("always", "allow_always"),
                    option("reject", "reject_once")
                ]),
                json!({
                    "toolCallId": id, "title": command, "kind": "execute", "status": "pending", "locations": [],
                    "rawInput": {"command": command},
                }),
            ),
        };
        let params = json!({"sessionId": self.current, "options": options, "toolCall": call});
        let method = "session/request_permission";
        self.out.value(&json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}));
    }
}
