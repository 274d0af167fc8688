//! Numbers events and stores them in runs.
//!
//! Invariant: numbers follow each other; an event that was numbered and stored before a restart gets the same number
//! again when the journal is read again, and is not stored or shown twice. What the disk does not take now is kept
//! in memory and offered again; meanwhile nothing more is read, so memory stays bounded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hostel_agents::Event;
use hostel_syncpoint::{SyncPoint, points};
use rusqlite::Transaction;

use crate::sessions::log::{self, Log};
use crate::sessions::session::Session;
use crate::sessions::stall::Stall;
use crate::sessions::types::Entry;
use crate::store::{Store, StoreError, Ticket};

/// A run is stored when it is this large, or when its turn ends.
const RUN_BYTES: usize = 256 * 1024;

/// Runs that may be on their way to the disk.
const RUNS: usize = 4;

/// Before the disk is asked again.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Does something with the store until it works. Only a store that is closed, as the daemon ends, is an error. Meanwhile
/// the session can be stopped, and is counted among those that wait.
pub(super) async fn insist<T, F>(session: &Arc<Session>, mut work: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut stall = None;
    loop {
        match work().await {
            Err(StoreError::Closed) => return Err(StoreError::Closed),
            Err(error) => {
                let stall = stall.get_or_insert_with(|| Stall::begin(session));
                stall.refused(&error);
                stall.stop_if_asked();
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// Events that are stored together.
pub(super) type Run = Arc<[Arc<Entry>]>;

/// The writing end of a session's log.
pub(super) struct Recorder {
    owner: Arc<Session>,
    log: Arc<Log>,
    store: Store,
    session: i64,
    turn: u64,
    next_seq: u64,
    /// Everything up to this was stored before a restart.
    known_seq: u64,
    /// Numbered, in memory, not on their way to the disk.
    fresh: Vec<Arc<Entry>>,
    fresh_bytes: usize,
    on_their_way: VecDeque<(Run, Ticket<()>)>,
}

impl Recorder {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        let last_seq = session.log.last_seq();
        Self {
            owner: Arc::clone(session),
            log: Arc::clone(&session.log),
            store: session.hub.store.clone(),
            session: session.no(),
            turn: session.change(|state| state.turns.saturating_sub(state.queue.len() as u64)),
            next_seq: last_seq + 1,
            known_seq: last_seq,
            fresh: Vec::new(),
            fresh_bytes: 0,
            on_their_way: VecDeque::new(),
        }
    }

    /// What comes belongs to this turn.
    pub(super) fn begin_turn(&mut self, turn: u64) {
        self.turn = turn;
    }

    /// The journal is read again from where this turn began.
    pub(super) fn rewind(&mut self, turn: u64, first_seq: u64) {
        self.turn = turn;
        self.next_seq = first_seq + 1;
    }

    /// The journal is not read again any further: what comes is news.
    pub(super) fn leave_known(&mut self) {
        self.next_seq = self.next_seq.max(self.known_seq + 1);
    }

    /// The number the next event will have.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Numbers an event of the running turn.
    pub(super) fn push(&mut self, time_ns: u64, event: Event) -> u64 {
        self.push_of(self.turn, time_ns, event)
    }

    /// Numbers an event of a turn.
    pub(super) fn push_of(&mut self, turn: u64, time_ns: u64, event: Event) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        if seq > self.known_seq {
            self.fresh_bytes += log::weight(&event);
            self.fresh.push(Arc::new(Entry { seq, turn, time_ns, event }));
        }
        seq
    }

    /// Shows what was numbered to readers, and stores it when there is enough.
    pub(super) async fn settle(&mut self) -> Result<(), StoreError> {
        self.show();
        if self.fresh_bytes >= RUN_BYTES {
            let run = self.take_run();
            let (work, session) = (Arc::clone(&run), self.session);
            let ticket = self
                .store
                .submit(points::EVENTS_STORED, move |transaction| log::store_run(transaction, session, &work))
                .await?;
            self.on_their_way.push_back((run, ticket));
        }
        while self.on_their_way.len() > RUNS {
            self.land_one().await?;
        }
        Ok(())
    }

    fn show(&self) {
        self.show_run(&self.fresh);
    }

    /// Shows a run to readers.
    pub(super) fn show_run(&self, run: &[Arc<Entry>]) {
        let shown = self.log.last_seq();
        let new = run.partition_point(|entry| entry.seq <= shown);
        self.log.append(run.get(new..).unwrap_or_default());
        self.log.publish();
    }

    /// Everything that is not on its way to the disk, for a write that brings more than events.
    pub(super) fn take_run(&mut self) -> Run {
        self.show();
        self.fresh_bytes = 0;
        std::mem::take(&mut self.fresh).into()
    }

    /// The same for events that no journal holds: nobody hears of them before they are on disk, so that they are
    /// never taken back.
    pub(super) fn take_unshown(&mut self) -> Run {
        self.fresh_bytes = 0;
        std::mem::take(&mut self.fresh).into()
    }

    /// Waits for the oldest run to be on disk.
    async fn land_one(&mut self) -> Result<(), StoreError> {
        let Some((run, ticket)) = self.on_their_way.pop_front() else { return Ok(()) };
        if let Err(error) = ticket.done().await {
            if matches!(error, StoreError::Closed) {
                return Err(error);
            }
            return self.insist_now(points::EVENTS_STORED, run, |_| Ok(())).await;
        }
        self.landed(&run);
        Ok(())
    }

    fn landed(&self, run: &Run) {
        if let Some(last) = run.last() {
            self.log.stored(last.seq);
        }
    }

    /// Stores a run together with something else, and everything before it; a disk that refuses is asked again.
    pub(super) async fn insist(
        &mut self,
        point: SyncPoint,
        run: Run,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        self.commit(point, &run, work).await?;
        self.show_run(&run);
        Ok(())
    }

    /// The same without showing it: for what has to be true before anybody hears of it.
    pub(super) async fn commit(
        &mut self,
        point: SyncPoint,
        run: &Run,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        while !self.on_their_way.is_empty() {
            self.land_one().await?;
        }
        self.insist_now(point, Arc::clone(run), work).await
    }

    async fn insist_now(
        &self,
        point: SyncPoint,
        run: Run,
        work: impl Fn(&Transaction<'_>) -> rusqlite::Result<()> + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        let work = Arc::new(work);
        insist(&self.owner, || {
            let (run_now, work_now, session) = (Arc::clone(&run), Arc::clone(&work), self.session);
            self.store.write(point, move |transaction| {
                log::store_run(transaction, session, &run_now)?;
                work_now(transaction)
            })
        })
        .await?;
        self.landed(&run);
        Ok(())
    }

    /// Nothing has to be written.
    pub(super) fn is_written(&self) -> bool {
        self.fresh.is_empty() && self.on_their_way.is_empty()
    }

    /// Nothing will come for a while: memory is given back.
    pub(super) fn rest(&mut self) {
        self.fresh.shrink_to_fit();
        self.log.rest();
    }
}
