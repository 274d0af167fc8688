//! A mesh as it is at one moment: everything that is asked while a message is on its way, without a disk and without a
//! wait.
//!
//! Invariant: it never changes. A change makes a new one that shares what has not changed, also of large tables.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::error::RegistryError;
use super::records::{
    CAPABILITIES, FileRecord, GENERAL, GrantRecord, Held, InviteRecord, MemberRecord, MeshRecord, SessionRecord,
    SubRecord, TopicRecord,
};
use super::shards::Shards;

/// A prefix of a key that names a member has at least so many digits.
const PREFIX: usize = 16;

/// Records by id.
pub(super) type Table<T> = Shards<Arc<Held<T>>>;

/// Records by two ids.
pub(super) type Tables<T> = Arc<HashMap<String, Table<T>>>;

/// Members with a copy of a topic's key, by its epoch.
pub(super) type Epochs = Arc<BTreeMap<u64, Shards<()>>>;

/// A topic, and the members that lack its present key.
pub type Wanted = (Arc<Held<TopicRecord>>, Arc<Vec<String>>);

/// A mesh at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Mesh {
    /// The mesh itself.
    pub record: Arc<Held<MeshRecord>>,
    /// Rises with every change of a member, and of the mesh itself.
    pub roster_rev: u64,
    pub(super) members: Table<MemberRecord>,
    /// Keys, also those in their grace, to members.
    pub(super) by_key: Shards<String>,
    /// Names in lower case to members, without those who have left.
    pub(super) by_name: Shards<String>,
    pub(super) topics: Table<TopicRecord>,
    pub(super) topic_names: Arc<HashMap<String, String>>,
    /// Topic, then member.
    pub(super) subs: Tables<SubRecord>,
    /// Who has a sealed copy of which key, by topic.
    pub(super) holders: Arc<HashMap<String, Epochs>>,
    /// Receiver, then sender.
    pub(super) grants: Tables<GrantRecord>,
    pub(super) invites: Table<InviteRecord>,
    /// Digests of tokens to invites.
    pub(super) tokens: Shards<String>,
    pub(super) files: Table<FileRecord>,
    /// Session keys.
    pub(super) sessions: Table<SessionRecord>,
    /// Over the ids and revisions of all members, in any order.
    pub(super) members_digest: u128,
    pub(super) derived: Derived,
}

/// What is worked out of a mesh at most once, when somebody asks: after a restart of the broker every member does.
#[derive(Debug, Default)]
pub(super) struct Derived {
    roster: OnceLock<Vec<Utf8Bytes>>,
    /// Members without the present key, by topic.
    lacking: Mutex<HashMap<String, Arc<Vec<String>>>>,
}

/// A copy is about to be changed: it has to work everything out anew.
impl Clone for Derived {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// It says nothing that the rest of the mesh does not.
impl PartialEq for Derived {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Mesh {
    pub(super) fn new(record: Held<MeshRecord>) -> Self {
        Self {
            roster_rev: record.revision,
            record: Arc::new(record),
            members: Shards::default(),
            by_key: Shards::default(),
            by_name: Shards::default(),
            topics: Shards::default(),
            topic_names: Arc::default(),
            subs: Arc::default(),
            holders: Arc::default(),
            grants: Arc::default(),
            invites: Shards::default(),
            tokens: Shards::default(),
            files: Shards::default(),
            sessions: Shards::default(),
            members_digest: 0,
            derived: Derived::default(),
        }
    }

    /// What tells this list of members from every other. It is the same after a restart.
    #[must_use]
    pub fn roster_mark(&self) -> String {
        format!("{:032x}", self.members_digest)
    }

    /// The frames of the whole roster, made by the first who asks.
    pub(crate) fn roster_frames(&self, make: impl FnOnce(&Self) -> Vec<Utf8Bytes>) -> &[Utf8Bytes] {
        self.derived.roster.get_or_init(|| make(self))
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// A member by its id, whatever has become of it.
    #[must_use]
    pub fn member(&self, id: &str) -> Option<&Arc<Held<MemberRecord>>> {
        self.members.get(id)
    }

    /// A member by its key, also one it had until a moment ago.
    #[must_use]
    pub fn member_by_key(&self, pubkey: &str) -> Option<&Arc<Held<MemberRecord>>> {
        self.members.get(self.by_key.get(pubkey)?)
    }

    /// A member by the key of one of its sessions.
    #[must_use]
    pub fn member_by_session(&self, pubkey: &str) -> Option<&Arc<Held<MemberRecord>>> {
        self.members.get(&self.sessions.get(pubkey)?.member)
    }

    /// All of them, in no order.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Held<MemberRecord>>> {
        self.members.values()
    }

    /// Those who are there and not revoked.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Held<MemberRecord>>> {
        self.members.values().filter(|member| member.is_active())
    }

    /// The member somebody means: an id, a key, the beginning of one, or a name.
    pub fn find(&self, text: &str) -> Result<&Arc<Held<MemberRecord>>, RegistryError> {
        let found = self.member(text).or_else(|| self.member_by_key(text)).or_else(|| {
            let id = self.by_name.get(&text.to_lowercase())?;
            self.member(id)
        });
        if let Some(member) = found {
            return Ok(member);
        }
        let missing = || RegistryError::NotFound(format!("no member `{text}`"));
        if text.len() < PREFIX || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(missing());
        }
        let prefix = text.to_ascii_lowercase();
        let fits = |key: &str| key.starts_with(&prefix);
        let mut fitting = self
            .members
            .values()
            .filter(|member| fits(&member.pubkey) || member.retired.iter().any(|key| fits(&key.pubkey)));
        let first = fitting.next().ok_or_else(missing)?;
        match fitting.next() {
            Some(_) => Err(RegistryError::Ambiguous(text.to_owned())),
            None => Ok(first),
        }
    }

    /// A topic by its id or its name, with or without `#`.
    #[must_use]
    pub fn topic(&self, text: &str) -> Option<&Arc<Held<TopicRecord>>> {
        self.topics.get(text).or_else(|| {
            let name = text.strip_prefix('#').unwrap_or(text).to_lowercase();
            self.topics.get(self.topic_names.get(&name)?)
        })
    }

    /// The topic that every mesh has.
    #[must_use]
    pub fn general(&self) -> Option<&Arc<Held<TopicRecord>>> {
        self.topics.get(self.topic_names.get(GENERAL)?)
    }

    /// All topics, in no order.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Held<TopicRecord>>> {
        self.topics.values()
    }

    /// Whether a member was subscribed to a topic at an entry.
    #[must_use]
    pub fn subscribed_at(&self, topic: &str, member: &str, seq: u64) -> bool {
        self.sub(topic, member).is_some_and(|sub| sub.covers(seq))
    }

    /// Whether a member is subscribed to a topic now.
    #[must_use]
    pub fn subscribed(&self, topic: &str, member: &str) -> bool {
        self.sub(topic, member).is_some_and(|sub| sub.is_open())
    }

    pub(super) fn sub(&self, topic: &str, member: &str) -> Option<&Arc<Held<SubRecord>>> {
        self.subs.get(topic)?.get(member)
    }

    /// Members that are subscribed to a topic now, by id.
    pub fn subscribers<'a>(&'a self, topic: &str) -> impl Iterator<Item = &'a str> {
        let all = self.subs.get(topic).into_iter().flat_map(Shards::iter);
        let open = all.filter(|(id, sub)| sub.is_open() && self.member(id).is_some_and(|member| member.is_active()));
        open.map(|(id, _)| id.as_str())
    }

    /// Members that have a sealed copy of this key of a topic, by id; only those who are there.
    pub fn holders<'a>(&'a self, topic: &str, epoch: u64) -> impl Iterator<Item = &'a str> {
        let all = self.copies(topic, epoch).into_iter().flat_map(Shards::keys);
        all.map(String::as_str).filter(|id| self.member(id).is_some_and(|member| member.is_active()))
    }

    /// Whether a member has a sealed copy of this key of a topic.
    #[must_use]
    pub fn holds(&self, topic: &str, epoch: u64, member: &str) -> bool {
        self.copies(topic, epoch).is_some_and(|ids| ids.contains_key(member))
    }

    fn copies(&self, topic: &str, epoch: u64) -> Option<&Shards<()>> {
        self.holders.get(topic)?.get(&epoch)
    }

    /// Whether this key of a topic was made: somebody has a copy, or everybody can derive it.
    #[must_use]
    pub fn has_key(&self, topic: &TopicRecord, epoch: u64) -> bool {
        topic.is_general() && epoch == 0 || self.copies(&topic.id, epoch).is_some()
    }

    /// Members that ought to have the topic's present key and have no copy of it, by id. Empty while nobody has made it.
    #[must_use]
    pub fn without_key(&self, topic: &TopicRecord) -> Arc<Vec<String>> {
        if topic.is_general() && topic.epoch == 0 || !self.has_key(topic, topic.epoch) {
            return Arc::default();
        }
        let known = self.derived.lacking.lock().get(&topic.id).cloned();
        known.unwrap_or_else(|| {
            let lacking = Arc::new(self.find_without_key(topic));
            self.derived.lacking.lock().insert(topic.id.clone(), Arc::clone(&lacking));
            lacking
        })
    }

    fn find_without_key(&self, topic: &TopicRecord) -> Vec<String> {
        let lacks = |id: &&str| !self.holds(&topic.id, topic.epoch, id);
        match topic.is_general() {
            // Broadcasts and groups use its keys.
            true => self.active().map(|member| member.id.as_str()).filter(lacks).map(str::to_owned).collect(),
            false => self.subscribers(&topic.id).filter(lacks).map(str::to_owned).collect(),
        }
    }

    /// Topics whose present key a member has a copy of and somebody else lacks, with who that is.
    #[must_use]
    pub fn wanted_of(&self, member: &str) -> Vec<Wanted> {
        let held = self.topics.values().filter(|topic| self.holds(&topic.id, topic.epoch, member));
        let wanted = held.map(|topic| (Arc::clone(topic), self.without_key(topic)));
        wanted.filter(|(_, members)| !members.is_empty()).collect()
    }

    /// Whether two members are the same one, or one has taken the other's place.
    #[must_use]
    pub fn are_one(&self, one: &str, other: &str) -> bool {
        let follows = |new: &str, old: &str| self.member(new).is_some_and(|member| member.descends_from(old));
        one == other || follows(one, other) || follows(other, one)
    }

    /// Members in a group who are there, by id.
    #[must_use]
    pub fn group(&self, name: &str) -> Vec<String> {
        let mut ids: Vec<_> =
            self.active().filter(|member| member.in_group(name)).map(|member| member.id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// Whether a receiver lets a sender do this: one of `read`, `dm`, `broadcast`, `state-read`.
    #[must_use]
    pub fn may(&self, receiver: &str, sender: &str, capability: &str) -> bool {
        match self.grant(receiver, sender) {
            Some(grant) => grant.capabilities.iter().any(|one| one == capability),
            None => CAPABILITIES.contains(&capability),
        }
    }

    pub(super) fn grant(&self, receiver: &str, sender: &str) -> Option<&Arc<Held<GrantRecord>>> {
        self.grants.get(receiver)?.get(sender)
    }

    /// All invites, in no order.
    pub fn invites(&self) -> impl Iterator<Item = &Arc<Held<InviteRecord>>> {
        self.invites.values()
    }

    /// A file's record, whoever it is for.
    #[must_use]
    pub fn file(&self, id: &str) -> Option<&Arc<Held<FileRecord>>> {
        self.files.get(id)
    }

    /// All files, in no order, whoever they are for.
    pub fn files(&self) -> impl Iterator<Item = &Arc<Held<FileRecord>>> {
        self.files.values()
    }
}
