//! Housekeeping of outbox and inbox: giving up what is too old to be sent, forgetting what was kept long enough.
//!
//! Invariant: it runs beside everything else in small transactions; a failure is told and tried again an hour later.

use std::time::Duration;

use hostel_store::StoreError;
use hostel_wire::BelievedTime;

use crate::inbox::{Health, Inbox};
use crate::outbox::{DeadRow, Outbox};

/// How often rows are looked for that have become too old to be sent.
const EXPIRE_EVERY: Duration = Duration::from_secs(60);

/// How often what is old is forgotten, in rounds of the above.
const SWEEP_EVERY: u32 = 60;

/// How often the believed time is written down, in rounds of the above.
const KEEP_TIME_EVERY: u32 = 10;

/// What a round of housekeeping has done, for the log.
#[derive(Debug, Default)]
pub struct Swept {
    /// They are `dead` now.
    pub dead: Vec<DeadRow>,
    /// Rows of the outbox that were forgotten, if this was a round for that.
    pub outbox: Option<u64>,
    /// Rows of the inbox that were forgotten, if this was a round for that.
    pub inbox: Option<u64>,
    /// What a look through a large inbox has found, if there was one.
    pub health: Option<Health>,
    /// What is wrong with a large outbox that was looked through.
    pub outbox_damage: Option<String>,
    /// What went wrong.
    pub failed: Option<StoreError>,
}

/// Keeps house until it is dropped: the limit of the inbox at once, expiry every minute, sweeps every hour, the weekly vacuum with them; all of it once
/// `timely` says that what time it is may be known. What `believed` says is kept for the next start. An outbox and
/// an inbox that were not looked through at the start are looked through first.
pub async fn run(
    outbox: Outbox,
    inbox: Inbox,
    timely: impl Future<Output = ()>,
    believed: impl Fn() -> BelievedTime,
    tell: impl Fn(Swept),
) {
    if outbox.is_unchecked() {
        let (outbox_damage, failed) = match outbox.look_through().await {
            Ok(damage) => (damage, None),
            Err(error) => (None, Some(error)),
        };
        tell(Swept { outbox_damage, failed, ..Swept::default() });
    }
    if inbox.is_unchecked() {
        let (health, failed) = match inbox.look_through().await {
            Ok(health) => (Some(health), None),
            Err(error) => (None, Some(error)),
        };
        tell(Swept { health, failed, ..Swept::default() });
    }
    timely.await;
    let mut round = 0_u32;
    loop {
        let mut swept = keep_house(&outbox, &inbox, round.is_multiple_of(SWEEP_EVERY)).await;
        if round.is_multiple_of(KEEP_TIME_EVERY)
            && let Err(error) = inbox.keep_believed_time(believed()).await
        {
            swept.failed = Some(error);
        }
        tell(swept);
        round = round.wrapping_add(1);
        let until = tokio::time::Instant::now() + EXPIRE_EVERY;
        // The limit of the inbox holds at every moment, not once an hour.
        while tokio::time::timeout_at(until, inbox.crowded().notified()).await.is_ok() {
            match inbox.keep_limit().await {
                Ok(0) => {}
                Ok(rows) => tell(Swept { inbox: Some(rows), ..Swept::default() }),
                Err(error) => tell(Swept { failed: Some(error), ..Swept::default() }),
            }
        }
    }
}

/// One round; `sweep` forgets what is old as well.
pub async fn keep_house(outbox: &Outbox, inbox: &Inbox, sweep: bool) -> Swept {
    let mut swept = Swept::default();
    match outbox.expire().await {
        Ok(dead) => swept.dead = dead,
        Err(error) => swept.failed = Some(error),
    }
    if sweep {
        let mut note = |done: Result<u64, StoreError>| match done {
            Ok(count) => Some(count),
            Err(error) => {
                swept.failed = Some(error);
                None
            }
        };
        let (from_outbox, from_inbox) = (note(outbox.sweep().await), note(inbox.sweep().await));
        note(inbox.vacuum_if_due().await.map(u64::from));
        (swept.outbox, swept.inbox) = (from_outbox, from_inbox);
    }
    swept
}
