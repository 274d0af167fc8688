//! Topics in talk with the broker: lists, subscriptions, and wishes that could not be told before.

use hostel_wire::frames::client::Call;
use serde_json::{Map, Value};

use super::{Known, Topics};
use crate::link::calls::Line;
use crate::mesh::Refusal;

/// Parts of a list that are asked for: more topics than are kept.
const PARTS: usize = 256;

/// Asks for all topics and keeps them. A list that is not whole takes nothing away.
pub(crate) async fn refresh(topics: &Topics, line: &Line) -> Result<(), Refusal> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..PARTS {
        let fields = line.fields(Call::TopicList { after: after.take() }).await?;
        let listed = fields.get("topics").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        all.extend(listed.iter().filter_map(Known::read));
        let more = fields.get("more").and_then(Value::as_bool).unwrap_or_default();
        let last = listed.last().and_then(|topic| topic.get("name")).and_then(Value::as_str);
        match last.filter(|_| more) {
            None if !more => {
                topics.learn_all(all);
                return Ok(());
            }
            None => break,
            Some(last) => after = Some(last.to_owned()),
        }
    }
    all.into_iter().for_each(|known| topics.learn(known));
    Ok(())
}

/// What subscribing came to.
pub(crate) struct Subscription {
    pub(crate) topic: Known,
    pub(crate) created: bool,
}

/// Subscribes; the topic is made if it is missing.
pub(crate) async fn subscribe(topics: &Topics, line: &Line, name: &str) -> Result<Subscription, Refusal> {
    let fields = line.fields(Call::TopicSubscribe { topic: name.to_owned(), create: true, member: None }).await?;
    let mut topic =
        topic_of(&fields).ok_or_else(|| Refusal::new("broker_unavailable", "the broker's answer names no topic"))?;
    topic.subscribed = true;
    let created = fields.get("created").and_then(Value::as_bool).unwrap_or_default();
    topics.learn(topic.clone());
    topics.heard(name, true);
    Ok(Subscription { topic, created })
}

/// Unsubscribes; also when there is no such topic.
pub(crate) async fn unsubscribe(topics: &Topics, line: &Line, name: &str) -> Result<(), Refusal> {
    match line.fields(Call::TopicUnsubscribe { topic: name.to_owned() }).await {
        Ok(_) => {}
        Err(refusal) if refusal.code() == "topic_not_found" => {}
        Err(refusal) => return Err(refusal),
    }
    topics.heard(name, false);
    Ok(())
}

/// Tells the broker what it has not heard. A wish it refuses is dropped: it would be refused for ever.
pub(crate) async fn replay(topics: &Topics, line: &Line) -> Result<Vec<(String, Refusal)>, Refusal> {
    let mut refused = Vec::new();
    for (name, want) in topics.wants() {
        let told = match want.subscribed {
            true => subscribe(topics, line, &name).await.map(drop),
            false => unsubscribe(topics, line, &name).await,
        };
        match told {
            Ok(()) => {}
            Err(refusal) if refusal.code() == "broker_unavailable" => return Err(refusal),
            Err(refusal) => {
                topics.heard(&name, want.subscribed);
                refused.push((name, refusal));
            }
        }
    }
    Ok(refused)
}

/// The topic in an answer: under `topic`, or the answer itself.
fn topic_of(fields: &Map<String, Value>) -> Option<Known> {
    match fields.get("topic") {
        Some(topic @ Value::Object(_)) => Known::read(topic),
        _ => Known::read(&Value::Object(fields.clone())),
    }
}
