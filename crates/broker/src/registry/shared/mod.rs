//! What the members of a mesh keep together: the shared state and the tasks.
//!
//! Invariant: a change is an entry of the mesh's log and the records it changes, in one transaction, made in its turn. So
//! of two who compare and set, or claim, exactly one was first; everybody hears of every change, in its order; and an id
//! that comes again is answered as it was the first time (a claim: while it stands) and changes nothing. Entries of the
//! log go by age, the records stay. Versions come from one counter of the mesh, so that none ever means two things, also
//! not after a removal.
//!
//! Names, values, titles, bodies and results are sealed before they come here, with a key that counts now.

mod leases;
mod links;
mod state;
mod tasks;

use bytes::Bytes;
use hostel_wire::encoding;
use hostel_wire::frames::shared::Boxed;
use hostel_wire::frames::{Kind, Priority};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::RegistryError;
use super::load::parse;
use super::mesh::Mesh;
use super::update::bytes;
use super::{Engine, Inner};
use crate::engine::{Append, AppendError, EngineError, KvOp};

pub use state::Written;
pub use tasks::Stepped;

/// Names of buckets. Keys are the mesh and an id, joined by `/`.
mod bucket {
    /// Mesh: its counters.
    pub(super) const BOOK: &str = "shared";
    /// Mesh, digest of a name: an entry without its value.
    pub(super) const STATE: &str = "state";
    /// Mesh, digest of a name: the sealed value.
    pub(super) const VALUE: &str = "state_value";
    /// Mesh, task: without body and result.
    pub(super) const TASK: &str = "task";
    /// Mesh, task: its sealed body and result.
    pub(super) const CONTENT: &str = "task_content";
    /// End (20 digits), mesh, task: a lease whose end nobody was told of.
    pub(super) const LEASE: &str = "task_lease";
    /// Mesh, epoch (20 digits): an earlier key, sealed with a later one.
    pub(super) const LINK: &str = "shared_link";
}

/// A sealed name or title has this many bytes as base64 at most, and a sealed value, body or result.
const NAME: usize = 2048;
const CONTENT: usize = 96 * 1024;

/// A sealed value of up to so many bytes goes along with the entry of the log; a longer one is asked for.
const ALONG: usize = 8 * 1024;

/// An id of a caller.
const CLIENT_ID: usize = 256;

/// Who changes something, and how long the log keeps it.
#[derive(Debug, Clone)]
pub struct By {
    /// The member.
    pub member: String,
    /// The key of its connection, hex.
    pub key: String,
    /// Its own key, hex.
    pub member_key: String,
    /// When the entry may go, in milliseconds since 1970.
    pub expires_ms: u64,
    /// When its id may be forgotten.
    pub forget_ms: u64,
}

/// A mesh's counters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Book {
    /// The last version that was given.
    version: u64,
    /// Entries of the state, and the bytes of their values.
    entries: usize,
    bytes: u64,
    /// Tasks.
    tasks: usize,
}

/// A change as the log has it.
struct Entry {
    kind: Kind,
    client_id: String,
    fingerprint: [u8; 32],
    /// What readers are told.
    event: Value,
    writes: Vec<KvOp>,
}

fn invalid<T>(text: &str) -> Result<T, RegistryError> {
    Err(RegistryError::Invalid(text.to_owned()))
}

/// The key of a record.
fn key(mesh: &str, id: &str) -> String {
    format!("{mesh}/{id}")
}

/// Reads a fingerprint and looks at an id.
fn request(client_id: &str, fingerprint: &str) -> Result<[u8; 32], RegistryError> {
    if client_id.is_empty() || client_id.len() > CLIENT_ID {
        return invalid("`clientId` must have 1 to 256 bytes");
    }
    match encoding::unhex_array(fingerprint) {
        Some(fingerprint) => Ok(fingerprint),
        None => invalid("`fingerprint` is not 64 hex digits"),
    }
}

fn well_formed(boxed: &Boxed, most: usize) -> bool {
    !boxed.ciphertext.is_empty() && boxed.ciphertext.len() <= most && !boxed.nonce.is_empty() && boxed.nonce.len() <= 64
}

impl Mesh {
    /// Whether boxes are sealed with the key that counts now: who was revoked has all earlier ones.
    fn sealed_now<'a>(&self, boxes: impl IntoIterator<Item = &'a Boxed>) -> Result<(), RegistryError> {
        let general = self.general().ok_or_else(|| RegistryError::TopicNotFound("general".to_owned()))?;
        let counts = |boxed: &Boxed| boxed.epoch == general.epoch && self.has_key(general, boxed.epoch);
        match boxes.into_iter().all(counts) {
            true => Ok(()),
            false => Err(RegistryError::StaleKeyEpoch),
        }
    }
}

impl<E: Engine> Inner<E> {
    async fn record<T: DeserializeOwned>(
        &self,
        bucket: &'static str,
        mesh: &str,
        id: &str,
    ) -> Result<Option<T>, RegistryError> {
        let found = self.engine.get(bucket, &key(mesh, id)).await?;
        found.map(|entry| parse(bucket, &entry)).transpose()
    }

    async fn book(&self, mesh: &str) -> Result<Book, RegistryError> {
        let found = self.engine.get(bucket::BOOK, mesh).await?;
        Ok(found.map(|entry| parse(bucket::BOOK, &entry)).transpose()?.unwrap_or_default())
    }

    /// What the log has said of an id, if it was used: an empty value where the entry itself is gone.
    async fn told(
        &self,
        mesh: &str,
        member: &str,
        client_id: &str,
        fingerprint: &[u8; 32],
    ) -> Result<Option<Value>, RegistryError> {
        let Some(known) = self.engine.lookup(mesh, member, client_id).await? else { return Ok(None) };
        if known.fingerprint != *fingerprint {
            return Err(RegistryError::Reused);
        }
        let entry = self.engine.entry(mesh, &known.id).await?;
        let stored = entry.and_then(|entry| serde_json::from_slice::<Value>(&entry.bytes).ok());
        Ok(Some(stored.and_then(|mut stored| stored.get_mut("eventData").map(Value::take)).unwrap_or_default()))
    }

    /// Writes a change: the log's entry and the records, or nothing. Whether who makes it may was looked at before.
    async fn write_shared(&self, mesh: &Mesh, by: &By, book: &Book, entry: Entry) -> Result<(), RegistryError> {
        let name = mesh.member(&by.member).map(|sender| sender.name.as_str()).unwrap_or_default();
        let Entry { kind, client_id, fingerprint, event, mut writes } = entry;
        writes.push(KvOp::put(bucket::BOOK, mesh.id(), bytes(book)));
        let stored = json!({
            "meshId": mesh.id(),
            "senderPubkey": by.key,
            "senderMemberPubkey": by.member_key,
            "senderMemberId": by.member,
            "senderName": name,
            "priority": Priority::Next,
            "client_message_id": client_id,
            "request_fingerprint": encoding::hex(&fingerprint),
            "kind": kind,
            "eventData": event,
        });
        let append = Append {
            mesh: mesh.id().to_owned(),
            kind,
            dest: "*".to_owned(),
            sender: by.member.clone(),
            client_id,
            origin: None,
            fingerprint,
            priority: Priority::Next,
            audience: Vec::new(),
            bytes: Bytes::from(bytes(&stored)),
            guards: Vec::new(),
            writes,
            gate: None,
            expires_ms: by.expires_ms,
            forget_ms: by.forget_ms,
            now_ms: self.clock.now_ms(),
        };
        match self.engine.append(append).await {
            // A change comes in its turn: nobody can have used its id since that was looked up.
            Ok(_) => Ok(()),
            Err(AppendError::Reused { .. }) => Err(RegistryError::Reused),
            Err(AppendError::Engine(error)) => Err(error.into()),
            Err(AppendError::Full) => Err(RegistryError::LogFull),
            Err(AppendError::Blocked | AppendError::Stale(_)) => Err(EngineError::Closed.into()),
        }
    }
}
