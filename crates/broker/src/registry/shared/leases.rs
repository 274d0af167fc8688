//! Claims that end with their time: everybody hears that the task can be had again.
//!
//! Invariant: each lease that ends is told once, whatever is restarted in between. It stands in an index from the moment it
//! is given, and is taken out of there together with the entry of the log that tells its end. Whoever claims a task whose
//! time is over, before that was told, has it told first.
//!
//! The record still names who had it: who is late may complete it, as long as nobody else has taken it on.

use hostel_wire::frames::Kind;
use hostel_wire::frames::shared::{TaskEntry, TaskStatus};
use hostel_wire::ids;
use serde_json::json;

use super::super::update::bytes;
use super::tasks::as_it_stands;
use super::{By, Entry, bucket, key};
use crate::engine::{Engine, KvBatch, KvOp};
use crate::registry::{Inner, Registry, RegistryError};

/// Leases that are looked at per call.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 1024 * 1024;

/// A lease as the index has it: when it ends, of which mesh, and of which task. In the order of their ends.
struct Lease {
    until_ms: u64,
    mesh: String,
    task: String,
}

impl Lease {
    fn of(mesh: &str, task: &TaskEntry) -> Option<Self> {
        let until_ms = task.lease_until_ms.filter(|_| task.status == TaskStatus::Claimed)?;
        Some(Self { until_ms, mesh: mesh.to_owned(), task: task.id.clone() })
    }

    fn read(place: &str) -> Option<Self> {
        let mut parts = place.splitn(3, '/');
        let (until_ms, mesh, task) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
        Some(Self { until_ms, mesh: mesh.to_owned(), task: task.to_owned() })
    }

    fn place(&self) -> String {
        format!("{:020}/{}/{}", self.until_ms, self.mesh, self.task)
    }
}

/// What the index needs when a task changes.
pub(super) fn noted(mesh: &str, before: &TaskEntry, after: &TaskEntry) -> Vec<KvOp> {
    let gone = Lease::of(mesh, before).map(|lease| KvOp::delete(bucket::LEASE, &lease.place()));
    let given = Lease::of(mesh, after).map(|lease| KvOp::put(bucket::LEASE, &lease.place(), b"{}".to_vec()));
    gone.into_iter().chain(given).collect()
}

impl<E: Engine> Registry<E> {
    /// What time it is for leases.
    #[must_use]
    pub fn leases_ms(&self) -> u64 {
        self.inner.leases.now_ms()
    }

    /// Tells of leases that are over, in entries that are kept for so long, and says when the next one will be.
    pub async fn task_leases(&self, expires_ms: u64, forget_ms: u64) -> Result<Option<u64>, RegistryError> {
        let found = self.inner.engine.page(bucket::LEASE, "", "", PAGE, PAGE_BYTES).await?;
        let now = self.inner.leases.now_ms();
        let mut failed = None;
        for entry in &found {
            let place = entry.key.clone();
            if Lease::read(&place).is_some_and(|lease| lease.until_ms > now) {
                return failed.map_or_else(|| Ok(Lease::read(&place).map(|lease| lease.until_ms)), Err);
            }
            let told = self.in_turn(|inner| async move { inner.lease_over(&place, expires_ms, forget_ms).await });
            // One that cannot be told does not hold up the others; it is tried again.
            failed = told.await.err().or(failed);
        }
        match failed {
            Some(error) => Err(error),
            None => Ok((found.len() == PAGE).then_some(now)),
        }
    }
}

impl<E: Engine> Inner<E> {
    /// The same for a task that somebody is about to change; in its turn.
    pub(super) async fn lease_over_of(&self, mesh: &str, by: &By, task: &TaskEntry) -> Result<bool, RegistryError> {
        let now = self.leases.now_ms();
        match Lease::of(mesh, task).filter(|lease| lease.until_ms <= now) {
            Some(lease) => self.lease_over(&lease.place(), by.expires_ms, by.forget_ms).await,
            None => Ok(false),
        }
    }

    /// A lease is over; whether anybody was told.
    async fn lease_over(&self, place: &str, expires_ms: u64, forget_ms: u64) -> Result<bool, RegistryError> {
        if self.engine.get(bucket::LEASE, place).await?.is_none() {
            return Ok(false);
        }
        let gone = KvOp::delete(bucket::LEASE, place);
        let still = match Lease::read(place) {
            Some(lease) => self.still_held(&lease).await?,
            None => None,
        };
        let Some((mesh, mut task)) = still else {
            self.engine.commit(KvBatch::of([gone])).await?;
            return Ok(false);
        };
        let mut book = self.book(mesh.id()).await?;
        book.version += 1;
        task.version = book.version;
        let claimer = task.claimed_by.clone().unwrap_or_default();
        let pubkey = mesh.member(&claimer).map(|member| member.pubkey.clone()).unwrap_or_default();
        let now = self.leases.now_ms();
        let writes = vec![KvOp::put(bucket::TASK, &key(mesh.id(), &task.id), bytes(&task)), gone];
        let event = json!({"step": "released", "leaseOver": true, "task": as_it_stands(&mesh, task, now)});
        // Nobody can know this id, so nobody can have used it.
        let client_id = format!("lease:{}", ids::ulid(now));
        let change = Entry { kind: Kind::Task, client_id, fingerprint: [0; 32], event, writes };
        let by = By { member: claimer, key: pubkey.clone(), member_key: pubkey, expires_ms, forget_ms };
        self.write_shared(&mesh, &by, &book, change).await?;
        Ok(true)
    }

    /// The task, if it is this lease that it is still claimed with.
    async fn still_held(
        &self,
        lease: &Lease,
    ) -> Result<Option<(std::sync::Arc<super::Mesh>, TaskEntry)>, RegistryError> {
        let Ok(mesh) = self.snapshot(&lease.mesh) else { return Ok(None) };
        let task: Option<TaskEntry> = self.record(bucket::TASK, &lease.mesh, &lease.task).await?;
        let same = |task: &TaskEntry| Lease::of(&lease.mesh, task).is_some_and(|of| of.until_ms == lease.until_ms);
        Ok(task.filter(same).map(|task| (mesh, task)))
    }
}
