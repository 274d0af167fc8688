//! The approver's passphrase: its digest in memory, and proof in the memory of one face at most.
//!
//! Invariant: the digest is the one that was there when the daemon started, or was set through the daemon since. A file that
//! somebody replaces changes nothing and is reported. A passphrase is compared one at a time, away from the threads that
//! serve, and every attempt is on disk before it is looked at: neither many connections nor a killed daemon give anybody
//! more attempts. Whoever may not decide at all is turned away before, so that nobody inside can lock the approver out.
//!
//! Parts: `file` is the file, `row` is what the house stores of it itself.

pub(super) mod file;
pub(super) mod row;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dryoc::classic::crypto_pwhash::{crypto_pwhash_str, crypto_pwhash_str_verify};
use hostel_peer::Peer;
use hostel_syncpoint::{SyncPoint, points};
use rusqlite::Transaction;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex, mpsc};
use zeroize::Zeroizing;

use super::audit::{self, Event, Line};
use super::lockout::{self, Count, Limits, Standing};
use super::types::DecideError;
use super::vouching::Proof;
use super::who::{self, Household};
use crate::seals::Ledger;
use crate::sessions::now_ns;
use crate::store::{Store, StoreError};
use row::ApproverRow;

/// The shortest passphrase, in characters.
pub const SHORTEST: usize = 8;

/// The longest, in bytes.
pub const LONGEST: usize = 1024;

/// Memory and passes that a digest costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Bytes of memory.
    pub memory: usize,
    /// Passes over it.
    pub passes: u64,
}

impl Default for Cost {
    fn default() -> Self {
        Cost { memory: 64 << 20, passes: 3 }
    }
}

/// A passphrase: never printed, wiped when it is no longer needed.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes it over.
    #[must_use]
    pub fn new(text: String) -> Self {
        Passphrase(Zeroizing::new(text))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Passphrase(…)")
    }
}

/// Proof that somebody showed the passphrase. Worth nothing once the passphrase is another.
#[derive(Clone)]
pub struct Unlock {
    /// Of the digest at that moment.
    digest: [u8; 32],
}

impl fmt::Debug for Unlock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Unlock(…)")
    }
}

/// The approver of a house. Cheap to clone.
#[derive(Clone)]
pub struct Approver {
    inner: Arc<Inner>,
}

/// What an approver is made of.
pub(super) struct Parts {
    pub(super) file: PathBuf,
    pub(super) store: Store,
    pub(super) ledger: Arc<Ledger>,
    pub(super) household: Arc<dyn Household>,
    pub(super) limits: Limits,
    pub(super) cost: Cost,
    /// The digest that is in force.
    pub(super) digest: Option<String>,
    pub(super) count: Count,
    /// Takes each passphrase that was right.
    pub(super) proofs: mpsc::Sender<Proof>,
}

struct Inner {
    parts: Parts,
    /// What is in force, and changes while the daemon runs.
    state: parking_lot::Mutex<State>,
    /// One attempt at a time.
    gate: Mutex<()>,
}

struct State {
    digest: Option<String>,
    count: Count,
    /// What the file was when it was last reported.
    reported: Option<Option<String>>,
    /// When the file was last looked at.
    looked: Option<Instant>,
}

/// The file is looked at this often at most: whoever looks around may do so for every request.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Approver {
    pub(super) fn new(mut parts: Parts) -> Self {
        let state = State { digest: parts.digest.take(), count: parts.count, reported: None, looked: None };
        Approver { inner: Arc::new(Inner { parts, state: parking_lot::Mutex::new(state), gate: Mutex::default() }) }
    }

    fn parts(&self) -> &Parts {
        &self.inner.parts
    }

    /// Whether a passphrase is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.inner.state.lock().digest.is_some()
    }

    /// Sets the passphrase; if there is one already, the old one has to be shown.
    pub async fn set(
        &self,
        new: Passphrase,
        old: Option<Passphrase>,
        peer: &Peer,
        label: &str,
    ) -> Result<(), DecideError> {
        let (approver, peer, label) = (self.clone(), peer.clone(), label.to_owned());
        detached(async move { approver.set_now(new, old, &peer, &label).await }).await
    }

    async fn set_now(
        &self,
        new: Passphrase,
        old: Option<Passphrase>,
        peer: &Peer,
        label: &str,
    ) -> Result<(), DecideError> {
        self.admit(peer).await?;
        if new.0.chars().count() < SHORTEST || new.0.len() > LONGEST {
            return Err(DecideError::Refused(format!(
                "a passphrase has at least {SHORTEST} characters and at most {LONGEST} bytes"
            )));
        }
        let _one_at_a_time = self.inner.gate.lock().await;
        let before = self.inner.state.lock().digest.clone();
        let event = match (&before, &old) {
            (None, _) => Event::ApproverSet,
            (Some(_), Some(old)) => {
                self.check(old, label).await?;
                Event::ApproverChanged
            }
            (Some(_), None) => {
                return Err(DecideError::Refused("a passphrase is set already; show the old one".to_owned()));
            }
        };
        let (path, cost, current) = (self.parts().file.clone(), self.parts().cost, before.clone());
        let proof = Proof::Set { old: old.filter(|_| before.is_some()), new: new.clone() };
        let work = move || {
            // Another house below the same directory may have set the same passphrase a moment ago.
            let found = file::read(&path).ok().flatten().filter(|found| Some(found) != current.as_ref());
            if let Some(found) = found.filter(|found| crypto_pwhash_str_verify(found, new.bytes()).is_ok()) {
                return Ok((found, None));
            }
            let digest = crypto_pwhash_str(new.bytes(), cost.passes, cost.memory)
                .map_err(|error| io::Error::other(format!("cannot make a digest: {error}")))?;
            let draft = file::Draft::write(&path, &digest)?;
            Ok((digest, Some(draft)))
        };
        let (digest, draft) = blocking(work).await.map_err(|error| self.trouble("write", &error))?;
        self.record(ApproverRow { digest: Some(digest), previous: before }, event, label).await?;
        self.parts().proofs.send(proof).await.ok();
        if let Some(draft) = draft {
            blocking(move || draft.put()).await.map_err(|error| self.trouble("write", &error))?;
        }
        self.finish_change().await;
        Ok(())
    }

    /// The file is in its place: one of before is from now on a file that somebody else has put there. With the gate held.
    async fn finish_change(&self) {
        let (ledger, digest) = (Arc::clone(&self.parts().ledger), self.inner.state.lock().digest.clone());
        let work = move |transaction: &Transaction<'_>| row::save(transaction, &ledger, &ApproverRow::finished(digest));
        // Without this write the next start takes a file of before for a change that was not finished, and finishes it.
        self.parts().store.write(SyncPoint::NONE, work).await.ok();
    }

    /// Removes the passphrase; it has to be shown once more.
    pub async fn clear(&self, passphrase: Passphrase, peer: &Peer, label: &str) -> Result<(), DecideError> {
        let (approver, peer, label) = (self.clone(), peer.clone(), label.to_owned());
        detached(async move {
            approver.admit(&peer).await?;
            let _one_at_a_time = approver.inner.gate.lock().await;
            approver.check(&passphrase, &label).await?;
            let before = approver.inner.state.lock().digest.clone();
            approver.record(ApproverRow { digest: None, previous: before }, Event::ApproverCleared, &label).await?;
            let path = approver.parts().file.clone();
            blocking(move || file::remove(&path)).await.map_err(|error| approver.trouble("remove", &error))?;
            approver.finish_change().await;
            Ok(())
        })
        .await
    }

    /// Looks at a passphrase, and gives proof if it is the one.
    pub async fn unlock(&self, passphrase: &Passphrase, peer: &Peer, label: &str) -> Result<Unlock, DecideError> {
        let (approver, passphrase, peer, label) = (self.clone(), passphrase.clone(), peer.clone(), label.to_owned());
        detached(async move {
            approver.admit(&peer).await?;
            approver.verify(&passphrase, &label).await
        })
        .await
    }

    /// Whether proof still holds.
    pub(super) fn accepts(&self, unlock: &Unlock) -> Result<(), DecideError> {
        match &self.inner.state.lock().digest {
            None => Err(DecideError::NoPassphraseSet),
            Some(text) if digest(text) == unlock.digest => Ok(()),
            Some(_) => Err(DecideError::Refused("the passphrase is another since; unlock again".to_owned())),
        }
    }

    /// Whether it is the passphrase, at the cost of an attempt if it is not. Whoever shows it may show it.
    pub(super) async fn verify(&self, passphrase: &Passphrase, label: &str) -> Result<Unlock, DecideError> {
        let _one_at_a_time = self.inner.gate.lock().await;
        self.check(passphrase, label).await
    }

    async fn admit(&self, peer: &Peer) -> Result<(), DecideError> {
        who::may_decide(&*self.parts().household, peer).await.map_err(DecideError::Refused)
    }

    /// With the gate held.
    async fn check(&self, passphrase: &Passphrase, label: &str) -> Result<Unlock, DecideError> {
        let Some(stored) = self.inner.state.lock().digest.clone() else { return Err(DecideError::NoPassphraseSet) };
        let limits = self.parts().limits;
        let begun = self.count(points::ATTEMPT_COUNTED, move |count| count.begin(limits, now_ns()), |_| Vec::new());
        if let Standing::Locked { until_ns } = begun.await? {
            return Err(DecideError::LockedOut { until_ns });
        }
        let unlock = Unlock { digest: digest(&stored) };
        let shown = passphrase.clone();
        let compare = move || Ok(crypto_pwhash_str_verify(&stored, shown.bytes()).is_ok());
        if blocking(compare).await.map_err(|error| self.trouble("compare with", &error))? {
            self.count(points::ATTEMPT_PASSED, Count::succeed, |()| Vec::new()).await?;
            // Whoever is busy with an earlier one needs no other.
            self.parts().proofs.try_send(Proof::Shown(passphrase.clone())).ok();
            return Ok(unlock);
        }
        let label = label.to_owned();
        let lines = move |standing: &Standing| {
            let mut lines = vec![(Event::WrongPassphrase, json!({"who": label}))];
            if let Standing::Locked { until_ns } = standing {
                lines.push((Event::LockedOut, json!({"who": label, "until_ns": until_ns})));
            }
            lines
        };
        let failed = self.count(points::ATTEMPT_FAILED, move |count| count.fail(limits, now_ns()), lines);
        Err(match failed.await? {
            Standing::Open { left } => DecideError::WrongPassphrase { left },
            Standing::Locked { until_ns } => DecideError::LockedOut { until_ns },
        })
    }

    /// Changes the count of wrong passphrases, in memory and on disk, with these records. With the gate held.
    async fn count<T: Send + 'static>(
        &self,
        point: hostel_syncpoint::SyncPoint,
        change: impl FnOnce(&mut Count) -> T + Send,
        lines: impl FnOnce(&T) -> Vec<(Event, serde_json::Value)> + Send,
    ) -> Result<T, DecideError> {
        let before = self.inner.state.lock().count;
        let mut after = before;
        let outcome = change(&mut after);
        let lines = lines(&outcome);
        if before == after && lines.is_empty() {
            return Ok(outcome);
        }
        let ledger = Arc::clone(&self.parts().ledger);
        let work = move |transaction: &Transaction<'_>| {
            save_count(transaction, &ledger, before, after)?;
            let line =
                |(event, body): &(Event, serde_json::Value)| Line { event: *event, approval: "", body: body.clone() };
            let lines: Vec<Line<'_>> = lines.iter().map(line).collect();
            if lines.is_empty() { Ok(()) } else { audit::append(transaction, &ledger, &lines) }
        };
        self.parts().store.write(point, work).await?;
        self.inner.state.lock().count = after;
        Ok(outcome)
    }

    /// Another digest is in force: written down first, then so in memory.
    async fn record(&self, row: ApproverRow, event: Event, label: &str) -> Result<(), DecideError> {
        let body = json!({"who": label});
        let (ledger, stored) = (Arc::clone(&self.parts().ledger), row.clone());
        let before = self.inner.state.lock().count;
        let work = move |transaction: &Transaction<'_>| {
            save_count(transaction, &ledger, before, Count::default())?;
            row::save(transaction, &ledger, &stored)?;
            audit::append(transaction, &ledger, &[Line { event, approval: "", body }])
        };
        self.parts().store.write(points::PASSPHRASE_RECORDED, work).await?;
        let mut state = self.inner.state.lock();
        (state.digest, state.count, state.reported) = (row.digest, Count::default(), None);
        Ok(())
    }

    /// The house has begun anew under another key: writes down what it knows. Part of that write.
    pub(super) fn reseal(&self, transaction: &Transaction<'_>, limits: Limits) -> rusqlite::Result<()> {
        let mut state = self.inner.state.lock();
        if state.count.is_locked(now_ns()) {
            state.count = Count::lock(limits, now_ns());
        }
        lockout::save(transaction, &self.parts().ledger, state.count, state.count)?;
        let row = ApproverRow::finished(state.digest.clone());
        row::save(transaction, &self.parts().ledger, &row)
    }

    /// Whether the row of the count or that of the digest is another than the house wrote. They are written again.
    pub(super) fn inspect(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Vec<&'static str>> {
        let ledger = &self.parts().ledger;
        let state = self.inner.state.lock();
        let mut changed = Vec::new();
        if lockout::load(transaction)? != Some(state.count) {
            lockout::save(transaction, ledger, state.count, state.count)?;
            changed.push("lockout");
        }
        if row::load(transaction)?.is_none_or(|row| row.digest != state.digest) {
            row::save(transaction, ledger, &ApproverRow::finished(state.digest.clone()))?;
            changed.push("approver");
        }
        Ok(changed)
    }

    /// Whether the file is another than what is in force; told once for each content.
    pub(super) fn file_changed(&self) -> bool {
        {
            let mut state = self.inner.state.lock();
            if state.looked.is_some_and(|looked| looked.elapsed() < LOOK_INTERVAL) {
                return false;
            }
            state.looked = Some(Instant::now());
        }
        // A file that cannot be used is none, and not the one that is in force either.
        let found = file::read(&self.parts().file).ok().flatten();
        let mut state = self.inner.state.lock();
        if found == state.digest {
            state.reported = None;
            return false;
        }
        let is_news = state.reported.as_ref() != Some(&found);
        state.reported = Some(found);
        is_news
    }

    fn trouble(&self, verb: &str, error: &io::Error) -> DecideError {
        DecideError::Refused(format!("cannot {verb} `{}`: {error}", self.parts().file.display()))
    }
}

/// Writes the count, and records it if what stood there was another.
fn save_count(transaction: &Transaction<'_>, ledger: &Ledger, before: Count, after: Count) -> rusqlite::Result<()> {
    if lockout::save(transaction, ledger, before, after)? {
        return Ok(());
    }
    ledger.report("somebody has changed the count of wrong passphrases in state.db; the house's own counts".to_owned());
    let body = json!({"what": "lockout"});
    audit::append(transaction, ledger, &[Line { event: Event::Tampered, approval: "", body }])
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Runs to its end even if the caller stops waiting: an attempt that was begun is counted.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, DecideError>> + Send + 'static,
) -> Result<T, DecideError> {
    hostel_tasks::spawn(work).await.unwrap_or(Err(DecideError::Store(StoreError::Closed)))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    hostel_tasks::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
