//! The lines of `claude --output-format stream-json`, in the shapes and the order of version 2.1.
//!
//! Only what is said is decided elsewhere; here is how. In the other output formats nothing but the result is printed.

use serde_json::{Value, json};

use crate::out::Out;
use crate::session::Session;

pub(crate) const VERSION: &str = "2.1.325";
const TIMESTAMP: &str = "2026-01-01T00:00:00.000Z";

#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Format {
    Text,
    Json,
    Stream,
}

pub(crate) struct Lines {
    pub(crate) out: Out,
    pub(crate) format: Format,
    /// Deltas are wanted.
    pub(crate) partial: bool,
    pub(crate) model: String,
    pub(crate) session: Session,
    /// The open message of the model, and its open block.
    message: Option<String>,
    index: u64,
    block_open: bool,
    results: u64,
}

impl Lines {
    pub(crate) fn new(format: Format, partial: bool, model: String, session: Session) -> Self {
        let out = Out::new();
        Lines { out, format, partial, model, session, message: None, index: 0, block_open: false, results: 0 }
    }

    /// A line with the fields every line has.
    fn line(&mut self, kind: &str, mut fields: Value) {
        if self.format != Format::Stream {
            return;
        }
        fields["session_id"] = json!(self.session.id);
        fields["uuid"] = json!(self.out.fresh_uuid());
        self.out.headed("type", kind, &fields);
    }

    /// Control lines have no such fields.
    pub(crate) fn control(&mut self, kind: &str, fields: &Value) {
        self.out.headed("type", kind, fields);
        self.out.flush();
    }

    pub(crate) fn system(&mut self, fields: Value) {
        self.line("system", fields);
    }

    pub(crate) fn init(&mut self, mode: &str) {
        let mode = if mode == "manual" { "default" } else { mode };
        let fields = json!({
            "subtype": "init", "cwd": self.session.cwd, "model": self.model, "permissionMode": mode,
            "tools": ["Task", "Bash", "Edit", "Read", "Write"], "mcp_servers": [], "slash_commands": ["compact", "init"],
            "apiKeySource": "ANTHROPIC_API_KEY", "claude_code_version": VERSION, "output_style": "default",
            "agents": ["general-purpose"], "skills": [], "plugins": [],
        });
        self.line("system", fields);
        self.requesting();
    }

    fn requesting(&mut self) {
        if self.partial {
            self.line("system", json!({"subtype": "status", "status": "requesting"}));
        }
    }

    pub(crate) fn replay(&mut self, prompt: &str) {
        let message = json!({"role": "user", "content": prompt});
        self.line("user", json!({"message": message, "parent_tool_use_id": null, "isReplay": true}));
    }

    fn usage(&self) -> Value {
        let (read, written) = self.session.last;
        json!({
            "input_tokens": read, "output_tokens": written, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        })
    }

    /// The beginning of a message, up to its content.
    fn message_head(&mut self) {
        let id = match &self.message {
            Some(id) => id.clone(),
            None => self.out.fresh("msg_"),
        };
        self.out.str(r#""message":{"id":""#).str(&id).str(r#"","type":"message","role":"assistant","model":"#);
        self.out.quoted(&self.model).str(r#","content":["#);
    }

    /// The rest of it.
    fn message_tail(&mut self) {
        let usage = self.usage().to_string();
        self.out.str(r#"],"stop_sequence":null,"stop_reason":null,"usage":"#).str(&usage).str("}");
    }

    fn open_message(&mut self) {
        if self.message.is_none() {
            self.message = Some(self.out.fresh("msg_"));
            self.index = 0;
            self.out.str(r#"{"type":"stream_event","event":{"type":"message_start","#);
            self.message_head();
            self.message_tail();
            self.out.str("}");
            self.end_event();
        }
    }

    fn event(&mut self, event: &Value) {
        if !self.partial || self.format != Format::Stream {
            return;
        }
        let kind = event["type"].clone();
        // The API's events begin with their type, too.
        let mut rest = event.clone();
        rest.as_object_mut().map(|fields| fields.remove("type"));
        let rest = rest.to_string();
        self.out.str(r#"{"type":"stream_event","event":{"type":"#).str(&kind.to_string());
        if rest.len() > 2 {
            self.out.str(",").str(&rest[1..]);
        } else {
            self.out.str("}");
        }
        self.end_event();
    }

    fn end_event(&mut self) {
        let message = self.message.clone().unwrap_or_default();
        self.out.str(r#","session_id":""#).str(&self.session.id).str(r#"","parent_tool_use_id":null,"uuid":""#);
        self.out.uuid().str(r#"","api_message_id":""#).str(&message).str("\"}").end();
    }

    fn open_block(&mut self, block: &Value) {
        if self.partial && !self.block_open {
            self.open_message();
            self.block_open = true;
            self.event(&json!({"type": "content_block_start", "index": self.index, "content_block": block}));
        }
    }

    fn close_block(&mut self) {
        if self.block_open {
            self.event(&json!({"type": "content_block_stop", "index": self.index}));
            self.block_open = false;
            self.index += 1;
        }
    }

    pub(crate) fn close_message(&mut self, stop: &str) {
        if self.message.is_some() {
            let usage = self.usage();
            let delta = json!({"stop_reason": stop, "stop_sequence": null});
            self.event(&json!({"type": "message_delta", "usage": usage, "delta": delta}));
            self.event(&json!({"type": "message_stop"}));
            self.message = None;
        }
    }

    /// The line there are the most of: written without detours.
    pub(crate) fn delta(&mut self, text: &str) {
        if !self.partial {
            return;
        }
        if !self.block_open {
            self.open_block(&json!({"type": "text", "text": ""}));
        }
        self.out.str(r#"{"type":"stream_event","event":{"type":"content_block_delta","index":"#).number(self.index);
        self.out.str(r#","delta":{"type":"text_delta","text":"#).quoted(text).str("}}");
        self.end_event();
    }

    /// A whole block; `more` is put at the end of the line as it is.
    fn assistant(&mut self, block: impl FnOnce(&mut Out), more: &str) {
        if self.format != Format::Stream {
            return;
        }
        self.out.str(r#"{"type":"assistant","#);
        self.message_head();
        block(&mut self.out);
        self.message_tail();
        self.out.str(r#","parent_tool_use_id":null,"session_id":""#).str(&self.session.id).str(r#"","uuid":""#);
        self.out.uuid().str(r#"","timestamp":""#).str(TIMESTAMP).str("\"").str(more).str("}").end();
    }

    pub(crate) fn text(&mut self, text: &str, aborted: bool) {
        let more = if aborted { r#","aborted":true"# } else { "" };
        let block = |out: &mut Out| {
            out.str(r#"{"type":"text","text":"#).quoted(text).str("}");
        };
        self.assistant(block, more);
        self.close_block();
    }

    pub(crate) fn thought(&mut self, text: &str) {
        if self.partial {
            self.open_block(&json!({"type": "thinking", "thinking": "", "signature": ""}));
            let delta = json!({"type": "thinking_delta", "thinking": text});
            self.event(&json!({"type": "content_block_delta", "index": self.index, "delta": delta}));
        }
        let block = |out: &mut Out| {
            out.str(r#"{"type":"thinking","thinking":"#).quoted(text).str(r#","signature":"bm9uZQ=="}"#);
        };
        self.assistant(block, "");
        self.close_block();
    }

    pub(crate) fn tool_use(&mut self, id: &str, name: &str, input: &Value) {
        let input = input.to_string();
        if self.partial {
            self.open_block(&json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
            let delta = json!({"type": "input_json_delta", "partial_json": input});
            self.event(&json!({"type": "content_block_delta", "index": self.index, "delta": delta}));
        }
        let block = |out: &mut Out| {
            out.str(r#"{"type":"tool_use","id":"#).quoted(id).str(r#","name":"#).quoted(name);
            out.str(r#","input":"#).str(&input).str("}");
        };
        self.assistant(block, "");
        self.close_block();
        self.close_message("tool_use");
    }

    pub(crate) fn tool_result(&mut self, id: &str, content: &str, failed: bool) {
        let block = json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": failed});
        self.user(&block, Some(json!({"stdout": content, "stderr": "", "interrupted": false})));
        self.requesting();
    }

    pub(crate) fn user_text(&mut self, text: &str) {
        self.user(&json!({"type": "text", "text": text}), None);
    }

    fn user(&mut self, block: &Value, result: Option<Value>) {
        let message = json!({"role": "user", "content": [block]});
        let mut fields = json!({"message": message, "parent_tool_use_id": null, "timestamp": TIMESTAMP});
        if let Some(result) = result {
            fields["tool_use_result"] = result;
        }
        self.line("user", fields);
    }

    pub(crate) fn api_error(&mut self, why: &str) -> String {
        let retry = json!({
            "subtype": "api_retry", "attempt": 1, "max_retries": 1, "retry_delay_ms": 500, "error_status": 500,
            "error": "server_error",
        });
        self.line("system", retry);
        let text = format!("API Error: 500 {why}");
        let model = std::mem::replace(&mut self.model, "<synthetic>".to_owned());
        let more = r#","error":"server_error","is_api_error_message":true,"api_error_status":500"#;
        self.message = Some(self.out.fresh_uuid());
        let block = |out: &mut Out| {
            out.str(r#"{"type":"text","text":"#).quoted(&text).str("}");
        };
        self.assistant(block, more);
        self.message = None;
        self.model = model;
        text
    }

    /// The closing line; `more` has what tells its kinds apart. Its type stands near its end.
    pub(crate) fn result(&mut self, text: &str, more: &[(&str, Value)]) {
        let (read, written) = self.session.last;
        let cost = |read: u64, written: u64| (read * 4 + written * 20) as f64 / 1e6;
        let mut fields = json!({
            "type": "result", "subtype": "success", "is_error": false, "duration_ms": 1, "duration_api_ms": 1,
            "num_turns": 1, "stop_reason": "end_turn", "session_id": self.session.id, "usage": self.usage(),
            "total_cost_usd": cost(self.session.read, self.session.written), "permission_denials": [],
            "terminal_reason": "completed", "queued_turn_count": 0, "result_index": self.results,
            "model_usage_since_last_result": {&self.model: {
                "inputTokens": read, "outputTokens": written, "costUSD": cost(read, written),
            }},
        });
        fields["uuid"] = json!(self.out.fresh_uuid());
        fields["result"] = json!(text);
        for (name, value) in more {
            fields[*name] = value.clone();
        }
        if fields["subtype"] != "success" {
            fields.as_object_mut().map(|fields| fields.remove("result"));
        }
        self.results += 1;
        match self.format {
            Format::Text => self.out.str(text).end(),
            Format::Json | Format::Stream => self.out.value(&fields),
        }
        self.out.flush();
    }
}
