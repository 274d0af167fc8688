//! A map by text keys of which copies are cheap and stay as they are.
//!
//! Invariant: a change copies one part and shares the others, so the cost of a change does not grow with the map as that of
//! a copy does: with 10,000 entries a part has about 160.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Parts of a map.
const PARTS: usize = 64;

type Part<V> = Arc<HashMap<String, V>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shards<V> {
    /// Empty as long as nothing was put in, else [`PARTS`] of them.
    parts: Arc<[Part<V>]>,
    len: usize,
}

impl<V> Default for Shards<V> {
    fn default() -> Self {
        Self { parts: Arc::default(), len: 0 }
    }
}

impl<V> Clone for Shards<V> {
    fn clone(&self) -> Self {
        Self { parts: Arc::clone(&self.parts), len: self.len }
    }
}

impl<V: PartialEq> PartialEq for Shards<V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

/// Which part a key is in: the same in every process and every copy.
fn place(key: &str) -> usize {
    (BuildHasherDefault::<DefaultHasher>::default().hash_one(key) % PARTS as u64) as usize
}

impl<V> Shards<V> {
    fn part(&self, key: &str) -> Option<&Part<V>> {
        self.parts.get(place(key))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&V> {
        self.part(key)?.get(key)
    }

    pub(crate) fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &V)> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<V: Clone> Shards<V> {
    /// The part of a key, to be changed: others who have it keep what they have.
    fn part_mut(&mut self, key: &str) -> Option<&mut HashMap<String, V>> {
        if self.parts.is_empty() {
            let empty = Part::<V>::default();
            self.parts = (0..PARTS).map(|_| Arc::clone(&empty)).collect();
        }
        let parts = Arc::make_mut(&mut self.parts);
        parts.get_mut(place(key)).map(Arc::make_mut)
    }

    pub(crate) fn insert(&mut self, key: String, value: V) -> Option<V> {
        let before = self.part_mut(&key)?.insert(key, value);
        self.len += usize::from(before.is_none());
        before
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<V> {
        if !self.contains_key(key) {
            return None;
        }
        let before = self.part_mut(key)?.remove(key);
        self.len -= usize::from(before.is_some());
        before
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn a_change_copies_one_part_and_others_keep_what_they_have() {
        let mut map = Shards::default();
        assert!(map.is_empty() && map.get("a").is_none() && map.remove("a").is_none());
        for number in 0..10_000 {
            assert_eq!(map.insert(number.to_string(), number), None);
        }
        let before = map.clone();
        assert!(before == map);
        assert_eq!(map.insert("77".to_owned(), 0), Some(77));
        assert_eq!(map.remove("78"), Some(78));
        assert!(before != map);
        assert_eq!((before.len(), map.len()), (10_000, 9_999));
        assert_eq!(
            (before.get("77"), map.get("77"), before.get("78"), map.get("78")),
            (Some(&77), Some(&0), Some(&78), None)
        );
        let shared = before.parts.iter().zip(map.parts.iter()).filter(|(one, other)| Arc::ptr_eq(one, other)).count();
        assert!(shared >= PARTS - 2, "{shared}");
        assert!(map.parts.iter().all(|part| part.len() < 400), "they are about as large");
        assert_eq!(map.values().copied().sum::<i32>(), (0..10_000).sum::<i32>() - 77 - 78);
        assert_eq!(map.keys().count(), map.iter().count());
    }
}
