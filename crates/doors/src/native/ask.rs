//! `approval/ask`: a plain question for a person, answered when it is settled.
//!
//! Invariant: a question belongs to its connection. A client that leaves withdraws what it asked and was not told; the
//! end of this daemon does not, and after a restart the same question under the same id is the same question. Nothing
//! reaches a person's screen that could be drawn as something else.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Decision;
use hostel_house::approvals::Approval;
use hostel_house::approvals::Approvals;
use hostel_house::approvals::Connection;
use hostel_house::approvals::Life;
use hostel_house::approvals::NewRequest;
use hostel_house::approvals::RequestError;
use hostel_house::approvals::Requester;
use hostel_house::approvals::Subject;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use sha2::Digest as _;
use sha2::Sha256;
use tokio::sync::Semaphore;

use super::code;
use super::methods;
use crate::mcp;
use crate::rpc::Failure;
use crate::rpc::Outcome;
use crate::sudo_proxy::characters::is_forbidden;
use crate::zeroclaw::Peer;

/// The longest question and the longest details, in bytes.
pub(crate) const LONGEST: (usize, usize) = (4096, 65_536);

/// The longest of the other texts.
const WORD: usize = 256;

/// Questions of one connection at once.
const OPEN: usize = 64;

/// The most of a question that is its summary.
const SUMMARY: usize = 200;

#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    #[serde(default)]
    details: String,
    #[serde(default)]
    session: String,
    #[serde(default)]
    client: String,
    /// `mcp` for the MCP door, which asks in the name of others.
    #[serde(default)]
    door: String,
    #[serde(default)]
    request_id: String,
}

/// One connection's questions.
#[derive(Clone)]
pub(super) struct Asking {
    approvals: Approvals,
    peer: Peer,
    life: Duration,
    open: Arc<Mutex<HashSet<String>>>,
    /// Taken before anything is written: questions that come all at once are counted too.
    places: Arc<Semaphore>,
}

impl Asking {
    pub(super) fn new(door: &crate::zeroclaw::Door, peer: &Peer) -> Self {
        Asking {
            approvals: door.0.approvals.clone(),
            peer: peer.clone(),
            life: door.0.settings.question_wait,
            open: Arc::default(),
            places: Arc::new(Semaphore::new(OPEN)),
        }
    }

    /// Asks and waits until it is settled.
    pub(super) async fn ask(&self, params: &str) -> Outcome {
        let question: Question = methods::parse(params)?;
        check(&question)?;
        let Ok(_place) = self.places.try_acquire() else {
            return Err(Failure::new(code::LIMIT, format!("a connection has at most {OPEN} open questions")));
        };
        let door = if question.door == mcp::NAME { mcp::NAME } else { "native" };
        let bytes: [u8; 32] = Sha256::digest(params.as_bytes()).into();
        let rejoined = match question.request_id.as_str() {
            "" => None,
            id => self.approvals.rejoin(door, id, &bytes, self.peer.info().await.as_ref()),
        };
        let approval = match rejoined {
            Some(approval) => approval,
            None => self.request(question, door, bytes).await?,
        };
        self.open.lock().insert(approval.id.clone());
        let settled = self.approvals.settled(&approval.id).await;
        self.open.lock().remove(&approval.id);
        settled.map(|approval| answer(&approval)).map_err(|error| Failure::new(code::INTERNAL, error.to_string()))
    }

    async fn request(&self, question: Question, door: &str, bytes: [u8; 32]) -> Result<Approval, Failure> {
        // Without an id of its own it cannot be found again, and ends with the connection whatever ends that.
        let request_id = match question.request_id {
            id if id.is_empty() => uuid::Uuid::new_v4().to_string(),
            id => id,
        };
        let summary = question.question.get(..question.question.floor_char_boundary(SUMMARY)).unwrap_or_default();
        let new = NewRequest {
            summary: summary.to_owned(),
            reason: String::new(),
            requester: Requester {
                door: door.to_owned(),
                session: question.session,
                host: String::new(),
                client: question.client,
                peer: self.peer.info().await,
            },
            subject: Subject::Question { text: question.question, details: question.details },
            life: Life::Fixed(self.life),
            connection: Some(Connection { request_id, bytes }),
        };
        self.approvals.request(new).await.map_err(|error| {
            let code = match error {
                RequestError::Full(_) => code::LIMIT,
                RequestError::TooLarge { .. } => code::PARAMS,
                RequestError::Store(_) => code::INTERNAL,
            };
            Failure::new(code, error.to_string())
        })
    }

    /// The client has left: nobody waits for these any more.
    pub(super) async fn left(&self) {
        let open: Vec<String> = self.open.lock().drain().collect();
        for id in open {
            // What cannot be withdrawn now is an orphan at the next start, and withdrawn then.
            drop(self.approvals.withdraw_request(&id, "the one who asked has left").await);
        }
    }
}

fn check(question: &Question) -> Result<(), Failure> {
    let bad = |what: String| Err(Failure::new(code::PARAMS, format!("bad params: {what}")));
    if question.question.trim().is_empty() {
        return bad("`question` is blank".to_owned());
    }
    let texts = [
        ("question", &question.question, LONGEST.0),
        ("details", &question.details, LONGEST.1),
        ("session", &question.session, WORD),
        ("client", &question.client, WORD),
        ("request_id", &question.request_id, WORD),
    ];
    for (name, text, limit) in texts {
        if text.len() > limit {
            return bad(format!("`{name}` has more than {limit} bytes"));
        }
        let lines = name == "details";
        if text.chars().any(|letter| is_forbidden(letter) && !(lines && letter == '\n')) {
            return bad(format!("`{name}` contains forbidden control/bidi characters"));
        }
    }
    Ok(())
}

/// What became of a question.
fn answer(approval: &Approval) -> serde_json::Value {
    let text = match &approval.decision {
        Some(Decision::Reject(text) | Decision::RejectWithEdit(text)) => text.clone(),
        _ => String::new(),
    };
    let decider = match (approval.decider.as_str(), approval.rule.as_str()) {
        ("", rule) => rule.to_owned(),
        (decider, _) => decider.to_owned(),
    };
    json!({"id": approval.id, "state": approval.state.word(), "decider": decider, "text": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_is_refused() {
        let asked = |question: &str, details: &str| {
            check(&Question {
                question: question.to_owned(),
                details: details.to_owned(),
                session: String::new(),
                client: String::new(),
                door: String::new(),
                request_id: String::new(),
            })
            .map_err(|failure| failure.message)
        };
        assert!(asked("May I?", "two\nlines").is_ok());
        assert!(asked(" ", "").unwrap_err().contains("blank"));
        for wrong in ["a\nb", "a\u{1b}[2J", "a\u{202e}b", "a\u{9b}b"] {
            assert!(asked(wrong, "").unwrap_err().contains("`question` contains forbidden"), "{wrong:?}");
        }
        assert!(asked("?", "a\u{7}").unwrap_err().contains("`details` contains forbidden"));
        assert!(asked(&"x".repeat(LONGEST.0 + 1), "").unwrap_err().contains("more than 4096"));
    }
}
