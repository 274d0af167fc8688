//! Lists that are longer than an answer of the broker may be: asked for page by page.
//!
//! Invariant: a list says whether it is whole. Who draws conclusions from what is *not* in one looks at that first: the end
//! of a page is not the end of what there is. Never asks without an end, whatever a broker answers.

use hostel_wire::frames::client::Call;
use serde_json::Value;

use super::calls::Line;
use crate::mesh::Refusal;

/// Pages that are asked for: more than the members of the largest mesh fill.
const PAGES: usize = 256;

/// Items that are taken.
const MOST: usize = 20_000;

/// A list of the broker's.
pub(crate) struct Listed {
    /// What came.
    pub(crate) items: Vec<Value>,
    /// Whether that is all there is.
    pub(crate) whole: bool,
}

/// A whole list: `call` makes the request for what comes after a place, `name` is what the answer calls the list.
pub(crate) async fn all(line: &Line, name: &str, call: impl Fn(Option<String>) -> Call) -> Result<Listed, Refusal> {
    let (mut items, mut after) = (Vec::new(), None);
    for _ in 0..PAGES {
        let mut fields = line.fields(call(after.take())).await?;
        let page = match fields.remove(name) {
            Some(Value::Array(page)) => page,
            _ => Vec::new(),
        };
        let got = page.len();
        items.extend(page);
        match fields.remove("next") {
            Some(Value::String(next)) if got > 0 && items.len() < MOST => after = Some(next),
            // One that cannot say where it goes on says at least that it does.
            next => {
                let more = fields.get("more").and_then(Value::as_bool).unwrap_or_default();
                return Ok(Listed { items, whole: !more && !matches!(next, Some(Value::String(_))) });
            }
        }
    }
    Ok(Listed { items, whole: false })
}

/// Who is there, with `all` also who is not.
pub(crate) async fn peers(line: &Line, everybody: bool) -> Result<Listed, Refusal> {
    all(line, "peers", |after| Call::ListPeers { all: everybody, after }).await
}

/// Files that we may read, the newest first.
pub(crate) async fn files(line: &Line) -> Result<Listed, Refusal> {
    all(line, "files", |after| Call::ListFiles { query: None, from: None, after }).await
}

/// Invites, the newest first.
pub(crate) async fn invites(line: &Line) -> Result<Listed, Refusal> {
    all(line, "invites", |after| Call::InviteList { after }).await
}

/// Senders for whom we have set what they may do.
pub(crate) async fn grants(line: &Line) -> Result<Listed, Refusal> {
    all(line, "grants", |after| Call::GrantList { after }).await
}

/// Who has subscribed to a topic.
pub(crate) async fn topic_members(line: &Line, topic: &str) -> Result<Listed, Refusal> {
    all(line, "members", |after| Call::TopicMembers { topic: topic.to_owned(), after }).await
}

/// All topics that we may see.
pub(crate) async fn topics(line: &Line) -> Result<Listed, Refusal> {
    all(line, "topics", |after| Call::TopicList { after }).await
}

#[cfg(test)]
mod tests {
    use hostel_wire::frames::server::{Answer, HelloAck};
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::link::calls::Reply;

    /// What is listed by a broker that answers with these, one after the other, and what it was asked for.
    async fn listed(answers: Vec<Value>) -> (Listed, Vec<Value>) {
        let (out, mut frames) = mpsc::channel(4);
        let line = Line::new(out, HelloAck::default());
        let answering = async {
            let mut asked = Vec::new();
            for answer in answers {
                let frame: Value = serde_json::from_str(&frames.recv().await.unwrap()).unwrap();
                let Value::Object(fields) = answer else { panic!("an object") };
                asked.push(frame["after"].clone());
                line.answered(frame["_reqId"].as_str(), Ok(Reply::Answer(Answer { fields, ..Answer::default() })));
            }
            asked
        };
        let (listed, asked) = tokio::join!(peers(&line, true), answering);
        (listed.unwrap(), asked)
    }

    #[tokio::test]
    async fn a_list_is_asked_for_until_it_ends() {
        let first = json!({"peers": [1, 2], "more": true, "next": "a"});
        let (all, asked) = listed(vec![first, json!({"peers": [3], "more": false, "next": null})]).await;
        assert_eq!((all.items, all.whole), (vec![json!(1), json!(2), json!(3)], true));
        assert_eq!(asked, [Value::Null, json!("a")]);
    }

    #[tokio::test]
    async fn a_list_that_is_cut_says_so() {
        let (cut, _) = listed(vec![json!({"peers": [1], "more": true})]).await;
        assert!(!cut.whole && cut.items.len() == 1, "a broker that knows no pages");
        let (stuck, asked) = listed(vec![json!({"peers": [], "more": true, "next": "a"})]).await;
        assert!(!stuck.whole && asked.len() == 1, "a page that holds nothing is the last one");
        let (short, _) = listed(vec![json!({"peers": [1]})]).await;
        assert!(short.whole, "one that says nothing has said all");
    }
}
