//! What an ACP agent says during a turn, and what it makes of the messages that come meanwhile.

use std::process::exit;

use serde_json::{Value, json};

use super::{Agent, Flavour};
use crate::inbox::Inbox;
use crate::opencode;
use crate::out::Out;
use crate::session::Session;
use crate::turn::{Asking, Ending, Facts, News, Verdict, Wire};

impl Wire for Agent {
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
        &mut self.sessions.get_mut(&self.current).expect("the prompt has a session").session
    }

    fn begin(&mut self, _prompt: &str) {
        self.message = self.out.fresh("msg_");
    }

    fn delta(&mut self, text: &str) {
        let session = std::mem::take(&mut self.current);
        self.chunk(&session, "agent_message_chunk", text);
        self.current = session;
    }

    fn text(&mut self, text: &str, streamed: bool) {
        if !streamed {
            self.delta(text);
        }
        self.message = self.out.fresh("msg_");
    }

    fn thought(&mut self, text: &str) {
        let text = if self.flavour == Flavour::Gemini { format!("**Thinking**\n{text}") } else { text.to_owned() };
        let session = self.current.clone();
        self.chunk(&session, "agent_thought_chunk", &text);
    }

    fn tool_call(&mut self, id: &str, command: &str) {
        if self.flavour == Flavour::Gemini {
            let call = json!({
                "toolCallId": id, "status": "in_progress", "title": command, "content": [], "locations": [],
                "kind": "execute",
            });
            return self.tool("tool_call", &call);
        }
        let cwd = self.session().cwd.clone();
        let call = json!({
            "toolCallId": id, "title": "bash", "kind": "execute", "status": "pending", "locations": [{"path": cwd}],
            "rawInput": {"cwd": cwd},
        });
        self.tool("tool_call", &call);
        let running = json!({
            "toolCallId": id, "status": "in_progress", "kind": "execute", "title": command,
            "rawInput": {"command": command, "cwd": cwd},
        });
        self.tool("tool_call_update", &running);
    }

    fn tool_result(&mut self, id: &str, command: &str, output: &str, code: i32) {
        let mut fields = json!({"toolCallId": id, "status": "completed", "title": command, "kind": "execute"});
        if self.flavour == Flavour::Gemini {
            // What the tool said is not told.
            fields["content"] = json!([]);
        } else {
            fields["content"] = json!([{"type": "content", "content": {"type": "text", "text": output}}]);
            fields["rawOutput"] = json!({"output": output, "metadata": {"output": output, "exit": code}});
        }
        self.tool("tool_call_update", &fields);
    }

    fn tool_refused(&mut self, id: &str, command: &str, why: &str) -> bool {
        match self.flavour {
            // Not a word about the call.
            Flavour::Gemini => return true,
            Flavour::Opencode | Flavour::Plain => {
                let why =
                    if why.is_empty() { "The user rejected permission to use this specific tool call." } else { why };
                let content = json!([{"type": "content", "content": {"type": "text", "text": why}}]);
                let fields = json!({
                    "toolCallId": id, "status": "failed", "title": command, "kind": "execute", "content": content,
                    "rawOutput": {"error": why},
                });
                self.tool("tool_call_update", &fields);
            }
        }
        self.flavour == Flavour::Plain
    }

    fn ask(&mut self, id: &str, command: &str) -> Asking {
        let open = &self.sessions[&self.current];
        let (asks, forbids) = match self.flavour {
            Flavour::Gemini => (open.mode != "yolo", open.mode == "plan"),
            Flavour::Opencode => (opencode::permission() == "ask", opencode::permission() == "deny"),
            Flavour::Plain => (open.mode != "auto", false),
        };
        let asks = asks && !open.always;
        if forbids {
            return Asking::Refused("this mode does not allow it".to_owned());
        }
        if self.flavour != Flavour::Gemini || !asks {
            self.tool_call(id, command);
        }
        if !asks {
            return Asking::Allowed;
        }
        self.permission_request(id, command);
        Asking::Asked
    }

    fn withdraw(&mut self) {
        self.asked = None;
    }

    fn arrival(&mut self, line: &str) -> News {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            eprintln!("Error parsing a message: {line}");
            return News::Nothing;
        };
        let id = message["id"].clone();
        let params = &message["params"];
        match message["method"].as_str() {
            Some("session/cancel") if self.busy && params["sessionId"] == self.current.as_str() => News::Interrupt,
            Some(_) if id.is_null() => News::Nothing,
            Some(method) => self.request(&id, method, params),
            None if self.asked.is_some_and(|number| id == number) => {
                self.asked = None;
                let outcome = &message["result"]["outcome"];
                News::Verdict(match outcome["optionId"].as_str() {
                    _ if outcome["outcome"] != "selected" => Verdict::Stop,
                    Some("proceed_always" | "always") => {
                        if let Some(open) = self.sessions.get_mut(&self.current) {
                            open.always = true;
                        }
                        Verdict::Allow { command: None, words: None }
                    }
                    Some("proceed_once" | "once") => Verdict::Allow { command: None, words: None },
                    _ => Verdict::Deny(String::new()),
                })
            }
            None => News::Nothing,
        }
    }

    fn eof(&mut self) -> News {
        exit(0)
    }

    fn end(&mut self, ending: &Ending) {
        let id = self.request.clone();
        let session = &self.sessions[&self.current].session;
        let (read, written) = session.last;
        let cost = (session.read + session.written * 2) as f64 / 1e6;
        if self.flavour == Flavour::Opencode {
            let usage = json!({"used": read, "size": 200_000, "cost": {"amount": cost, "currency": "USD"}});
            self.tool("usage_update", &usage);
        }
        let reason = match ending {
            Ending::Failed(why) => {
                let why = if why.is_empty() { "the model failed" } else { why };
                return match self.flavour {
                    Flavour::Gemini => self.refuse(&id, 500, why, &Value::Null),
                    Flavour::Opencode | Flavour::Plain => {
                        let data = json!({"service": "session", "errorName": "APIError"});
                        self.refuse(&id, -32603, &format!("Internal error: {why}"), &data);
                    }
                };
            }
            Ending::Done(_) => "end_turn",
            Ending::Interrupted(_) => "cancelled",
        };
        let mut result = json!({"stopReason": reason});
        if self.flavour == Flavour::Gemini && reason == "end_turn" {
            let count = json!({"input_tokens": read, "output_tokens": written});
            let usage = json!([{"model": self.facts.model, "token_count": count}]);
            result["_meta"] = json!({"quota": {"token_count": count, "model_usage": usage}});
        } else if self.flavour == Flavour::Opencode {
            result["usage"] = json!({"inputTokens": read, "outputTokens": written, "totalTokens": read + written});
        }
        self.answer(&id, &result);
    }
}
