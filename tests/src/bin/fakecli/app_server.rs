//! `codex app-server`, played: JSON-RPC lines without the field `jsonrpc`, threads and turns.
//!
//! One turn runs at a time. A second `turn/start` on the busy thread becomes a part of the running turn, as with
//! the real program; one on another thread waits.

use std::collections::{HashMap, VecDeque};
use std::env;
use std::process::exit;

use serde_json::{Value, json};

use crate::codex::{FORM, OVERLOADED, shown};
use crate::inbox::{Arrival, Inbox, OnSignal};
use crate::out::{Out, now_ms};
use crate::session::{Session, UNKNOWN};
use crate::turn::{self, Asking, Ending, Facts, News, Verdict, Wire};

struct Thread {
    session: Session,
    model: String,
    resumed: Option<String>,
    policy: String,
    sandbox: String,
    /// Commands allowed for the rest of the session.
    allowed: Vec<String>,
}

struct Server {
    out: Out,
    inbox: Inbox,
    facts: Facts,
    model: String,
    initialized: bool,
    threads: HashMap<String, Thread>,
    waiting: VecDeque<(String, String, String)>,
    /// The running turn: its thread and its own id.
    thread: String,
    turn: String,
    running: bool,
    /// What was put into the running turn from outside.
    steered: Vec<String>,
    /// The item whose text is being said.
    message: Option<String>,
    /// The open question's number, the call it is about, and its command.
    asked: Option<(u64, String, String)>,
    questions: u64,
    begun: u64,
}

pub(crate) fn main(model: String) -> ! {
    let inbox = Inbox::new(OnSignal::Exit(1), OnSignal::Die);
    inbox.listen();
    let mut server = Server {
        out: Out::new(),
        inbox,
        facts: Facts { model: model.clone(), mode: String::new(), resumed: None, mortal_tools: true },
        model,
        initialized: false,
        threads: HashMap::new(),
        waiting: VecDeque::new(),
        thread: String::new(),
        turn: String::new(),
        running: false,
        steered: Vec::new(),
        message: None,
        asked: None,
        questions: 0,
        begun: 0,
    };
    loop {
        if let Some((thread, turn, prompt)) = server.waiting.pop_front() {
            server.play(thread, turn, &prompt);
            continue;
        }
        match server.inbox.next() {
            Arrival::Line(line) => drop(server.arrival(&line)),
            Arrival::Eof => exit(0),
            Arrival::Interrupt | Arrival::Tool { .. } => {}
        }
    }
}

impl Server {
    fn play(&mut self, thread: String, turn: String, prompt: &str) {
        let chosen = &self.threads[&thread];
        self.facts.model.clone_from(&chosen.model);
        self.facts.mode = format!("{}/{}", chosen.policy, chosen.sandbox);
        self.facts.resumed.clone_from(&chosen.resumed);
        self.thread = thread;
        self.turn = turn;
        self.running = true;
        turn::run(self, prompt);
        self.running = false;
    }

    fn answer(&mut self, id: &Value, result: &Value) {
        self.out.str(r#"{"id":"#).str(&id.to_string()).str(r#","result":"#).str(&result.to_string()).str("}").end();
        self.out.flush();
    }

    fn refuse(&mut self, id: &Value, message: &str) {
        self.out.value(&json!({"error": {"code": -32600, "message": message}, "id": id}));
        self.out.flush();
    }

    fn notify(&mut self, method: &str, params: &Value) {
        self.out.headed("method", method, &json!({"params": params, "emittedAtMs": now_ms()}));
    }

    /// A notification about the running turn.
    fn tell(&mut self, method: &str, mut params: Value) {
        params["threadId"] = json!(self.thread);
        params["turnId"] = json!(self.turn);
        self.notify(method, &params);
    }

    fn status(&mut self, status: &Value) {
        let thread = self.thread.clone();
        self.notify("thread/status/changed", &json!({"threadId": thread, "status": status}));
    }

    fn item(&mut self, method: &str, item: &Value) {
        self.tell(method, json!({"item": item}));
    }

    fn message_item(id: &str, text: &str) -> Value {
        json!({"type": "agentMessage", "id": id, "text": text, "phase": null})
    }

    fn command_item(&self, id: &str, command: &str, status: &str, output: Option<&str>, code: Option<i32>) -> Value {
        json!({
            "type": "commandExecution", "id": id, "command": shown(command), "cwd": self.threads[&self.thread].session.cwd,
            "processId": null, "source": "agent", "status": status, "aggregatedOutput": output, "exitCode": code,
            "commandActions": [{"type": "unknown", "command": command}], "durationMs": code.map(|_| 0),
        })
    }

    fn turn_value(&self, status: &str, items: &Value, error: &Value) -> Value {
        json!({
            "id": self.turn, "rootTurnId": self.turn, "items": items, "itemsView": "summary", "status": status,
            "error": error, "startedAt": self.begun / 1000, "completedAt": null, "durationMs": now_ms() - self.begun,
        })
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> News {
        if method == "initialize" {
            if self.initialized {
                self.refuse(id, "Already initialized");
                return News::Nothing;
            }
            self.initialized = true;
            let home = env::var("CODEX_HOME").unwrap_or_default();
            let agent = json!({"userAgent": "fakecli/0.166.0", "codexHome": home, "platformFamily": "unix"});
            self.answer(id, &agent);
            let warning = json!({"summary": "Codex could not find bubblewrap on PATH.", "details": null});
            self.notify("configWarning", &warning);
            self.out.flush();
            return News::Nothing;
        }
        if !self.initialized {
            self.refuse(id, "Not initialized");
            return News::Nothing;
        }
        match method {
            "thread/start" | "thread/resume" => self.open(id, method == "thread/resume", params),
            "turn/start" => self.start(id, params),
            "turn/steer" => {
                self.steered.push(text_of(params));
                let turn = json!({"turnId": self.turn});
                self.answer(id, &turn);
            }
            "turn/interrupt" => return self.interrupt(id, params),
            "model/list" => self.answer(id, &json!({"data": [], "nextCursor": null})),
            "thread/list" => self.answer(id, &json!({"data": [], "nextCursor": null})),
            other => self.refuse(id, &format!("Invalid request: unknown variant `{other}`")),
        }
        News::Nothing
    }

    fn open(&mut self, id: &Value, resume: bool, params: &Value) {
        let text = |name: &str| params[name].as_str().map(str::to_owned);
        let policy = text("approvalPolicy").unwrap_or_else(|| "on-request".to_owned());
        let sandbox = text("sandbox").unwrap_or_else(|| "workspace-write".to_owned());
        if !["untrusted", "on-request", "granular", "never"].contains(&policy.as_str()) {
            return self.refuse(id, &format!("Invalid request: unknown variant `{policy}`"));
        }
        if !["read-only", "workspace-write", "danger-full-access"].contains(&sandbox.as_str()) {
            return self.refuse(id, &format!("Invalid request: unknown variant `{sandbox}`"));
        }
        let here = || env::current_dir().map(|path| path.display().to_string()).unwrap_or_default();
        let cwd = text("cwd");
        let mut resumed = None;
        let session = if resume {
            let wanted = text("threadId").unwrap_or_else(|| UNKNOWN.to_owned());
            let Some(mut session) = Session::resume(&wanted, &here()) else {
                return self.refuse(id, &format!("no rollout found for thread id {wanted}"));
            };
            session.cwd = cwd.unwrap_or(session.cwd);
            resumed = Some(wanted);
            session
        } else {
            Session::create(FORM, None, &cwd.unwrap_or_else(here))
        };
        let model = text("model").unwrap_or_else(|| self.model.clone());
        let turns: Vec<Value> = session
            .turns
            .iter()
            .map(|(prompt, answer)| {
                let content = json!([{"type": "text", "text": prompt, "text_elements": []}]);
                let items = json!([
                    {"type": "userMessage", "id": "u", "content": content},
                    {"type": "agentMessage", "id": "a", "text": answer, "phase": null},
                ]);
                json!({"id": "t", "items": items, "itemsView": "full", "status": "completed", "error": null})
            })
            .collect();
        let thread = json!({
            "id": session.id, "sessionId": session.id, "preview": "", "ephemeral": false, "modelProvider": "fake",
            "model": model, "createdAt": now_ms() / 1000, "updatedAt": now_ms() / 1000, "status": {"type": "idle"},
            "cwd": session.cwd, "cliVersion": "0.166.0", "turns": turns,
        });
        let result = json!({
            "thread": thread, "model": model, "modelProvider": "fake", "cwd": session.cwd, "approvalPolicy": policy,
            "approvalsReviewer": "user", "sandbox": {"type": sandbox},
        });
        let name = session.id.clone();
        self.threads.insert(name, Thread { session, model, resumed, policy, sandbox, allowed: Vec::new() });
        self.answer(id, &result);
        if !resume {
            self.notify("thread/started", &json!({"thread": thread}));
        }
        self.out.flush();
    }

    fn start(&mut self, id: &Value, params: &Value) {
        let thread = params["threadId"].as_str().unwrap_or_default().to_owned();
        if !self.threads.contains_key(&thread) {
            return self.refuse(id, &format!("thread not found: {thread}"));
        }
        let text = text_of(params);
        if self.running && self.thread == thread {
            self.steered.push(text);
            let turn = self.turn_value("inProgress", &json!([]), &Value::Null);
            return self.answer(id, &json!({"turn": turn}));
        }
        if let Some(chosen) = self.threads.get_mut(&thread) {
            let set = |name: &str, field: &mut String| {
                if let Some(value) = params[name].as_str() {
                    value.clone_into(field);
                }
            };
            set("model", &mut chosen.model);
            set("approvalPolicy", &mut chosen.policy);
            set("cwd", &mut chosen.session.cwd);
        }
        let turn = self.out.fresh_uuid();
        let value = json!({
            "id": turn, "rootTurnId": turn, "items": [], "itemsView": "notLoaded", "status": "inProgress", "error": null,
        });
        self.answer(id, &json!({"turn": value}));
        self.waiting.push_back((thread, turn, text));
    }

    fn interrupt(&mut self, id: &Value, params: &Value) -> News {
        let thread = params["threadId"].as_str().unwrap_or_default();
        if !self.threads.contains_key(thread) {
            self.refuse(id, &format!("thread not found: {thread}"));
            return News::Nothing;
        }
        if !self.running || self.thread != thread || params["turnId"] != self.turn.as_str() {
            self.refuse(id, "no active turn to interrupt");
            return News::Nothing;
        }
        self.answer(id, &json!({}));
        News::Interrupt
    }

    fn resolved(&mut self) {
        if let Some((number, ..)) = self.asked.take() {
            let thread = self.thread.clone();
            self.notify("serverRequest/resolved", &json!({"threadId": thread, "requestId": number}));
            self.status(&json!({"type": "active", "activeFlags": []}));
        }
    }

    fn decided(&mut self, result: &Value) -> News {
        let Some((_, _, command)) = self.asked.clone() else { return News::Nothing };
        self.resolved();
        let decision = result["decision"].as_str().unwrap_or_else(|| {
            if result["decision"]["acceptWithExecpolicyAmendment"].is_object() { "acceptForSession" } else { "decline" }
        });
        News::Verdict(match decision {
            "accept" => Verdict::Allow { command: None, words: None },
            "acceptForSession" => {
                if let Some(thread) = self.threads.get_mut(&self.thread) {
                    thread.allowed.push(command);
                }
                Verdict::Allow { command: None, words: None }
            }
            "cancel" => Verdict::Stop,
            _ => Verdict::Deny(String::new()),
        })
    }
}

/// The text of a turn's input.
fn text_of(params: &Value) -> String {
    let parts = params["input"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
    parts.collect::<Vec<&str>>().join("\n")
}

impl Wire for Server {
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
        &mut self.threads.get_mut(&self.thread).expect("the running turn has a thread").session
    }

    fn begin(&mut self, prompt: &str) {
        self.begun = now_ms();
        self.status(&json!({"type": "active", "activeFlags": []}));
        let turn = self.turn_value("inProgress", &json!([]), &Value::Null);
        let thread = self.thread.clone();
        self.notify("turn/started", &json!({"threadId": thread, "turn": turn}));
        let id = self.out.fresh_uuid();
        let content = json!([{"type": "text", "text": prompt, "text_elements": []}]);
        let item = json!({"type": "userMessage", "id": id, "clientId": null, "content": content});
        self.item("item/started", &item);
        self.item("item/completed", &item);
    }

    fn delta(&mut self, text: &str) {
        if self.message.is_none() {
            let id = self.out.fresh("msg_");
            self.item("item/started", &Self::message_item(&id, ""));
            self.message = Some(id);
        }
        let id = self.message.as_deref().unwrap_or_default();
        let out = &mut self.out;
        out.str(r#"{"method":"item/agentMessage/delta","params":{"threadId":""#).str(&self.thread);
        out.str(r#"","turnId":""#).str(&self.turn).str(r#"","itemId":""#).str(id).str(r#"","delta":"#).quoted(text);
        out.str(r#"},"emittedAtMs":"#).number(self.begun).str("}").end();
    }

    fn text(&mut self, text: &str, _streamed: bool) {
        let id = self.message.take().unwrap_or_else(|| {
            let id = self.out.fresh("msg_");
            self.item("item/started", &Self::message_item(&id, ""));
            id
        });
        self.item("item/completed", &Self::message_item(&id, text));
    }

    fn thought(&mut self, text: &str) {
        let id = self.out.fresh("rs_");
        self.item("item/started", &json!({"type": "reasoning", "id": id, "summary": [], "content": []}));
        self.tell("item/reasoning/summaryPartAdded", json!({"itemId": id, "summaryIndex": 0}));
        self.tell("item/reasoning/summaryTextDelta", json!({"itemId": id, "delta": text, "summaryIndex": 0}));
        self.item("item/completed", &json!({"type": "reasoning", "id": id, "summary": [text], "content": []}));
    }

    fn tool_call(&mut self, id: &str, command: &str) {
        let item = self.command_item(id, command, "inProgress", None, None);
        self.item("item/started", &item);
    }

    fn tool_result(&mut self, id: &str, command: &str, output: &str, code: i32) {
        if !output.is_empty() {
            self.tell("item/commandExecution/outputDelta", json!({"itemId": id, "delta": output}));
        }
        let status = if code == 0 { "completed" } else { "failed" };
        let item = self.command_item(id, command, status, Some(output), Some(code));
        self.item("item/completed", &item);
    }

    fn tool_refused(&mut self, id: &str, command: &str, _why: &str) -> bool {
        let item = self.command_item(id, command, "declined", None, None);
        self.item("item/completed", &item);
        true
    }

    fn ask(&mut self, id: &str, command: &str) -> Asking {
        self.tool_call(id, command);
        let thread = &self.threads[&self.thread];
        if thread.policy == "never" && thread.sandbox == "read-only" {
            return Asking::Refused("Read-only file system".to_owned());
        }
        if thread.policy == "never" || thread.allowed.iter().any(|allowed| allowed == command) {
            return Asking::Allowed;
        }
        self.status(&json!({"type": "active", "activeFlags": ["waitingOnApproval"]}));
        let number = self.questions;
        self.questions += 1;
        let cwd = self.threads[&self.thread].session.cwd.clone();
        let amendment: Vec<&str> = command.split_whitespace().collect();
        let params = json!({
            "kind": "command", "threadId": self.thread, "turnId": self.turn, "itemId": id, "startedAtMs": now_ms(),
            "environmentId": "local", "command": shown(command), "cwd": cwd, "proposedExecpolicyAmendment": amendment,
            "commandActions": [{"type": "unknown", "command": command}],
            "availableDecisions": ["accept", {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": amendment}}, "cancel"],
        });
        let method = "item/commandExecution/requestApproval";
        self.out.headed("method", method, &json!({"id": number, "params": params}));
        self.asked = Some((number, id.to_owned(), command.to_owned()));
        Asking::Asked
    }

    fn withdraw(&mut self) {
        self.resolved();
    }

    fn arrival(&mut self, line: &str) -> News {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            eprintln!("ERROR Failed to deserialize JSONRPCMessage: {line}");
            return News::Nothing;
        };
        let id = message["id"].clone();
        match message["method"].as_str() {
            Some(_) if id.is_null() => News::Nothing,
            Some(method) => self.request(&id, method, &message["params"]),
            None if self.asked.as_ref().is_some_and(|(number, ..)| id == *number) => self.decided(&message["result"]),
            None => News::Nothing,
        }
    }

    fn eof(&mut self) -> News {
        exit(0)
    }

    fn end(&mut self, ending: &Ending) {
        self.message = None;
        let thread = &self.threads[&self.thread];
        let count = |read: u64, written: u64| {
            json!({
                "totalTokens": read + written, "inputTokens": read, "cachedInputTokens": 0, "cacheWriteInputTokens": 0,
                "outputTokens": written, "reasoningOutputTokens": 0,
            })
        };
        let (read, written) = thread.session.last;
        let usage = json!({
            "total": count(thread.session.read, thread.session.written), "last": count(read, written),
            "modelContextWindow": 258_400,
        });
        let (status, items, error) = match ending {
            Ending::Done(text) => {
                let text = match self.steered.as_slice() {
                    [] => text.clone(),
                    more => format!("{text} (steered: {})", more.join("; ")),
                };
                let id = self.out.fresh("msg_");
                self.tell("thread/tokenUsage/updated", json!({"tokenUsage": usage}));
                self.status(&json!({"type": "idle"}));
                ("completed", json!([Self::message_item(&id, &text)]), Value::Null)
            }
            Ending::Interrupted(_) => {
                self.status(&json!({"type": "idle"}));
                ("interrupted", json!([]), Value::Null)
            }
            Ending::Failed(why) => {
                let message = if why.is_empty() { OVERLOADED } else { why };
                let error =
                    json!({"message": message, "codexErrorInfo": "internalServerError", "additionalDetails": null});
                let again = json!({"message": "Reconnecting... 1/1", "additionalDetails": message});
                self.tell("error", json!({"error": again, "willRetry": true}));
                self.status(&json!({"type": "systemError"}));
                self.tell("error", json!({"error": error, "willRetry": false}));
                ("failed", json!([]), error)
            }
        };
        self.steered.clear();
        let turn = self.turn_value(status, &items, &error);
        let thread = self.thread.clone();
        self.notify("turn/completed", &json!({"threadId": thread, "turn": turn}));
    }
}
