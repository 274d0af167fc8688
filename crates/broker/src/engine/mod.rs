//! What a broker needs of a place to keep things: one log per mesh, records with revisions, blobs, an audit trail.
//!
//! Invariant: an entry is stored once, under a number that rises strictly within its mesh, together with the record that
//! its sender has used its id; both are on disk before anybody hears of either. What is said here holds for every engine,
//! the embedded one ([`SqliteEngine`]) and those that span machines.
//!
//! It knows no frame, no member and no key: who may do what, and who sees what, is decided above.

mod blob;
mod sqlite;
mod types;

use std::future::Future;
use std::sync::Arc;

use tokio::io::AsyncRead;
use tokio::sync::{Notify, broadcast, watch};

use crate::audit::{AuditEvent, AuditRecord, Verified};

pub use blob::{BlobError, BlobInfo, BlobSink};
pub use sqlite::{EngineOptions, FileBlob, SqliteEngine, renew_epochs};
pub use types::{
    Append, AppendError, AppendTicket, Appended, Bounds, EngineError, Entry, Gate, Guard, HistoryQuery, Known, KvBatch,
    KvChange, KvCommitted, KvEntry, KvError, KvOp, Pruned, Room,
};

/// Reads a blob.
pub type BlobReader = Box<dyn AsyncRead + Send + Unpin>;

/// A place where a broker keeps things. Cheap to clone.
pub trait Engine: Clone + Send + Sync + 'static {
    /// A blob that is being written.
    type Blob: BlobSink;

    /// Which broker this is; made with its files.
    fn broker_id(&self) -> String;

    // The log.

    /// Makes a mesh's log if there is none, with an epoch of its own.
    fn ensure_log(&self, mesh: &str) -> impl Future<Output = Result<Bounds, EngineError>> + Send;

    /// Gives a mesh's log another epoch: it was put back to an earlier state, and whoever has read it begins anew.
    fn renew_epoch(&self, mesh: &str) -> impl Future<Output = Result<Bounds, EngineError>> + Send;

    /// Puts an entry in line and returns; the ticket tells when it is on disk. Entries get their numbers in the order in
    /// which they were put in line. The id is looked up first (B0), the guards are checked next (B2), both inside the
    /// transaction that writes: a duplicate is told as one whatever the guards say.
    fn submit_append(&self, append: Append) -> impl Future<Output = Result<AppendTicket, EngineError>> + Send;

    /// Appends and waits until it is on disk.
    fn append(&self, append: Append) -> impl Future<Output = Result<Appended, AppendError>> + Send {
        async move { self.submit_append(append).await?.done().await }
    }

    /// What became of an id of a sender, if it was ever used. Cheap for ids that were used lately; others cost a read.
    fn lookup(
        &self,
        mesh: &str,
        sender: &str,
        client_id: &str,
    ) -> impl Future<Output = Result<Option<Known>, EngineError>> + Send;

    /// Entries after a number, in order: at most `limit`, and no more once `max_bytes` are reached, but always one if
    /// there is one. Recent ones come from memory.
    fn read(
        &self,
        mesh: &str,
        after_seq: u64,
        limit: usize,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Vec<Arc<Entry>>, EngineError>> + Send;

    /// Urgent entries (`now`) after a number and up to another, in order; bounded as in [`read`](Engine::read).
    fn read_urgent(
        &self,
        mesh: &str,
        after_seq: u64,
        up_to_seq: u64,
        limit: usize,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Vec<Arc<Entry>>, EngineError>> + Send;

    /// Older entries, newest first.
    fn history(
        &self,
        mesh: &str,
        query: HistoryQuery,
    ) -> impl Future<Output = Result<Vec<Arc<Entry>>, EngineError>> + Send;

    /// An entry by its id.
    fn entry(&self, mesh: &str, id: &str) -> impl Future<Output = Result<Option<Arc<Entry>>, EngineError>> + Send;

    /// Which entries there are; `None` if the mesh has no log. From memory.
    fn bounds(&self, mesh: &str) -> Option<Bounds>;

    /// The number of the last entry on disk, as it rises.
    fn tail(&self, mesh: &str) -> Option<watch::Receiver<u64>>;

    /// Removes entries, ids and records of the audit whose time has come, a batch per call; `more` says that there is more
    /// to do.
    fn prune(&self, now_ms: u64) -> impl Future<Output = Result<Pruned, EngineError>> + Send;

    /// How much a mesh's log takes with the ids it remembers, and how much it may; `None` if it has no log. From memory.
    fn room(&self, mesh: &str) -> Option<Room>;

    /// Rings when a log has become nearly full ([`Room::is_short`]), also while nobody waits.
    fn pressed(&self) -> Arc<Notify>;

    /// Removes entries from a log's beginning, a batch per call, until it takes no more than so many bytes; none after
    /// this number. Their ids stay. `more` says that there is more to remove.
    fn trim(&self, mesh: &str, up_to_seq: u64, bytes: u64) -> impl Future<Output = Result<Pruned, EngineError>> + Send;

    // Records. Every write gives a revision that is higher than all before it.

    /// One record.
    fn get(&self, bucket: &str, key: &str) -> impl Future<Output = Result<Option<KvEntry>, EngineError>> + Send;

    /// All records whose key begins so, in the order of their keys.
    fn scan(&self, bucket: &str, prefix: &str) -> impl Future<Output = Result<Vec<KvEntry>, EngineError>> + Send;

    /// Records whose key begins so and comes after another key, in the order of their keys: at most `limit`, and no more
    /// once `max_bytes` are reached, but always one if there is one.
    fn page(
        &self,
        bucket: &str,
        prefix: &str,
        after: &str,
        limit: usize,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Vec<KvEntry>, EngineError>> + Send;

    /// Several writes and what the audit says of them: all of them or, if a comparison fails, none.
    fn commit(&self, batch: KvBatch) -> impl Future<Output = Result<KvCommitted, KvError>> + Send;

    /// Writes a record whatever is there. The answer is its revision.
    fn put(&self, bucket: &str, key: &str, value: Vec<u8>) -> impl Future<Output = Result<u64, KvError>> + Send {
        let batch = KvBatch::of([KvOp::put(bucket, key, value)]);
        async move { Ok(self.commit(batch).await?.revision) }
    }

    /// Writes a record if it still has this revision; 0: if there is none.
    fn cas(
        &self,
        bucket: &str,
        key: &str,
        revision: u64,
        value: Vec<u8>,
    ) -> impl Future<Output = Result<u64, KvError>> + Send {
        let batch = KvBatch::of([KvOp::check(bucket, key, revision), KvOp::put(bucket, key, value)]);
        async move { Ok(self.commit(batch).await?.revision) }
    }

    /// Removes a record, if there is one.
    fn delete(&self, bucket: &str, key: &str) -> impl Future<Output = Result<(), KvError>> + Send {
        let batch = KvBatch::of([KvOp::delete(bucket, key)]);
        async move { self.commit(batch).await.map(drop) }
    }

    /// Changes of records from now on. Who falls behind is told so and reads again.
    fn watch(&self) -> broadcast::Receiver<KvChange>;

    // Blobs.

    /// Begins a blob of at most so many bytes. It is there once it is finished, and leaves nothing if it is not.
    fn blob_create(&self, id: &str, max_bytes: u64) -> impl Future<Output = Result<Self::Blob, BlobError>> + Send;

    /// Opens a blob, from a byte on.
    fn blob_open(&self, id: &str, from: u64) -> impl Future<Output = Result<(BlobInfo, BlobReader), BlobError>> + Send;

    /// Removes a blob, if there is one.
    fn blob_delete(&self, id: &str) -> impl Future<Output = Result<(), BlobError>> + Send;

    /// Ids of blobs that are older than this, at most so many.
    fn blob_older(&self, than_ms: u64, limit: usize) -> impl Future<Output = Result<Vec<String>, BlobError>> + Send;

    // The audit.

    /// Writes a record behind the last one. What changes records is better told in the same [`commit`](Engine::commit).
    fn audit_append(&self, event: AuditEvent) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// A mesh's records after a number, oldest first.
    fn audit_read(
        &self,
        mesh: &str,
        after: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<AuditRecord>, EngineError>> + Send;

    /// Looks through all that is kept and finds the first record that is not as it was written.
    fn audit_verify(&self) -> impl Future<Output = Result<Verified, EngineError>> + Send;

    /// Lets what stands in line be written, and nothing after it.
    fn close(&self) -> impl Future<Output = ()> + Send;
}
