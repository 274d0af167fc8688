//! One connection's side of the door: who it is, what it was told, what it is being sent.
//!
//! Invariant: an approval is announced to a connection once, by whichever of its streams comes first.

use std::collections::HashMap;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use hostel_agents::Raw;
use hostel_house::insiders;
use hostel_house::insiders::Refusal;
use hostel_house::insiders::Rights;
use hostel_house::sessions::Session;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::watch;

use super::NAME;
use super::Peer;
use super::PeerNames as _;
use super::client::Greeting;
use super::code;
use super::door::Door;
use super::door::Inner;
use super::elicit::Questions;
use super::keys;
use super::updates::Updates;
use crate::rpc::Failure;
use crate::rpc::Outcome;
use crate::rpc::Writer;

/// Approvals that are remembered as announced.
const TOLD: usize = 1024;

/// Which socket a client came in by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Face {
    /// The contract's.
    Contract,
    /// Our own.
    Native,
}

impl Face {
    /// The door's name in the house.
    pub(crate) fn door(self) -> &'static str {
        match self {
            Face::Contract => NAME,
            Face::Native => "native",
        }
    }

    /// The door in the table of what processes inside the house may do.
    fn in_table(self) -> insiders::Door {
        match self {
            Face::Contract => insiders::Door::Zeroclaw,
            Face::Native => insiders::Door::Native,
        }
    }

    pub(crate) fn is_native(self) -> bool {
        self == Face::Native
    }
}

/// Who a client said it is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) id: String,
    /// Its environment, for agents it starts.
    pub(crate) env: Arc<Vec<(String, String)>>,
    /// It shows multiple choices to a person.
    pub(crate) elicits: bool,
}

/// A connection.
pub(crate) struct Visitor {
    pub(crate) door: Door,
    pub(crate) face: Face,
    pub(crate) peer: Peer,
    /// What the client may do, which is less for a process inside the house.
    pub(crate) rights: Rights,
    pub(crate) writer: Writer,
    pub(crate) greeting: Greeting,
    pub(crate) number: u64,
    pub(crate) questions: Questions,
    /// Something about whose sessions are whose has changed.
    pub(crate) poked: Notify,
    identity: Mutex<Option<Identity>>,
    told: Mutex<HashSet<String>>,
    /// Turns of this connection's prompts, while they are streamed.
    streaming: Mutex<HashSet<(String, u64)>>,
    /// How far the streams of attached sessions are.
    attached: Mutex<HashMap<String, watch::Receiver<u64>>>,
}

impl Visitor {
    pub(crate) fn new(door: Door, face: Face, peer: Peer, writer: Writer, greeting: Greeting) -> Self {
        let number = door.number();
        let rights = door.0.insiders.rights(face.in_table(), peer.clone(), peer.label());
        Visitor {
            door,
            face,
            peer,
            rights,
            writer,
            greeting,
            number,
            questions: Questions::default(),
            poked: Notify::new(),
            identity: Mutex::default(),
            told: Mutex::default(),
            streaming: Mutex::default(),
            attached: Mutex::default(),
        }
    }

    pub(crate) fn house(&self) -> &Inner {
        &self.door.0
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity.lock().clone()
    }

    pub(crate) fn set_identity(&self, identity: Identity) {
        *self.identity.lock() = Some(identity);
    }

    pub(crate) fn elicits(&self) -> bool {
        self.identity.lock().as_ref().is_some_and(|identity| identity.elicits)
    }

    /// Whether a session is this client's.
    pub(crate) fn owns(&self, session: &Session) -> bool {
        let owner = session.info().owner;
        owner.is_some() && owner.as_deref() == self.identity.lock().as_ref().map(|identity| identity.id.as_str())
    }

    /// The live session of that id.
    pub(crate) fn live(&self, id: &str) -> Result<Arc<Session>, Failure> {
        self.house().sessions.get(id).ok_or_else(|| no_session(id))
    }

    /// A writer of updates of a session for this client.
    pub(crate) fn updates(&self, session: &str, full: bool) -> Updates {
        let house = self.house();
        Updates::new(session, house.settings.spelling, full || self.face.is_native()).timed_by(house.approvals.clone())
    }

    /// Answers a request, with its keys in the spellings that are wanted.
    pub(crate) async fn answer(&self, id: Option<&Raw>, outcome: Outcome) -> io::Result<()> {
        let spelling = self.house().settings.spelling;
        self.writer.answer(id, outcome.map(|result| keys::spell(result, spelling))).await
    }

    /// Says something nobody asked for, with its keys in the spellings that are wanted.
    pub(crate) async fn notify(&self, method: &str, params: Value) -> io::Result<()> {
        self.writer.notify(method, &keys::spell(params, self.house().settings.spelling)).await
    }

    /// Whether an approval is to be announced now; from then on it was.
    pub(crate) fn claim(&self, approval: &str) -> bool {
        let mut told = self.told.lock();
        if told.len() >= TOLD {
            // So many are not pending at once: most of these are long settled.
            told.clear();
        }
        told.insert(approval.to_owned())
    }

    /// Forgets approvals that are settled.
    pub(crate) fn forget_told(&self, still: impl Fn(&str) -> bool) {
        self.told.lock().retain(|approval| still(approval));
    }

    /// A prompt's turn is streamed to this connection.
    pub(crate) fn stream(&self, session: &str, turn: u64, on: bool) {
        let key = (session.to_owned(), turn);
        let mut streaming = self.streaming.lock();
        if on {
            streaming.insert(key);
        } else {
            streaming.remove(&key);
        }
    }

    /// Whether events of a turn reach this connection anyway.
    pub(crate) fn hears(&self, session: &str, turn: u64) -> bool {
        self.streaming.lock().contains(&(session.to_owned(), turn)) || self.attached(session).is_some()
    }

    /// How far the stream of an attached session is, while it is attached.
    pub(crate) fn attached(&self, session: &str) -> Option<watch::Receiver<u64>> {
        let mut attached = self.attached.lock();
        let position = attached.get(session)?;
        if position.has_changed().is_err() {
            attached.remove(session);
            return None;
        }
        Some(position.clone())
    }

    /// A session is attached.
    pub(crate) fn attach(&self, session: &str, position: watch::Receiver<u64>) {
        self.attached.lock().insert(session.to_owned(), position);
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.door.0.known.lock().remove(&self.number);
    }
}

/// A process inside the house may not.
pub(crate) fn refused(refusal: &Refusal) -> Failure {
    Failure::new(code::NOT_OWNER, refusal.text())
}

/// There is no such session.
pub(crate) fn no_session(id: &str) -> Failure {
    Failure::new(code::NO_SESSION, format!("there is no session `{id}`"))
}

/// The disk did not take or give it.
pub(crate) fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(code::INTERNAL, error.to_string())
}
