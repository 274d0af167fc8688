//! The approver's passphrase: its digest in memory, and proof in the memory of one face at most.
//!
//! Invariant: the digest is the one that was there when the daemon started, or was set through the daemon since. A file that
//! somebody replaces changes nothing and is reported. A passphrase is compared one at a time, away from the threads that
//! serve, and every attempt is on disk before it is looked at: neither many connections nor a killed daemon give anybody
//! more attempts. Whoever may not decide at all is turned away before, so that nobody inside can lock the approver out.
//!
//! A digest that nobody can prove, because the keeper ended, is in doubt: whoever can write files could have put it there. A
//! passphrase then has to fit to what the audit proves as well, and the first one that does ends the doubt.
//!
//! Every change is signed in the audit with the key of the passphrase that was in force. The secret key is derived from the
//! passphrase that is shown for the change, and is kept nowhere.
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
use tokio::sync::{Mutex, MutexGuard, mpsc};
use zeroize::Zeroizing;

use super::audit::approver::Proof as Attestation;
use super::audit::endorsement::EndorsementKey;
use super::audit::signatures::ApproverKey;
use super::audit::{self, Event, Line};
use super::lockout::{self, Count, Limits, Standing};
use super::types::DecideError;
use super::vouching::{Former, Proof};
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
    /// What a passphrase has to fit to besides, because the digest is in doubt.
    pub(super) doubt: Option<Attestation>,
    /// What signs the next change.
    pub(super) key: Option<ApproverKey>,
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
    /// What a passphrase has to fit to besides, because the digest is in doubt.
    doubt: Option<Attestation>,
    /// What signs the next change.
    key: Option<ApproverKey>,
    count: Count,
    /// What the file was when it was last reported.
    reported: Option<Option<String>>,
    /// When the file was last looked at.
    looked: Option<Instant>,
}

impl State {
    /// As it is stored, once the file is in its place.
    fn row(&self) -> ApproverRow {
        ApproverRow::doubted(self.digest.clone(), self.doubt.clone(), self.key.clone())
    }
}

/// What a passphrase that was shown turned out to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Shown {
    /// The one that is in force.
    Right,
    /// It fits to the digest, and not to what the approver endorsed before the key was lost: somebody has put a digest of
    /// their own in the place of the approver's.
    Planted,
    /// It fits to what the approver endorsed, and not to the digest: somebody has changed the digest.
    Former,
    Wrong,
}

/// What the owner of a planted digest hears, and the audit has.
const PLANTED: &str = "the approver was changed behind the house's back: this passphrase fits to the stored digest, and not \
     to what the approver endorsed before the keeper ended. It is refused. The approver's own passphrase puts it right: \
     `hostel approver set` takes it as the passphrase in force";

/// What the approver hears whose digest was changed.
const FORMER: &str = "the approver was changed behind the house's back: this is the passphrase of before, and the stored \
     digest is another one's. `hostel approver set` puts it right: show this passphrase as the one in force, and set it, or \
     another, anew";

/// The file is looked at this often at most: whoever looks around may do so for every request.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl Approver {
    pub(super) fn new(mut parts: Parts) -> Self {
        let (digest, doubt, key) = (parts.digest.take(), parts.doubt.take(), parts.key.take());
        let state = State { digest, doubt, key, count: parts.count, reported: None, looked: None };
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
        let one_at_a_time = self.inner.gate.lock().await;
        let before = self.inner.state.lock().digest.clone();
        let mut body = json!({"who": label});
        let event = match (&before, &old) {
            (None, _) => Event::ApproverSet,
            (Some(_), Some(old)) => {
                // The approver's own passphrase counts, also where somebody has changed the digest of it.
                if self.look(old, label).await? == Shown::Former {
                    body["proved_by"] = json!("endorsement");
                }
                Event::ApproverChanged
            }
            (Some(_), None) => {
                return Err(DecideError::Refused("a passphrase is set already; show the old one".to_owned()));
            }
        };
        let old = old.filter(|_| before.is_some());
        let signer = match &old {
            Some(old) => self.signing_key(old).await?,
            None => None,
        };
        let (path, cost, current) = (self.parts().file.clone(), self.parts().cost, before.clone());
        let work = move || {
            let key = EndorsementKey::fresh(new.bytes(), cost)?;
            // Another house below the same directory may have set the same passphrase a moment ago.
            let found = file::read(&path).ok().flatten().filter(|found| Some(found) != current.as_ref());
            if let Some(found) = found.filter(|found| crypto_pwhash_str_verify(found, new.bytes()).is_ok()) {
                return Ok((key, found, None));
            }
            let digest = crypto_pwhash_str(new.bytes(), cost.passes, cost.memory)
                .map_err(|error| io::Error::other(format!("cannot make a digest: {error}")))?;
            let draft = file::Draft::write(&path, &digest)?;
            Ok((key, digest, Some(draft)))
        };
        let (key, digest, draft) = blocking(work).await.map_err(|error| self.trouble("write", &error))?;
        let public = ApproverKey::of(&key);
        body["key"] = public.body();
        let row = ApproverRow { digest: Some(digest), previous: before, doubt: None, key: Some(public) };
        let signer = self.record(row, event, body, signer).await?;
        let put = match draft {
            Some(draft) => blocking(move || draft.put()).await,
            None => Ok(()),
        };
        if put.is_ok() {
            self.finish_change().await;
        }
        // Whoever takes proofs may wait for this one to be over.
        drop(one_at_a_time);
        let old = old.map(|passphrase| Former { passphrase, key: signer });
        self.parts().proofs.send(Proof::Set { old, key }).await.ok();
        put.map_err(|error| self.trouble("write", &error))
    }

    /// The secret key that signs a change, of a passphrase that was found to be right; none if there is no such key yet.
    async fn signing_key(&self, passphrase: &Passphrase) -> Result<Option<EndorsementKey>, DecideError> {
        let Some(key) = self.inner.state.lock().key.clone() else { return Ok(None) };
        let given = passphrase.clone();
        let derived = blocking(move || key.unlock(given.bytes())).await;
        match derived.map_err(|error| self.trouble("sign the change of", &error))? {
            Some(key) => Ok(Some(key)),
            None => Err(DecideError::Refused("the audit does not know this passphrase".to_owned())),
        }
    }

    /// As long as this is held nobody changes the passphrase, or shows one.
    pub(super) async fn hold(&self) -> MutexGuard<'_, ()> {
        self.inner.gate.lock().await
    }

    /// What signs the next change.
    pub(super) fn key(&self) -> Option<ApproverKey> {
        self.inner.state.lock().key.clone()
    }

    /// Another key signs the next change; gives the one of before. Part of the write that records it, and in memory at once, so
    /// that nobody finds a row that differs. With the gate held.
    pub(super) fn adopt_key(
        &self,
        transaction: &Transaction<'_>,
        key: ApproverKey,
    ) -> rusqlite::Result<Option<ApproverKey>> {
        let mut state = self.inner.state.lock();
        let before = state.key.replace(key);
        if before != state.key {
            row::save(transaction, &self.parts().ledger, &state.row())?;
        }
        Ok(before)
    }

    /// That write failed.
    pub(super) fn restore_key(&self, before: Option<ApproverKey>) {
        self.inner.state.lock().key = before;
    }

    /// The file is in its place: one of before is from now on a file that somebody else has put there. With the gate held.
    async fn finish_change(&self) {
        let (ledger, row) = (Arc::clone(&self.parts().ledger), self.inner.state.lock().row());
        let work = move |transaction: &Transaction<'_>| row::save(transaction, &ledger, &row);
        // Without this write the next start takes a file of before for a change that was not finished, and finishes it.
        self.parts().store.write(SyncPoint::NONE, work).await.ok();
    }

    /// Removes the passphrase; it has to be shown once more.
    pub async fn clear(&self, passphrase: Passphrase, peer: &Peer, label: &str) -> Result<(), DecideError> {
        let (approver, peer, label) = (self.clone(), peer.clone(), label.to_owned());
        detached(async move {
            approver.admit(&peer).await?;
            let _one_at_a_time = approver.inner.gate.lock().await;
            approver.look(&passphrase, &label).await?;
            let before = approver.inner.state.lock().digest.clone();
            let signer = approver.signing_key(&passphrase).await?;
            let row = ApproverRow { digest: None, previous: before, doubt: None, key: None };
            approver.record(row, Event::ApproverCleared, json!({"who": label}), signer).await?;
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

    /// Whether it is the passphrase that is in force. With the gate held.
    async fn check(&self, passphrase: &Passphrase, label: &str) -> Result<Unlock, DecideError> {
        if self.look(passphrase, label).await? == Shown::Former {
            return Err(DecideError::Refused(FORMER.to_owned()));
        }
        let Some(stored) = self.inner.state.lock().digest.clone() else { return Err(DecideError::NoPassphraseSet) };
        // Whoever is busy with an earlier one needs no other.
        self.parts().proofs.try_send(Proof::Shown(passphrase.clone())).ok();
        Ok(Unlock { digest: digest(&stored) })
    }

    /// Looks at a passphrase: gives whether it is the one in force or the approver's of before; any other is an error. With
    /// the gate held.
    async fn look(&self, passphrase: &Passphrase, label: &str) -> Result<Shown, DecideError> {
        let (stored, doubt) = {
            let state = self.inner.state.lock();
            (state.digest.clone().ok_or(DecideError::NoPassphraseSet)?, state.doubt.clone())
        };
        let limits = self.parts().limits;
        let begun = self.count(points::ATTEMPT_COUNTED, move |count| count.begin(limits, now_ns()), |_| Vec::new());
        if let Standing::Locked { until_ns } = begun.await? {
            return Err(DecideError::LockedOut { until_ns });
        }
        let (is_doubted, text, given) = (doubt.is_some(), stored.clone(), passphrase.clone());
        let compare = move || Ok(compare(&text, doubt.as_ref(), &given));
        let shown = blocking(compare).await.map_err(|error| self.trouble("compare with", &error))?;
        match shown {
            Shown::Right if is_doubted => {
                self.end_doubt(stored).await?;
                return Ok(shown);
            }
            Shown::Right | Shown::Former => {
                self.count(points::ATTEMPT_PASSED, Count::succeed, |()| Vec::new()).await?;
                return Ok(shown);
            }
            Shown::Planted => return Err(self.refuse_planted(label).await?),
            Shown::Wrong => {}
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

    /// Somebody has shown a passphrase whose digest they have put there: recorded and told. With the gate held.
    async fn refuse_planted(&self, label: &str) -> Result<DecideError, DecideError> {
        let body = json!({"what": "approver", "who": label, "why": PLANTED});
        let lines = move |(): &()| vec![(Event::Tampered, body)];
        // Whoever planted the digest does not lock the approver out.
        self.count(points::ATTEMPT_FAILED, Count::take_back, lines).await?;
        self.parts().ledger.report(
            "the approver was changed behind the house's back: somebody has shown a passphrase that fits to the stored \
             digest and not to what the approver endorsed; it was refused. `hostel approver set` puts it right"
                .to_owned(),
        );
        Ok(DecideError::Refused(PLANTED.to_owned()))
    }

    /// The passphrase is proved to be the approver's. With the gate held.
    async fn end_doubt(&self, stored: String) -> Result<(), DecideError> {
        let (before, key) = {
            let state = self.inner.state.lock();
            (state.count, state.key.clone())
        };
        let (ledger, row) = (Arc::clone(&self.parts().ledger), ApproverRow::finished(Some(stored), key));
        let work = move |transaction: &Transaction<'_>| {
            save_count(transaction, &ledger, before, Count::default())?;
            row::save(transaction, &ledger, &row)
        };
        self.parts().store.write(points::ATTEMPT_PASSED, work).await?;
        let mut state = self.inner.state.lock();
        (state.doubt, state.count) = (None, Count::default());
        Ok(())
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

    /// Another digest is in force: written down first, then so in memory. Gives the key back that has signed the change.
    async fn record(
        &self,
        row: ApproverRow,
        event: Event,
        body: serde_json::Value,
        signer: Option<EndorsementKey>,
    ) -> Result<Option<EndorsementKey>, DecideError> {
        let (ledger, stored) = (Arc::clone(&self.parts().ledger), row.clone());
        let before = self.inner.state.lock().count;
        let work = move |transaction: &Transaction<'_>| {
            save_count(transaction, &ledger, before, Count::default())?;
            row::save(transaction, &ledger, &stored)?;
            audit::append_signed(transaction, &ledger, event, body, signer.as_ref())?;
            Ok(signer)
        };
        let signer = self.parts().store.write(points::PASSPHRASE_RECORDED, work).await?;
        let mut state = self.inner.state.lock();
        (state.digest, state.doubt, state.key) = (row.digest, row.doubt, row.key);
        (state.count, state.reported) = (Count::default(), None);
        Ok(signer)
    }

    /// The house has begun anew under another key: writes down what it knows. Part of that write.
    pub(super) fn reseal(&self, transaction: &Transaction<'_>, limits: Limits) -> rusqlite::Result<()> {
        let mut state = self.inner.state.lock();
        if state.count.is_locked(now_ns()) {
            state.count = Count::lock(limits, now_ns());
        }
        lockout::save(transaction, &self.parts().ledger, state.count, state.count)?;
        row::save(transaction, &self.parts().ledger, &state.row())
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
        let is_ours = |row: ApproverRow| row.digest == state.digest && row.doubt == state.doubt && row.key == state.key;
        if !row::load(transaction)?.is_some_and(is_ours) {
            row::save(transaction, ledger, &state.row())?;
            changed.push("approver");
        }
        Ok(changed)
    }

    /// Whether the file is another than what is in force; told once for each content.
    pub(super) fn file_changed(&self) -> bool {
        // A change of the passphrase is in force before the file is in its place. The next look is soon enough.
        let Ok(_no_change) = self.inner.gate.try_lock() else { return false };
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

/// What a passphrase is. May take long.
fn compare(stored: &str, doubt: Option<&Attestation>, shown: &Passphrase) -> Shown {
    let fits = crypto_pwhash_str_verify(stored, shown.bytes()).is_ok();
    match (fits, doubt.map(|attested| attested.is_of(shown.bytes()))) {
        (true, None | Some(true)) => Shown::Right,
        (true, Some(false)) => Shown::Planted,
        (false, Some(true)) => Shown::Former,
        (false, None | Some(false)) => Shown::Wrong,
    }
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
