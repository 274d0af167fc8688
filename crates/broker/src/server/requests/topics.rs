//! Topics, subscriptions, and sealed copies of their keys.

use hostel_wire::frames::client::Call;
use hostel_wire::iso;
use serde_json::{Value, json};

use super::{Asker, Outcome, Reply};
use crate::engine::Engine;
use crate::registry::{Mesh, RegistryError, TopicRecord};
use crate::server::keys_needed;

impl<E: Engine> Asker<'_, E> {
    pub(super) async fn topics(&self, call: Call, req_id: Option<String>) -> Outcome {
        let (mesh, member) = (self.mesh_id(), self.member());
        let registry = &self.broker.registry;
        match call {
            Call::TopicCreate { name, description, visibility } => {
                let made = registry.topic_create(mesh, member, &name, description, visibility).await?;
                let topic = self.topic(&*self.mesh()?, &made.topic);
                Ok(Reply::Of("topic_created", json!({"topic": topic, "created": made.created})))
            }
            Call::TopicList { after } => {
                let mesh = self.mesh()?;
                let behind = |name: &str| after.as_deref().is_none_or(|after| name > after);
                let shown = |topic: &TopicRecord| behind(&topic.name) && mesh.shows(topic, member);
                let mut topics: Vec<_> = mesh.topics().filter(|topic| shown(topic)).collect();
                topics.sort_unstable_by(|one, other| one.name.cmp(&other.name));
                let topics = topics.into_iter().map(|topic| (topic.name.clone(), self.topic(&mesh, topic)));
                Ok(Reply::Of("topic_list_response", self.paged("topics", topics)))
            }
            Call::TopicJoin { topic } => {
                registry.subscribe(mesh, member, &topic, false).await?;
                Ok(Reply::Silent)
            }
            Call::TopicLeave { topic } => {
                registry.unsubscribe(mesh, member, &topic).await?;
                Ok(Reply::Silent)
            }
            Call::TopicSubscribe { topic, create, member: target } => {
                let subscribed = match target {
                    Some(target) => registry.let_in(mesh, member, &topic, &target).await?,
                    None => registry.subscribe(mesh, member, &topic, create).await?,
                };
                let topic = self.topic(&*self.mesh()?, &subscribed.topic);
                let created = subscribed.created;
                Ok(Reply::Of("topic_subscribed", json!({"topic": topic, "created": created, "subscribed": true})))
            }
            Call::TopicUnsubscribe { topic } => {
                let topic = registry.unsubscribe(mesh, member, &topic).await?;
                let topic = self.topic(&*self.mesh()?, &topic);
                Ok(Reply::Of("topic_unsubscribed", json!({"topic": topic, "subscribed": false})))
            }
            Call::TopicMembers { topic, after } => self.topic_members(&topic, after.as_deref()),
            Call::TopicDelete { topic } => {
                registry.topic_delete(mesh, member, &topic).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::TopicKeyPut { topic_id, epoch, seals } => {
                let stored = registry.seal_put(mesh, member, &topic_id, epoch, seals).await?;
                Ok(Reply::Ok(json!({"stored": stored.members, "made": stored.made, "epoch": epoch})))
            }
            Call::TopicKeyGet { topic_id, epoch } => {
                let found = registry.seal_get(mesh, member, &topic_id, epoch).await;
                if let Err(RegistryError::NotSealed) = &found {
                    // Whoever can help may have been away when it was first asked for; and who only posts to a topic
                    // it may see needs its key too. A key of an earlier time is for who reads.
                    let mesh = self.mesh()?;
                    if let Some(topic) = mesh.topic(&topic_id) {
                        let epoch = epoch.unwrap_or(topic.epoch);
                        let reads = mesh.subscribed(&topic.id, member) || topic.is_general();
                        if epoch == topic.epoch || (epoch < topic.epoch && reads) {
                            keys_needed::ask(self.broker, &mesh, topic, epoch, &[member.to_owned()]);
                        }
                    }
                }
                let (epoch, seal) = found?;
                let frame = keys_needed::key_frame(&topic_id, epoch, member, seal, req_id);
                Ok(Reply::Frame(Box::new(frame)))
            }
            _ => Err(RegistryError::Invalid("this cannot be asked".to_owned())),
        }
    }

    /// A topic as frames have it.
    fn topic(&self, mesh: &Mesh, topic: &TopicRecord) -> Value {
        // As it is after what was asked.
        let topic = mesh.topic(&topic.id).map_or(topic, |held| &held.record);
        json!({
            "id": topic.id,
            "name": topic.name,
            "description": topic.description,
            "visibility": topic.visibility,
            "memberCount": mesh.subscribers(&topic.id).count(),
            "createdAt": iso(topic.created_ms),
            "epoch": topic.epoch,
            "hasKey": mesh.has_key(topic, topic.epoch),
            "subscribed": mesh.subscribed(&topic.id, self.member()),
        })
    }

    fn topic_members(&self, topic: &str, after: Option<&str>) -> Outcome {
        let mesh = self.mesh()?;
        let found = mesh.topic(topic).filter(|topic| mesh.shows(topic, self.member()));
        let found = found.ok_or_else(|| RegistryError::TopicNotFound(topic.to_owned()))?;
        let behind = |id: &str| after.is_none_or(|after| id > after);
        let subscribers = mesh.subscribers(&found.id).filter_map(|id| mesh.member(id));
        let mut members: Vec<_> = subscribers.filter(|member| behind(&member.id)).collect();
        members.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let members = members.into_iter().map(|member| {
            let said = json!({
                "memberId": member.id,
                "pubkey": member.pubkey,
                "displayName": member.name,
                "hasKey": mesh.holds(&found.id, found.epoch, &member.id),
            });
            (member.id.clone(), said)
        });
        let mut said = self.paged("members", members);
        said["topic"] = self.topic(&mesh, found);
        Ok(Reply::Of("topic_members_response", said))
    }
}
