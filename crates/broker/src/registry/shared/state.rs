//! The shared state: values under names, compared and set.
//!
//! Invariant: an entry's version is the one of its last change; who names a version writes only over that one.

use hostel_wire::encoding;
use hostel_wire::frames::Kind;
use hostel_wire::frames::shared::{Boxed, StateEntry, StateSet};
use serde_json::{Value, json};

use super::super::update::bytes;
use super::{ALONG, By, CONTENT, Entry, NAME, bucket, invalid, key, request, well_formed};
use crate::engine::{Engine, KvOp};
use crate::registry::load::parse;
use crate::registry::{Inner, Mesh, Registry, RegistryError};

/// Entries that are asked for at once.
const MOST_KEYS: usize = 64;

/// Entries and bytes that are read at a time.
const PAGE: usize = 1000;
const PAGE_BYTES: usize = 160 * 1024;

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is done.
    Done {
        /// The entry's version; 0: there was nothing to remove.
        version: u64,
        /// It was done before.
        duplicate: bool,
    },
    /// The entry has another version: this one; 0: it is not there.
    Conflict(u64),
}

impl<E: Engine> Registry<E> {
    /// Writes or removes an entry, if it has the version that is named.
    pub async fn state_set(&self, mesh: &str, by: By, set: StateSet) -> Result<Written, RegistryError> {
        let mesh = mesh.to_owned();
        self.in_turn(|inner| async move { inner.state_set(&mesh, &by, set).await }).await
    }

    /// Entries with their values, by their digests; those that are not there are left out. Also how many of the digests
    /// were looked at: as many as fit into one answer, at least one.
    pub async fn state_get(
        &self,
        mesh: &str,
        member: &str,
        keys: &[String],
    ) -> Result<(Vec<StateEntry>, usize), RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        if keys.len() > MOST_KEYS || !keys.iter().all(|key| is_digest(key)) {
            return invalid("`keys` must be up to 64 digests of names");
        }
        let (mut entries, mut size) = (Vec::with_capacity(keys.len()), 0);
        for (looked_at, digest) in keys.iter().enumerate() {
            let found = self.inner.record::<StateEntry>(bucket::STATE, mesh, digest).await?;
            let Some(mut entry) = found.filter(|entry| snapshot.shows_state(&entry.by, member)) else { continue };
            entry.value = self.inner.record::<Boxed>(bucket::VALUE, mesh, digest).await?;
            size += bytes(&entry).len();
            if size > PAGE_BYTES && !entries.is_empty() {
                return Ok((entries, looked_at));
            }
            entries.push(entry);
        }
        Ok((entries, keys.len()))
    }

    /// Entries without their values, in the order of their digests, and whether there are more.
    pub async fn state_list(
        &self,
        mesh: &str,
        member: &str,
        after: Option<&str>,
    ) -> Result<(Vec<StateEntry>, bool), RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        if after.is_some_and(|after| !is_digest(after)) {
            return invalid("`after` is no digest of a name");
        }
        let (prefix, mut after) = (key(mesh, ""), after.map(|after| key(mesh, after)).unwrap_or_default());
        loop {
            let found = self.inner.engine.page(bucket::STATE, &prefix, &after, PAGE, PAGE_BYTES).await?;
            let Some(last) = found.last() else { return Ok((Vec::new(), false)) };
            last.key.clone_into(&mut after);
            let more = !self.inner.engine.page(bucket::STATE, &prefix, &after, 1, 0).await?.is_empty();
            let entries: Result<Vec<StateEntry>, _> = found.iter().map(|entry| parse(bucket::STATE, entry)).collect();
            let mut entries = entries?;
            entries.retain(|entry| snapshot.shows_state(&entry.by, member));
            // Whoever asks goes on behind the last one it was given.
            if !entries.is_empty() || !more {
                return Ok((entries, more));
            }
        }
    }
}

impl Mesh {
    /// Whether a member may read what another wrote into the state.
    pub(in crate::registry) fn shows_state(&self, writer: &str, reader: &str) -> bool {
        writer == reader || self.may(writer, reader, "state-read")
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

impl<E: Engine> Inner<E> {
    async fn state_set(&self, mesh_id: &str, by: &By, set: StateSet) -> Result<Written, RegistryError> {
        let mesh = self.snapshot(mesh_id)?;
        mesh.active_member(&by.member)?;
        let fingerprint = request(&set.client_id, &set.fingerprint)?;
        if !is_digest(&set.key) || encoding::unhex(&set.key).is_none() {
            return invalid("`key` must be the digest of a name");
        }
        if !well_formed(&set.name, NAME) || set.value.as_ref().is_some_and(|value| !well_formed(value, CONTENT)) {
            return invalid("`name` and `value` must be sealed, and not too long");
        }
        // Ids of messages are other ids.
        let client_id = format!("state:{}", set.client_id);
        if let Some(told) = self.told(mesh_id, &by.member, &client_id, &fingerprint).await? {
            let version = match told.pointer("/entry/version").and_then(Value::as_u64) {
                Some(version) => version,
                // The log has let go of it; what is there still says.
                None => self.record::<StateEntry>(bucket::STATE, mesh_id, &set.key).await?.map_or(0, |it| it.version),
            };
            return Ok(Written::Done { version, duplicate: true });
        }
        mesh.sealed_now(set.value.iter().chain([&set.name]))?;
        let old = self.record::<StateEntry>(bucket::STATE, mesh_id, &set.key).await?;
        let have = old.as_ref().map_or(0, |old| old.version);
        if set.if_version.is_some_and(|wanted| wanted != have) {
            return Ok(Written::Conflict(have));
        }
        if set.value.is_none() && have == 0 {
            return Ok(Written::Done { version: 0, duplicate: false });
        }
        let mut book = self.book(mesh_id).await?;
        let before = match &old {
            Some(_) => self.record::<Boxed>(bucket::VALUE, mesh_id, &set.key).await?,
            None => None,
        };
        let size = |value: &Option<Boxed>| value.as_ref().map_or(0, |value| value.ciphertext.len() as u64);
        book.version += 1;
        book.entries = (book.entries + usize::from(set.value.is_some())).saturating_sub(usize::from(have > 0));
        book.bytes = (book.bytes + size(&set.value)).saturating_sub(size(&before));
        let grows = size(&set.value) > size(&before) || have == 0;
        if grows && (book.entries > self.settings.state_entries || book.bytes > self.settings.state_bytes) {
            return Err(RegistryError::Full("the mesh has as much shared state as it may".to_owned()));
        }
        let StateSet { key: digest, name, value, .. } = set;
        let at_ms = self.clock.now_ms();
        let mut entry =
            StateEntry { key: digest, version: book.version, name, value: None, by: by.member.clone(), at_ms };
        let place = key(mesh_id, &entry.key);
        let removed = value.is_none();
        let writes = match &value {
            Some(value) => {
                vec![KvOp::put(bucket::STATE, &place, bytes(&entry)), KvOp::put(bucket::VALUE, &place, bytes(value))]
            }
            None => vec![KvOp::delete(bucket::STATE, &place), KvOp::delete(bucket::VALUE, &place)],
        };
        entry.value = value.filter(|value| value.ciphertext.len() <= ALONG);
        let event = json!({"entry": entry, "removed": removed});
        let change = Entry { kind: Kind::State, client_id, fingerprint, event, writes };
        self.write_shared(&mesh, by, &book, change).await?;
        Ok(Written::Done { version: book.version, duplicate: false })
    }
}
