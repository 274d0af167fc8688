//! The embedded engine: one SQLite file, one writer, blobs as files beside it.
//!
//! Invariant: nothing is told before it is on disk (`synchronous = FULL`), and what memory says (the bounds of a log, its
//! newest entries, ids used lately) is what is on disk, never more.
//!
//! It decides nothing about members or messages; see the interface.

mod append;
mod audience;
mod audit;
mod blobs;
mod kv;
mod log;
mod place;
mod recent;
mod retention;
mod ring;
mod room;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hostel_store::{Options, Schema, Store, Synchronous};
use hostel_syncpoint::points;
use hostel_wire::{encoding, ids, random};
use parking_lot::{Mutex, RwLock};
use rusqlite::{OptionalExtension as _, Transaction, params};
use tokio::sync::{Notify, Semaphore, broadcast, mpsc, watch};

use super::blob::{BlobError, BlobInfo};
use super::types::{
    Append, AppendTicket, Bounds, EngineError, Entry, HistoryQuery, Known, KvBatch, KvChange, KvCommitted, KvEntry,
    KvError, KvOp, Pruned, Room,
};
use super::{BlobReader, Engine};
use crate::audit::{AuditEvent, AuditRecord, CHAIN, Verified};
use append::Line;
use recent::Recent;
use ring::Ring;

pub use blobs::FileBlob;

/// Gives every log of a database that was put back from a copy another epoch, as if it were a new one: members then
/// read it from its beginning, and send again what it may have lost. Nobody may have it open.
pub fn renew_epochs(database: &std::path::Path) -> Result<usize, String> {
    let renew = || {
        let connection = rusqlite::Connection::open_with_flags(database, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.execute("UPDATE logs SET epoch = lower(hex(randomblob(16)))", [])
    };
    renew().map_err(|error: rusqlite::Error| error.to_string())
}

/// The steps of `broker.db`.
const SCHEMA: Schema = Schema {
    name: "broker.db",
    steps: &[
        include_str!("migrations/0001_broker.sql"),
        include_str!("migrations/0002_bytes.sql"),
        include_str!("migrations/0003_audit_base.sql"),
        include_str!("migrations/0004_direct.sql"),
        include_str!("migrations/0005_audiences.sql"),
    ],
};

/// Appends that may wait, in number; in bytes see [`EngineOptions::line_bytes`].
const LINE: usize = 4096;

/// Changes of records that somebody who watches may be behind.
const CHANGES: usize = 4096;

/// How long one look into the past may take: deliveries need the connections for reading, too.
const HISTORY_LIMIT: Duration = Duration::from_secs(5);

/// How long closing waits for the writer.
const CLOSING: Duration = Duration::from_secs(10);

/// Where things are, and bounds.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// The database.
    pub db: PathBuf,
    /// The directory of blobs.
    pub blobs: PathBuf,
    /// Everything happens on the caller: for simulations.
    pub inline: bool,
    /// Pages each connection keeps in memory, in KiB.
    pub cache_kib: u32,
    /// Ids used lately that are kept in memory.
    pub recent_ids: usize,
    /// Bytes of the newest entries that are kept in memory, over all meshes.
    pub recent_bytes: usize,
    /// Bytes of appends that may wait for the writer; more make their askers wait.
    pub line_bytes: usize,
    /// Bytes that a mesh's log and its remembered ids may take; 0: any number.
    pub log_bytes: u64,
    /// Records of the audit that are kept; 0: all.
    pub audit_records: u64,
    /// How long a record of the audit is kept, in days; 0: for ever.
    pub audit_days: u32,
}

impl EngineOptions {
    /// With the usual bounds.
    #[must_use]
    pub fn at(db: PathBuf, blobs: PathBuf) -> Self {
        Self {
            db,
            blobs,
            inline: false,
            cache_kib: 4096,
            recent_ids: 16_384,
            recent_bytes: 16 << 20,
            line_bytes: 16 << 20,
            log_bytes: 16 << 30,
            audit_records: 100_000,
            audit_days: 365,
        }
    }
}

/// The embedded engine. Cheap to clone.
#[derive(Clone)]
pub struct SqliteEngine {
    state: Arc<State>,
    lines: mpsc::Sender<Line>,
    /// Room for appends in the line, in KiB.
    room: Arc<Semaphore>,
    line_kib: u32,
}

/// What the engine and its appending task share.
struct State {
    store: Store,
    logs: RwLock<HashMap<String, Arc<Log>>>,
    recent: Mutex<Recent>,
    recent_bytes: usize,
    changes: broadcast::Sender<KvChange>,
    blobs: blobs::Blobs,
    broker_id: String,
    log_bytes: u64,
    audit: audit::Keep,
    /// A log is nearly full.
    pressed: Arc<Notify>,
}

/// A log as memory knows it.
struct Log {
    no: i64,
    epoch: RwLock<String>,
    first: AtomicU64,
    /// What entries and ids take, as [`room`] counts it.
    bytes: AtomicU64,
    /// The last entry on disk.
    tail: watch::Sender<u64>,
    ring: Mutex<Ring>,
}

impl Log {
    fn new(no: i64, epoch: String, first: u64, last: u64, bytes: u64) -> Self {
        let (tail, first, bytes) = (watch::Sender::new(last), AtomicU64::new(first), AtomicU64::new(bytes));
        Self { no, epoch: RwLock::new(epoch), first, bytes, tail, ring: Mutex::default() }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            epoch: self.epoch.read().clone(),
            first_seq: self.first.load(Ordering::Acquire),
            last_seq: self.last(),
        }
    }

    fn last(&self) -> u64 {
        *self.tail.borrow()
    }

    fn keeps(&self, seq: u64) -> bool {
        seq >= self.first.load(Ordering::Acquire)
    }
}

impl SqliteEngine {
    /// Opens the files, makes them if they are missing. Needs a tokio runtime, in which appends are gathered.
    pub async fn open(options: EngineOptions) -> Result<Self, EngineError> {
        let store_options = Options {
            synchronous: Synchronous::Full,
            cache_kib: options.cache_kib,
            inline: options.inline,
            incremental_vacuum: true,
            ..Options::default()
        };
        let store = Store::open(&options.db, &SCHEMA, store_options)?;
        let blobs = blobs::Blobs::open(options.blobs).map_err(|error| EngineError::Unreadable(error.to_string()))?;
        let broker_id = store.write(points::BROKER_IDENTITY, broker_id).await?;
        let logs = store.read(log::all).await?;
        let state = Arc::new(State {
            store,
            logs: RwLock::new(logs.into_iter().map(|(mesh, log)| (mesh, Arc::new(log))).collect()),
            recent: Mutex::new(Recent::new(options.recent_ids)),
            recent_bytes: options.recent_bytes,
            changes: broadcast::channel(CHANGES).0,
            blobs,
            broker_id,
            log_bytes: options.log_bytes,
            audit: audit::Keep { records: options.audit_records, days: options.audit_days },
            pressed: Arc::default(),
        });
        let (lines, waiting) = mpsc::channel(LINE);
        hostel_tasks::spawn(append::run(Arc::clone(&state), waiting));
        let line_kib = u32::try_from(options.line_bytes / 1024).unwrap_or(u32::MAX).max(1);
        let room = Arc::new(Semaphore::new(line_kib as usize));
        Ok(Self { state, lines, room, line_kib })
    }

    fn log(&self, mesh: &str) -> Result<Arc<Log>, EngineError> {
        self.state.logs.read().get(mesh).cloned().ok_or_else(|| EngineError::NoLog(mesh.to_owned()))
    }
}

/// The broker's id, made with its database.
fn broker_id(transaction: &Transaction<'_>) -> rusqlite::Result<String> {
    let mut known = transaction.prepare_cached("SELECT value FROM kv WHERE bucket = 'meta' AND key = 'broker_id'")?;
    let known = known.query_row([], |row| row.get::<_, Vec<u8>>(0)).optional()?;
    if let Some(id) = known.and_then(|id| String::from_utf8(id).ok()) {
        return Ok(id);
    }
    let id = encoding::hex(&random::bytes::<16>());
    kv::write(transaction, &[KvOp::put("meta", "broker_id", id.clone().into_bytes())])?;
    Ok(id)
}

impl Engine for SqliteEngine {
    type Blob = FileBlob;

    fn broker_id(&self) -> String {
        self.state.broker_id.clone()
    }

    async fn ensure_log(&self, mesh: &str) -> Result<Bounds, EngineError> {
        if let Ok(log) = self.log(mesh) {
            return Ok(log.bounds());
        }
        let (name, epoch) = (mesh.to_owned(), encoding::hex(&random::bytes::<16>()));
        let work = move |transaction: &Transaction<'_>| {
            let insert = "INSERT INTO logs (mesh, epoch) VALUES (?, ?) ON CONFLICT DO NOTHING";
            transaction.prepare_cached(insert)?.execute(params![name, epoch])?;
            log::one(transaction, &name)
        };
        let log = self.state.store.write(points::BROKER_LOG, work).await?;
        let mut logs = self.state.logs.write();
        // Somebody else may have been faster; what they have may be in use.
        let log = logs.entry(mesh.to_owned()).or_insert_with(|| Arc::new(log));
        Ok(log.bounds())
    }

    async fn renew_epoch(&self, mesh: &str) -> Result<Bounds, EngineError> {
        let log = self.log(mesh)?;
        let (no, epoch) = (log.no, encoding::hex(&random::bytes::<16>()));
        let kept = epoch.clone();
        let work = move |transaction: &Transaction<'_>| {
            transaction.prepare_cached("UPDATE logs SET epoch = ? WHERE no = ?")?.execute(params![kept, no])
        };
        self.state.store.write(points::BROKER_EPOCH, work).await?;
        *log.epoch.write() = epoch;
        Ok(log.bounds())
    }

    async fn submit_append(&self, append: Append) -> Result<AppendTicket, EngineError> {
        let log = self.log(&append.mesh)?;
        let written = |op: &KvOp| if let KvOp::Put { value, .. } = op { value.len() } else { 0 };
        let size = append.bytes.len()
            + append.audience.iter().map(String::len).sum::<usize>()
            + append.writes.iter().map(written).sum::<usize>();
        let kib = u32::try_from(size / 1024 + 1).unwrap_or(u32::MAX).min(self.line_kib);
        let room = Arc::clone(&self.room).acquire_many_owned(kib).await.map_err(|_| EngineError::Closed)?;
        let (line, ticket) = Line::new(append, log, room);
        self.lines.send(line).await.map_err(|_| EngineError::Closed)?;
        Ok(ticket)
    }

    async fn lookup(&self, mesh: &str, sender: &str, client_id: &str) -> Result<Option<Known>, EngineError> {
        let log = self.log(mesh)?;
        let key = recent::key(log.no, sender, client_id);
        let known = self.state.recent.lock().get(&key);
        let known = match known {
            Some(known) => Some(known),
            None => {
                let (no, sender, client_id) = (log.no, sender.to_owned(), client_id.to_owned());
                self.state.store.read(move |connection| append::known(connection, no, &sender, &client_id)).await?
            }
        };
        Ok(known.map(|known| Known { history_available: log.keeps(known.seq), ..known }))
    }

    async fn read(
        &self,
        mesh: &str,
        after_seq: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Entry>>, EngineError> {
        let log = self.log(mesh)?;
        let last = log.last();
        if after_seq >= last || limit == 0 {
            return Ok(Vec::new());
        }
        if let Some(entries) = log.ring.lock().after(after_seq, limit, max_bytes) {
            return Ok(entries);
        }
        let no = log.no;
        Ok(self
            .state
            .store
            .read(move |connection| log::range(connection, no, after_seq, last, limit, max_bytes))
            .await?)
    }

    async fn read_urgent(
        &self,
        mesh: &str,
        after_seq: u64,
        up_to_seq: u64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<Arc<Entry>>, EngineError> {
        let log = self.log(mesh)?;
        let last = log.last().min(up_to_seq);
        if after_seq >= last || limit == 0 {
            return Ok(Vec::new());
        }
        let no = log.no;
        let work =
            move |connection: &rusqlite::Connection| log::urgent(connection, no, after_seq, last, limit, max_bytes);
        Ok(self.state.store.read(work).await?)
    }

    async fn history(&self, mesh: &str, query: HistoryQuery) -> Result<Vec<Arc<Entry>>, EngineError> {
        let log = self.log(mesh)?;
        let (no, last) = (log.no, log.last());
        let work = move |connection: &rusqlite::Connection| log::history(connection, no, last, &query);
        Ok(self.state.store.read_within(HISTORY_LIMIT, work).await?)
    }

    async fn entry(&self, mesh: &str, id: &str) -> Result<Option<Arc<Entry>>, EngineError> {
        let log = self.log(mesh)?;
        let Some(seq) = place::seq_of(id).filter(|seq| *seq > 0 && *seq <= log.last()) else { return Ok(None) };
        let found = self.read(mesh, seq - 1, 1, usize::MAX).await?;
        Ok(found.into_iter().find(|entry| entry.id == id))
    }

    fn bounds(&self, mesh: &str) -> Option<Bounds> {
        Some(self.log(mesh).ok()?.bounds())
    }

    fn tail(&self, mesh: &str) -> Option<watch::Receiver<u64>> {
        Some(self.log(mesh).ok()?.tail.subscribe())
    }

    async fn prune(&self, now_ms: u64) -> Result<Pruned, EngineError> {
        retention::prune(&self.state, now_ms).await
    }

    fn room(&self, mesh: &str) -> Option<Room> {
        let log = self.log(mesh).ok()?;
        Some(Room { used: log.bytes.load(Ordering::Relaxed), limit: self.state.log_bytes })
    }

    fn pressed(&self) -> Arc<Notify> {
        Arc::clone(&self.state.pressed)
    }

    async fn trim(&self, mesh: &str, up_to_seq: u64, bytes: u64) -> Result<Pruned, EngineError> {
        retention::trim(&self.state, &*self.log(mesh)?, up_to_seq, bytes).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<Option<KvEntry>, EngineError> {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        Ok(self.state.store.read(move |connection| kv::get(connection, &bucket, &key)).await?)
    }

    async fn scan(&self, bucket: &str, prefix: &str) -> Result<Vec<KvEntry>, EngineError> {
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        Ok(self.state.store.read(move |connection| kv::scan(connection, &bucket, &prefix)).await?)
    }

    async fn page(
        &self,
        bucket: &str,
        prefix: &str,
        after: &str,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<KvEntry>, EngineError> {
        let (bucket, prefix, after) = (bucket.to_owned(), prefix.to_owned(), after.to_owned());
        let work =
            move |connection: &rusqlite::Connection| kv::page(connection, &bucket, (&prefix, &after), limit, max_bytes);
        Ok(self.state.store.read(work).await?)
    }

    async fn commit(&self, batch: KvBatch) -> Result<KvCommitted, KvError> {
        kv::commit(&self.state, batch).await
    }

    fn watch(&self) -> broadcast::Receiver<KvChange> {
        self.state.changes.subscribe()
    }

    async fn blob_create(&self, id: &str, max_bytes: u64) -> Result<FileBlob, BlobError> {
        self.state.blobs.create(id, max_bytes).await
    }

    async fn blob_open(&self, id: &str, from: u64) -> Result<(BlobInfo, BlobReader), BlobError> {
        self.state.blobs.read(id, from).await
    }

    async fn blob_delete(&self, id: &str) -> Result<(), BlobError> {
        self.state.blobs.delete(id).await
    }

    async fn blob_older(&self, than_ms: u64, limit: usize) -> Result<Vec<String>, BlobError> {
        self.state.blobs.older(than_ms, limit).await
    }

    async fn audit_append(&self, event: AuditEvent) -> Result<(), EngineError> {
        let keep = self.state.audit;
        Ok(self
            .state
            .store
            .write(points::BROKER_AUDIT, move |transaction| audit::append(transaction, &[event], keep))
            .await?)
    }

    async fn audit_read(&self, mesh: &str, after: u64, limit: usize) -> Result<Vec<AuditRecord>, EngineError> {
        let mesh = mesh.to_owned();
        Ok(self.state.store.read(move |connection| audit::read(connection, &mesh, after, limit)).await?)
    }

    async fn audit_verify(&self) -> Result<Verified, EngineError> {
        Ok(CHAIN.verify(&self.state.store).await?)
    }

    async fn close(&self) {
        // Whoever has waited for room is told; what has it is written first.
        self.room.close();
        let (end, ended) = Line::end();
        if self.lines.send(end).await.is_ok() {
            ended.await.ok();
        }
        self.state.store.closed(CLOSING).await;
    }
}

/// The first part of an entry's id; the rest is its number.
fn id_stem() -> String {
    let mut id = ids::message_id();
    id.truncate(place::STEM);
    id
}
