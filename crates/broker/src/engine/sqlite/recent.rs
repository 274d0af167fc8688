//! Ids that were used lately, so that a sender who asks again after a broken connection costs no disk.
//!
//! Invariant: what is here is on disk; what is not here may be. At most as many as were asked for are kept: the older half
//! goes when the younger one is full.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use super::super::types::Known;

/// Stands for log, sender and id.
pub(super) type Key = [u8; 16];

/// Nobody can choose ids so that two have one key.
pub(super) fn key(log: i64, sender: &str, client_id: &str) -> Key {
    let mut hash = Sha256::new();
    hash.update(log.to_le_bytes());
    hash.update((sender.len() as u64).to_le_bytes());
    hash.update(sender);
    hash.update(client_id);
    let digest = hash.finalize();
    let mut key = [0; 16];
    key.copy_from_slice(&digest[..16]);
    key
}

pub(super) struct Recent {
    half: usize,
    young: HashMap<Key, Known>,
    old: HashMap<Key, Known>,
}

impl Recent {
    pub(super) fn new(most: usize) -> Self {
        Self { half: (most / 2).max(1), young: HashMap::new(), old: HashMap::new() }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Known> {
        self.young.get(key).or_else(|| self.old.get(key)).cloned()
    }

    pub(super) fn put(&mut self, key: Key, known: Known) {
        if self.young.len() >= self.half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }

    /// Forgets everything: some of it is about to be forgotten on disk.
    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}
