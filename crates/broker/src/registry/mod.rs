//! The meshes of a broker: who is in them, what they may do, which topics there are and who has their keys.
//!
//! Invariant: what is on disk and what is in memory agree. Changes happen one after the other, each in one transaction
//! with what the audit says of it; memory follows once that is on disk, and only then does anybody hear of it. A change
//! that was begun is finished, also when whoever asked has gone. Reads see one moment and touch no disk.
//!
//! It holds no private key and no topic's key: copies of those are sealed before they come here.

mod believed;
mod change;
mod departure;
mod error;
mod files;
mod grants;
mod groups;
mod invites;
mod join;
pub mod lineage;
mod load;
mod members;
mod mesh;
mod meshes;
mod names;
pub mod records;
mod relief;
mod rotate;
mod route;
mod seals;
mod seen;
mod shards;
mod shared;
mod sponsor;
mod statements;
mod succeed;
mod sweep;
mod topics;
mod update;

use std::collections::HashMap;
use std::sync::Arc;

use hostel_wire::{BelievedTime, BelievingClock, Clock};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::audit::{AuditEvent, AuditRecord};
use crate::engine::{Engine, EngineError};
use records::{CursorRecord, SeenRecord};

pub use change::{Change, What};
pub use error::{JoinError, Refusal, RegistryError};
pub use files::{NewFile, blob_id};
pub use grants::Granted;
pub use invites::NewInvite;
pub use join::{JoinRequest, Joined};
pub use mesh::{Mesh, Wanted};
pub use meshes::{CreatedMesh, NewMesh};
pub use records::{
    Concurrency, FileRecord, Held, InviteRecord, MemberRecord, MeshRecord, Policy, Role, SealRecord, TopicRecord,
};
pub use relief::{Reading, Short};
pub use rotate::Rotated;
pub use route::{Ask, Route};
pub use seals::SealsStored;
pub use seen::Seen;
pub use shared::{By, Stepped, Written};
pub use sweep::Swept;
pub use topics::{Made, Subscribed};

/// Changes that somebody who listens may be behind.
const BACKLOG: usize = 4096;

/// Bounds of what is kept.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// Meshes of the broker.
    pub meshes: usize,
    /// Members of a mesh, without those who have left.
    pub members: usize,
    /// Topics of a mesh.
    pub topics: usize,
    /// Invites of a mesh that are kept.
    pub invites: usize,
    /// Groups a member is in.
    pub groups: usize,
    /// Files of a mesh.
    pub files: usize,
    /// Bytes of all files of a mesh.
    pub file_bytes: u64,
    /// Entries of a mesh's shared state.
    pub state_entries: usize,
    /// Bytes of all their values, as they are stored.
    pub state_bytes: u64,
    /// Tasks of a mesh; of those that are done the oldest make room.
    pub tasks: usize,
    /// Sessions of a member whose keys are remembered.
    pub sessions: usize,
    /// Members that one member vouches for.
    pub wards: usize,
    /// Hours after which one of those is gone if it was not seen.
    pub ward_hours: u64,
    /// Keys of a topic whose copies are kept at most.
    pub epochs: u64,
    /// Days that copies of a key are kept after it ceased to count: as long as there are posts that it opens.
    pub key_days: u64,
    /// Hours that a key which was replaced still leads to its member.
    pub rotation_hours: u64,
    /// Replaced keys of a member that are remembered; as long as there are so many, its key is not replaced again.
    pub retired_keys: usize,
    /// Hours that a file which is not persistent lives.
    pub ephemeral_hours: u64,
    /// Days that those who left, and invites that are over, are remembered.
    pub remember_days: u64,
    /// What a mesh that is made here does with two connections of one key.
    pub concurrency: Concurrency,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            meshes: 1000,
            members: 10_000,
            topics: 1000,
            invites: 1000,
            groups: 64,
            files: 10_000,
            file_bytes: 10 << 30,
            state_entries: 10_000,
            state_bytes: 256 << 20,
            tasks: 10_000,
            sessions: 256,
            wards: 64,
            ward_hours: 24,
            epochs: 1024,
            key_days: 31,
            rotation_hours: 24,
            retired_keys: 256,
            ephemeral_hours: 24,
            remember_days: 60,
            concurrency: Concurrency::default(),
        }
    }
}

/// The meshes of a broker. Cheap to clone.
#[derive(Debug)]
pub struct Registry<E> {
    inner: Arc<Inner<E>>,
}

impl<E> Clone for Registry<E> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

#[derive(Debug)]
struct Inner<E> {
    engine: E,
    clock: Clock,
    /// By which what is old goes.
    ages: Clock,
    /// Where that comes from, and what of it is on disk.
    believing: BelievingClock,
    kept_time: Mutex<Option<BelievedTime>>,
    /// By which what somebody has for a time ends: to what the clock is set changes nothing.
    leases: Clock,
    settings: RegistrySettings,
    meshes: RwLock<HashMap<String, Arc<Mesh>>>,
    /// By mesh and member.
    seen: Mutex<HashMap<(String, String), SeenRecord>>,
    cursors: Mutex<HashMap<(String, String), CursorRecord>>,
    /// One change at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    changes: broadcast::Sender<Change>,
}

impl<E: Engine> Registry<E> {
    /// Reads what is on disk.
    pub async fn open(engine: E, clock: Clock, settings: RegistrySettings) -> Result<Self, RegistryError> {
        let loaded = load::load(&engine).await?;
        let believing = clock.believing();
        believed::resume(&engine, &believing).await?;
        let inner = Inner {
            engine,
            ages: believing.clock(),
            believing,
            kept_time: Mutex::default(),
            leases: clock.unset(),
            clock,
            settings,
            meshes: RwLock::new(loaded.meshes),
            seen: Mutex::new(loaded.seen),
            cursors: Mutex::new(loaded.cursors),
            turn: Arc::default(),
            changes: broadcast::channel(BACKLOG).0,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A mesh as it is now.
    #[must_use]
    pub fn mesh(&self, id: &str) -> Option<Arc<Mesh>> {
        self.inner.meshes.read().get(id).cloned()
    }

    /// A mesh by its slug.
    #[must_use]
    pub fn mesh_by_slug(&self, slug: &str) -> Option<Arc<Mesh>> {
        self.inner.meshes.read().values().find(|mesh| mesh.record.slug == slug).cloned()
    }

    /// All of them, in no order.
    #[must_use]
    pub fn meshes(&self) -> Vec<Arc<Mesh>> {
        self.inner.meshes.read().values().cloned().collect()
    }

    /// What changes from now on. Who falls behind is told so and looks at everything again.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.inner.changes.subscribe()
    }

    /// Where things are kept.
    #[must_use]
    pub fn engine(&self) -> &E {
        &self.inner.engine
    }

    /// Records something that changed nothing: a kick, a suspected clone.
    pub async fn audit(
        &self,
        mesh: &str,
        kind: &str,
        actor: &str,
        subject: &str,
        body: Value,
    ) -> Result<(), RegistryError> {
        let event = self.inner.event(mesh, kind, actor, subject, body);
        Ok(self.inner.engine.audit_append(event).await?)
    }

    /// A mesh's audit after a number, oldest first; for the owner and administrators.
    pub async fn audit_query(
        &self,
        mesh: &str,
        by: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, RegistryError> {
        let snapshot = self.mesh(mesh).ok_or(RegistryError::MeshNotFound)?;
        snapshot.admin(by)?;
        Ok(self.inner.engine.audit_read(mesh, after, limit.clamp(1, 500)).await?)
    }

    /// Carries a change out in its turn, in the order of asking, to its end.
    async fn in_turn<T, R, F>(&self, work: impl FnOnce(Arc<Inner<E>>) -> F) -> Result<T, R>
    where
        F: Future<Output = Result<T, R>> + Send + 'static,
        T: Send + 'static,
        R: Send + From<RegistryError> + 'static,
    {
        // Who goes while it waits has asked for nothing; from here on it is done to the end.
        let turn = Arc::clone(&self.inner.turn).lock_owned().await;
        let work = work(Arc::clone(&self.inner));
        let task = hostel_tasks::spawn(async move {
            let done = work.await;
            drop(turn);
            done
        });
        task.await.unwrap_or_else(|_| Err(R::from(RegistryError::Engine(EngineError::Closed))))
    }
}

impl<E: Engine> Inner<E> {
    fn snapshot(&self, mesh: &str) -> Result<Arc<Mesh>, RegistryError> {
        self.meshes.read().get(mesh).cloned().ok_or(RegistryError::MeshNotFound)
    }

    /// The first entry that nothing that is there yet knows of.
    fn next_seq(&self, mesh: &str) -> u64 {
        self.engine.bounds(mesh).map_or(1, |bounds| bounds.last_seq + 1)
    }

    fn event(&self, mesh: &str, kind: &str, actor: &str, subject: &str, body: Value) -> AuditEvent {
        AuditEvent {
            mesh: mesh.to_owned(),
            kind: kind.to_owned(),
            actor: actor.to_owned(),
            subject: subject.to_owned(),
            body,
            time_ms: self.clock.now_ms(),
        }
    }
}
