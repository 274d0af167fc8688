//! What is kept of topics, in one file.

use std::collections::BTreeMap;

use hostel_wire::encoding::{b64, unb64_array};
use hostel_wire::sealed::TopicKey;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Topics that are kept; what a broker says beyond that is not.
const MOST_TOPICS: usize = 10_000;

/// Keys that are kept of one topic: the newest, as many as a broker has copies of.
const MOST_KEYS: usize = 1024;

/// Wishes that may wait for the broker.
const MOST_WANTS: usize = 1000;

/// A topic as the broker has it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Known {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) visibility: String,
    pub(crate) member_count: u64,
    pub(crate) created_at: Option<String>,
    /// The epoch whose key posts must have.
    pub(crate) epoch: u64,
    /// Whether the broker has us as a subscriber.
    pub(crate) subscribed: bool,
}

impl Known {
    /// From a broker's answer; None if it names no topic.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| value.get(key).and_then(Value::as_u64).unwrap_or_default();
        let (id, name) = (text("id")?, text("name")?);
        if id.is_empty() || id.len() > 64 || hostel_wire::topic::topic_name(&name).ok().as_deref() != Some(&*name) {
            return None;
        }
        Some(Self {
            id,
            name,
            description: text("description"),
            visibility: text("visibility").unwrap_or_else(|| "public".to_owned()),
            member_count: number("memberCount"),
            created_at: text("createdAt"),
            epoch: number("epoch"),
            subscribed: value.get("subscribed").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

/// Something asked for that the broker has not heard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Want {
    pub(crate) subscribed: bool,
}

/// A key as it is kept.
struct StoredKey(TopicKey);

impl Serialize for StoredKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&b64(self.0.as_bytes()))
    }
}

impl<'de> Deserialize<'de> for StoredKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = zeroize::Zeroizing::new(String::deserialize(deserializer)?);
        let bytes = unb64_array::<32>(&text).ok_or_else(|| serde::de::Error::custom("not a key"))?;
        Ok(Self(TopicKey::from_bytes(bytes)))
    }
}

/// Everything that is kept.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Book {
    pub(super) topics: BTreeMap<String, Known>,
    pub(super) wants: BTreeMap<String, Want>,
    keys: BTreeMap<String, BTreeMap<u64, StoredKey>>,
}

impl Book {
    pub(super) fn by_name(&self, name: &str) -> Option<&Known> {
        self.topics.values().find(|known| known.name == name)
    }

    /// Epochs only rise: an answer may have been overtaken by a newer one.
    pub(super) fn learn(&mut self, mut known: Known) {
        if self.topics.len() >= MOST_TOPICS && !self.topics.contains_key(&known.id) {
            return;
        }
        if let Some(old) = self.topics.get(&known.id) {
            known.epoch = known.epoch.max(old.epoch);
        }
        self.topics.insert(known.id.clone(), known);
    }

    pub(super) fn want(&mut self, name: &str, subscribed: bool) -> bool {
        if self.wants.len() >= MOST_WANTS && !self.wants.contains_key(name) {
            return false;
        }
        self.wants.insert(name.to_owned(), Want { subscribed });
        true
    }

    pub(super) fn key(&self, ring: &str, epoch: u64) -> Option<TopicKey> {
        self.keys.get(ring)?.get(&epoch).map(|stored| stored.0.clone())
    }

    /// All keys, with where they belong, the newest of each topic first.
    pub(super) fn keys(&self) -> Vec<(String, u64, TopicKey)> {
        let each = |(ring, keys): (&String, &BTreeMap<u64, StoredKey>)| -> Vec<_> {
            keys.iter().rev().map(|(epoch, stored)| (ring.clone(), *epoch, stored.0.clone())).collect()
        };
        self.keys.iter().flat_map(each).collect()
    }

    pub(super) fn add_key(&mut self, ring: &str, epoch: u64, key: TopicKey) {
        if self.keys.len() >= MOST_TOPICS && !self.keys.contains_key(ring) {
            // Those of a topic that is gone make room.
            let gone = |ring: &&String| *ring != super::GENERAL && !self.topics.contains_key(*ring);
            let Some(gone) = self.keys.keys().find(gone).cloned() else { return };
            self.keys.remove(&gone);
        }
        let keys = self.keys.entry(ring.to_owned()).or_default();
        keys.insert(epoch, StoredKey(key));
        while keys.len() > MOST_KEYS {
            keys.pop_first();
        }
    }
}
