//! Who is let in at a door, and how many.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;

use super::notices::{Notice, Reason, Throttle};
use super::strangers::{Source, Stranger, StrangerLimits, Strangers};
use crate::peer::{Origin, Peer};

/// Who is let in at all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Admits {
    /// The user who runs this process, on this machine.
    Owner,
    /// That user and root.
    OwnerAndRoot,
    /// Everybody, on this machine or elsewhere: a token is wanted later.
    Everybody,
    /// The user who runs this process and everybody elsewhere; a token is wanted later, of the user as well. Other users of
    /// this machine are not, root neither: what they hold may be an insider's, under another id. The users given here run
    /// proxies, and speak for others.
    OwnerAndElsewhere {
        /// Users whose connections are taken for those of somebody elsewhere.
        proxies: Vec<u32>,
    },
}

/// What becomes of a connection when all places are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhenFull {
    /// It waits to be accepted.
    Wait,
    /// It is closed.
    Close,
    /// The door tells it so: it arrives without a place.
    Tell,
}

type OnNotice = Box<dyn Fn(Notice<'_>) + Send + Sync>;
type OnTurnedAway = Box<dyn Fn(BorrowedFd<'_>, Reason) + Send + Sync>;

/// The gate of a door. Listeners that share a gate share its places.
pub struct Gate {
    admits: Admits,
    when_full: WhenFull,
    places: Arc<Semaphore>,
    strangers: Arc<Strangers>,
    proxies: Arc<[u32]>,
    looks_at_once: bool,
    throttle: Throttle,
    on_notice: OnNotice,
    on_turned_away: OnTurnedAway,
}

impl Gate {
    /// A gate with so many places.
    #[must_use]
    pub fn new(admits: Admits, places: usize, when_full: WhenFull) -> Self {
        Self::with_places(admits, Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))), when_full)
    }

    /// A gate whose places others take as well.
    #[must_use]
    pub fn with_places(admits: Admits, places: Arc<Semaphore>, when_full: WhenFull) -> Self {
        let proxies = match &admits {
            Admits::OwnerAndElsewhere { proxies } => proxies.iter().copied().collect(),
            _ => Arc::new([]) as Arc<[u32]>,
        };
        Gate {
            admits,
            when_full,
            places,
            strangers: Strangers::new(StrangerLimits::default()),
            proxies,
            looks_at_once: false,
            throttle: Throttle::new(),
            on_notice: Box::new(|_| {}),
            on_turned_away: Box::new(|_, _| {}),
        }
    }

    /// Sets how many may not have shown a token yet.
    #[must_use]
    pub fn strangers(mut self, limits: StrangerLimits) -> Self {
        self.strangers = Strangers::new(limits);
        self
    }

    /// Has everybody who is let in looked at when they connect, and not only when somebody wants to know: for doors where
    /// people are shown who asks.
    #[must_use]
    pub fn look_at_once(mut self) -> Self {
        self.looks_at_once = true;
        self
    }

    /// Says where failures and refusals are noted; not more often than a log can take.
    #[must_use]
    pub fn on_notice(mut self, note: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Self {
        self.on_notice = Box::new(note);
        self
    }

    /// Says something to a connection that is closed unserved. It must not wait.
    #[must_use]
    pub fn on_turned_away(mut self, tell: impl Fn(BorrowedFd<'_>, Reason) + Send + Sync + 'static) -> Self {
        self.on_turned_away = Box::new(tell);
        self
    }

    pub(super) fn proxies(&self) -> &Arc<[u32]> {
        &self.proxies
    }

    /// Takes a place before a connection is accepted, where connections wait for one.
    pub(super) async fn hold(&self) -> Option<OwnedSemaphorePermit> {
        match self.when_full {
            // Fails only for a closed semaphore, which then has no places to wait for.
            WhenFull::Wait => Arc::clone(&self.places).acquire_owned().await.ok(),
            WhenFull::Close | WhenFull::Tell => None,
        }
    }

    /// Whether a connection is let in, and its place.
    pub(super) async fn judge(&self, peer: &Peer, held: Option<OwnedSemaphorePermit>) -> Result<Option<Place>, Reason> {
        let own = rustix::process::geteuid().as_raw();
        let source = match (peer.origin().await, &self.admits) {
            (Origin::User(uid), Admits::OwnerAndElsewhere { .. }) if uid == own => Source::User(uid),
            (Origin::User(uid), _) if uid == own => return self.place(held),
            (Origin::User(0), Admits::OwnerAndRoot) => return self.place(held),
            (Origin::User(uid), Admits::Everybody) => Source::User(uid),
            (Origin::User(uid), Admits::OwnerAndElsewhere { .. }) if self.proxies.contains(&uid) => Source::Proxy,
            (Origin::User(uid), _) => return Err(Reason::OtherUser(uid)),
            (Origin::Elsewhere(address), Admits::Everybody | Admits::OwnerAndElsewhere { .. }) => {
                Source::of_address(address)
            }
            (Origin::Elsewhere(_), _) => return Err(Reason::Remote),
            (Origin::Unknown, Admits::Everybody) => Source::Nobody,
            (Origin::Unknown, _) => return Err(Reason::Unknown),
        };
        let stranger = self.strangers.take(source).ok_or(Reason::TooManyStrangers)?;
        let deadline = tokio::time::Instant::now() + self.strangers.time();
        let waiting = Waiting { _stranger: stranger, deadline, places: Arc::clone(&self.places) };
        Ok(Some(Place(Arc::new(Mutex::new(State::Stranger(waiting))))))
    }

    fn place(&self, held: Option<OwnedSemaphorePermit>) -> Result<Option<Place>, Reason> {
        match (held.or_else(|| Arc::clone(&self.places).try_acquire_owned().ok()), self.when_full) {
            (Some(permit), _) => Ok(Some(Place(Arc::new(Mutex::new(State::Admitted { _permit: Some(permit) }))))),
            (None, WhenFull::Tell) => Ok(None),
            (None, _) => Err(Reason::Full),
        }
    }

    pub(super) fn let_in(&self, peer: &Peer) {
        if self.looks_at_once {
            peer.look_at_once();
        }
    }

    pub(super) fn turn_away(&self, stream: BorrowedFd<'_>, peer: &Peer, reason: Reason) {
        (self.on_turned_away)(stream, reason);
        if let Some(silenced) = self.throttle.take(Instant::now()) {
            (self.on_notice)(Notice::TurnedAway { peer, reason, silenced });
        }
    }

    pub(super) fn accept_failed(&self, error: &std::io::Error) {
        if self.throttle.take(Instant::now()).is_some() {
            (self.on_notice)(Notice::AcceptFailed(error));
        }
    }

    pub(super) fn ended(&self, ended: &Result<(), JoinError>) {
        if let Err(error) = ended
            && error.is_panic()
        {
            (self.on_notice)(Notice::Panicked(error));
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Gate")
            .field("admits", &self.admits)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}

/// A connection's place. It is free again when all clones are dropped.
#[derive(Clone, Debug)]
pub struct Place(Arc<Mutex<State>>);

#[derive(Debug)]
enum State {
    Stranger(Waiting),
    Admitted {
        /// Held until the connection ends; none for a connection that came by no listener.
        _permit: Option<OwnedSemaphorePermit>,
    },
    Gone,
}

#[derive(Debug)]
struct Waiting {
    _stranger: Stranger,
    deadline: tokio::time::Instant,
    places: Arc<Semaphore>,
}

impl Place {
    /// The place of a connection that came by no listener, and that somebody else counts.
    #[must_use]
    pub fn outside() -> Self {
        Place(Arc::new(Mutex::new(State::Admitted { _permit: None })))
    }

    /// A stranger has shown who they are: from now on they have a place among the others. Waits for one, as long as a
    /// stranger may take; says whether they got one. A connection that got none must end.
    pub async fn admit(&self) -> bool {
        let (places, deadline) = match &*self.0.lock() {
            State::Stranger(waiting) => (Arc::clone(&waiting.places), waiting.deadline),
            State::Admitted { .. } => return true,
            State::Gone => return false,
        };
        let permit = tokio::time::timeout_at(deadline, places.acquire_owned()).await;
        let mut state = self.0.lock();
        match (permit, &*state) {
            // Another request of the same connection was faster.
            (_, State::Admitted { .. }) => true,
            (Ok(Ok(permit)), _) => {
                *state = State::Admitted { _permit: Some(permit) };
                true
            }
            _ => {
                *state = State::Gone;
                false
            }
        }
    }

    /// Whether this is the place of somebody who has not shown anything yet.
    #[must_use]
    pub fn is_strangers(&self) -> bool {
        matches!(*self.0.lock(), State::Stranger(_))
    }

    /// Ends when a stranger's time is over and they are a stranger still; never for others.
    pub async fn expired(&self) {
        let deadline = match &*self.0.lock() {
            State::Stranger(waiting) => Some(waiting.deadline),
            _ => None,
        };
        if let Some(deadline) = deadline {
            tokio::time::sleep_until(deadline).await;
            if !matches!(*self.0.lock(), State::Admitted { .. }) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}
