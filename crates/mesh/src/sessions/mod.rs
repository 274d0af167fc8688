//! Sessions of the member: agents and launched programs that send under a key of their own and have a mailbox.
//!
//! Invariant: a token is known here only by its digest, and is compared in constant time; a session's key lives in
//! memory alone. What is kept over a restart has no secret in it: a session that is still running is taken up again
//! under the same token, with a new key. A mailbox outlives its session: names stay bound to ids.

mod book;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hostel_syncpoint::points;
use hostel_wire::Clock;
use hostel_wire::frames::Group;
use hostel_wire::keys::SecretKey;
use parking_lot::RwLock;
use serde_json::json;
use subtle::ConstantTimeEq as _;
use tokio::sync::{Notify, watch};

use crate::keep::Kept;
use crate::log::Log;
use crate::mesh::{Refusal, RegisterRequest, SessionRef};
use book::{Book, Entry};

/// Sessions that may run at once.
const MOST: usize = 256;

/// A session that runs.
pub(crate) struct Session {
    pub(crate) entry: Entry,
    /// Made for this process; never kept.
    pub(crate) key: SecretKey,
    pub(crate) pubkey: String,
    pub(crate) connected: AtomicBool,
    /// Somebody sees to its connection.
    linked: AtomicBool,
    /// Set once it has ended.
    stop: watch::Sender<bool>,
}

impl Session {
    fn new(entry: Entry) -> Self {
        let key = SecretKey::generate();
        let pubkey = key.public().hex();
        Self {
            entry,
            key,
            pubkey,
            connected: AtomicBool::new(false),
            linked: AtomicBool::new(false),
            stop: watch::channel(false).0,
        }
    }

    /// Takes its connection in hand; `false` if somebody has.
    pub(crate) fn claim_link(&self) -> bool {
        !self.linked.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }
}

/// All sessions of the member.
pub(crate) struct Sessions {
    kept: Kept,
    log: Log,
    clock: Clock,
    state: RwLock<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    running: BTreeMap<String, Arc<Session>>,
    /// Who was there once: names stay bound to ids.
    book: Book,
}

impl Sessions {
    /// Takes up again what still runs.
    pub(crate) fn load(kept: Kept, log: Log, clock: Clock) -> std::io::Result<Self> {
        let mut book: Book = kept.load()?;
        let mut running = BTreeMap::new();
        for entry in &mut book.sessions {
            entry.ended |= !entry.is_alive();
            if !entry.ended && running.len() < MOST {
                running.insert(entry.session_id.clone(), Arc::new(Session::new(entry.clone())));
            }
        }
        Ok(Self { kept, log, clock, state: RwLock::new(State { running, book }), changed: Notify::new() })
    }

    /// Wakes when a session came or went.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn save(&self, state: &State) {
        if let Err(error) = points::SESSIONS_WRITTEN.reach_if_ok(self.kept.save(&state.book, false)) {
            self.log.warn("sessions_not_kept", json!({"error": error.to_string()}));
        }
    }

    /// A session begins, or says that it is still there.
    pub(crate) fn register(&self, request: RegisterRequest) -> Result<Arc<Session>, Refusal> {
        let digest = book::digest(&request.token)
            .ok_or_else(|| Refusal::field("token", "a session's token has 64 hexadecimal digits"))?;
        let id = book::fit_id(&request.session_id)
            .ok_or_else(|| Refusal::field("session_id", "a session's id has 1 to 128 printable characters"))?;
        let name = if request.display_name.trim().is_empty() { id.clone() } else { request.display_name };
        let mut state = self.state.write();
        let name = state.book.free_name(&book::fit_name(&name), &id);
        if let Some(old) = state.running.get(&id) {
            // Only who knows the old token may take the id over; after its end anybody local may.
            let same = bool::from(old.entry.digest.as_bytes().ct_eq(digest.as_bytes()));
            if !same && old.entry.is_alive() {
                return Err(Refusal::new("session_exists", format!("session `{id}` is running")).about("session_id"));
            }
            if same && old.entry.pid == request.pid && old.entry.name == name && old.entry.presence == request.presence
            {
                return Ok(Arc::clone(old));
            }
            old.stop.send_replace(true);
        } else if state.running.len() >= MOST {
            return Err(Refusal::new("daemon_busy", format!("there are {MOST} sessions already")));
        }
        let entry = Entry {
            session_id: id.clone(),
            name,
            digest,
            pid: request.pid,
            started: book::started(request.pid),
            cwd: request.cwd,
            role: request.role,
            groups: request.groups.into_iter().take(64).collect::<Vec<Group>>(),
            presence: request.presence,
            registered_at: self.clock.now_ms(),
            ended: false,
        };
        state.book.put(entry.clone());
        let session = Arc::new(Session::new(entry));
        state.running.insert(id, Arc::clone(&session));
        self.save(&state);
        drop(state);
        self.changed.notify_one();
        Ok(session)
    }

    /// A session ends; `false` if nobody has this token.
    pub(crate) fn remove(&self, token: &str) -> bool {
        self.by_token(token).is_some_and(|session| self.end(&session.entry.session_id))
    }

    /// A session ends, whoever says so; `false` if it does not run.
    pub(crate) fn end(&self, id: &str) -> bool {
        let mut state = self.state.write();
        let Some(session) = state.running.remove(id) else { return false };
        session.stop.send_replace(true);
        state.book.end(id);
        self.save(&state);
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Ends those whose process is gone. Cheap: one look at the system for each.
    pub(crate) fn reap(&self) -> Vec<String> {
        let gone: Vec<String> = {
            let state = self.state.read();
            state
                .running
                .values()
                .filter(|session| !session.entry.is_alive())
                .map(|session| session.entry.session_id.clone())
                .collect()
        };
        gone.into_iter().filter(|id| self.end(id)).collect()
    }

    /// The session that has this token.
    pub(crate) fn by_token(&self, token: &str) -> Option<Arc<Session>> {
        let digest = book::digest(token)?;
        let state = self.state.read();
        // All are looked at, so that nothing can be learned from how long it takes.
        let mut found = None;
        for session in state.running.values() {
            if bool::from(session.entry.digest.as_bytes().ct_eq(digest.as_bytes())) {
                found = Some(Arc::clone(session));
            }
        }
        found
    }

    /// A running session by id.
    pub(crate) fn by_id(&self, id: &str) -> Option<Arc<Session>> {
        self.state.read().running.get(id).cloned()
    }

    /// What a session is or was called; its id if that is forgotten.
    pub(crate) fn name_of(&self, id: &str) -> String {
        let state = self.state.read();
        let kept = || state.book.sessions.iter().rev().find(|entry| entry.session_id == id).map(|entry| &entry.name);
        let name = state.running.get(id).map(|session| &session.entry.name).or_else(kept);
        name.map_or_else(|| id.to_owned(), Clone::clone)
    }

    /// A running session by its key.
    pub(crate) fn by_key(&self, pubkey: &str) -> Option<Arc<Session>> {
        self.state.read().running.values().find(|session| session.pubkey == pubkey).cloned()
    }

    /// All that run.
    pub(crate) fn running(&self) -> Vec<Arc<Session>> {
        self.state.read().running.values().cloned().collect()
    }

    /// Whether a session sends for itself: it runs and has a connection of its own.
    pub(crate) fn sends_itself(&self, id: &str) -> bool {
        self.state.read().running.get(id).is_some_and(|session| session.entry.presence)
    }

    /// The mailbox an address means: the id behind a name, running or not; else the word as a name would be written,
    /// so that a mailbox is there before the session that will have that name. What a session is called counts over the
    /// id of another: names are what people see.
    pub(crate) fn mailbox(&self, word: &str) -> String {
        let state = self.state.read();
        let running = state.running.values().find(|session| session.entry.name.eq_ignore_ascii_case(word));
        if let Some(session) = running {
            return session.entry.session_id.clone();
        }
        if state.running.contains_key(word) {
            return word.to_owned();
        }
        state.book.id_of(word).unwrap_or_else(|| book::unknown(word))
    }
}

impl Session {
    /// As a caller.
    pub(crate) fn reference(&self) -> SessionRef {
        SessionRef { id: self.entry.session_id.clone(), name: self.entry.name.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(token: char, id: &str, name: &str) -> RegisterRequest {
        let token = std::iter::repeat_n(token, 64).collect();
        RegisterRequest {
            token,
            session_id: id.into(),
            display_name: name.into(),
            presence: true,
            ..RegisterRequest::default()
        }
    }

    #[test]
    fn a_session_is_known_by_its_token_and_taken_up_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let load =
            || Sessions::load(Kept::new(Some(dir.path()), "sessions.json"), Log::silent(), Clock::system()).unwrap();
        let sessions = load();
        let mut alive = request('a', "s1", "fix ci");
        alive.pid = std::process::id();
        let first = sessions.register(alive).unwrap();
        assert_eq!(first.entry.name, "fix-ci");
        let mut dead = request('b', "s2", "other");
        dead.pid = i32::MAX.cast_unsigned();
        sessions.register(dead).unwrap();
        let text = std::fs::read_to_string(dir.path().join("sessions.json")).unwrap();
        assert!(!text.contains(&"a".repeat(64)) && !text.contains(&first.pubkey));

        let sessions = load();
        let again = sessions.by_token(&"a".repeat(64)).unwrap();
        assert_eq!(again.entry.session_id, "s1");
        assert_ne!(again.pubkey, first.pubkey, "a new key each time");
        assert!(sessions.by_token(&"b".repeat(64)).is_none(), "its process is gone");
        assert_eq!(sessions.mailbox("OTHER"), "s2", "its mailbox is not");
        assert_eq!(sessions.mailbox("nobody"), "nobody");
        assert_eq!(sessions.mailbox("Not Yet"), "not-yet", "as it will be called");
        assert_eq!(sessions.mailbox("\u{65e5}\u{672c}"), "\u{65e5}\u{672c}", "what has no letters of names stays");
        assert!(sessions.remove(&"a".repeat(64)) && !sessions.remove(&"a".repeat(64)));
        assert!(!sessions.sends_itself("s1"));
    }

    #[test]
    fn a_name_counts_over_the_id_of_another() {
        let sessions = Sessions::load(Kept::new(None, "s"), Log::silent(), Clock::system()).unwrap();
        sessions.register(request('a', "s1", "build")).unwrap();
        assert_eq!(sessions.register(request('b', "build", "build")).unwrap().entry.name, "build-2");
        assert_eq!((sessions.mailbox("build"), sessions.mailbox("build-2")), ("s1".to_owned(), "build".to_owned()));
        assert!(sessions.remove(&"a".repeat(64)));
        assert_eq!(sessions.mailbox("build"), "build");
    }

    #[test]
    fn ids_are_not_stolen_and_names_do_not_clash() {
        let sessions = Sessions::load(Kept::new(None, "s"), Log::silent(), Clock::system()).unwrap();
        sessions.register(request('a', "s1", "work")).unwrap();
        assert_eq!(sessions.register(request('b', "s1", "work")).err().unwrap().code(), "session_exists");
        assert_eq!(sessions.register(request('b', "s2", "Work")).unwrap().entry.name, "Work-2");
        assert_eq!(sessions.register(request('a', "s1", "work")).unwrap().entry.name, "work", "again is nothing new");
        assert_eq!(sessions.register(request('x', "s3", "n")).err().unwrap().code(), "invalid");
        assert_eq!(sessions.register(request('c', "", "n")).err().unwrap().code(), "invalid");
    }
}
