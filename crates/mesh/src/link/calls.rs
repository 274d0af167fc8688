//! A connection as others use it: requests with their answers, and frames that want none.
//!
//! Invariant: a request gets its own answer or a refusal, within a bounded time; when the connection ends everybody who
//! waits hears so at once. The number of requests under way is bounded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hostel_wire::frames::client::{Call, ClientFrame, Request};
use hostel_wire::frames::server::{Answer, ErrorFrame, HelloAck, TopicKeyFrame};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::mesh::Refusal;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Requests that may be under way at once.
const MOST: usize = 256;

/// What a request was answered with.
#[derive(Debug)]
pub(crate) enum Reply {
    /// An answer.
    Answer(Answer),
    /// A topic's key.
    TopicKey(TopicKeyFrame),
}

impl Reply {
    /// The answer's fields.
    pub(crate) fn fields(self) -> Map<String, Value> {
        match self {
            Self::Answer(answer) => answer.fields,
            Self::TopicKey(_) => Map::new(),
        }
    }
}

type Waiting = oneshot::Sender<Result<Reply, Refusal>>;

/// A connection that stands.
pub(crate) struct Line {
    out: mpsc::Sender<String>,
    waiting: Mutex<Option<HashMap<String, Waiting>>>,
    next: AtomicU64,
    /// What the broker said at the start.
    pub(crate) welcome: HelloAck,
}

impl Line {
    pub(crate) fn new(out: mpsc::Sender<String>, welcome: HelloAck) -> Self {
        Self { out, waiting: Mutex::new(Some(HashMap::new())), next: AtomicU64::new(1), welcome }
    }

    /// Asks something and waits for the answer.
    pub(crate) async fn ask(&self, call: Call) -> Result<Reply, Refusal> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            let waiting = waiting.as_mut().ok_or_else(Refusal::offline)?;
            if waiting.len() >= MOST {
                return Err(Refusal::new("daemon_busy", "too many requests to the broker are under way"));
            }
            waiting.insert(id.clone(), answer);
        }
        let _forget = Forget { line: self, id: &id };
        let frame = ClientFrame::Request(Request { req_id: Some(id.clone()), call }).encode();
        let asking = async {
            self.out.send(frame).await.map_err(|_| Refusal::offline())?;
            answered.await.map_err(|_| Refusal::offline())?
        };
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(result) => result,
            Err(_) => Err(Refusal::new("broker_unavailable", "the broker did not answer in time")),
        }
    }

    /// Asks something and takes the answer's fields.
    pub(crate) async fn fields(&self, call: Call) -> Result<Map<String, Value>, Refusal> {
        self.ask(call).await.map(Reply::fields)
    }

    /// Sends a frame that wants no answer.
    pub(crate) async fn tell(&self, frame: String) -> Result<(), Refusal> {
        self.out.send(frame).await.map_err(|_| Refusal::offline())
    }

    /// Hands an answer to who asked; `false` if nobody did.
    pub(crate) fn answered(&self, id: Option<&str>, reply: Result<Reply, Refusal>) -> bool {
        let waiting = id.and_then(|id| self.waiting.lock().as_mut().and_then(|waiting| waiting.remove(id)));
        waiting.is_some_and(|waiting| waiting.send(reply).is_ok())
    }

    /// Hands a refusal to who asked.
    pub(crate) fn refused(&self, error: &ErrorFrame) -> bool {
        let id = error.req_id.as_deref().or(error.id.as_deref());
        self.answered(id, Err(Refusal::of_broker(&error.code, &error.message)))
    }

    /// The connection has ended.
    pub(crate) fn ended(&self) {
        self.waiting.lock().take();
    }
}

/// Whoever stops waiting leaves nothing behind.
struct Forget<'a> {
    line: &'a Line,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(waiting) = self.line.waiting.lock().as_mut() {
            waiting.remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> (Line, mpsc::Receiver<String>) {
        let (out, frames) = mpsc::channel(4);
        (Line::new(out, HelloAck::default()), frames)
    }

    #[tokio::test]
    async fn an_answer_finds_its_request() {
        let (line, mut frames) = line();
        let answering = async {
            let frame = frames.recv().await.unwrap();
            let value: Value = serde_json::from_str(&frame).unwrap();
            assert_eq!(value["type"], "topic_list");
            assert!(!line.answered(Some("77"), Ok(Reply::Answer(Answer::default()))), "nobody asked that");
            let fields = serde_json::from_str(r#"{"topics":[]}"#).unwrap();
            line.answered(value["_reqId"].as_str(), Ok(Reply::Answer(Answer { fields, ..Answer::default() })));
        };
        let (fields, ()) = tokio::join!(line.fields(Call::TopicList { after: None }), answering);
        assert!(fields.unwrap().contains_key("topics"));
    }

    #[tokio::test]
    async fn everybody_hears_of_the_end() {
        let (line, mut frames) = line();
        let ending = async {
            frames.recv().await.unwrap();
            line.ended();
        };
        let (result, ()) = tokio::join!(line.ask(Call::TopicList { after: None }), ending);
        assert_eq!(result.unwrap_err().code(), "broker_unavailable");
        assert_eq!(line.ask(Call::TopicList { after: None }).await.unwrap_err().code(), "broker_unavailable");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let (line, _frames) = line();
        assert_eq!(line.ask(Call::TopicList { after: None }).await.unwrap_err().code(), "broker_unavailable");
        assert!(line.waiting.lock().as_ref().unwrap().is_empty());
    }
}
