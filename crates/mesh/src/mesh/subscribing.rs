//! Topics as callers see them.

use std::collections::HashMap;

use hostel_wire::topic::topic_name;

use super::{Mesh, Refusal, Subscribed, Topic};
use crate::topics::{Ask, GENERAL, talk};

impl Mesh {
    /// Subscribes to a topic, and makes it if there is none. Without a broker the wish is kept.
    pub async fn subscribe(&self, topic: &str) -> Result<Subscribed, Refusal> {
        let core = &self.core;
        core.check()?;
        let name = topic_name(topic).map_err(|error| Refusal::field("topic", error.to_string()))?;
        // The wish is kept first: whatever happens to the connection, the broker hears it once.
        if !core.topics.want(&name, true) {
            return Err(Refusal::new("daemon_busy", "too many wishes wait for the broker"));
        }
        let told = match core.line() {
            Ok(line) => talk::subscribe(&core.topics, &line, &name).await,
            Err(refusal) => Err(refusal),
        };
        match told {
            Ok(subscription) => {
                let ring = core.topics.ring(&subscription.topic.id);
                if core.topics.key(&ring, subscription.topic.epoch).is_none() {
                    // Whoever makes a topic makes its key; whoever joins one asks for it.
                    let ask = match subscription.created {
                        true => Ask::Post(ring),
                        false => Ask::Read(ring, subscription.topic.epoch),
                    };
                    core.topics.ask(ask);
                }
                let (topic_id, created) = (Some(subscription.topic.id), Some(subscription.created));
                Ok(Subscribed { ok: true, topic: name, topic_id, created, subscribed: true, pending: false })
            }
            Err(refusal) if refusal.code() == "broker_unavailable" => {
                let topic_id = core.topics.by_name(&name).map(|known| known.id);
                Ok(Subscribed { ok: true, topic: name, topic_id, created: None, subscribed: true, pending: true })
            }
            Err(refusal) => {
                core.topics.refused(&name, true);
                Err(refusal)
            }
        }
    }

    /// Unsubscribes; also from what was not subscribed to.
    pub async fn unsubscribe(&self, topic: &str) -> Result<Subscribed, Refusal> {
        let core = &self.core;
        core.check()?;
        let name = topic_name(topic).map_err(|error| Refusal::field("topic", error.to_string()))?;
        if !core.topics.want(&name, false) {
            return Err(Refusal::new("daemon_busy", "too many wishes wait for the broker"));
        }
        let told = match core.line() {
            Ok(line) => talk::unsubscribe(&core.topics, &line, &name).await,
            Err(refusal) => Err(refusal),
        };
        let topic_id = core.topics.by_name(&name).map(|known| known.id);
        let answer =
            |pending| Subscribed { ok: true, topic: name.clone(), topic_id, created: None, subscribed: false, pending };
        match told {
            Ok(()) => Ok(answer(false)),
            Err(refusal) if refusal.code() == "broker_unavailable" => Ok(answer(true)),
            Err(refusal) => {
                core.topics.refused(&name, false);
                Err(refusal)
            }
        }
    }

    /// All topics; as they were last known if there is no broker.
    pub async fn topics(&self) -> Result<Vec<Topic>, Refusal> {
        let core = &self.core;
        core.check()?;
        if let Ok(line) = core.line() {
            match talk::refresh(&core.topics, &line).await {
                Ok(()) => {}
                Err(refusal) if refusal.code() == "broker_unavailable" => {}
                Err(refusal) => return Err(refusal),
            }
        }
        let unread: HashMap<String, u64> = core.inbox.unseen_by_topic().await?.into_iter().collect();
        let wants: HashMap<String, bool> =
            core.topics.wants().into_iter().map(|(name, want)| (name, want.subscribed)).collect();
        let mut topics: Vec<Topic> = core
            .topics
            .all()
            .into_iter()
            .map(|known| Topic {
                subscribed: wants.get(&known.name).copied().unwrap_or(known.subscribed),
                unread: unread.get(&known.name).copied().unwrap_or_default(),
                id: known.id,
                name: known.name,
                description: known.description,
                visibility: known.visibility,
                member_count: known.member_count,
                created_at: known.created_at,
            })
            .collect();
        for (name, _) in wants.into_iter().filter(|(_, subscribed)| *subscribed) {
            if topics.iter().all(|topic| topic.name != name) {
                topics.push(Topic {
                    id: String::new(),
                    name,
                    description: None,
                    visibility: "public".to_owned(),
                    member_count: 0,
                    subscribed: true,
                    unread: 0,
                    created_at: None,
                });
            }
        }
        // The one every mesh has comes first.
        topics.sort_by(|one, other| (one.name != GENERAL, &one.name).cmp(&(other.name != GENERAL, &other.name)));
        Ok(topics)
    }
}
