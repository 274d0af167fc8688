//! The approver's passphrase: a digest in a file, and proof in the memory of one face at most.
//!
//! Invariant: a passphrase is compared one at a time, away from the threads that serve, and every attempt is on disk
//! before it is looked at: neither many connections nor a killed daemon give anybody more attempts. Whoever may not
//! decide at all is turned away before, so that nobody inside can lock the approver out.

use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dryoc::classic::crypto_pwhash::{crypto_pwhash_str, crypto_pwhash_str_verify};
use hostel_peer::Peer;
use hostel_syncpoint::points;
use rusqlite::Transaction;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use zeroize::Zeroizing;

use super::audit::{self, Event, Line};
use super::lockout::{self, Limits, Standing};
use super::types::DecideError;
use super::who::{self, Household};
use crate::sessions::now_ns;
use crate::store::{Store, StoreError};

/// The shortest passphrase, in characters.
pub const SHORTEST: usize = 8;

/// The longest, in bytes.
pub const LONGEST: usize = 1024;

/// The largest file that is read as a digest.
const LARGEST_FILE: u64 = 4096;

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
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Passphrase(…)")
    }
}

/// Proof that somebody showed the passphrase. Worth nothing once the passphrase is another.
#[derive(Clone)]
pub struct Unlock {
    /// Of the file's content at that moment.
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

struct Inner {
    file: PathBuf,
    store: Store,
    household: Arc<dyn Household>,
    limits: Limits,
    cost: Cost,
    /// One attempt at a time.
    gate: Mutex<()>,
}

impl Approver {
    pub(super) fn new(file: PathBuf, store: Store, household: Arc<dyn Household>, limits: Limits, cost: Cost) -> Self {
        Approver { inner: Arc::new(Inner { file, store, household, limits, cost, gate: Mutex::default() }) }
    }

    /// Whether a passphrase is set. A file that cannot be used counts: it does not open anything, but it is there.
    #[must_use]
    pub fn is_set(&self) -> bool {
        !matches!(read(&self.inner.file), Ok(None))
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
        let event = match (self.stored()?, old) {
            (None, _) => Event::ApproverSet,
            (Some(_), Some(old)) => {
                self.check(&old, label).await?;
                Event::ApproverChanged
            }
            (Some(_), None) => {
                return Err(DecideError::Refused("a passphrase is set already; show the old one".to_owned()));
            }
        };
        let (file, cost) = (self.inner.file.clone(), self.inner.cost);
        let work = move || {
            let digest = crypto_pwhash_str(new.0.as_bytes(), cost.passes, cost.memory)
                .map_err(|error| io::Error::other(format!("cannot make a digest: {error}")))?;
            replace(&file, digest.as_bytes())
        };
        blocking(work).await.map_err(|error| self.trouble("write", &error))?;
        self.record(event, label).await
    }

    /// Removes the passphrase; it has to be shown once more.
    pub async fn clear(&self, passphrase: Passphrase, peer: &Peer, label: &str) -> Result<(), DecideError> {
        let (approver, peer, label) = (self.clone(), peer.clone(), label.to_owned());
        detached(async move {
            approver.admit(&peer).await?;
            let _one_at_a_time = approver.inner.gate.lock().await;
            approver.check(&passphrase, &label).await?;
            let file = approver.inner.file.clone();
            blocking(move || fs::remove_file(file)).await.map_err(|error| approver.trouble("remove", &error))?;
            approver.record(Event::ApproverCleared, &label).await
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
        match self.stored()? {
            None => Err(DecideError::NoPassphraseSet),
            Some(text) if digest(&text) == unlock.digest => Ok(()),
            Some(_) => Err(DecideError::Refused("the passphrase is another since; unlock again".to_owned())),
        }
    }

    /// Whether it is the passphrase, at the cost of an attempt if it is not. Whoever shows it may show it.
    pub(super) async fn verify(&self, passphrase: &Passphrase, label: &str) -> Result<Unlock, DecideError> {
        let _one_at_a_time = self.inner.gate.lock().await;
        self.check(passphrase, label).await
    }

    async fn admit(&self, peer: &Peer) -> Result<(), DecideError> {
        who::may_decide(&*self.inner.household, peer).await.map_err(DecideError::Refused)
    }

    /// With the gate held.
    async fn check(&self, passphrase: &Passphrase, label: &str) -> Result<Unlock, DecideError> {
        let Some(stored) = self.stored()? else { return Err(DecideError::NoPassphraseSet) };
        let limits = self.inner.limits;
        let begun = self
            .inner
            .store
            .write(points::ATTEMPT_COUNTED, move |transaction| lockout::begin(transaction, limits, now_ns()))
            .await?;
        if let Standing::Locked { until_ns } = begun {
            return Err(DecideError::LockedOut { until_ns });
        }
        let unlock = Unlock { digest: digest(&stored) };
        let passphrase = passphrase.clone();
        let compare = move || Ok(crypto_pwhash_str_verify(&stored, passphrase.0.as_bytes()).is_ok());
        if blocking(compare).await.map_err(|error| self.trouble("compare with", &error))? {
            self.inner.store.write(points::ATTEMPT_PASSED, lockout::succeed).await?;
            return Ok(unlock);
        }
        let label = label.to_owned();
        let work = move |transaction: &Transaction<'_>| {
            let standing = lockout::fail(transaction, limits, now_ns())?;
            let wrong = Line { event: Event::WrongPassphrase, approval: "", body: json!({"who": label}) };
            match standing {
                Standing::Open { .. } => audit::append(transaction, &[wrong])?,
                Standing::Locked { until_ns } => {
                    let body = json!({"who": label, "until_ns": until_ns});
                    audit::append(transaction, &[wrong, Line { event: Event::LockedOut, approval: "", body }])?;
                }
            }
            Ok(standing)
        };
        Err(match self.inner.store.write(points::ATTEMPT_FAILED, work).await? {
            Standing::Open { left } => DecideError::WrongPassphrase { left },
            Standing::Locked { until_ns } => DecideError::LockedOut { until_ns },
        })
    }

    /// The digest as it is in the file.
    fn stored(&self) -> Result<Option<String>, DecideError> {
        read(&self.inner.file).map_err(|error| self.trouble("use", &error))
    }

    fn trouble(&self, verb: &str, error: &io::Error) -> DecideError {
        DecideError::Refused(format!("cannot {verb} `{}`: {error}", self.inner.file.display()))
    }

    async fn record(&self, event: Event, label: &str) -> Result<(), DecideError> {
        let body = json!({"who": label});
        let work = move |transaction: &Transaction<'_>| {
            lockout::succeed(transaction)?;
            audit::append(transaction, &[Line { event, approval: "", body }])
        };
        Ok(self.inner.store.write(points::PASSPHRASE_RECORDED, work).await?)
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

/// The digest in the file; none if there is no file. A file that others may read or write, or that is not ours, is not
/// trusted.
fn read(path: &Path) -> io::Result<Option<String>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() || about.mode() & 0o077 != 0 {
        return Err(io::Error::other("it must be a file of yours that nobody else may read or write (mode 0600)"));
    }
    let mut text = String::new();
    file.take(LARGEST_FILE + 1).read_to_string(&mut text)?;
    let text = text.trim_end();
    if text.len() as u64 > LARGEST_FILE || !text.starts_with("$argon2id$") {
        return Err(io::Error::other("it does not hold an argon2id digest"));
    }
    Ok(Some(text.to_owned()))
}

/// Puts a file of this content in place at once, on disk when this returns.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().ok_or_else(|| io::Error::other("it has no directory"))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let draft = directory.join(name);
    fs::remove_file(&draft).ok();
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).and_then(|mut file| {
        file.write_all(content)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        fs::File::open(directory)?.sync_all()?;
        points::PASSPHRASE_WRITTEN.reach();
        Ok(())
    });
    if written.is_err() {
        fs::remove_file(&draft).ok();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_digest_and_nothing_endless() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("approver");
        assert_eq!(read(&file).unwrap(), None);
        let digest = |length: u64| format!("$argon2id${}", "x".repeat(length as usize - "$argon2id$".len()));
        for (length, taken) in [(LARGEST_FILE - 1, true), (LARGEST_FILE, true), (LARGEST_FILE + 1, false)] {
            replace(&file, digest(length).as_bytes()).unwrap();
            assert_eq!(read(&file).ok().flatten(), taken.then(|| digest(length)), "{length}");
        }
    }
}
