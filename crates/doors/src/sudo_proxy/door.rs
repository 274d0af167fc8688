//! What all connections of the door share: its slots, the ids it has seen, and whether it is open.
//!
//! Invariant: a slot is held exactly as long as its connection is served, whatever becomes of the one who serves it.
//! The door goes from open to closed once.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use hostel_house::approvals::Approvals;
use hostel_house::insiders::Insiders;
use hostel_house::pipelines::Pipelines;
use hostel_house::store::StoreError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::sync::watch;

use super::NAME;
use super::Settings;
use super::notice::Notice;
use super::replay::Replay;
use crate::claustrum::Log;

/// How a door ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leaving {
    /// Another daemon will go on: what waits or runs is left as it is, and clients that come back take it up again.
    Restart,
    /// For good: what waits is withdrawn, what runs is killed, and whoever asked is told.
    End,
}

/// Why a door has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The program wanted it.
    Told(Leaving),
    /// A client sent `stop`.
    Stopped,
}

/// Whether requests are served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    Open,
    Closed(Ended),
}

/// The door. Cheap to clone; clones are the same door.
#[derive(Clone)]
pub struct Door(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) approvals: Approvals,
    pub(crate) insiders: Insiders,
    pub(crate) pipelines: Pipelines,
    pub(crate) settings: Settings,
    pub(crate) log: Log,
    pub(crate) replay: Replay,
    slots: Arc<Semaphore>,
    phase: watch::Sender<Phase>,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Door").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Door {
    /// A door into this house. Ids that were used shortly before it was opened stay used.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn open(
        approvals: Approvals,
        insiders: Insiders,
        pipelines: Pipelines,
        settings: Settings,
        log: Log,
    ) -> Result<Self, StoreError> {
        let memory = settings.memory();
        let replay = Replay::new(memory, settings.remembered_ids);
        let now = u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0);
        let since = now.saturating_sub(u64::try_from(memory.as_nanos()).unwrap_or(u64::MAX));
        for (id, used_ns) in approvals.recent_requests(NAME, since).await?.into_iter().rev() {
            replay.take_back(&id, Duration::from_nanos(now.saturating_sub(used_ns)), Instant::now());
        }
        Ok(Door(Arc::new(Inner {
            approvals,
            insiders,
            pipelines,
            log,
            replay,
            slots: Arc::new(Semaphore::new(settings.in_flight.clamp(1, Semaphore::MAX_PERMITS))),
            phase: watch::Sender::new(Phase::Open),
            settings,
        })))
    }

    /// The places for connections.
    pub(crate) fn slots(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.slots)
    }

    /// A place for one more connection, if there is one.
    pub(crate) fn slot(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.slots).try_acquire_owned().ok()
    }

    /// Ends the door, unless it has ended before.
    pub(crate) fn close(&self, why: Ended) {
        self.0.phase.send_if_modified(|phase| {
            let first = *phase == Phase::Open;
            if first {
                *phase = Phase::Closed(why);
            }
            first
        });
    }

    /// Waits until it has ended, and says why.
    pub async fn closed(&self) -> Ended {
        let mut phase = self.0.phase.subscribe();
        match phase.wait_for(|phase| *phase != Phase::Open).await.as_deref() {
            Ok(Phase::Closed(why)) => *why,
            // The sender lives in this door, and this door in the one who waits.
            _ => Ended::Told(Leaving::End),
        }
    }

    /// Whether it has ended in this way.
    pub(crate) fn is_closed_by(&self, why: Ended) -> bool {
        *self.0.phase.borrow() == Phase::Closed(why)
    }

    /// Tells the face around the door, if there is one.
    pub(crate) fn tell(&self, notice: impl FnOnce() -> Notice) {
        if let Some(notices) = &self.0.settings.notices {
            // A face that does not keep up misses a line; nobody waits for it.
            notices.try_send(notice()).ok();
        }
    }

    /// How long those who are served may take once it has ended.
    pub(crate) fn farewell(&self) -> Duration {
        self.0.settings.farewell
    }
}
