//! What is in the log already, as far as the asker may see it.

use std::sync::Arc;

use hostel_wire::frames::Kind;
use hostel_wire::frames::client::{Call, HistoryFilter};
use hostel_wire::iso;
use serde_json::{Value, json};

use super::{Asker, Outcome, Reply};
use crate::engine::{Engine, Entry, HistoryQuery};
use crate::registry::{Mesh, RegistryError};
use crate::server::connection::frame;

/// Entries in one answer; what is read for it at a time, and how often.
const MOST: usize = 200;
const PAGE_BYTES: usize = 512 * 1024;
const PAGES: usize = 16;

/// An entry as an object.
fn object(entry: &Entry) -> Value {
    frame(entry, false).and_then(|text| serde_json::from_str(text.as_str()).ok()).unwrap_or_default()
}

/// As the first protocol has it.
fn old_object(entry: &Entry) -> Value {
    let mut all = object(entry);
    let mut take = |name: &str| all.get_mut(name).map(Value::take).unwrap_or_default();
    json!({
        "id": entry.id,
        "senderPubkey": take("senderPubkey"),
        "senderMemberId": take("senderMemberId"),
        "senderName": take("senderName"),
        "nonce": take("nonce"),
        "ciphertext": take("ciphertext"),
        "bodyVersion": take("bodyVersion"),
        "keyEpoch": take("keyEpoch"),
        "replyToId": take("replyToId"),
        "client_message_id": entry.client_id,
        "seq": entry.seq,
        "createdAt": iso(entry.ts_ms),
    })
}

impl<E: Engine> Asker<'_, E> {
    pub(super) async fn history(&self, call: Call) -> Outcome {
        match call {
            Call::History { filter, before_seq, after_seq, limit } => {
                let (entries, more) = self.entries(&filter, before_seq, after_seq, limit).await?;
                let (messages, cut) = self.fitting(entries.iter().map(|entry| object(entry)));
                Ok(Reply::Of("history_response", json!({"messages": messages, "more": more || cut})))
            }
            Call::TopicHistory { topic, limit, before_id } => {
                let mesh = self.mesh()?;
                let shown = mesh.topic(&topic).filter(|found| mesh.shows(found, self.member()));
                let found = shown.ok_or_else(|| RegistryError::TopicNotFound(topic.clone()))?;
                let before = match before_id {
                    Some(id) => Some(self.entry(&id).await?.seq),
                    None => None,
                };
                let filter = HistoryFilter { topic_id: Some(found.id.clone()), dm: None };
                let (entries, more) = self.entries(&filter, before, None, limit).await?;
                let (messages, cut) = self.fitting(entries.iter().map(|entry| old_object(entry)));
                let answer = json!({"topic": found.name, "messages": messages, "more": more || cut});
                Ok(Reply::Of("topic_history_response", answer))
            }
            Call::MessageStatus { message_id } => self.message_status(&message_id).await,
            _ => Err(RegistryError::Invalid("this cannot be asked".to_owned())),
        }
    }

    /// Whether the asker may look at an entry of the past.
    fn may_see(&self, mesh: &Mesh, entry: &Entry) -> bool {
        let member = self.member();
        if matches!(entry.kind, Kind::State | Kind::Task) {
            // No messages: what is shared has requests of its own.
            return false;
        }
        entry.sender == member
            || mesh.sees(member, entry)
            || (entry.kind == Kind::Topic && mesh.subscribed(&entry.dest, member))
    }

    /// Entries that fit, newest first, and whether there are more.
    async fn entries(
        &self,
        filter: &HistoryFilter,
        before_seq: Option<u64>,
        after_seq: Option<u64>,
        limit: Option<u32>,
    ) -> Result<(Vec<Arc<Entry>>, bool), RegistryError> {
        let mesh = self.mesh()?;
        let limit = limit.map_or(50, |limit| limit as usize).clamp(1, MOST);
        let direct = filter.dm == Some(true);
        if let Some(topic) = &filter.topic_id {
            let shown = mesh.topic(topic).is_some_and(|topic| mesh.shows(topic, self.member()));
            if !shown {
                return Err(RegistryError::TopicNotFound(topic.clone()));
            }
        }
        let mut query = HistoryQuery {
            topic: filter.topic_id.as_deref().and_then(|topic| mesh.topic(topic)).map(|topic| topic.id.clone()),
            with_member: direct.then(|| self.member().to_owned()),
            before_seq,
            after_seq,
            limit: MOST,
            max_bytes: PAGE_BYTES,
        };
        let mut found = Vec::new();
        for _ in 0..PAGES {
            let page = self.broker.engine.history(mesh.id(), query.clone()).await?;
            let Some(last) = page.last().map(|entry| entry.seq) else { return Ok((found, false)) };
            for entry in page {
                if self.may_see(&mesh, &entry) && (!direct || entry.dest == self.member()) {
                    if found.len() == limit {
                        return Ok((found, true));
                    }
                    found.push(entry);
                }
            }
            query.before_seq = Some(last);
        }
        Ok((found, true))
    }

    /// An entry by its id, if the asker may see it.
    async fn entry(&self, id: &str) -> Result<Arc<Entry>, RegistryError> {
        let mesh = self.mesh()?;
        let entry = self.broker.engine.entry(mesh.id(), id).await?;
        entry
            .filter(|entry| self.may_see(&mesh, entry))
            .ok_or_else(|| RegistryError::NotFound("no such message".to_owned()))
    }

    async fn message_status(&self, id: &str) -> Outcome {
        let entry = self.entry(id).await?;
        let delivered = (entry.kind == Kind::Dm).then(|| self.is_delivered(&entry));
        let answer = json!({
            "messageId": entry.id,
            "seq": entry.seq,
            "kind": entry.kind,
            "client_message_id": entry.client_id,
            "createdAt": iso(entry.ts_ms),
            "status": if delivered == Some(true) { "delivered" } else { "queued" },
            "delivered": delivered,
        });
        Ok(Reply::Of("message_status_response", answer))
    }

    /// Whether the addressee has said that it has a message, as far as is known here.
    fn is_delivered(&self, entry: &Entry) -> bool {
        let mesh = self.mesh_id();
        let room = self.broker.rooms.room(mesh);
        let reads = |one: &Arc<crate::server::connection::Connection>| {
            one.wants_entries && one.window.lock().low() >= entry.seq
        };
        let epoch = self.broker.engine.bounds(mesh).map(|bounds| bounds.epoch);
        let kept = self.broker.registry.cursor(mesh, &entry.dest);
        room.of(&entry.dest).iter().any(reads)
            || kept.is_some_and(|kept| Some(kept.epoch) == epoch && kept.seq >= entry.seq)
    }
}
