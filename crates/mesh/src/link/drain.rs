//! How what is owed gets to the broker: claim, seal, send many at once, take the answers.
//!
//! Invariant: a row leaves the outbox only through the broker's answer. At most a window of rows and bytes is under way;
//! within a lane the order is kept (see `lanes`). Whatever is still under way when the connection ends goes back and
//! costs nothing. An answer that does not come in time ends the connection: only then is it certain what is under way.
//!
//! It runs on a task of its own that always comes to its end: a claim that was begun is never dropped half way.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hostel_wire::frames::client::Send;
use hostel_wire::frames::server::{Ack, HelloAck};
use hostel_wire::keys::SecretKey;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::lanes::Lanes;
use super::seal::{self, Unsealed};
use super::{End, Role};
use crate::files::Upload;
use crate::keyring::MemberKey;
use crate::mesh::core::Core;
use crate::outbox::{AckedRow, Lane, RefusedRow, RetryRow, Row, RowKey, is_permanent};
use crate::topics::{Ask, NoKey};

/// Answers that are looked at together.
const ANSWERS: usize = 256;

/// Without a sign the outbox is looked at after this long all the same.
const LOOK: Duration = Duration::from_secs(30);

/// The next connection's number; 0 is nobody's.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A row under way.
struct Flying {
    key: RowKey,
    kind: &'static str,
    lane: String,
    number: u64,
    /// The name of its topic's keys, if it is sealed with one.
    ring: Option<String>,
    bytes: usize,
    since: Instant,
}

/// The rows under way on one connection.
pub(super) struct Drain {
    /// Unlike any other's: a session's rows may be another connection's tomorrow.
    id: u64,
    core: Arc<Core>,
    role: Role,
    /// What the broker says it is from is sealed with these: the connection's.
    keys: seal::Keys,
    out: mpsc::Sender<String>,
    epoch: String,
    /// The broker knows whose id a message has, where that is not the sender's.
    origins: bool,
    lanes: Lanes,
    flying: HashMap<String, Flying>,
    bytes: usize,
    bucket: Bucket,
    /// Lanes whose next row announces a file that is not at the broker yet.
    uploads: HashMap<String, String>,
    /// Somebody waits until this is gone.
    _alive: oneshot::Sender<()>,
}

/// Why a row was not sent.
enum NotNow {
    /// It never will be: a code and a text.
    Never(String, String),
    /// This broker cannot take it; after a while it is asked again, it or another. A code and a text.
    NotHere(&'static str, &'static str),
    /// Something it needs is not there yet.
    Later,
}

impl Drain {
    pub(super) fn new(
        core: Arc<Core>,
        role: Role,
        sender: SecretKey,
        member: Arc<MemberKey>,
        out: mpsc::Sender<String>,
        welcome: &HelloAck,
        alive: oneshot::Sender<()>,
    ) -> Self {
        let limits = core.limits();
        let bucket = Bucket::new(limits.rate_per_s, limits.burst);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            core,
            role,
            keys: seal::Keys::new(sender, member),
            out,
            epoch: welcome.log.epoch.clone(),
            origins: welcome.features.supported.contains_key("message_origin"),
            lanes: Lanes::default(),
            flying: HashMap::new(),
            bytes: 0,
            bucket,
            uploads: HashMap::new(),
            _alive: alive,
        }
    }

    /// Sends until the answers end: the connection has.
    pub(super) async fn run(mut self, mut answers: mpsc::Receiver<Ack>) -> End {
        let end = self.go(&mut answers).await;
        let keys: Vec<RowKey> = self.flying.drain().map(|(_, flying)| flying.key).collect();
        if !keys.is_empty()
            && let Err(error) = self.core.outbox.release(keys).await
        {
            self.core.log.error("outbox_failed", json!({"error": error.to_string()}));
        }
        end
    }

    async fn go(&mut self, answers: &mut mpsc::Receiver<Ack>) -> End {
        let core = Arc::clone(&self.core);
        let mut woken = core.woken();
        let mut keys = core.topics.watch();
        let mut members = core.roster.watch();
        let mut files = core.files.watch();
        let mut batch = Vec::with_capacity(ANSWERS);
        loop {
            // Marked before looking: a change while we look wakes us again.
            woken.mark_unchanged();
            keys.mark_unchanged();
            members.mark_unchanged();
            files.mark_unchanged();
            if let Err(end) = self.fill().await {
                return end;
            }
            let overdue = self.oldest().map(|since| since + core.tuning.ack_timeout());
            let due = self.next_look();
            tokio::select! {
                // Answers first: one that has come is never overdue.
                biased;
                count = answers.recv_many(&mut batch, ANSWERS) => {
                    if count == 0 {
                        return End::lost("closed", "the connection has ended");
                    }
                    if let Err(end) = self.take(&mut batch).await {
                        return end;
                    }
                }
                _ = woken.changed() => {}
                _ = keys.changed() => {}
                _ = members.changed() => {}
                _ = files.changed() => {}
                () = tokio::time::sleep_until(overdue.unwrap_or(due)), if overdue.is_some() => {
                    return End::lost("ack_timeout", "the broker did not answer a message in time");
                }
                () = tokio::time::sleep_until(due) => {}
            }
        }
    }

    fn oldest(&self) -> Option<Instant> {
        self.flying.values().map(|flying| flying.since).min()
    }

    /// When a row becomes due, or a place in the bucket free.
    fn next_look(&self) -> Instant {
        let now = Instant::now();
        let row =
            self.core.outbox.next_due().map(|due| Duration::from_millis(due.saturating_sub(self.core.outbox.now_ms())));
        let wait = row.map_or(LOOK, |wait| wait.clamp(Duration::from_millis(5), LOOK));
        // A row that is due and was not claimed waits for something else: an answer, a key, the bucket.
        let wait = if row == Some(Duration::ZERO) { self.bucket.wait().unwrap_or(LOOK) } else { wait };
        now + wait
    }

    /// Claims and sends what fits.
    async fn fill(&mut self) -> Result<(), End> {
        let files = &self.core.files;
        self.uploads.retain(|_, file| files.status(file) == Upload::Waiting);
        loop {
            let tuning = &self.core.tuning;
            let rows = tuning.window_rows.saturating_sub(self.flying.len()).min(self.bucket.room());
            let bytes = tuning.window_bytes.saturating_sub(self.bytes);
            if rows == 0 || bytes == 0 {
                return Ok(());
            }
            let claimed = self.core.outbox.claim_as(self.id, rows, bytes, self.allowed()).await;
            let claimed = claimed.map_err(|error| End::lost("storage", format!("outbox: {error}")))?;
            self.core.report_dead(claimed.dead).await;
            if claimed.rows.is_empty() {
                return Ok(());
            }
            self.send(claimed.rows).await?;
        }
    }

    /// Which lanes may go on now. Asks for keys that are missing.
    fn allowed(&self) -> impl Fn(&Lane) -> bool + std::marker::Send + 'static {
        let (core, role) = (Arc::clone(&self.core), self.role.clone());
        let mut shut = self.lanes.shut();
        shut.extend(self.uploads.keys().cloned());
        move |lane: &Lane| {
            if !role.sends(&core, lane) || shut.contains(&lane.text()) {
                return false;
            }
            let Some(ring) = seal::ring(&core, lane) else { return seal::is_known(&core, lane) };
            match core.topics.posting_key(&ring) {
                Err(NoKey::Missing) => {
                    core.topics.ask(Ask::Post(ring));
                    false
                }
                // A topic that is gone: the row is refused for good.
                Ok(_) | Err(NoKey::Unknown) => true,
            }
        }
    }

    async fn send(&mut self, rows: Vec<Row>) -> Result<(), End> {
        let (mut refused, mut retry, mut back, mut held) = (Vec::new(), Vec::new(), Vec::new(), HashSet::new());
        let mut end = Ok(());
        for row in rows {
            let lane = row.lane.text();
            // One that goes back holds up those after it in its lane; after the end of the connection all go back.
            if end.is_err() || held.contains(&lane) {
                back.push(row.key);
                continue;
            }
            match self.ready(&row, &lane) {
                Ok(frame) => end = self.launch(&row, lane, frame).await,
                Err(NotNow::Never(code, error)) => refused.push(RefusedRow { key: row.key, code, error }),
                Err(NotNow::NotHere(code, why)) => {
                    let (code, error) = (code.to_owned(), why.to_owned());
                    retry.push(RetryRow { key: row.key, code, error, retry_after_ms: None });
                    held.insert(lane);
                }
                Err(NotNow::Later) => {
                    back.push(row.key);
                    held.insert(lane);
                }
            }
        }
        let tried = self.core.outbox.retry(retry).await;
        let released = self.core.outbox.release(back).await;
        self.refuse(refused).await?;
        self.store(tried)?;
        self.store(released)?;
        end
    }

    /// The row's frame, if everything it needs is there.
    fn ready(&mut self, row: &Row, lane: &str) -> Result<Send, NotNow> {
        if !self.origins && seal::origin(&self.core, row).is_some() {
            // Sent plainly it may come twice, and given up it may not come at all: brokers become newer.
            let why = "this host's identity before this one had accepted it, and the broker is too old to tell whether \
                       it has it: it waits for a newer one, or to be queued again under another id";
            return Err(NotNow::NotHere("origin_unsupported", why));
        }
        if let Some(file) = &row.payload.file_id {
            match self.core.files.status(file) {
                Upload::Done => {}
                Upload::Refused(code, text) => return Err(NotNow::Never(code, text)),
                Upload::Waiting => {
                    self.uploads.insert(lane.to_owned(), file.clone());
                    return Err(NotNow::Later);
                }
            }
        }
        match seal::row(&self.core, &self.keys, row) {
            Ok(frame) => Ok(frame),
            Err(Unsealed::Never(code, error)) => Err(NotNow::Never(code.to_owned(), error)),
            Err(Unsealed::KeyMissing(ring)) => {
                self.core.topics.ask(Ask::Post(ring));
                Err(NotNow::Later)
            }
            // The roster wakes us when it comes.
            Err(Unsealed::NoRoster) => Err(NotNow::Later),
        }
    }

    async fn launch(&mut self, row: &Row, lane: String, frame: Send) -> Result<(), End> {
        let number = self.lanes.send(&lane);
        let id = frame.id.clone();
        let text = seal::encode(frame, lane.clone(), number);
        let flying = Flying {
            key: row.key,
            kind: if row.payload.file_id.is_some() { "file" } else { row.lane.dest_kind.as_str() },
            lane,
            number,
            ring: seal::ring(&self.core, &row.lane),
            bytes: text.len(),
            since: Instant::now(),
        };
        self.bytes += flying.bytes;
        self.bucket.take();
        self.flying.insert(id, flying);
        self.out.send(text).await.map_err(|_| End::lost("closed", "the connection has ended"))
    }

    /// Takes the broker's answers, all in one go.
    async fn take(&mut self, answers: &mut Vec<Ack>) -> Result<(), End> {
        let (mut acked, mut retry, mut refused, mut back) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ack in answers.drain(..) {
            let Some(flying) = self.flying.remove(&ack.id) else {
                self.core.metrics.invalid("frame");
                continue;
            };
            self.bytes = self.bytes.saturating_sub(flying.bytes);
            let code = ack.code.as_deref().unwrap_or("unspecified");
            let error = ack.error.clone().unwrap_or_else(|| code.to_owned());
            let later = !ack.queued && !ack.permanent.unwrap_or_else(|| is_permanent(code)) && !is_permanent(code);
            self.lanes.answered(&flying.lane, flying.number, later);
            if ack.queued {
                self.core.metrics.sent(flying.kind, if ack.duplicate { "duplicate" } else { "done" }, 1);
                if ack.duplicate {
                    self.core.metrics.deduped("out", 1);
                }
                let (broker_message_id, epoch) = (ack.message_id, self.epoch.clone());
                acked.push(AckedRow { key: flying.key, broker_message_id, epoch, seq: ack.seq });
            } else if later && code == "stale_key_epoch" {
                // It waits for the key, not for the clock.
                self.core.topics.stale(flying.ring.as_deref().unwrap_or_default());
                back.push(flying.key);
            } else if later {
                if code == "rate_limited" {
                    self.bucket.empty(ack.retry_after_ms);
                }
                let retry_after_ms = ack.retry_after_ms;
                retry.push(RetryRow { key: flying.key, code: code.to_owned(), error, retry_after_ms });
            } else {
                refused.push(RefusedRow { key: flying.key, code: code.to_owned(), error });
            }
        }
        // What goes back is back before anything is claimed again: it may be first in its lane.
        self.store(self.core.outbox.retry(retry).await)?;
        self.store(self.core.outbox.release(back).await)?;
        self.refuse(refused).await?;
        // What the broker has and what is claimed next share a commit.
        let outbox = self.core.outbox.clone();
        let (acked, filled) = tokio::join!(outbox.acked(acked), self.fill());
        self.store(acked)?;
        filled
    }

    async fn refuse(&mut self, refused: Vec<RefusedRow>) -> Result<(), End> {
        if refused.is_empty() {
            return Ok(());
        }
        match self.core.outbox.refused(refused).await {
            Ok(dead) => {
                self.core.report_dead(dead).await;
                Ok(())
            }
            Err(error) => Err(End::lost("storage", format!("outbox: {error}"))),
        }
    }

    fn store<T>(&self, result: Result<T, hostel_store::StoreError>) -> Result<T, End> {
        result.map_err(|error| End::lost("storage", format!("outbox: {error}")))
    }
}

/// The broker's limit, kept here as well, so that little is sent that it would refuse.
struct Bucket {
    per_s: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(per_s: u32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        Self { per_s: f64::from(per_s), burst, tokens: burst, at: Instant::now() }
    }

    fn now(&self) -> f64 {
        (self.tokens + self.at.elapsed().as_secs_f64() * self.per_s).min(self.burst)
    }

    /// How many may be sent now.
    fn room(&self) -> usize {
        if self.per_s == 0.0 {
            return usize::MAX;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
        let room = self.now().max(0.0) as usize;
        room
    }

    fn take(&mut self) {
        self.tokens = self.now() - 1.0;
        self.at = Instant::now();
    }

    /// The broker said that it was too much.
    fn empty(&mut self, after_ms: Option<u64>) {
        let debt = after_ms.map_or(0.0, |ms| Duration::from_millis(ms.min(60_000)).as_secs_f64() * self.per_s);
        self.tokens = self.tokens.min(1.0 - debt).max(-self.burst);
        self.at = Instant::now();
    }

    /// Until there is room for one; None if there is.
    fn wait(&self) -> Option<Duration> {
        let lacking = 1.0 - self.now();
        (self.per_s > 0.0 && lacking > 0.0).then(|| Duration::from_secs_f64((lacking / self.per_s).clamp(0.005, 30.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_bucket_follows_the_brokers() {
        let mut bucket = Bucket::new(100, 10);
        assert_eq!(bucket.room(), 10);
        (0..10).for_each(|_| bucket.take());
        assert_eq!(bucket.room(), 0);
        assert!(bucket.wait().unwrap() <= Duration::from_millis(10));
        tokio::time::advance(Duration::from_millis(55)).await;
        assert_eq!(bucket.room(), 5);
        bucket.empty(Some(1000));
        assert!(bucket.wait().unwrap() >= Duration::from_millis(100));
        assert_eq!(Bucket::new(0, 0).room(), usize::MAX);
    }
}
