//! Time: what nobody answered expires, what nobody came back for is withdrawn, and a clock that waits for a face starts
//! when there is none.
//!
//! Invariant: times are of the wall clock and on disk, so that they run on while no daemon does. What the disk does not
//! take now is tried again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hostel_syncpoint::{SyncPoint, points};
use hostel_tasks::SpawnBoxed as _;
use rusqlite::Transaction;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::audit::{self, Event, Line};
use super::checking::Found;
use super::types::{Approval, RunState, State};
use super::{Approvals, Inner, grants, rows};
use crate::sessions::now_ns;
use crate::store::StoreError;

/// The clock of the wall may be set: look again at least this often.
const LONGEST: Duration = Duration::from_secs(30);

/// How long to wait before the disk is asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// A face that is attached, for as long as this lives.
pub struct FaceGuard {
    inner: Arc<Inner>,
}

impl Drop for FaceGuard {
    fn drop(&mut self) {
        self.inner.faces.fetch_sub(1, Ordering::AcqRel);
        self.inner.clocks.notify_one();
    }
}

impl Approvals {
    /// Attaches a face: while one lives, requests whose life begins when they are shown wait to be shown.
    #[must_use]
    pub fn face(&self) -> FaceGuard {
        self.inner.faces.fetch_add(1, Ordering::AcqRel);
        FaceGuard { inner: Arc::clone(&self.inner) }
    }

    /// A face shows a request: the first time counts.
    pub async fn shown(&self, id: &str) -> Result<(), StoreError> {
        let waiting = self.inner.table.lock().by_id(id).filter(|approval| approval.shown_ns == 0).cloned();
        let Some(approval) = waiting else { return Ok(()) };
        let approvals = self.clone();
        let shown = hostel_tasks::spawn(async move { approvals.set_clock(approval.no, true).await });
        shown.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Starts the clock of a request, because it is shown or because there is nobody to show it to.
    async fn set_clock(&self, no: u64, shown: bool) -> Result<(), StoreError> {
        let approvals = self.clone();
        let work = move |transaction: &Transaction<'_>| {
            let ledger = &approvals.inner.ledger;
            // A row that was changed is dealt with when the request is settled.
            let Found::Ours(mut approval) = approvals.look(transaction, no)? else { return Ok(None) };
            if approval.state != State::Pending {
                return Ok(None);
            }
            if approval.shown_ns != 0 || (!shown && approval.life_ns == 0) {
                return Ok(None);
            }
            let now = now_ns();
            if approval.life_ns > 0 {
                approval.expires_ns = now.saturating_add(approval.life_ns);
                approval.life_ns = 0;
            }
            if shown {
                approval.shown_ns = now;
                let body = json!({"expires_ns": approval.expires_ns});
                audit::append(transaction, ledger, &[Line { event: Event::Shown, approval: &approval.id, body }])?;
            }
            rows::update(transaction, ledger, &mut approval)?;
            Ok(Some(approval))
        };
        let Some(changed) = self.inner.store.write(points::APPROVAL_SHOWN, work).await? else { return Ok(()) };
        if let Some(waiting) = self.inner.table.lock().get_mut(no) {
            *waiting = *changed;
        }
        self.tell();
        Ok(())
    }

    /// Everything that is due at this moment; whether the disk took all of it.
    async fn tick(&self) -> bool {
        let mut taken = self.look_around().await;
        taken &= self.let_orphans_go().await;
        let now = now_ns();
        let nobody_looks = self.inner.faces.load(Ordering::Acquire) == 0;
        let (late, unshown) = {
            let table = self.inner.table.lock();
            let settling = Instant::now() < table.rejoin_until;
            let starts = |approval: &&Approval| {
                // The faces of before a restart may take as long to come back as anybody.
                let may_come_back = settling && approval.no <= table.last_loaded;
                approval.life_ns > 0 && nobody_looks && !may_come_back
            };
            let late: Vec<Approval> = table.pending().filter(|waiting| waiting.expires_ns <= now).cloned().collect();
            let unshown: Vec<u64> = table.pending().filter(starts).map(|approval| approval.no).collect();
            (late, unshown)
        };
        // All at once: what waits together is written together.
        let mut due = JoinSet::new();
        for approval in late {
            let approvals = self.clone();
            due.spawn_boxed(async move { approvals.end(&approval, State::Expired, "").await.is_ok() });
        }
        for no in unshown {
            let approvals = self.clone();
            due.spawn_boxed(async move { approvals.set_clock(no, false).await.is_ok() });
        }
        taken &= due.join_all().await.into_iter().all(|taken| taken);
        if self.inner.made.load(Ordering::Relaxed) >= 256 {
            let (keep, ledger) = (self.inner.options.keep, Arc::clone(&self.inner.ledger));
            let tidy = move |transaction: &Transaction<'_>| {
                let now = now_ns();
                grants::close_expired(transaction, &ledger, now)?;
                rows::close_unheard(transaction, &ledger, now)?;
                rows::trim(transaction, keep, now)
            };
            let tidied = self.inner.store.write(SyncPoint::NONE, tidy).await.is_ok();
            if tidied {
                self.inner.made.store(0, Ordering::Relaxed);
            }
            taken &= tidied;
        }
        taken
    }

    /// Those whose connection was cut off by a restart have had their time.
    async fn let_orphans_go(&self) -> bool {
        let waiting = {
            let mut table = self.inner.table.lock();
            if Instant::now() < table.rejoin_until {
                return true;
            }
            table.take_orphans()
        };
        if !self.inner.table.lock().abandoned.is_empty() {
            self.inner.abandoned.notify_one();
        }
        let mut due = JoinSet::new();
        for approval in waiting {
            let approvals = self.clone();
            due.spawn_boxed(async move {
                let taken = approvals.let_go(&approval).await.is_ok();
                if !taken {
                    approvals.inner.table.lock().keep_orphan(approval);
                }
                taken
            });
        }
        due.join_all().await.into_iter().all(|taken| taken)
    }

    /// Withdraws a request that nobody came back for. One that was approved at the last moment is abandoned.
    async fn let_go(&self, approval: &Approval) -> Result<(), StoreError> {
        let why = "its connection did not come back after a restart";
        if self.end(approval, State::Withdrawn, why).await? {
            return Ok(());
        }
        if let Some(settled) = self.authentic(&approval.id).await?.filter(|settled| settled.run == RunState::Due) {
            self.inner.table.lock().abandoned.push(settled);
            self.inner.abandoned.notify_one();
        }
        Ok(())
    }

    /// How long nothing is due.
    fn rest(&self) -> Duration {
        let now = now_ns();
        let table = self.inner.table.lock();
        let next = table.pending().map(|approval| approval.expires_ns.saturating_sub(now)).min();
        let mut rest = next.map_or(LONGEST, Duration::from_nanos).min(LONGEST);
        let until = table.rejoin_until.saturating_duration_since(Instant::now());
        if !until.is_zero() {
            rest = rest.min(until);
        }
        rest
    }
}

/// Looks at the clock as long as there is anybody to look for.
pub(super) async fn run(inner: Weak<Inner>, clocks: Arc<Notify>) {
    loop {
        let Some(held) = inner.upgrade() else { return };
        let approvals = Approvals { inner: held };
        let taken = approvals.tick().await;
        let rest = if taken { approvals.rest().max(Duration::from_millis(1)) } else { PAUSE };
        // What is held here would never end.
        drop(approvals);
        tokio::time::timeout(rest, clocks.notified()).await.ok();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.clocks.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::inbox;
    use super::super::types::{Life, NewRequest, Requester, Subject};
    use super::*;

    fn question(life: Life) -> NewRequest {
        NewRequest {
            subject: Subject::Question { text: "?".to_owned(), details: String::new() },
            requester: Requester::default(),
            summary: String::new(),
            reason: String::new(),
            life,
            connection: None,
        }
    }

    #[tokio::test]
    async fn a_clock_is_set_once() {
        let (_directory, approvals) = inbox(|_| {}).await;
        let face = approvals.face();
        let asked = approvals.request(question(Life::FromShown(Duration::from_secs(600)))).await.unwrap();
        let set = async |shown| {
            approvals.set_clock(asked.no, shown).await.unwrap();
            let now = approvals.get(&asked.id).await.unwrap().unwrap();
            let records = approvals.audit().show(0, 100).await.unwrap();
            (now.expires_ns, now.shown_ns, records.iter().filter(|record| record.kind == "shown").count())
        };
        let first = set(true).await;
        assert!(first.0 < asked.expires_ns && first.1 > 0 && first.2 == 1, "{first:?}");
        // Whoever shows it at the same moment changes nothing, and neither does it that nobody looks any more.
        assert_eq!((set(true).await, set(false).await), (first, first));
        drop(face);
        let fixed = approvals.request(question(Life::Fixed(Duration::from_secs(600)))).await.unwrap();
        let changes = *approvals.changed().borrow();
        assert!(changes >= 3, "two requests and a clock that was set");
        approvals.set_clock(fixed.no, false).await.unwrap();
        assert_eq!(*approvals.changed().borrow(), changes, "it never waited to be shown");
    }

    #[tokio::test]
    async fn the_clock_rests_until_something_is_due() {
        let (_directory, approvals) = inbox(|options| options.rejoin = Duration::ZERO).await;
        assert_eq!(approvals.rest(), LONGEST);
        approvals.request(question(Life::Fixed(Duration::from_secs(600)))).await.unwrap();
        assert_eq!(approvals.rest(), LONGEST);
        approvals.request(question(Life::Fixed(LONGEST / 2))).await.unwrap();
        let rest = approvals.rest();
        assert!(rest > Duration::ZERO && rest <= LONGEST / 2, "{rest:?}");
        let (_directory, approvals) = inbox(|options| options.rejoin = LONGEST / 2).await;
        let rest = approvals.rest();
        assert!(rest > Duration::ZERO && rest <= LONGEST / 2, "{rest:?}");
    }

    #[tokio::test]
    async fn the_clock_ends_with_its_inbox() {
        let (_directory, approvals) = inbox(|options| options.rejoin = Duration::ZERO).await;
        let inner = Arc::downgrade(&approvals.inner);
        // There is one thread, and nothing to wait for: it rests by then.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let running = Arc::downgrade(&approvals.inner.clocks);
        drop(approvals);
        assert_eq!(inner.strong_count(), 0);
        // It holds a share of the bell for as long as it runs, and rests for longer than this.
        let ended = async {
            while running.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONGEST / 2, ended).await.expect("it runs on");
    }
}
