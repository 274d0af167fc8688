//! A face's connection to one house: it watches, asks and comes back.
//!
//! Invariant: what a house says is passed on in order. A house that goes away is looked for until the face is closed; what
//! was unlocked on the old connection is not unlocked on the new one.

use std::collections::HashMap;
use std::time::Duration;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::client::Message;
use hostel_doors::native::client::Messages;
use hostel_doors::native::client::Questions;
use hostel_doors::native::client::decode;
use hostel_doors::native::code;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;
use tokio::sync::mpsc;

use super::dialog::Answer;
use super::dialog::What;
use super::model::HouseNews;
use super::model::Refused;
use super::page::Line;
use super::page::Look;
use super::page::span;
use super::passphrase::Passphrase;
use super::visible;
use crate::conversation::wire::ApprovalList;
use crate::houses::House;

/// How long to wait before a house is looked for again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Something to be asked of a house.
#[derive(Debug)]
pub(crate) enum Ask {
    Unlock(Passphrase),
    Lock,
    Decide(Answer),
    Why(String),
    Shown(String),
    Fetch(String),
}

/// What an answer is about.
enum Asked {
    Watch,
    Status,
    Unlock,
    Decide { id: String, what: &'static str },
    Why,
    Fetch,
    Nothing,
}

#[derive(Serialize)]
struct Unlock {
    passphrase: Passphrase,
}

#[derive(Deserialize)]
struct Status {
    set: bool,
}

#[derive(Deserialize)]
struct Decided {
    #[serde(default)]
    grant: Option<u64>,
}

#[derive(Deserialize)]
struct Got {
    approval: Value,
}

/// Serves one house until nobody listens any more.
pub(crate) async fn run(
    number: usize,
    house: House,
    mut asks: mpsc::Receiver<Ask>,
    news: mpsc::Sender<(usize, HouseNews)>,
) {
    let mut pause = PAUSES.0;
    while !news.is_closed() {
        if let Ok(client) = house.connect().await {
            pause = PAUSES.0;
            let (questions, messages) = client.split();
            let mut link = Link { number, questions, messages, asked: HashMap::new(), news: news.clone() };
            if link.serve(&mut asks).await.is_ok() {
                return;
            }
            if news.send((number, HouseNews::Lost)).await.is_err() {
                return;
            }
        }
        // What was asked of a house that is gone is not asked of the next one.
        while asks.try_recv().is_ok() {}
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

struct Link {
    number: usize,
    questions: Questions,
    messages: Messages,
    asked: HashMap<u64, Asked>,
    news: mpsc::Sender<(usize, HouseNews)>,
}

impl Link {
    /// Ends well when nobody listens any more.
    async fn serve(&mut self, asks: &mut mpsc::Receiver<Ask>) -> Result<(), ClientError> {
        self.send("approver/status", &json!({}), Asked::Status).await?;
        self.send("approval/watch", &json!({"face": true}), Asked::Watch).await?;
        loop {
            let said = tokio::select! {
                message = self.messages.next() => self.heard(message?)?,
                ask = asks.recv() => match ask {
                    None => return Ok(()),
                    Some(ask) => {
                        self.ask(ask).await?;
                        None
                    }
                },
            };
            if let Some(news) = said
                && self.news.send((self.number, news)).await.is_err()
            {
                return Ok(());
            }
        }
    }

    async fn send(&mut self, method: &str, params: &impl Serialize, asked: Asked) -> Result<(), ClientError> {
        let id = self.questions.send(method, params).await?;
        self.asked.insert(id, asked);
        Ok(())
    }

    async fn ask(&mut self, ask: Ask) -> Result<(), ClientError> {
        match ask {
            Ask::Unlock(passphrase) => self.send("approval/unlock", &Unlock { passphrase }, Asked::Unlock).await,
            Ask::Lock => self.send("approval/lock", &json!({}), Asked::Nothing).await,
            Ask::Why(id) => self.send("approval/why", &json!({"id": id}), Asked::Why).await,
            Ask::Shown(id) => self.send("approval/shown", &json!({"id": id}), Asked::Nothing).await,
            Ask::Fetch(id) => self.send("approval/get", &json!({"id": id}), Asked::Fetch).await,
            Ask::Decide(Answer { id, digest, what }) => {
                let mut params = json!({"id": id, "digest": digest});
                let said = match what {
                    What::Approve => {
                        params["decision"] = "allow_once".into();
                        "approved"
                    }
                    What::ApproveChangeable => {
                        params["decision"] = "allow_changeable".into();
                        "approved"
                    }
                    What::Grant(terms) => {
                        params["decision"] = "allow_once".into();
                        params["grant"] = json!({"scope": terms.scope, "seconds": terms.seconds, "count": terms.count,
                                                 "privileged": terms.privileged});
                        "approved"
                    }
                    What::Deny(reason) => {
                        params["decision"] = "reject".into();
                        params["replacement"] = reason.into();
                        "denied"
                    }
                };
                self.send("approval/decide", &params, Asked::Decide { id, what: said }).await
            }
        }
    }

    fn heard(&mut self, message: Message) -> Result<Option<HouseNews>, ClientError> {
        let (id, result) = match message {
            Message::Notification { method, params } if method == "approval/changed" => {
                return pending(params.get()).map(Some);
            }
            Message::Notification { .. } => return Ok(None),
            Message::Answer { id, result } => (id, result),
        };
        let refusal = |error: ClientError| match error {
            ClientError::Reply { code, message } => {
                let locked = matches!(code, code::LOCKED | code::REFUSED | code::NO_PASSPHRASE);
                Ok(Refused { words: visible::text(&visible::prose(&message)), locked: locked && code != code::REFUSED })
            }
            other => Err(other),
        };
        match self.asked.remove(&id).unwrap_or(Asked::Nothing) {
            Asked::Nothing => Ok(None),
            Asked::Watch => match decode::<ApprovalList>(result) {
                Ok(list) => Ok(Some(HouseNews::Pending(list.approvals))),
                Err(error) => Ok(Some(HouseNews::Refused(refusal(error)?.words))),
            },
            Asked::Status => match decode::<Status>(result) {
                Ok(status) => Ok(Some(HouseNews::Connected { has_passphrase: status.set })),
                Err(error) => Ok(Some(HouseNews::Refused(refusal(error)?.words))),
            },
            Asked::Unlock => match decode::<Value>(result) {
                Ok(_) => Ok(Some(HouseNews::Unlocked(Ok(())))),
                Err(error) => Ok(Some(HouseNews::Unlocked(Err(refusal(error)?.words)))),
            },
            Asked::Decide { id, what } => {
                let outcome = match decode::<Decided>(result) {
                    Ok(decided) => Ok(decided.grant),
                    Err(error) => Err(refusal(error)?),
                };
                Ok(Some(HouseNews::Decided { id, what, outcome }))
            }
            Asked::Fetch => match decode::<Got>(result) {
                Ok(got) => Ok(Some(HouseNews::Whole(got.approval))),
                Err(error) => refusal(error).map(|_| None),
            },
            Asked::Why => match decode::<Value>(result) {
                Ok(answer) => Ok(Some(HouseNews::Why(why(&answer["why"])))),
                Err(error) => Ok(Some(HouseNews::Why(vec![vec![span(refusal(error)?.words, Look::Danger)]]))),
            },
        }
    }
}

fn pending(params: &str) -> Result<HouseNews, ClientError> {
    let list: ApprovalList = serde_json::from_str(params).map_err(|error| ClientError::Protocol(error.to_string()))?;
    Ok(HouseNews::Pending(list.approvals))
}

/// The rules a request met, as lines.
fn why(why: &Value) -> Vec<Line> {
    let text = |value: &Value| visible::text(&visible::prose(value.as_str().unwrap_or_default()));
    let mut lines = vec![vec![span(text(&why["verdict"]), Look::Strong)], Vec::new()];
    let steps = why["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    if steps.is_empty() {
        lines.push(vec![span("there are no rules: everything is asked", Look::Dim)]);
    }
    for step in steps {
        let matched = step["matched"] == true;
        let (sign, look) = if matched { ("✓ ", Look::Accent) } else { ("· ", Look::Dim) };
        lines.push(vec![
            span(sign, look),
            span(format!("{:<6}", text(&step["action"])), look),
            span(format!("{}: ", text(&step["name"])), if matched { Look::Plain } else { Look::Dim }),
            span(text(&step["words"]), Look::Dim),
        ]);
    }
    for grant in why["grants"].as_array().map(Vec::as_slice).unwrap_or_default() {
        lines.push(vec![span("✓ ", Look::Accent), span(text(grant), Look::Plain)]);
    }
    lines
}
