//! What people have to hear of: tampering, a lost key, settings that do not apply.
//!
//! Guarantees: an alarm stays in the list until the daemon ends, the newest [`MAX_ALARMS`] of them. Each is in the audit as
//! well, which outlives the daemon.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use hostel_syncpoint::points;
use parking_lot::Mutex;
use rusqlite::Transaction;
use serde_json::json;
use tokio::sync::watch;

use super::audit::{self, Event, Line};
use super::{Approvals, Inner};
use crate::sessions::now_ns;
use crate::store::StoreError;

/// Alarms that are remembered.
pub const MAX_ALARMS: usize = 100;

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Alarm {
    /// When, nanoseconds of wall clock.
    pub time_ns: u64,
    /// A sentence for people.
    pub text: String,
}

/// The alarms of a daemon.
pub(super) struct Alarms {
    list: Mutex<VecDeque<Alarm>>,
    count: watch::Sender<u64>,
}

impl Default for Alarms {
    fn default() -> Self {
        Alarms { list: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Alarms {
    pub(super) fn raise(&self, text: String) {
        let mut list = self.list.lock();
        if list.len() >= MAX_ALARMS {
            list.pop_front();
        }
        list.push_back(Alarm { time_ns: now_ns(), text });
        drop(list);
        self.count.send_modify(|count| *count += 1);
    }
}

/// Tells each alarm once.
pub struct AlarmWatch {
    inner: Weak<Inner>,
    count: watch::Receiver<u64>,
    told: u64,
}

impl AlarmWatch {
    /// Waits for alarms that were not told yet; none once there is no house any more.
    pub async fn next(&mut self) -> Option<Vec<Alarm>> {
        loop {
            self.count.changed().await.ok()?;
            let alarms = Approvals { inner: self.inner.upgrade()? }.alarms();
            let raised = *self.count.borrow_and_update();
            let fresh = usize::try_from(raised.saturating_sub(self.told)).unwrap_or(usize::MAX).min(alarms.len());
            self.told = raised;
            if fresh > 0 {
                return Some(alarms.into_iter().rev().take(fresh).rev().collect());
            }
        }
    }
}

impl Approvals {
    /// What people have to hear of, oldest first.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        self.raise_reports();
        self.inner.alarms.list.lock().iter().cloned().collect()
    }

    /// Alarms as they are raised, from the first on.
    #[must_use]
    pub fn follow_alarms(&self) -> AlarmWatch {
        let mut count = self.inner.alarms.count.subscribe();
        count.mark_changed();
        AlarmWatch { inner: Arc::downgrade(&self.inner), count, told: 0 }
    }

    /// Records and tells that somebody has lowered the limit of file locks of a process of the house, which looks like one
    /// inside since then.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn report_lowered_limit(&self, whose: &'static str) -> Result<(), StoreError> {
        let ledger = Arc::clone(&self.inner.ledger);
        let work = move |transaction: &Transaction<'_>| {
            let body = json!({"what": "file_lock_limit", "whose": whose});
            audit::append(transaction, &ledger, &[Line { event: Event::Tampered, approval: "", body }])
        };
        self.inner.store.write(points::TAMPERING_RECORDED, work).await?;
        self.inner.alarms.raise(format!(
            "somebody has lowered the limit of file locks of the {whose}, which therefore looks like a hosted process and is \
             refused; nothing is approved by that. End that process (`kill`) and start the house with `hostel up`; the end of \
             a keeper ends what it hosts"
        ));
        Ok(())
    }

    /// Tells that the house begins a new record, and records it if the record of an earlier house is missing.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn report_new_record(&self, text: String, is_missing: bool) -> Result<(), StoreError> {
        self.inner.alarms.raise(text);
        if !is_missing {
            return Ok(());
        }
        let ledger = Arc::clone(&self.inner.ledger);
        let work = move |transaction: &Transaction<'_>| {
            let body = json!({"what": "record", "missing": true});
            audit::append(transaction, &ledger, &[Line { event: Event::Tampered, approval: "", body }])
        };
        self.inner.store.write(points::TAMPERING_RECORDED, work).await
    }

    fn raise_reports(&self) {
        for report in self.inner.ledger.take_reports() {
            self.inner.alarms.raise(report);
        }
    }

    /// Looks whether anybody has interfered, and raises what was reported. Says whether the disk took what followed.
    pub(super) async fn look_around(&self) -> bool {
        let mut taken = true;
        if self.inner.ledger.take_foreign() {
            taken = !matches!(self.inspect().await, Err(error) if !matches!(error, StoreError::Closed));
            if !taken {
                self.inner.ledger.set_foreign();
            }
        }
        if self.inner.approver.file_changed() {
            taken &= self.record_changed_file().await.is_ok();
        }
        self.raise_reports();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_alarms_are_remembered() {
        let alarms = Alarms::default();
        for number in 0..MAX_ALARMS + 3 {
            alarms.raise(number.to_string());
        }
        let list = alarms.list.lock();
        assert_eq!((list.len(), list[0].text.as_str()), (MAX_ALARMS, "3"));
        assert_eq!(*alarms.count.borrow(), MAX_ALARMS as u64 + 3);
    }
}
