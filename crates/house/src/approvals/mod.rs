//! What is asked of people: one noun, one state machine, kept on disk.
//!
//! Invariant: pending → approved | denied | expired | withdrawn, each transition once and on disk, with its record in the
//! audit, before anybody acts on it. A request that nobody answers in time is refused. Rules and grants are applied in the
//! write that stores a request, never later. A restart of the daemon changes nothing: the clock of a request runs on.
//!
//! It carries no decision out. Whoever asked (a session, a door) hears that something changed and looks.

mod approver;
mod asking;
mod audit;
mod clock;
mod decide;
mod glob;
mod grants;
mod letters;
mod lockout;
mod neighbours;
mod questions;
mod rights;
mod rows;
mod rules;
mod running;
mod session_grant;
mod table;
#[cfg(test)]
mod testing;
mod types;
mod who;
mod why;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hostel_peer::Peer;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::processes::Processes;
use crate::store::{Store, StoreError};

pub use approver::{
    Approver, Cost, LONGEST as LONGEST_PASSPHRASE, Passphrase, SHORTEST as SHORTEST_PASSPHRASE, Unlock,
};
pub use audit::{Audit, Broken, Event, Record, Verified};
pub use clock::FaceGuard;
pub use glob::{Glob, GlobError};
pub use grants::{Covered, Grant, GrantTerms, LONGEST as LONGEST_GRANT, Scope, Terms};
pub use lockout::Limits as LockoutLimits;
pub use rules::{Action, Rule, Verdict};
pub use session_grant::{DOOR as SUDO_PROXY, SessionGrant};
pub use types::{
    Approval, Connection, DecideError, KeeperId, Kind, Life, NewRequest, RequestError, Requester, RunState, State,
    Subject,
};
pub use who::{Answer, Claim, Face, Household};

pub use why::{Looked, Why};

pub(crate) use letters::AboutLetter;
pub(crate) use questions::{Question, withdraw_all};
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
        let household = Arc::new(Neighbours::new(processes, home));
        ApprovalOptions::with_household(approver_file, household)
    }

    /// Likewise, where something else knows which processes belong to the house.
    #[must_use]
    pub fn with_household(approver_file: PathBuf, household: Arc<dyn Household>) -> Self {
        ApprovalOptions {
            approver_file,
            household,
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
    approver: Approver,
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
    /// Loads what waits and lets it expire in its time.
    pub async fn open(store: Store, options: ApprovalOptions) -> Result<Self, StoreError> {
        let rejoin = options.rejoin;
        let work = move |database: &rusqlite::Connection| Ok((Table::load(database, rejoin)?, grants::load(database)?));
        let (table, open_grants) = store.read(work).await?;
        let approver = Approver::new(
            options.approver_file.clone(),
            store.clone(),
            Arc::clone(&options.household),
            options.lockout,
            options.cost,
        );
        let inner = Arc::new(Inner {
            store,
            approver,
            session_grant: SessionGrant::new(options.eligible),
            grants: Mutex::new(open_grants),
            table: Mutex::new(table),
            faces: AtomicUsize::new(0),
            changed: watch::Sender::new(0),
            clocks: Arc::new(Notify::new()),
            abandoned: Notify::new(),
            made: AtomicUsize::new(0),
            refusals: Mutex::default(),
            options,
        });
        hostel_tasks::spawn(clock::run(Arc::downgrade(&inner), Arc::clone(&inner.clocks)));
        Ok(Self { inner })
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

    /// Everything that was ever asked and is kept, newest first.
    pub async fn list(&self, limit: usize) -> Result<Vec<Approval>, StoreError> {
        let work = move |database: &rusqlite::Connection| {
            let mut statement = database.prepare(&rows::select("ORDER BY approvals.no DESC LIMIT ?"))?;
            statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], rows::from_row)?.collect()
        };
        self.inner.store.read(work).await
    }

    /// One request, settled or not.
    pub async fn get(&self, id: &str) -> Result<Option<Approval>, StoreError> {
        let id = id.to_owned();
        self.inner.store.read(move |database| rows::by_id(database, &id)).await
    }

    /// Whether somebody could decide such a request at this moment: a face is attached, or there is a passphrase to come
    /// with.
    #[must_use]
    pub fn someone_can_decide(&self, kind: Kind) -> bool {
        let by_socket = matches!(kind, Kind::Tool | Kind::Letter) && !self.inner.options.strict;
        by_socket || self.inner.faces.load(Ordering::Acquire) > 0 || self.inner.approver.is_set()
    }

    /// Whether the passphrase is demanded everywhere.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.inner.options.strict
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
        Audit::new(self.inner.store.clone())
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

/// A text for the audit, no longer than it is worth keeping forever.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
