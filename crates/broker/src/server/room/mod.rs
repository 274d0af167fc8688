//! Who is there: the connections of a mesh, and members whose last one broke a moment ago.
//!
//! Invariant: a member joins with its first connection and leaves when its last one has said so, was ended for good, or
//! was gone for the length of a lease. Of two connections with one key the mesh's rule decides which one stays, under one
//! lock.
//!
//! Memory only: after a restart everybody comes again.

mod news;
mod presence;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::frames::close;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::connection::Connection;
use crate::registry::Concurrency;

pub(crate) use news::{peer_data, system};
pub(crate) use presence::{News, Noted, PresenceNews, batches};

/// The rooms of all meshes.
#[derive(Default)]
pub(crate) struct Rooms(Mutex<HashMap<String, Arc<Room>>>);

/// A mesh's room.
#[derive(Default)]
pub(crate) struct Room {
    state: Mutex<State>,
    /// Who came and went, and was not told yet.
    pub(crate) presence: PresenceNews,
}

#[derive(Default)]
struct State {
    /// Oldest first.
    connections: BTreeMap<u64, Arc<Connection>>,
    /// Members that are there, or were a moment ago.
    here: HashMap<String, Here>,
}

#[derive(Default)]
struct Here {
    connections: usize,
    /// When it counts as gone, once it has no connection.
    until: Option<Instant>,
}

/// How a connection came in.
pub(crate) struct Entered {
    /// The member was not there.
    pub(crate) first: bool,
    /// Others with the same key; those that had to go are being closed.
    pub(crate) others: Vec<Arc<Connection>>,
}

/// Why it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// There are as many as there may be.
    Full,
    /// An older one with its key stays.
    KeptOldest,
}

impl Rooms {
    /// The room of a mesh.
    pub(crate) fn room(&self, mesh: &str) -> Arc<Room> {
        let mut rooms = self.0.lock();
        match rooms.get(mesh) {
            Some(room) => Arc::clone(room),
            None => Arc::clone(rooms.entry(mesh.to_owned()).or_default()),
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<(String, Arc<Room>)> {
        self.0.lock().iter().map(|(mesh, room)| (mesh.clone(), Arc::clone(room))).collect()
    }

    /// Forgets rooms with nobody in them.
    pub(crate) fn sweep(&self) {
        self.0.lock().retain(|_, room| {
            let state = room.state.lock();
            Arc::strong_count(room) > 1 || !state.connections.is_empty() || !state.here.is_empty()
        });
    }

    /// When the next lease is over.
    pub(crate) fn next_lease(&self) -> Option<Instant> {
        self.0.lock().values().filter_map(|room| room.next_lease()).min()
    }
}

impl Room {
    /// Lets a connection in, by the mesh's rule for two with one key.
    pub(crate) fn enter(
        &self,
        connection: &Arc<Connection>,
        capacity: usize,
        rule: Concurrency,
    ) -> Result<Entered, Closed> {
        let mut state = self.state.lock();
        let live = |one: &&Arc<Connection>| one.ending().is_none();
        let same = |one: &&Arc<Connection>| one.key == connection.key && one.member == connection.member;
        // After a restart everybody comes at once: who comes first need not look at all the others.
        let others: Vec<_> = match state.here.get(&connection.member) {
            Some(here) if here.connections > 0 => {
                state.connections.values().filter(live).filter(same).cloned().collect()
            }
            _ => Vec::new(),
        };
        if rule == Concurrency::PreferOldest && !others.is_empty() {
            return Err(Closed::KeptOldest);
        }
        let staying = match rule {
            _ if state.connections.len() < capacity => 0,
            Concurrency::PreferNewest => state.connections.values().filter(live).filter(|one| !same(one)).count(),
            _ => state.connections.values().filter(live).count(),
        };
        if staying >= capacity {
            return Err(Closed::Full);
        }
        if rule == Concurrency::PreferNewest {
            for other in &others {
                other.end(close::REPLACED, "replaced");
            }
        }
        state.connections.insert(connection.id, Arc::clone(connection));
        let first = !state.here.contains_key(&connection.member);
        let here = state.here.entry(connection.member.clone()).or_default();
        here.connections += 1;
        here.until = None;
        Ok(Entered { first, others })
    }

    /// A connection is over. Says whether its member is gone with it; else a lease may have begun.
    pub(crate) fn leave(&self, connection: &Connection, lease: Duration) -> bool {
        let mut state = self.state.lock();
        if state.connections.remove(&connection.id).is_none() {
            return false;
        }
        let Some(here) = state.here.get_mut(&connection.member) else { return false };
        here.connections -= 1;
        if here.connections > 0 {
            return false;
        }
        if connection.left_for_good() || lease.is_zero() {
            state.here.remove(&connection.member);
            return true;
        }
        here.until = Some(Instant::now() + lease);
        false
    }

    /// Members whose lease is over; they are gone.
    pub(crate) fn expire(&self) -> Vec<String> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let over = |here: &Here| here.until.is_some_and(|until| until <= now);
        let gone: Vec<_> = state.here.iter().filter(|(_, here)| over(here)).map(|(id, _)| id.clone()).collect();
        for member in &gone {
            state.here.remove(member);
        }
        gone
    }

    fn next_lease(&self) -> Option<Instant> {
        self.state.lock().here.values().filter_map(|here| here.until).min()
    }

    /// Connections that are open, oldest first.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        let mut all: Vec<_> = self.state.lock().connections.values().cloned().collect();
        all.retain(|one| one.ending().is_none());
        all
    }

    /// Those of a member.
    pub(crate) fn of(&self, member: &str) -> Vec<Arc<Connection>> {
        let mut all = self.connections();
        all.retain(|one| one.member == member);
        all
    }

    /// How many claims of a key there are besides those that would be replaced: what a stranger may know before it has
    /// shown who it is.
    pub(crate) fn is_full(&self, capacity: usize, key: &str, rule: Concurrency) -> bool {
        let state = self.state.lock();
        if state.connections.len() < capacity {
            return false;
        }
        let live = state.connections.values().filter(|one| one.ending().is_none());
        let staying = live.filter(|one| rule != Concurrency::PreferNewest || one.key.hex() != key).count();
        staying >= capacity
    }

    /// Says something to all connections that pass.
    pub(crate) fn tell(&self, text: &Utf8Bytes, to: impl Fn(&Connection) -> bool) {
        for connection in self.connections() {
            if to(&connection) {
                connection.tell(text.clone());
            }
        }
    }
}
