//! What is asked of people: one noun, one state machine, kept on disk.
//!
//! Invariant: pending → approved | denied | expired | withdrawn, each transition once and on disk, with its record in the
//! audit, before anybody acts on it. A request that nobody answers in time is refused. Rules and grants are applied in the
//! write that stores a request, never later. A restart of the daemon changes nothing: the clock of a request runs on.
//!
//! It carries no decision out. Whoever asked (a session, a door) hears that something changed and looks.

mod alarms;
mod approver;
mod asking;
mod audit;
mod changeable;
mod checking;
mod clock;
mod decide;
mod glob;
mod grants;
mod injection;
mod letters;
mod loading;
mod lockout;
mod neighbours;
mod policy;
mod questions;
mod rekey;
mod rights;
mod rows;
mod rules;
mod running;
mod session_grant;
mod settings;
mod table;
#[cfg(test)]
mod testing;
mod types;
mod vouching;
mod who;
mod why;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostel_peer::Peer;
use hostel_syncpoint::points;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc, watch};

use crate::processes::Processes;
use crate::seals::{HouseKey, Ledger, MemoryVault, RowKey, Vault};
use crate::store::{Store, StoreError};

pub use alarms::{Alarm, AlarmWatch, MAX_ALARMS};
pub use approver::{
    Approver, Cost, LONGEST as LONGEST_PASSPHRASE, Passphrase, SHORTEST as SHORTEST_PASSPHRASE, Unlock,
};
pub use audit::{Audit, Broken, Event, Record, Segment, SegmentState, Verified};
pub use clock::FaceGuard;
pub use glob::{Glob, GlobError};
pub use grants::{Covered, Grant, GrantTerms, LONGEST as LONGEST_GRANT, Scope, Terms};
pub use lockout::Limits as LockoutLimits;
pub use policy::Policy;
pub use rules::{Action, Rule, Verdict};
pub use session_grant::{DOOR as SUDO_PROXY, SessionGrant};
pub use types::{
    Approval, Connection, DecideError, KeeperId, Kind, Life, NewRequest, RequestError, Requester, RunState, State,
    Subject,
};
pub use vouching::PolicyStatus;
pub use who::{Answer, Claim, Face, Household};
pub use why::{Looked, Why};

pub(crate) use checking::{record_changed_process, record_changed_prompt};
pub(crate) use letters::AboutLetter;
pub(crate) use questions::Question;
pub(crate) use rights::record_mode;

use grants::Grant as OpenGrant;
use neighbours::Neighbours;
use table::Table;

/// What the inbox of a house is like.
#[derive(Clone)]
pub struct ApprovalOptions {
    /// Where the digest of the approver's passphrase is.
    pub approver_file: PathBuf,
    /// Who knows which processes belong to the house.
    pub household: Arc<dyn Household>,
    /// Where the key comes from that proves what the house decided.
    pub vault: Arc<dyn Vault>,
    /// Whether the passphrase is demanded everywhere.
    pub strict: bool,
    /// What may happen unasked, and what never may.
    pub rules: Vec<Rule>,
    /// Whether a person may give the sudo-proxy session grant.
    pub eligible: bool,
    /// Requests that may wait at once; those of agents are not counted, their sessions are.
    pub max_pending: usize,
    /// Settled requests that are kept; the audit keeps all of them.
    pub keep: usize,
    /// The most bytes a request may have.
    pub max_size: usize,
    /// How long a connection that our own restart has cut off may take to come back.
    pub rejoin: Duration,
    /// What wrong passphrases lead to.
    pub lockout: LockoutLimits,
    /// What a digest of the passphrase costs.
    pub cost: Cost,
}

impl ApprovalOptions {
    /// The usual ones. The houses beside the approver's file have the same approver: what runs inside one of them decides
    /// in none.
    #[must_use]
    pub fn new(approver_file: PathBuf, processes: Processes) -> Self {
        let home = approver_file.parent().unwrap_or(Path::new(""));
        let vault = Arc::new(processes.clone());
        let household = Arc::new(Neighbours::new(processes, home));
        ApprovalOptions::with_household(approver_file, household, vault)
    }

    /// Likewise, where something else knows which processes belong to the house, and where the key is.
    #[must_use]
    pub fn with_household(approver_file: PathBuf, household: Arc<dyn Household>, vault: Arc<dyn Vault>) -> Self {
        ApprovalOptions {
            approver_file,
            household,
            vault,
            strict: false,
            rules: Vec::new(),
            eligible: false,
            max_pending: 1000,
            keep: 10_000,
            max_size: 4 << 20,
            rejoin: Duration::from_secs(10),
            lockout: LockoutLimits::default(),
            cost: Cost::default(),
        }
    }
}

/// The requests of a house. Cheap to clone.
#[derive(Clone)]
pub struct Approvals {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    options: ApprovalOptions,
    /// What the house wrote last of everything that can still have an effect.
    ledger: Arc<Ledger>,
    /// The settings that apply.
    policy: RwLock<Arc<Policy>>,
    in_force: Mutex<settings::InForce>,
    approver: Approver,
    /// Requests that are to be carried out, or are being, by id.
    running: Mutex<HashMap<String, Approval>>,
    alarms: alarms::Alarms,
    /// Rows of sessions and prompts that were changed and of which that was told.
    changed_rows: Mutex<HashSet<RowKey>>,
    session_grant: SessionGrant,
    /// The grants that may be open; whether one is, is only certain inside a write.
    grants: Mutex<Vec<OpenGrant>>,
    table: Mutex<Table>,
    /// Faces that are attached.
    faces: AtomicUsize,
    /// Counts changes of what waits.
    changed: watch::Sender<u64>,
    /// Something about clocks has changed.
    clocks: Arc<Notify>,
    /// What was approved before a restart, is not known to be over, and nobody came back for.
    abandoned: Notify,
    /// Requests that were made since settled ones were last looked through.
    made: AtomicUsize,
    /// Refused deciders that were recorded in this minute.
    refusals: Mutex<decide::Refusals>,
}

impl Approvals {
    /// Loads what waits and lets it expire in its time. What stands in the database counts as far as the vault proves it.
    pub async fn open(store: Store, options: ApprovalOptions) -> Result<Self, StoreError> {
        let clocks = Arc::new(Notify::new());
        let ledger = Arc::new(open_ledger(&options, Arc::clone(&clocks)).await?);
        if !store.attend(Arc::clone(&ledger) as Arc<dyn hostel_store::Witness>) {
            return Err(StoreError::Busy("this database has an inbox already".to_owned()));
        }
        let path = options.approver_file.clone();
        let read = hostel_tasks::spawn_blocking(move || approver::file::read(&path).map_err(|error| error.to_string()));
        let input = loading::Input {
            limits: options.lockout,
            file: read.await.map_err(|_| StoreError::Closed)?,
            wanted: Policy { strict: options.strict, rules: options.rules.clone(), lockout: options.lockout },
        };
        let keeping = Arc::clone(&ledger);
        let work = move |transaction: &rusqlite::Transaction<'_>| loading::load(transaction, &keeping, input);
        let loaded = store.write(points::CONSENT_LOADED, work).await?;
        finish_file(&options.approver_file, &loaded).await;
        let (proofs, proved) = mpsc::channel(vouching::MAX_PROOFS);
        let approver = Approver::new(approver::Parts {
            file: options.approver_file.clone(),
            store: store.clone(),
            ledger: Arc::clone(&ledger),
            household: Arc::clone(&options.household),
            limits: loaded.in_force.policy.lockout,
            cost: options.cost,
            digest: loaded.digest,
            doubt: loaded.doubt,
            key: loaded.key,
            count: loaded.count,
            proofs,
        });
        let unfinished = loaded.approvals.iter().filter(|approval| checking::is_unfinished(approval));
        let running = unfinished.map(|approval| (approval.id.clone(), approval.clone())).collect();
        let inner = Arc::new(Inner {
            store,
            ledger,
            policy: RwLock::new(Arc::new(loaded.in_force.policy.clone())),
            in_force: Mutex::new(loaded.in_force),
            approver,
            running: Mutex::new(running),
            alarms: alarms::Alarms::default(),
            changed_rows: Mutex::default(),
            session_grant: SessionGrant::new(options.eligible),
            grants: Mutex::new(loaded.grants),
            table: Mutex::new(Table::new(loaded.approvals, loaded.unheard, options.rejoin)),
            faces: AtomicUsize::new(0),
            changed: watch::Sender::new(0),
            clocks,
            abandoned: Notify::new(),
            made: AtomicUsize::new(0),
            refusals: Mutex::default(),
            options,
        });
        hostel_tasks::spawn(clock::run(Arc::downgrade(&inner), Arc::clone(&inner.clocks)));
        hostel_tasks::spawn(vouching::run(Arc::downgrade(&inner), proved));
        if let Some(keys) = inner.options.vault.key_changes() {
            hostel_tasks::spawn(rekey::run(Arc::downgrade(&inner), keys));
        }
        Ok(Self { inner })
    }

    /// The settings about consent that apply.
    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.inner.policy.read())
    }

    /// What proves the rows of other rooms of the house.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.inner.ledger
    }

    /// What waits for an answer, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Approval> {
        self.inner.table.lock().pending().cloned().collect()
    }

    /// When a request that waits for an answer is refused by itself, nanoseconds of wall clock.
    #[must_use]
    pub fn expires_ns(&self, id: &str) -> Option<u64> {
        self.inner.table.lock().by_id(id).map(|approval| approval.expires_ns)
    }

    /// Counts changes of what waits.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    /// Everything that was ever asked and is kept, newest first. What waits is told as the house knows it, also if somebody
    /// has changed or removed its row.
    pub async fn list(&self, limit: usize) -> Result<Vec<Approval>, StoreError> {
        let work = move |database: &rusqlite::Connection| {
            let mut statement = database.prepare(&rows::select("ORDER BY approvals.no DESC LIMIT ?"))?;
            statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], rows::from_row)?.collect()
        };
        let mut found: Vec<Approval> = self.inner.store.read(work).await?;
        let table = self.inner.table.lock();
        found.retain(|approval| table.by_id(&approval.id).is_none());
        found.extend(table.pending().cloned());
        found.sort_by_key(|approval| std::cmp::Reverse(approval.no));
        found.truncate(limit);
        Ok(found)
    }

    /// One request, settled or not. What can still have an effect is told as the house knows it; what is long over is told
    /// as it stands on disk.
    pub async fn get(&self, id: &str) -> Result<Option<Approval>, StoreError> {
        let waiting = self.inner.table.lock().by_id(id).cloned();
        if waiting.is_some() {
            return Ok(waiting);
        }
        let wanted = id.to_owned();
        let found = self.inner.store.read(move |database| rows::by_id(database, &wanted)).await?;
        match found {
            Some(found) if found.stored.open || found.may_have_effect() => self.authentic(id).await,
            found => Ok(found),
        }
    }

    /// Whether somebody could decide such a request at this moment: a face is attached, or there is a passphrase to come
    /// with.
    #[must_use]
    pub fn someone_can_decide(&self, kind: Kind) -> bool {
        let by_socket = matches!(kind, Kind::Tool | Kind::Letter) && !self.is_strict();
        by_socket || self.inner.faces.load(Ordering::Acquire) > 0 || self.inner.approver.is_set()
    }

    /// Whether the passphrase is demanded everywhere.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.inner.policy.read().strict
    }

    /// Whether somebody is anybody who may decide at all, and not inside this house; why not, in words.
    pub async fn may_decide(&self, peer: &Peer) -> Result<(), String> {
        who::may_decide(&*self.inner.options.household, peer).await
    }

    /// What a peer is to the house.
    pub(crate) async fn standing(&self, peer: &hostel_peer::Peer) -> hostel_peer::Standing {
        self.inner.options.household.standing(peer).await
    }

    /// The sudo-proxy session grant.
    #[must_use]
    pub fn session_grant(&self) -> &SessionGrant {
        &self.inner.session_grant
    }

    /// The record of everything.
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit::new(self.inner.store.clone(), Arc::clone(&self.inner.ledger))
    }

    /// The approver and the passphrase.
    #[must_use]
    pub fn approver(&self) -> &Approver {
        &self.inner.approver
    }

    fn tell(&self) {
        self.inner.changed.send_modify(|count| *count += 1);
        self.inner.clocks.notify_one();
    }
}

/// The ledger of a house, with what its vault remembers.
async fn open_ledger(options: &ApprovalOptions, alarm: Arc<Notify>) -> Result<Ledger, StoreError> {
    let refused =
        |error: std::io::Error| StoreError::Busy(format!("the keeper does not tell what was decided: {error}"));
    let (vault, key): (Arc<dyn Vault>, Arc<HouseKey>) = match options.vault.key() {
        Some(key) => (Arc::clone(&options.vault), key),
        // A keeper that has no key to give: what is decided counts for as long as this daemon lives.
        None => {
            let vault = MemoryVault::new().map_err(refused)?;
            let key = vault.key().ok_or(StoreError::Closed)?;
            (Arc::new(vault), key)
        }
    };
    let recalled = vault.recall().await.map_err(refused)?;
    Ok(Ledger::new(vault, &key, recalled.as_deref(), audit::write_signature, alarm))
}

/// Finishes a change of the passphrase that the last daemon did not get to finish.
async fn finish_file(path: &Path, loaded: &loading::Loaded) {
    if !loaded.writes_file {
        return;
    }
    let (path, digest) = (path.to_owned(), loaded.digest.clone());
    let finish = move || match digest {
        Some(digest) => approver::file::replace(&path, &digest),
        None => approver::file::remove(&path),
    };
    // If it does not succeed the file differs, which is told; the row is what counts.
    hostel_tasks::spawn_blocking(finish).await.ok();
}

/// A text for the audit, no longer than it is worth keeping forever.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
