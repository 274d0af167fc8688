//! A session behind the zeroclaw door: one connection for everything.

use std::path::Path;

use hostel_tests::zeroclaw::Peer;
use serde_json::{Value, json};

use super::session::{Behind, Outcome, Question, Seen};
use super::world::World;

/// The session.
pub(crate) struct Zeroclaw {
    peer: Peer,
    session: String,
    /// The request whose turn runs.
    running: u64,
    /// Told with the end of the turn, before its end.
    waiting: Vec<Seen>,
}

impl Zeroclaw {
    /// Makes one.
    pub(crate) fn new(world: &World, directory: &Path, mode: &str) -> Self {
        let mut peer = world.stage.zeroclaw();
        let made = peer.ask("session/new", json!({"agent_alias": world.alias, "cwd": directory, "mode": mode}));
        let session = made["session_id"].as_str().expect("an id").to_owned();
        Self { peer, session, running: 0, waiting: Vec::new() }
    }

    fn update(&self, update: &Value) -> Option<Seen> {
        assert_eq!(update["session_id"], self.session, "another session's update");
        let text = |name: &str| update[name].as_str().unwrap_or_default().to_owned();
        match update["type"].as_str().unwrap_or_default() {
            "agent_message_chunk" => Some(Seen::Piece(text("text"))),
            "tool_call" => Some(Seen::Tool(format!("{} {}", text("name"), update["raw_input"]))),
            "approval_request" => {
                let words = format!("{} {}", text("tool_name"), text("arguments_summary"));
                Some(Seen::Asked(Question { id: text("request_id"), words }))
            }
            "error" => Some(Seen::Error(text("message"))),
            _ => None,
        }
    }

    /// The answer to the request says the same as `turn_complete` before it.
    fn over(&mut self, complete: &Value) -> Seen {
        let content = complete["content"].as_str().unwrap_or_default().to_owned();
        let answer = self.peer.answer(self.running);
        let (outcome, told) = match complete["outcome"].as_str().unwrap_or_default() {
            "completed" => {
                assert_eq!(answer["result"]["content"], content, "{answer}");
                assert_eq!(answer["result"]["stop_reason"], "end_turn", "{answer}");
                (Outcome::Completed, Seen::Block(content))
            }
            "cancelled" => {
                assert_eq!(answer["result"]["stop_reason"], "cancelled", "{answer}");
                (Outcome::Interrupted, Seen::Block(String::new()))
            }
            "failed" => {
                assert_eq!(answer["error"]["message"], content, "{answer}");
                (Outcome::Failed, Seen::Error(content))
            }
            other => panic!("a turn ended as {other}"),
        };
        self.waiting.push(Seen::Over(outcome));
        told
    }
}

impl Behind for Zeroclaw {
    fn id(&self) -> &str {
        &self.session
    }

    fn prompt(&mut self, text: &str) {
        self.running = self.peer.begin("session/prompt", json!({"session_id": self.session, "prompt": text}));
    }

    fn next(&mut self) -> Option<Seen> {
        if !self.waiting.is_empty() {
            return self.waiting.pop();
        }
        let update = self.peer.update();
        match update["type"] == "turn_complete" {
            true => Some(self.over(&update)),
            false => self.update(&update),
        }
    }

    fn answer(&mut self, question: &Question, decision: &str) {
        let params = json!({"session_id": self.session, "request_id": question.id, "decision": decision});
        let answer = self.peer.ask("session/approve", params);
        assert_eq!(answer["acknowledged"], true, "{answer}");
    }

    fn interrupt(&mut self) {
        self.peer.ask("session/cancel", json!({"session_id": self.session}));
    }

    fn close(&mut self) {
        self.peer.ask("session/close", json!({"session_id": self.session}));
    }
}
