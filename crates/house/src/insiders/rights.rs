//! What the peer of one connection may do.
//!
//! Invariant: who the peer is, is found out once, at the first request that depends on it, and holds for the connection:
//! a process inside the house stays inside, whoever it hands its descriptor to. A peer about whom nothing can be found
//! out is treated as one inside, and looked for again at its next request.

use std::sync::Arc;

use hostel_guard::Guard;
use hostel_peer::Peer;
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::refusals::{Refusal, Subject};
use super::table::{self, Door, Own, Rule};
use super::{Insider, Insiders};
use crate::approvals::{Claim, DecideError, Face, Passphrase};
use crate::processes::{Origin, Process, SpawnGuard, SpawnSpec};
use crate::sessions::{Maker, MeshPolicy, SessionInfo};

/// The longest name of a peer that is recorded.
const LONGEST_NAME: usize = 256;

/// What the peer of one connection may do. Cheap to clone.
#[derive(Clone)]
pub struct Rights {
    inner: Arc<Inner>,
}

struct Inner {
    insiders: Insiders,
    door: Door,
    peer: Peer,
    label: String,
    insider: OnceCell<Option<Insider>>,
}

impl std::fmt::Debug for Rights {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rights").field("label", &self.inner.label).finish_non_exhaustive()
    }
}

impl Rights {
    pub(super) fn new(insiders: Insiders, door: Door, peer: Peer, label: String) -> Self {
        Rights { inner: Arc::new(Inner { insiders, door, peer, label, insider: OnceCell::new() }) }
    }

    /// The peer, if it is a process inside the house or cannot be recognised; none for the owner of the house.
    pub async fn insider(&self) -> Option<Insider> {
        let inner = &self.inner;
        let found = inner.insider.get_or_try_init(|| async {
            match inner.insiders.find(inner.door, &inner.peer).await {
                Some(unknown) if !unknown.recognised => Err(unknown),
                found => Ok(found),
            }
        });
        match found.await {
            Ok(found) => found.clone(),
            Err(unknown) => Some(unknown),
        }
    }

    /// Whether the peer may use a method at all. What it may use for things of its own only is said: the door has to see
    /// to it. None where it may do everything.
    pub async fn check(&self, method: &str) -> Result<Option<Own>, Refusal> {
        if self.inner.insider.get() == Some(&None) {
            return Ok(None);
        }
        let rule = table::rule(self.inner.door, method);
        // Who the peer is, is not looked up for what everybody may do.
        if rule == Rule::Allowed || self.insider().await.is_none() {
            return Ok(None);
        }
        match rule {
            Rule::Allowed => Ok(None),
            Rule::OwnOnly(own) => Ok(Some(own)),
            Rule::Denied(_) => Err(self.refuse(method, "").await),
        }
    }

    /// Whether the peer may write to a process, close its standard input or signal it: the owner always may, as far as
    /// the process takes it from anybody.
    pub async fn may_touch(&self, method: &str, process: &Process) -> Result<(), Refusal> {
        match self.insider().await {
            None => Ok(()),
            Some(insider) if self.inner.insiders.started(&insider, process).await => Ok(()),
            Some(_) => Err(self.refuse(method, process.name()).await),
        }
    }

    /// Whether the peer may read what a process prints.
    pub async fn may_read(&self, method: &str, process: &Process) -> Result<(), Refusal> {
        match self.sees_process(process).await {
            true => Ok(()),
            false => Err(self.refuse(method, process.name()).await),
        }
    }

    /// Whether a list for the peer has a process.
    pub async fn sees_process(&self, process: &Process) -> bool {
        match self.insider().await {
            None => true,
            Some(insider) => self.inner.insiders.sees(&insider, process).await,
        }
    }

    /// Whether the peer may give a name to a process that it starts: another one's name would hide that process, or end it.
    pub async fn may_name(&self, method: &str, name: &str) -> Result<(), Refusal> {
        match self.inner.insiders.inner.processes.get(name) {
            Some(older) => self.may_touch(method, &older).await,
            None => Ok(()),
        }
    }

    /// Says of a process that the peer wants started who asked for it, where that is a process inside the house, and gives
    /// it a guard that is at least as strict as the peer's. Whoever starts a process for a peer calls this.
    pub async fn inherit(&self, spec: &mut SpawnSpec) {
        let Some(insider) = self.insider().await else { return };
        let shown = match self.inner.insiders.session_of(&insider) {
            Some(session) if insider.guard.layers.view => session.own_directory().await,
            _ => Vec::new(),
        };
        let own = spec.guard.take().unwrap_or_else(|| SpawnGuard { guard: Guard::off(), ..SpawnGuard::default() });
        spec.guard = Some(SpawnGuard {
            guard: own.guard.at_least(&insider.guard.guard),
            shown,
            least: own.least.union(insider.guard.layers),
        });
        spec.asked_by = insider.origin;
    }

    /// Whether the peer is inside the house and has a guard, or may have one.
    pub async fn is_guarded(&self) -> bool {
        self.insider().await.is_some_and(|insider| !insider.guard.is_none())
    }

    /// Who asks for a session, where that is a process inside the house.
    pub async fn maker(&self) -> Option<Maker> {
        let insider = self.insider().await?;
        let (mode, mesh) = self.inner.insiders.most(&insider);
        Some(Maker { origin: insider.origin, mode, mesh, guard: insider.guard })
    }

    /// Whether the peer may use a method on a session: its own, or one that was made from it.
    pub async fn may_use(&self, method: &str, session: &str) -> Result<(), Refusal> {
        match self.sees_session(session).await {
            true => Ok(()),
            false => Err(self.refuse(method, session).await),
        }
    }

    /// Whether a list for the peer has a session.
    pub async fn sees_session(&self, session: &str) -> bool {
        match self.insider().await {
            None => true,
            Some(insider) => self.inner.insiders.is_of(&insider, &Origin::Session(session.to_owned())).await,
        }
    }

    /// Whether the peer may end a session: one that was made from its own, but not its own.
    pub async fn may_end(&self, method: &str, session: &str) -> Result<(), Refusal> {
        let own = Origin::Session(session.to_owned());
        match self.insider().await {
            Some(insider) if insider.origin.as_ref() == Some(&own) => Err(self.refuse(method, session).await),
            _ => self.may_use(method, session).await,
        }
    }

    /// Whether the peer may put a prompt to a session: to its own, to one that was made from it, and to one that takes
    /// every message of a mesh as well.
    pub async fn may_prompt(&self, method: &str, session: &str) -> Result<(), Refusal> {
        let takes_messages = || {
            let session = self.inner.insiders.inner.sessions.get(session);
            session.is_some_and(|session| session.info().mesh == MeshPolicy::On)
        };
        match self.sees_session(session).await || takes_messages() {
            true => Ok(()),
            false => Err(self.refuse(method, session).await),
        }
    }

    /// Whether a list for the peer has a request: its own session's.
    pub async fn sees_request(&self, session: &str) -> bool {
        match self.insider().await {
            None => true,
            Some(_) => !session.is_empty() && self.sees_session(session).await,
        }
    }

    /// Whether the peer may raise the mode of a session. Nobody inside the house may; with `approvals.strict` it takes
    /// the approver's passphrase.
    pub async fn may_raise(&self, method: &str, shown: Option<Passphrase>, session: &str) -> Result<(), RaiseError> {
        if self.insider().await.is_some() {
            return Err(RaiseError::Refused(self.refuse(method, session).await));
        }
        let face = shown.map_or(Face::Socket, Face::Passphrase);
        let claim = Claim { face, peer: self.inner.peer.clone(), label: self.inner.label.clone() };
        self.inner.insiders.inner.approvals.may_raise_mode(&claim).await.map_err(RaiseError::Passphrase)
    }

    /// Whether the peer may change what becomes of messages for a session.
    pub async fn may_change_mesh(&self, method: &str, session: &SessionInfo, to: MeshPolicy) -> Result<(), Refusal> {
        match self.insider().await {
            Some(_) if session.mesh != to => Err(self.refuse(method, &session.id).await),
            _ => Ok(()),
        }
    }

    /// What the peer is called in the audit.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.inner.label
    }

    /// Refuses and records. `about` is the process or session that it was about.
    pub async fn refuse(&self, method: &str, about: &str) -> Refusal {
        let inner = &self.inner;
        let rule = table::rule(inner.door, method);
        // What is allowed is refused for a reason of the method's own.
        let refusal = Refusal::of(method, rule).unwrap_or_else(|| Refusal(format!("`{method}` is refused")));
        let origin = match self.insider().await.and_then(|insider| insider.origin) {
            Some(origin) => origin.to_string(),
            None => String::new(),
        };
        let subject = Subject { door: inner.door, method: method.to_owned(), origin: origin.clone() };
        let before = inner.insiders.inner.recorded.lock().take(subject, Instant::now());
        if let Some(before) = before {
            let cut = |text: &str| text.get(..text.floor_char_boundary(LONGEST_NAME)).unwrap_or_default().to_owned();
            let mut body = json!({
                "door": inner.door.name(),
                "method": cut(method),
                "about": cut(about),
                "who": cut(&inner.label),
                "peer": inner.peer.to_string(),
                "origin": cut(&origin),
                "why": refusal.text(),
            });
            for (name, count) in [("unrecorded", before.identical), ("silenced", before.others)] {
                if count > 0 {
                    body[name] = count.into();
                }
            }
            inner.insiders.inner.approvals.record_refusal(body).await;
        }
        refusal
    }
}

/// Why a mode may not be raised.
#[derive(Debug, thiserror::Error)]
pub enum RaiseError {
    /// The peer is inside the house.
    #[error("{0}")]
    Refused(Refusal),
    /// It takes the passphrase, and that was not shown or is another one.
    #[error(transparent)]
    Passphrase(DecideError),
}
