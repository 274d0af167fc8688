//! Topics as this daemon knows them: names and ids, what it wants to be subscribed to, and the keys it holds.
//!
//! Invariant: kept over restarts, so that topics resolve, posts are sealed and what came is opened without a broker.
//! What was asked for without a connection is kept until the broker has heard it. A key is used for posting only while
//! its epoch is the topic's own; older keys are kept for reading alone.
//!
//! Broadcasts and groups have no topic of their own and use `general`'s keys.

mod book;
pub(crate) mod keeper;
pub(crate) mod talk;

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use hostel_syncpoint::points;
use hostel_wire::sealed::{RootKey, TopicKey};
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use crate::keep::Kept;
use crate::log::Log;

use book::Book;
pub(crate) use book::{Known, Want};

/// The topic every mesh has, and the name its keys are kept under: its id may not be known yet.
pub(crate) const GENERAL: &str = "general";

/// Asks that may wait for the keeper; more are dropped, and asked again by whoever still needs them.
const MOST_ASKS: usize = 4096;

/// Something the keeper of keys shall see to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ask {
    /// Somebody wants to post: a key of the topic's own epoch, made if nobody has one.
    Post(String),
    /// Something came that only this key opens.
    Read(String, u64),
}

/// Why nothing can be posted to a topic now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// There is no such topic.
    Unknown,
    /// The key is not here yet.
    Missing,
}

/// Topics, wishes and keys.
pub(crate) struct Topics {
    kept: Kept,
    log: Log,
    book: RwLock<Book>,
    /// `general`'s key of epoch 0.
    root: Option<TopicKey>,
    asks: parking_lot::Mutex<BTreeSet<Ask>>,
    asked: Notify,
    /// Keys the broker will not take posts with any more, until the keeper has looked.
    stale: parking_lot::Mutex<HashSet<String>>,
    /// Topics of which the broker has said that there is no such one. That one is in no list may mean many things.
    gone: parking_lot::Mutex<HashSet<String>>,
    /// A broker was set back while we ran.
    again: AtomicBool,
    /// What was known before that, until it is compared with what the broker has.
    before: parking_lot::Mutex<Vec<Known>>,
    /// Rises with every key and every epoch that is learned.
    changed: watch::Sender<u64>,
}

impl Topics {
    /// As they were kept.
    pub(crate) fn load(kept: Kept, log: Log, root: Option<&RootKey>) -> std::io::Result<Self> {
        let book: Book = kept.load()?;
        let (changed, _) = watch::channel(0);
        Ok(Self {
            kept,
            log,
            book: RwLock::new(book),
            root: root.map(TopicKey::derive_general),
            asks: parking_lot::Mutex::default(),
            asked: Notify::new(),
            stale: parking_lot::Mutex::default(),
            gone: parking_lot::Mutex::default(),
            again: AtomicBool::new(false),
            before: parking_lot::Mutex::default(),
            changed,
        })
    }

    /// Changes whenever a key or an epoch does.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn edit<T>(&self, durable: bool, change: impl FnOnce(&mut Book) -> T) -> T {
        let mut book = self.book.write();
        let result = change(&mut book);
        if let Err(error) = points::TOPICS_WRITTEN.reach_if_ok(self.kept.save(&*book, durable)) {
            self.log.warn("topics_not_kept", serde_json::json!({"error": error.to_string()}));
        }
        drop(book);
        self.changed.send_modify(|count| *count += 1);
        result
    }

    /// The name a topic's keys are kept under.
    pub(crate) fn ring(&self, topic_id: &str) -> String {
        let book = self.book.read();
        let general = topic_id == GENERAL || book.topics.get(topic_id).is_some_and(|known| known.name == GENERAL);
        if general { GENERAL.to_owned() } else { topic_id.to_owned() }
    }

    /// The topic's id at the broker, from the name its keys are kept under.
    pub(crate) fn id_of_ring(&self, ring: &str) -> Option<String> {
        let book = self.book.read();
        match ring {
            GENERAL => book.by_name(GENERAL).map(|known| known.id.clone()),
            id => Some(id.to_owned()),
        }
    }

    /// A topic by name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Known> {
        self.book.read().by_name(name).cloned()
    }

    /// A topic by id.
    pub(crate) fn by_id(&self, id: &str) -> Option<Known> {
        self.book.read().topics.get(id).cloned()
    }

    /// All that are known.
    pub(crate) fn all(&self) -> Vec<Known> {
        self.book.read().topics.values().cloned().collect()
    }

    /// The broker's whole list: what it does not name is gone.
    pub(crate) fn learn_all(&self, topics: Vec<Known>) {
        // Mostly nothing is new, and nothing has to be written.
        let same = {
            let book = self.book.read();
            topics.len() == book.topics.len() && topics.iter().all(|known| book.topics.get(&known.id) == Some(known))
        };
        if same {
            return;
        }
        {
            let mut gone = self.gone.lock();
            gone.retain(|id| topics.iter().all(|known| known.id != *id));
        }
        self.edit(false, |book| {
            let named: BTreeSet<&str> = topics.iter().map(|known| known.id.as_str()).collect();
            book.topics.retain(|id, _| named.contains(id.as_str()));
            for known in topics {
                book.learn(known);
            }
        });
    }

    /// One topic as the broker has it now.
    pub(crate) fn learn(&self, known: Known) {
        self.gone.lock().remove(&known.id);
        self.edit(true, |book| book.learn(known));
    }

    /// A topic is gone: the broker has said so.
    pub(crate) fn forget(&self, topic_id: &str) {
        {
            let mut gone = self.gone.lock();
            if gone.len() >= MOST_ASKS {
                // Whoever still needs one of them asks the broker again.
                gone.clear();
            }
            gone.insert(topic_id.to_owned());
        }
        self.edit(false, |book| drop(book.topics.remove(topic_id)));
    }

    /// Whether the broker has said that there is no such topic.
    pub(crate) fn is_gone(&self, topic_id: &str) -> bool {
        self.gone.lock().contains(topic_id)
    }

    /// The topic has come to this epoch.
    pub(crate) fn raise(&self, topic_id: &str, epoch: u64) {
        let known = self.book.read().topics.get(topic_id).is_some_and(|known| known.epoch < epoch);
        if known {
            self.edit(false, |book| {
                if let Some(known) = book.topics.get_mut(topic_id) {
                    known.epoch = epoch;
                }
            });
        }
    }

    /// Notes a wish; the broker hears it when it can.
    pub(crate) fn want(&self, name: &str, subscribed: bool) -> bool {
        self.edit(true, |book| book.want(name, subscribed))
    }

    /// Wishes the broker has not heard.
    pub(crate) fn wants(&self) -> Vec<(String, Want)> {
        self.book.read().wants.iter().map(|(name, want)| (name.clone(), want.clone())).collect()
    }

    /// The broker has heard this wish, if it is still the same.
    pub(crate) fn heard(&self, name: &str, subscribed: bool) {
        self.edit(true, |book| {
            if book.wants.get(name).is_some_and(|want| want.subscribed == subscribed) {
                book.wants.remove(name);
            }
            if let Some(id) = book.by_name(name).map(|known| known.id.clone())
                && let Some(known) = book.topics.get_mut(&id)
            {
                known.subscribed = subscribed;
            }
        });
    }

    /// The broker will not have this wish, if it is still the same; what it has stays as it is.
    pub(crate) fn refused(&self, name: &str, subscribed: bool) {
        self.edit(true, |book| {
            if book.wants.get(name).is_some_and(|want| want.subscribed == subscribed) {
                book.wants.remove(name);
            }
        });
    }

    /// A key, for opening what was sealed in its epoch.
    pub(crate) fn key(&self, ring: &str, epoch: u64) -> Option<TopicKey> {
        let kept = self.book.read().key(ring, epoch);
        kept.or_else(|| if ring == GENERAL && epoch == 0 { self.root.clone() } else { None })
    }

    /// All keys that are here, with where they belong.
    pub(crate) fn keys(&self) -> Vec<(String, u64, TopicKey)> {
        self.book.read().keys()
    }

    /// The key posts must be sealed with, and its epoch.
    pub(crate) fn posting_key(&self, ring: &str) -> Result<(u64, TopicKey), NoKey> {
        if self.stale.lock().contains(ring) {
            return Err(NoKey::Missing);
        }
        let epoch = {
            let book = self.book.read();
            match ring {
                GENERAL => book.by_name(GENERAL).map_or(0, |known| known.epoch),
                id => match book.topics.get(id) {
                    Some(known) => known.epoch,
                    // Only the broker's own word for it gives a post up.
                    None if self.gone.lock().contains(id) => return Err(NoKey::Unknown),
                    None => return Err(NoKey::Missing),
                },
            }
        };
        self.key(ring, epoch).map(|key| (epoch, key)).ok_or(NoKey::Missing)
    }

    /// Takes a key; `false` if there was one already. With a broker that was set back another one may have been made for
    /// the same epoch since: then that counts.
    pub(crate) fn add_key(&self, ring: &str, epoch: u64, key: TopicKey) -> bool {
        let known = self.key(ring, epoch);
        if known.is_some_and(|known| known == key || !self.again.load(Ordering::Relaxed)) {
            return false;
        }
        self.edit(true, |book| book.add_key(ring, epoch, key));
        true
    }

    /// The broker is not as it was: what it said of epochs counts no more, and no key is posted with before it is asked.
    /// What we had subscribed to is a wish again, for it may have forgotten that. A topic that was not for everybody is
    /// none: it would be made anew for everybody.
    pub(crate) fn start_again(&self) {
        self.again.store(true, Ordering::Relaxed);
        let before: Vec<Known> = self.edit(true, |book| {
            let before: Vec<Known> = book.topics.values().cloned().collect();
            let read = before.iter().filter(|known| known.subscribed && known.name != GENERAL);
            for known in read.filter(|known| known.visibility == "public") {
                if !book.wants.contains_key(&known.name) {
                    book.want(&known.name, true);
                }
            }
            book.topics.values_mut().for_each(|known| known.epoch = 0);
            before
        });
        let rings: Vec<String> = before.iter().map(|known| self.ring(&known.id)).collect();
        self.stale.lock().extend(rings);
        *self.before.lock() = before;
    }

    /// Topics that were known when the broker was set back and that it does not have any more. Says each once.
    pub(crate) fn lost(&self) -> Vec<Known> {
        let before = std::mem::take(&mut *self.before.lock());
        let book = self.book.read();
        before.into_iter().filter(|known| !book.topics.contains_key(&known.id)).collect()
    }

    /// The broker wants another key for posts: the keeper shall look.
    pub(crate) fn stale(&self, ring: &str) {
        self.stale.lock().insert(ring.to_owned());
        self.ask(Ask::Post(ring.to_owned()));
    }

    /// The keeper has looked: the key of the topic's own epoch may be used, if it is here.
    fn fresh(&self, ring: &str) {
        self.stale.lock().remove(ring);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Asks the keeper for something.
    pub(crate) fn ask(&self, ask: Ask) {
        let mut asks = self.asks.lock();
        if asks.len() < MOST_ASKS {
            asks.insert(ask);
        }
        drop(asks);
        self.asked.notify_one();
    }

    /// What was asked since the last time.
    fn take_asks(&self) -> Vec<Ask> {
        std::mem::take(&mut *self.asks.lock()).into_iter().collect()
    }

    /// Subscribed topics whose key is not here.
    pub(crate) fn unreadable(&self) -> Vec<(String, u64)> {
        let wanted: Vec<(String, u64)> = {
            let book = self.book.read();
            let subscribed = book.topics.values().filter(|known| known.subscribed || known.name == GENERAL);
            subscribed.map(|known| (known.id.clone(), known.epoch)).collect()
        };
        let rings = wanted.into_iter().map(|(id, epoch)| (self.ring(&id), epoch));
        rings.filter(|(ring, epoch)| self.key(ring, *epoch).is_none()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(id: &str, name: &str, epoch: u64) -> Known {
        Known { id: id.into(), name: name.into(), epoch, ..Known::default() }
    }

    #[test]
    fn general_has_a_key_from_the_start_and_loses_it_with_its_epoch() {
        let root = RootKey::generate();
        let topics = Topics::load(Kept::new(None, "t"), Log::silent(), Some(&root)).unwrap();
        assert_eq!(topics.posting_key(GENERAL).map(|(epoch, _)| epoch), Ok(0));
        topics.learn(known("g1", "general", 1));
        assert_eq!(topics.posting_key(GENERAL).map(|(epoch, _)| epoch), Err(NoKey::Missing));
        assert_eq!(topics.ring("g1"), GENERAL);
        assert!(topics.key(GENERAL, 0).is_some(), "old posts stay readable");
        assert!(topics.add_key(GENERAL, 1, TopicKey::generate()));
        assert!(!topics.add_key(GENERAL, 1, TopicKey::generate()), "the first key stays");
        assert_eq!(topics.posting_key(GENERAL).map(|(epoch, _)| epoch), Ok(1));
        assert_eq!(topics.posting_key("t9").map(|(epoch, _)| epoch), Err(NoKey::Missing));
    }

    #[test]
    fn a_topic_is_gone_when_the_broker_says_so_and_not_before() {
        let topics = Topics::load(Kept::new(None, "t"), Log::silent(), None).unwrap();
        let posting = |id: &str| topics.posting_key(id).map(|(epoch, _)| epoch);
        topics.learn(known("t1", "alerts", 0));
        topics.learn_all(vec![known("t2", "other", 0)]);
        assert_eq!(posting("t1"), Err(NoKey::Missing), "a list without it gives no post up");
        topics.forget("t1");
        assert_eq!(posting("t1"), Err(NoKey::Unknown));
        topics.learn(known("t1", "alerts", 0));
        assert_eq!(posting("t1"), Err(NoKey::Missing), "it is back, without a key");
    }

    #[test]
    fn wishes_and_keys_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let load = || Topics::load(Kept::new(Some(dir.path()), "topics.json"), Log::silent(), None).unwrap();
        let topics = load();
        topics.learn(known("t1", "alerts", 2));
        topics.want("alerts", true);
        let key = TopicKey::generate();
        topics.add_key("t1", 2, key.clone());
        let topics = load();
        assert_eq!(topics.wants().len(), 1);
        assert_eq!(topics.posting_key("t1").unwrap().1.as_bytes(), key.as_bytes());
        topics.heard("alerts", false);
        assert_eq!(topics.wants().len(), 1, "another wish was heard");
        topics.heard("alerts", true);
        assert!(topics.wants().is_empty() && topics.by_name("alerts").unwrap().subscribed);
        topics.want("alerts", false);
        topics.refused("alerts", true);
        assert_eq!(topics.wants().len(), 1, "another wish was refused");
        topics.refused("alerts", false);
        assert!(topics.wants().is_empty() && topics.by_name("alerts").unwrap().subscribed, "it is as it was");
    }
}
