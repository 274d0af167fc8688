//! Topics and who is subscribed to them.
//!
//! Invariant: a subscription is kept as intervals of the log, so that a late subscriber gets no old posts and one who left
//! gets none after. Everybody is subscribed to `general` when they join.

use std::sync::Arc;

use hostel_wire::{ids, topic};
use serde_json::json;

use super::change::What;
use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::{Held, Interval, TopicRecord};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::audit::kind;

/// Intervals of one subscription that are kept; the oldest go first.
const INTERVALS: usize = 64;

/// A description is for people, and short.
const DESCRIPTION: usize = 512;

/// A topic that is there now.
#[derive(Debug, Clone)]
pub struct Made {
    /// It.
    pub topic: Arc<Held<TopicRecord>>,
    /// It was not there before.
    pub created: bool,
}

/// A subscription that is there now.
#[derive(Debug, Clone)]
pub struct Subscribed {
    /// To what.
    pub topic: Arc<Held<TopicRecord>>,
    /// The topic was not there before.
    pub created: bool,
    /// The subscription was there before.
    pub already: bool,
}

impl<E: Engine> Registry<E> {
    /// Makes a topic and subscribes who makes it. One that is there stays as it is.
    pub async fn topic_create(
        &self,
        mesh: &str,
        by: &str,
        name: &str,
        description: Option<String>,
        visibility: Option<String>,
    ) -> Result<Made, RegistryError> {
        let (mesh, by) = (mesh.to_owned(), by.to_owned());
        let name = topic::topic_name(name).map_err(|error| RegistryError::Invalid(error.to_string()))?;
        let visibility = visibility.unwrap_or_else(|| "public".to_owned());
        if visibility != "public" && visibility != "private" {
            return Err(RegistryError::Invalid("`visibility` must be `public` or `private`".to_owned()));
        }
        if description.as_ref().is_some_and(|text| text.len() > DESCRIPTION) {
            return Err(RegistryError::Invalid("`description` is too long".to_owned()));
        }
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&by)?;
            if let Some(topic) = snapshot.topic(&name) {
                // Its name is taken, and that is all somebody learns who is not in it.
                return match snapshot.shows(topic, &by) {
                    true => Ok(Made { topic: Arc::clone(topic), created: false }),
                    false => Err(RegistryError::Taken(format!("`{name}` is taken"))),
                };
            }
            let mut update = Update::of(&mesh);
            let id = inner.new_topic(&mut update, &snapshot, &by, (name, description, visibility))?;
            let after = inner.commit(update).await?;
            Ok(Made { topic: after.known_topic(&id)?, created: true })
        })
        .await
    }

    /// Subscribes a member to a topic, by id or name; makes it if it is missing and `create` says so.
    pub async fn subscribe(
        &self,
        mesh: &str,
        member: &str,
        topic: &str,
        create: bool,
    ) -> Result<Subscribed, RegistryError> {
        let (mesh, member, text) = (mesh.to_owned(), member.to_owned(), topic.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&member)?;
            let mut update = Update::of(&mesh);
            let (id, created) = match snapshot.topic(&text) {
                Some(topic) if snapshot.subscribed(&topic.id, &member) => {
                    return Ok(Subscribed { topic: Arc::clone(topic), created: false, already: true });
                }
                Some(topic) if !snapshot.shows(topic, &member) => {
                    return Err(match create {
                        true => RegistryError::Taken(format!("`{}` is taken", topic.name)),
                        false => RegistryError::TopicNotFound(text),
                    });
                }
                Some(topic) => {
                    inner.open_sub(&mut update, &snapshot, &topic.id, &member);
                    (topic.id.clone(), false)
                }
                None if create => {
                    let name = topic::topic_name(&text).map_err(|error| RegistryError::Invalid(error.to_string()))?;
                    (inner.new_topic(&mut update, &snapshot, &member, (name, None, "public".to_owned()))?, true)
                }
                None => return Err(RegistryError::TopicNotFound(text)),
            };
            update.news(What::Subscribed { topic: id.clone(), member });
            let after = inner.commit(update).await?;
            Ok(Subscribed { topic: after.known_topic(&id)?, created, already: false })
        })
        .await
    }

    /// Lets another member, given by id, key or name, into a topic: for who sees it. Into a public one everybody goes by
    /// themselves.
    pub async fn let_in(&self, mesh: &str, by: &str, topic: &str, target: &str) -> Result<Subscribed, RegistryError> {
        let (mesh, by, text, target) = (mesh.to_owned(), by.to_owned(), topic.to_owned(), target.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&by)?;
            let topic = snapshot.topic(&text).filter(|topic| snapshot.shows(topic, &by));
            let topic = topic.ok_or(RegistryError::TopicNotFound(text))?;
            let found = snapshot.find(&target)?;
            if found.id != by && topic.visibility != "private" {
                return Err(RegistryError::Forbidden("members subscribe to a public topic by themselves".to_owned()));
            }
            if !found.is_active() {
                return Err(RegistryError::NotFound(format!("no member `{target}`")));
            }
            let already = snapshot.subscribed(&topic.id, &found.id);
            if already {
                return Ok(Subscribed { topic: Arc::clone(topic), created: false, already });
            }
            let mut update = Update::of(&mesh);
            inner.open_sub(&mut update, &snapshot, &topic.id, &found.id);
            update.news(What::Subscribed { topic: topic.id.clone(), member: found.id.clone() });
            let topic = inner.commit(update).await?.known_topic(&topic.id)?;
            Ok(Subscribed { topic, created: false, already })
        })
        .await
    }

    /// Ends a member's subscription. Who had the key makes the topic need another, but for `general`, whose keys are also
    /// those of broadcasts.
    pub async fn unsubscribe(
        &self,
        mesh: &str,
        member: &str,
        topic: &str,
    ) -> Result<Arc<Held<TopicRecord>>, RegistryError> {
        let (mesh, member, text) = (mesh.to_owned(), member.to_owned(), topic.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&member)?;
            let topic = snapshot.topic(&text).filter(|topic| snapshot.shows(topic, &member));
            let topic = topic.ok_or(RegistryError::TopicNotFound(text))?;
            if !snapshot.subscribed(&topic.id, &member) {
                return Ok(Arc::clone(topic));
            }
            let mut update = Update::of(&mesh);
            inner.close_sub(&mut update, &snapshot, &topic.id, &member);
            if !topic.is_general() && snapshot.holds(&topic.id, topic.epoch, &member) {
                inner.raise_epoch(&mut update, &snapshot, topic);
            }
            update.news(What::Unsubscribed { topic: topic.id.clone(), member });
            inner.commit(update).await?.known_topic(&topic.id)
        })
        .await
    }

    /// Deletes a topic with its subscriptions and keys; for the owner and administrators.
    pub async fn topic_delete(&self, mesh: &str, by: &str, topic: &str) -> Result<(), RegistryError> {
        let (mesh, by, text) = (mesh.to_owned(), by.to_owned(), topic.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.admin(&by)?;
            let topic = snapshot.topic(&text).ok_or(RegistryError::TopicNotFound(text))?;
            if topic.is_general() {
                return Err(RegistryError::Forbidden("`general` stays".to_owned()));
            }
            let mut update = Update::of(&mesh);
            for member in snapshot.subs.get(&topic.id).into_iter().flat_map(super::shards::Shards::keys) {
                update.sub(&topic.id, member, None);
            }
            inner.forget_seals(&mut update, &snapshot, &topic.id, u64::MAX);
            inner.tell(&mut update, kind::TOPIC_DELETED, &by, &topic.id, json!({"name": topic.name}));
            update.news(What::TopicDeleted { topic: topic.id.clone(), name: topic.name.clone() });
            update.topic(&topic.id, None);
            inner.commit(update).await.map(drop)
        })
        .await
    }
}

impl<E: Engine> Inner<E> {
    fn new_topic(
        &self,
        update: &mut Update,
        mesh: &Mesh,
        by: &str,
        (name, description, visibility): (String, Option<String>, String),
    ) -> Result<String, RegistryError> {
        if mesh.topics.len() >= self.settings.topics {
            return Err(RegistryError::Full(format!("this mesh has {} topics", mesh.topics.len())));
        }
        let now = self.clock.now_ms();
        let id = ids::ulid(now);
        self.tell(update, kind::TOPIC_CREATED, by, &id, json!({"name": name}));
        update.news(What::TopicCreated { topic: id.clone() });
        self.open_sub(update, mesh, &id, by);
        let record = TopicRecord {
            id: id.clone(),
            name,
            description,
            visibility,
            epoch: 0,
            created_by: by.to_owned(),
            created_ms: now,
            ..TopicRecord::default()
        };
        update.topic(&id, Some(record));
        Ok(id)
    }

    /// From now on. Which entries that are, is what is on disk now: what is being written meanwhile is posted at the same
    /// time, and may come or not.
    pub(super) fn open_sub(&self, update: &mut Update, mesh: &Mesh, topic: &str, member: &str) {
        let mut sub = mesh.sub(topic, member).map(|sub| sub.record.clone()).unwrap_or_default();
        if sub.is_open() {
            return;
        }
        let first = self.engine.bounds(mesh.id()).map_or(0, |bounds| bounds.first_seq);
        sub.intervals.retain(|one| one.until.is_none_or(|until| until > first));
        if sub.intervals.len() >= INTERVALS {
            sub.intervals.remove(0);
        }
        sub.intervals.push(Interval { since: self.next_seq(mesh.id()), until: None });
        update.sub(topic, member, Some(sub));
    }

    pub(super) fn close_sub(&self, update: &mut Update, mesh: &Mesh, topic: &str, member: &str) {
        let Some(sub) = mesh.sub(topic, member).filter(|sub| sub.is_open()) else { return };
        let mut sub = sub.record.clone();
        let until = self.next_seq(mesh.id());
        if let Some(last) = sub.intervals.last_mut() {
            last.until = Some(until);
        }
        sub.intervals.retain(|one| one.until.is_none_or(|until| until > one.since));
        update.sub(topic, member, Some(sub).filter(|sub| !sub.intervals.is_empty()));
    }
}

impl Mesh {
    /// Whether a topic is there for a member: private ones are for who is subscribed, for who made them and for
    /// administrators. For everybody else there is no such topic, whatever they ask.
    #[must_use]
    pub fn shows(&self, topic: &TopicRecord, member: &str) -> bool {
        topic.visibility != "private"
            || self.subscribed(&topic.id, member)
            || topic.created_by == member
            || self.member(member).is_some_and(|member| member.is_admin())
    }

    fn known_topic(&self, id: &str) -> Result<Arc<Held<TopicRecord>>, RegistryError> {
        self.topics.get(id).cloned().ok_or_else(|| RegistryError::TopicNotFound(id.to_owned()))
    }
}
