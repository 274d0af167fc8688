//! Topics in talk with the broker: lists, subscriptions, and wishes that could not be told before.

use std::time::Duration;

use hostel_wire::frames::client::Call;
use serde_json::{Map, Value};

use super::{Known, Topics};
use crate::link::calls::Line;
use crate::link::pages;
use crate::mesh::Refusal;

/// A wish that cannot be heard just now is told again after this long, so often.
const AGAIN: Duration = Duration::from_secs(1);
const TRIES: u32 = 10;

/// Asks for all topics and keeps them. A list that is not whole takes nothing away.
pub(crate) async fn refresh(topics: &Topics, line: &Line) -> Result<(), Refusal> {
    let listed = pages::topics(line).await?;
    let known = listed.items.iter().filter_map(Known::read);
    match listed.whole {
        true => topics.learn_all(known.collect()),
        false => known.for_each(|known| topics.learn(known)),
    }
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

/// Tells the broker what it has not heard. A wish it refuses for good is dropped; one it cannot hear now stays.
pub(crate) async fn replay(topics: &Topics, line: &Line) -> Result<Vec<(String, Refusal)>, Refusal> {
    let mut refused = Vec::new();
    for (name, want) in topics.wants() {
        let mut tries = 1;
        let told = loop {
            let told = match want.subscribed {
                true => subscribe(topics, line, &name).await.map(drop),
                false => unsubscribe(topics, line, &name).await,
            };
            match &told {
                Err(refusal) if tries < TRIES && refusal.passes() && !gone(refusal) => tries += 1,
                _ => break told,
            }
            tokio::time::sleep(AGAIN).await;
        };
        match told {
            Ok(()) => {}
            // It was answered as taken: it waits for the next connection.
            Err(refusal) if refusal.passes() => return Err(refusal),
            Err(refusal) => {
                topics.refused(&name, want.subscribed);
                refused.push((name, refusal));
            }
        }
    }
    Ok(refused)
}

/// Whether the connection itself is gone, or as good as that.
fn gone(refusal: &Refusal) -> bool {
    refusal.code() == "broker_unavailable"
}

/// The topic in an answer: under `topic`, or the answer itself.
fn topic_of(fields: &Map<String, Value>) -> Option<Known> {
    match fields.get("topic") {
        Some(topic @ Value::Object(_)) => Known::read(topic),
        _ => Known::read(&Value::Object(fields.clone())),
    }
}
