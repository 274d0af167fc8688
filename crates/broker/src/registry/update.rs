//! A change of a mesh: what is written, what the audit says, what memory will look like and who hears of it.
//!
//! Invariant: everything that is written is also done in memory and the other way round, because both come from one list.

use std::collections::HashSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::change::{Change, What};
use super::error::RegistryError;
use super::mesh::{Mesh, Table, Tables};
use super::records::{
    FileRecord, GrantRecord, Held, InviteRecord, MemberRecord, MeshRecord, SealRecord, SessionRecord, SubRecord,
    TopicRecord, bucket,
};
use super::{Engine, Inner};
use crate::engine::{KvBatch, KvOp};

/// One part of a change. A `None` removes.
#[derive(Debug)]
pub(super) enum Edit {
    Mesh(MeshRecord),
    Member(String, Option<Box<MemberRecord>>),
    Invite(String, Option<InviteRecord>),
    Topic(String, Option<TopicRecord>),
    Sub { topic: String, member: String, sub: Option<SubRecord> },
    Seal { topic: String, epoch: u64, member: String, kept: bool },
    Grant { receiver: String, sender: String, grant: Option<GrantRecord> },
    File(String, Option<FileRecord>),
    Session(String, Option<SessionRecord>),
}

/// A change in the making.
#[derive(Debug)]
pub(super) struct Update {
    mesh: String,
    batch: KvBatch,
    edits: Vec<Edit>,
    news: Vec<What>,
}

/// Records hold text, numbers and maps with text keys: they can always be written.
pub(super) fn bytes(record: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(record).unwrap_or_default()
}

/// Keys sort by epoch.
pub(super) fn seal_key(mesh: &str, topic: &str, epoch: u64, member: &str) -> String {
    format!("{mesh}/{topic}/{epoch:020}/{member}")
}

impl Update {
    pub(super) fn of(mesh: &str) -> Self {
        Self { mesh: mesh.to_owned(), batch: KvBatch::default(), edits: Vec::new(), news: Vec::new() }
    }

    fn write<T: Serialize>(&mut self, bucket: &str, key: &str, record: Option<&T>) {
        let key = format!("{}/{key}", self.mesh);
        self.batch.ops.push(match record {
            Some(record) => KvOp::put(bucket, &key, bytes(record)),
            None => KvOp::delete(bucket, &key),
        });
    }

    /// A write that memory has no part in.
    pub(super) fn raw(&mut self, op: KvOp) {
        self.batch.ops.push(op);
    }

    pub(super) fn mesh(&mut self, record: MeshRecord) {
        self.batch.ops.push(KvOp::put(bucket::MESH, &record.id, bytes(&record)));
        self.edits.push(Edit::Mesh(record));
    }

    pub(super) fn member(&mut self, record: MemberRecord) {
        self.write(bucket::MEMBER, &record.id, Some(&record));
        self.edits.push(Edit::Member(record.id.clone(), Some(Box::new(record))));
    }

    pub(super) fn forget_member(&mut self, id: &str) {
        self.write::<MemberRecord>(bucket::MEMBER, id, None);
        self.write::<()>(bucket::SEEN, id, None);
        self.write::<()>(bucket::CURSOR, id, None);
        self.edits.push(Edit::Member(id.to_owned(), None));
    }

    pub(super) fn invite(&mut self, id: &str, record: Option<InviteRecord>) {
        self.write(bucket::INVITE, id, record.as_ref());
        self.edits.push(Edit::Invite(id.to_owned(), record));
    }

    pub(super) fn topic(&mut self, id: &str, record: Option<TopicRecord>) {
        self.write(bucket::TOPIC, id, record.as_ref());
        self.edits.push(Edit::Topic(id.to_owned(), record));
    }

    pub(super) fn sub(&mut self, topic: &str, member: &str, sub: Option<SubRecord>) {
        self.write(bucket::SUB, &format!("{topic}/{member}"), sub.as_ref());
        self.edits.push(Edit::Sub { topic: topic.to_owned(), member: member.to_owned(), sub });
    }

    pub(super) fn seal(&mut self, topic: &str, epoch: u64, member: &str, record: Option<&SealRecord>) {
        let key = seal_key(&self.mesh, topic, epoch, member);
        self.batch.ops.push(match record {
            Some(record) => KvOp::put(bucket::SEAL, &key, bytes(record)),
            None => KvOp::delete(bucket::SEAL, &key),
        });
        let (topic, member) = (topic.to_owned(), member.to_owned());
        self.edits.push(Edit::Seal { topic, epoch, member, kept: record.is_some() });
    }

    pub(super) fn grant(&mut self, receiver: &str, sender: &str, grant: Option<GrantRecord>) {
        self.write(bucket::GRANT, &format!("{receiver}/{sender}"), grant.as_ref());
        self.edits.push(Edit::Grant { receiver: receiver.to_owned(), sender: sender.to_owned(), grant });
    }

    pub(super) fn file(&mut self, id: &str, record: Option<FileRecord>) {
        self.write(bucket::FILE, id, record.as_ref());
        self.edits.push(Edit::File(id.to_owned(), record));
    }

    pub(super) fn session(&mut self, pubkey: &str, record: Option<SessionRecord>) {
        self.write(bucket::SESSION, pubkey, record.as_ref());
        self.edits.push(Edit::Session(pubkey.to_owned(), record));
    }

    pub(super) fn news(&mut self, what: What) {
        self.news.push(what);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batch.ops.is_empty() && self.batch.audit.is_empty()
    }
}

impl<E: Engine> Inner<E> {
    pub(super) fn tell(&self, update: &mut Update, kind: &str, actor: &str, subject: &str, body: Value) {
        update.batch.audit.push(self.event(&update.mesh, kind, actor, subject, body));
    }

    /// Writes a change, lets memory follow, and tells.
    pub(super) async fn commit(&self, update: Update) -> Result<Arc<Mesh>, RegistryError> {
        let Update { mesh, batch, edits, news } = update;
        let before = self.meshes.read().get(&mesh).cloned();
        let revision = self.engine.commit(batch).await?.revision;
        let mark_before = before.as_ref().map(|before| before.roster_mark()).unwrap_or_default();
        let told: HashSet<String> = news.iter().filter_map(|what| what.member().map(str::to_owned)).collect();
        let member_of = |edit: &Edit| if let Edit::Member(id, _) = edit { Some(id.clone()) } else { None };
        let edited: Vec<String> = edits.iter().filter_map(member_of).collect();
        let mut after = before.map(|before| Mesh::clone(&before));
        for edit in edits {
            match (&mut after, edit) {
                (None, Edit::Mesh(record)) => after = Some(Mesh::new(Held { revision, record })),
                (Some(after), edit) => after.apply(edit, revision),
                (None, _) => {}
            }
        }
        let after = Arc::new(after.ok_or(RegistryError::MeshNotFound)?);
        self.meshes.write().insert(mesh.clone(), Arc::clone(&after));
        // A change of several members is told one by one; the roster is as it is now after the last of them. Where a
        // member has changed and nobody hears of it, the next marks do not follow those that others have.
        let last_listed = news.iter().rposition(|what| what.member().is_some());
        for (index, what) in news.into_iter().enumerate() {
            let is_last = Some(index) == last_listed && edited.iter().all(|member| told.contains(member));
            let marks = is_last.then(|| (mark_before.clone(), after.roster_mark()));
            // Nobody may be listening.
            self.changes.send(Change { mesh: mesh.clone(), roster_rev: after.roster_rev, marks, what }).ok();
        }
        Ok(after)
    }
}

fn set<T>(map: &mut Table<T>, key: &str, record: Option<T>, revision: u64) {
    match record {
        Some(record) => drop(map.insert(key.to_owned(), Arc::new(Held { revision, record }))),
        None => drop(map.remove(key)),
    }
}

fn set_in<T>(maps: &mut Tables<T>, (outer, key): (&str, &str), record: Option<T>, revision: u64) {
    let maps = Arc::make_mut(maps);
    let inner = maps.entry(outer.to_owned()).or_default();
    set(inner, key, record, revision);
    if inner.is_empty() {
        maps.remove(outer);
    }
}

/// Stands for a member as it is at a revision.
fn digest(id: &str, revision: u64) -> u128 {
    let mut hash = Sha256::new();
    hash.update(revision.to_le_bytes());
    hash.update(id);
    let digest = hash.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&digest[..16]);
    u128::from_le_bytes(short)
}

impl Mesh {
    /// Changes a mesh that nobody else has seen yet.
    pub(super) fn apply(&mut self, edit: Edit, revision: u64) {
        match edit {
            Edit::Mesh(record) => {
                self.record = Arc::new(Held { revision, record });
                self.roster_rev = self.roster_rev.max(revision);
            }
            Edit::Member(id, record) => self.apply_member(&id, record.map(|record| *record), revision),
            Edit::Invite(id, record) => {
                let tokens = &mut self.tokens;
                match (&record, self.invites.get(&id)) {
                    (Some(record), _) => drop(tokens.insert(record.token_sha256.clone(), id.clone())),
                    (None, Some(old)) => drop(tokens.remove(&old.token_sha256)),
                    (None, None) => {}
                }
                set(&mut self.invites, &id, record, revision);
            }
            Edit::Topic(id, record) => {
                let names = Arc::make_mut(&mut self.topic_names);
                if let Some(old) = self.topics.get(&id) {
                    names.remove(&old.name);
                }
                if let Some(record) = &record {
                    names.insert(record.name.clone(), id.clone());
                }
                set(&mut self.topics, &id, record, revision);
            }
            Edit::Sub { topic, member, sub } => set_in(&mut self.subs, (&topic, &member), sub, revision),
            Edit::Seal { topic, epoch, member, kept } => {
                let holders = Arc::make_mut(&mut self.holders);
                let epochs = Arc::make_mut(holders.entry(topic.clone()).or_default());
                let ids = epochs.entry(epoch).or_default();
                match kept {
                    true => ids.insert(member, ()),
                    false => ids.remove(&member),
                };
                if ids.is_empty() {
                    epochs.remove(&epoch);
                }
                if epochs.is_empty() {
                    holders.remove(&topic);
                }
            }
            Edit::Grant { receiver, sender, grant } => {
                set_in(&mut self.grants, (&receiver, &sender), grant, revision);
            }
            Edit::File(id, record) => set(&mut self.files, &id, record, revision),
            Edit::Session(pubkey, record) => set(&mut self.sessions, &pubkey, record, revision),
        }
    }

    fn apply_member(&mut self, id: &str, record: Option<MemberRecord>, revision: u64) {
        let (keys, names) = (&mut self.by_key, &mut self.by_name);
        if let Some(old) = self.members.get(id) {
            // Somebody else may have the name by now.
            let name = old.name.to_lowercase();
            if names.get(&name).is_some_and(|holder| holder == id) {
                names.remove(&name);
            }
            for key in old.retired.iter().map(|key| &key.pubkey).chain([&old.pubkey]) {
                keys.remove(key);
            }
        }
        if let Some(record) = &record {
            if record.left_ms.is_none() {
                names.insert(record.name.to_lowercase(), id.to_owned());
            }
            for key in record.retired.iter().map(|key| &key.pubkey).chain([&record.pubkey]) {
                keys.insert(key.clone(), id.to_owned());
            }
        }
        if let Some(old) = self.members.get(id) {
            self.members_digest ^= digest(id, old.revision);
        }
        if record.is_some() {
            self.members_digest ^= digest(id, revision);
        }
        set(&mut self.members, id, record, revision);
        self.roster_rev = self.roster_rev.max(revision);
    }
}
