//! Copies of topics' keys, each sealed for one member by another: the broker cannot open them.
//!
//! Invariant: all copies of one epoch are of one key. Whoever makes a key stores the first copies, its own among them, and
//! only where there is none; after that only who has a copy may add others, and a copy that is there is replaced by nobody
//! but its own reader, who has another key by then.

use hostel_wire::encoding;
use hostel_wire::frames::client::Seal;
use serde_json::json;

use super::change::What;
use super::error::RegistryError;
use super::load::parse;
use super::mesh::Mesh;
use super::records::{SealRecord, TopicRecord, bucket};
use super::update::{Update, seal_key};
use super::{Engine, Inner, Registry};
use crate::audit::kind;

/// Copies in one request at most.
const MOST: usize = 10_000;

const DAY_MS: u64 = 24 * 3_600_000;

/// A copy has this many bytes as base64 at most.
const BLOB: usize = 512;

/// Copies that were stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealsStored {
    /// For whom, by id. Those who had one keep it.
    pub members: Vec<String>,
    /// This made the key.
    pub made: bool,
}

impl<E: Engine> Registry<E> {
    /// Stores copies of a topic's key. With the sender's own among them it is a new key; that is refused with
    /// `epoch_taken` when this epoch has one.
    pub async fn seal_put(
        &self,
        mesh: &str,
        by: &str,
        topic: &str,
        epoch: u64,
        seals: Vec<Seal>,
    ) -> Result<SealsStored, RegistryError> {
        let (mesh, by, topic) = (mesh.to_owned(), by.to_owned(), topic.to_owned());
        self.in_turn(|inner| async move { inner.seal_put(&mesh, &by, &topic, epoch, &seals).await }).await
    }

    /// A member's own copy of a topic's key, the present one if none is named, with its epoch.
    pub async fn seal_get(
        &self,
        mesh: &str,
        member: &str,
        topic: &str,
        epoch: Option<u64>,
    ) -> Result<(u64, SealRecord), RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        // A copy that was sealed for somebody stays theirs: it opens what was posted while they were in.
        let has = |found: &TopicRecord| snapshot.holds(&found.id, epoch.unwrap_or(found.epoch), member);
        let shown = snapshot.topic(topic).filter(|found| snapshot.shows(found, member) || has(found));
        let topic = shown.ok_or_else(|| RegistryError::TopicNotFound(topic.to_owned()))?;
        let epoch = epoch.unwrap_or(topic.epoch);
        if !snapshot.holds(&topic.id, epoch, member) {
            return Err(RegistryError::NotSealed);
        }
        let key = seal_key(mesh, &topic.id, epoch, member);
        let entry = self.inner.engine.get(bucket::SEAL, &key).await?.ok_or(RegistryError::NotSealed)?;
        Ok((epoch, parse(bucket::SEAL, &entry)?))
    }
}

impl<E: Engine> Registry<E> {
    /// A member's own copy of a key, sealed anew by that member, which has it: the one before was sealed for a key that
    /// the member has no more. Nobody else's copy can be replaced.
    pub async fn seal_replace(
        &self,
        mesh: &str,
        by: &str,
        topic: &str,
        epoch: u64,
        seal: Seal,
    ) -> Result<(), RegistryError> {
        let (mesh, by, topic) = (mesh.to_owned(), by.to_owned(), topic.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&by)?;
            if !well_formed(&seal) {
                return Err(RegistryError::Invalid("the seal must be a copy of a key, as base64".to_owned()));
            }
            let held = snapshot.topic(&topic).filter(|found| snapshot.holds(&found.id, epoch, &by));
            let found = held.ok_or(RegistryError::NotSealed)?;
            let Seal { blob, nonce, .. } = seal;
            let record = SealRecord { blob, nonce, by: by.clone(), at_ms: inner.clock.now_ms() };
            let mut update = Update::of(&mesh);
            update.seal(&found.id, epoch, &by, Some(&record));
            inner.commit(update).await.map(drop)
        })
        .await
    }
}

impl<E: Engine> Inner<E> {
    async fn seal_put(
        &self,
        mesh: &str,
        by: &str,
        topic: &str,
        epoch: u64,
        seals: &[Seal],
    ) -> Result<SealsStored, RegistryError> {
        let snapshot = self.snapshot(mesh)?;
        snapshot.active_member(by)?;
        let shown = snapshot.topic(topic).filter(|found| snapshot.shows(found, by));
        let topic = shown.ok_or_else(|| RegistryError::TopicNotFound(topic.to_owned()))?;
        let invalid = |text: &str| Err(RegistryError::Invalid(text.to_owned()));
        if seals.is_empty() || seals.len() > MOST || !seals.iter().all(well_formed) {
            return invalid("`seals` must be copies of a key, as base64");
        }
        if topic.is_general() && epoch == 0 {
            return invalid("the first key of `general` is known to every member");
        }
        let made = seals.iter().any(|seal| seal.member_id == by);
        if made {
            if epoch != topic.epoch {
                return match epoch < topic.epoch {
                    true => Err(RegistryError::EpochTaken),
                    false => invalid("the topic does not need that key yet"),
                };
            }
            if snapshot.has_key(topic, epoch) {
                return Err(RegistryError::EpochTaken);
            }
        } else if !snapshot.holds(&topic.id, epoch, by) {
            return Err(RegistryError::Forbidden("only who has the key can seal it for others".to_owned()));
        }
        let mut update = Update::of(mesh);
        let mut members: Vec<String> = Vec::new();
        for seal in seals {
            let there = snapshot.member(&seal.member_id).is_some_and(|member| member.is_active());
            let there = there && snapshot.shows(topic, &seal.member_id);
            let had = snapshot.holds(&topic.id, epoch, &seal.member_id) || members.contains(&seal.member_id);
            if !there || had {
                continue;
            }
            let (blob, nonce) = (seal.blob.clone(), seal.nonce.clone());
            let record = SealRecord { blob, nonce, by: by.to_owned(), at_ms: self.clock.now_ms() };
            update.seal(&topic.id, epoch, &seal.member_id, Some(&record));
            members.push(seal.member_id.clone());
        }
        if update.is_empty() {
            return Ok(SealsStored { members, made: false });
        }
        update.news(What::Sealed { topic: topic.id.clone(), epoch, members: members.clone() });
        self.commit(update).await?;
        Ok(SealsStored { members, made })
    }

    /// Makes a topic need another key. Copies of keys go once no entry of the log can need them.
    pub(super) fn raise_epoch(&self, update: &mut Update, mesh: &Mesh, topic: &TopicRecord) {
        let (epoch, now) = (topic.epoch + 1, self.clock.now_ms());
        self.tell(update, kind::TOPIC_EPOCH, "", &topic.id, json!({"epoch": epoch}));
        update.news(What::Epoch { topic: topic.id.clone(), epoch });
        let mut ended = topic.ended.clone();
        ended.insert(topic.epoch, now);
        let old = now.saturating_sub(self.settings.key_days * DAY_MS);
        let over = ended.iter().take_while(|(_, at)| **at < old).last().map_or(0, |(epoch, _)| epoch + 1);
        let first = over.max((epoch + 1).saturating_sub(self.settings.epochs));
        self.forget_seals(update, mesh, &topic.id, first);
        let ended = ended.split_off(&first);
        update.topic(&topic.id, Some(TopicRecord { epoch, ended, ..topic.clone() }));
    }

    /// Removes copies of all keys before an epoch.
    pub(super) fn forget_seals(&self, update: &mut Update, mesh: &Mesh, topic: &str, before: u64) {
        let epochs = mesh.holders.get(topic).into_iter().flat_map(|epochs| epochs.range(..before));
        for (epoch, members) in epochs {
            for member in members.keys() {
                update.seal(topic, *epoch, member, None);
            }
        }
    }
}

fn well_formed(seal: &Seal) -> bool {
    let fits = |text: &str| !text.is_empty() && text.len() <= BLOB && encoding::unb64(text).is_some();
    fits(&seal.blob) && fits(&seal.nonce)
}
