//! Coming and going: what the others hear of it, and what the one who comes is told.
//!
//! Invariant: a connection that was let in is taken out of its room when this is dropped, whatever happened to it.

use std::sync::Arc;

use hostel_wire::frames::client::Hello;
use serde_json::json;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::connection::{Connection, Role, Status};
use super::log::Level;
use super::room::{Closed, Entered, News, Noted, Room, batches, peer_data, system};
use super::{Broker, keys_needed, welcome};
use crate::audit::kind;
use crate::engine::Engine;
use crate::registry::{Concurrency, Held, MemberRecord, Mesh, Role as MemberRole, Seen};

/// A connection in its room.
pub(crate) struct Presence<E: Engine> {
    broker: Arc<Broker<E>>,
    connection: Arc<Connection>,
    entered: Entered,
}

impl<E: Engine> Presence<E> {
    /// Goes into the room.
    pub(crate) fn enter(
        broker: &Arc<Broker<E>>,
        connection: &Arc<Connection>,
        rule: Concurrency,
    ) -> Result<Self, Closed> {
        let room = broker.rooms.room(&connection.mesh);
        let entered = room.enter(connection, broker.settings.limits.capacity, rule)?;
        Ok(Self { broker: Arc::clone(broker), connection: Arc::clone(connection), entered })
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Tells the others, and finds out what to tell this one.
    pub(crate) async fn welcome(
        &self,
        mesh: &Arc<Mesh>,
        member: &Arc<Held<MemberRecord>>,
        hello: &Hello,
        plan: &welcome::Plan,
    ) -> Vec<Utf8Bytes> {
        let (broker, connection) = (&self.broker, &self.connection);
        if connection.key != connection.member_key {
            let seen = broker.registry.session_seen(mesh.id(), &connection.key.hex(), &member.id).await;
            broker.note("session_seen", seen);
        }
        let seen = self.seen(mesh.id(), member).await;
        let before = seen.before.as_ref();
        {
            let mut now = connection.now.lock();
            now.summary = before.and_then(|before| before.summary.clone());
            now.visible = before.and_then(|before| before.visible).unwrap_or(true);
        }
        if !hello.groups.is_empty() && connection.role == Role::Service && hello.groups != member.groups {
            let set = broker.registry.set_groups(mesh.id(), &member.id, hello.groups.clone()).await;
            broker.note("hello_groups", set);
        }
        if self.entered.first && connection.now.lock().visible {
            let event = if before.is_some() { "peer_returned" } else { "peer_joined" };
            let summary = before.and_then(|before| before.summary.as_deref());
            let data = peer_data(member, before.map(|before| before.at_ms), summary);
            broker.tell_presence(mesh.id(), &member.id, event, data);
        }
        let fields =
            json!({"mesh": mesh.id(), "member": member.id, "name": member.name, "protocol": connection.protocol});
        broker.log.line(Level::Info, "connection_open", fields);
        // As it is after all this: what changes from here on comes as news.
        let mesh = broker.registry.mesh(mesh.id()).unwrap_or_else(|| Arc::clone(mesh));
        let member = mesh.member(&member.id).unwrap_or(member);
        let has_roster = hello.roster_mark.as_ref().is_some_and(|mark| *mark == mesh.roster_mark());
        let mut texts = vec![welcome::ack(broker, connection, &mesh, member, before, plan, has_roster)];
        if connection.protocol >= 2 {
            if !has_roster {
                texts.extend_from_slice(welcome::roster(&mesh));
            }
            texts.extend(keys_needed::of_holder(&mesh, &member.id));
            keys_needed::ask_for(broker, &mesh, &member.id);
        }
        texts
    }

    /// What is known of the member, and whether it may be two.
    async fn seen(&self, mesh: &str, member: &MemberRecord) -> Seen {
        let (broker, connection) = (&self.broker, &self.connection);
        let fingerprint = match connection.role {
            Role::Service => connection.about.host_fingerprint.as_deref(),
            Role::Session => None,
        };
        let seen = match broker.registry.hello_seen(mesh, &member.id, fingerprint).await {
            Ok(seen) => seen,
            Err(error) => {
                broker.log.line(Level::Error, "hello_seen", json!({"error": error.to_string()}));
                Seen { before: broker.registry.seen(mesh, &member.id), clone_of: None }
            }
        };
        if let Some(last) = &seen.clone_of {
            broker.alarm_of_clone(connection, member, last);
        }
        let elsewhere = |other: &Arc<Connection>| other.about.host_fingerprint != connection.about.host_fingerprint;
        if self.entered.others.iter().any(elsewhere) {
            broker
                .audit(mesh, kind::CONCURRENT, &member.id, json!({"connections": self.entered.others.len() + 1}))
                .await;
        }
        seen
    }
}

impl<E: Engine> Drop for Presence<E> {
    fn drop(&mut self) {
        let (broker, connection) = (&self.broker, &self.connection);
        let room = broker.rooms.room(&connection.mesh);
        if room.leave(connection, broker.settings.lease) {
            broker.peer_left(&connection.mesh, &connection.member);
        } else {
            broker.leased.notify_one();
        }
    }
}

impl<E: Engine> Broker<E> {
    /// Says something to everybody but one member.
    pub(crate) fn tell_others(&self, mesh: &str, member: &str, event: &str, data: serde_json::Value) {
        let text = system(mesh, event, data, self.clock.now_ms());
        self.rooms.room(mesh).tell(&text, |connection| connection.member != member);
    }

    /// Says that a member came or went. Of many in a short time the others hear together: after a restart of the broker
    /// everybody comes at once, and everybody has to hear of everybody.
    pub(crate) fn tell_presence(
        self: &Arc<Self>,
        mesh: &str,
        member: &str,
        event: &'static str,
        data: serde_json::Value,
    ) {
        let room = self.rooms.room(mesh);
        let stamp = self.next_id();
        match room.presence.note(News { member: member.to_owned(), event, data, stamp }) {
            Noted::TellNow(data) => self.tell_others(mesh, member, event, data),
            Noted::WillBeTold => {}
            Noted::TellAt(at) => {
                let (broker, mesh) = (Arc::downgrade(self), mesh.to_owned());
                hostel_tasks::spawn(async move {
                    tokio::time::sleep_until(at).await;
                    if let Some(broker) = broker.upgrade() {
                        broker.tell_gathered(&mesh, &room);
                    }
                });
            }
        }
    }

    /// Tells everybody who came and went in the meantime.
    fn tell_gathered(&self, mesh: &str, room: &Room) {
        let news = room.presence.take();
        let now = self.clock.now_ms();
        for text in batches(mesh, &news, now) {
            room.tell(&text, |connection| connection.hears_batches);
        }
        if room.connections().iter().any(|connection| !connection.hears_batches) {
            for News { member, event, data, stamp } in news {
                let text = system(mesh, event, data, now);
                // Who came after it knows already how things stood by then.
                let hears = |one: &Connection| !one.hears_batches && one.member != member && one.id < stamp;
                room.tell(&text, hears);
            }
        }
    }

    /// A member is gone.
    pub(crate) fn peer_left(self: &Arc<Self>, mesh: &str, member: &str) {
        let Some(snapshot) = self.registry.mesh(mesh) else { return };
        let Some(record) = snapshot.member(member) else { return };
        let seen = self.registry.seen(mesh, member);
        let summary = seen.as_ref().and_then(|seen| seen.summary.as_deref());
        let data = peer_data(record, Some(self.clock.now_ms()), summary);
        self.tell_presence(mesh, member, "peer_left", data);
    }

    /// A connection that was not let in: whether it comes from another host than the one that is.
    pub(crate) async fn suspect(&self, connection: &Connection) {
        let (mesh, member) = (&connection.mesh, &connection.member);
        let last = self.registry.seen(mesh, member).and_then(|seen| seen.host_fingerprint);
        let (Some(last), Some(now)) = (last, connection.about.host_fingerprint.as_deref()) else { return };
        if last == now {
            return;
        }
        let body = json!({"lastHostFingerprint": last, "hostFingerprint": now});
        self.audit(mesh, kind::CLONE_SUSPECTED, member, body).await;
        if let Some(record) = self.registry.mesh(mesh).as_ref().and_then(|mesh| mesh.member(member)) {
            self.alarm_of_clone(connection, record, &last);
        }
    }

    /// Tells the mesh's owner that a member may be two.
    fn alarm_of_clone(&self, connection: &Connection, member: &MemberRecord, last: &str) {
        let data = json!({
            "memberId": member.id,
            "name": member.name,
            "pubkey": member.pubkey,
            "hostname": connection.about.hostname,
            "lastHostFingerprint": last,
            "hostFingerprint": connection.about.host_fingerprint,
        });
        let fields = json!({"mesh": connection.mesh, "member": member.id});
        self.log.line(Level::Warn, "member_clone_suspected", fields);
        let Some(mesh) = self.registry.mesh(&connection.mesh) else { return };
        let owns = |id: &str| mesh.member(id).is_some_and(|one| one.is_active() && one.role == MemberRole::Owner);
        let text = system(mesh.id(), "member_clone_suspected", data, self.clock.now_ms());
        self.rooms.room(mesh.id()).tell(&text, |other| owns(&other.member));
    }

    /// Writes an audit record of something that changed nothing.
    pub(crate) async fn audit(&self, mesh: &str, kind: &str, subject: &str, body: serde_json::Value) {
        let written = self.registry.audit(mesh, kind, subject, subject, body).await;
        self.note("audit", written);
    }

    /// Logs what could not be done and need not be.
    pub(crate) fn note<T>(&self, what: &str, result: Result<T, crate::registry::RegistryError>) {
        if let Err(error) = result {
            self.log.line(Level::Warn, what, json!({"error": error.to_string()}));
        }
    }

    /// A connection says something of itself.
    pub(crate) async fn set_presence(
        self: &Arc<Self>,
        connection: &Connection,
        status: Option<Status>,
        summary: Option<String>,
        visible: Option<bool>,
    ) -> Result<(), crate::registry::RegistryError> {
        let word = status.map(|status| status.as_str().to_owned());
        let (mesh, member) = (&connection.mesh, &connection.member);
        let noted = match connection.role {
            // What outlives the connection is the member's own word.
            Role::Service => self.registry.note_presence(mesh, member, word, summary.clone(), visible).await,
            Role::Session => Ok(()),
        };
        noted?;
        let turned = {
            let mut now = connection.now.lock();
            if let Some(status) = status {
                (now.status, now.at) = (status, tokio::time::Instant::now());
            }
            let turned = visible.filter(|visible| *visible != now.visible);
            now.visible = visible.unwrap_or(now.visible);
            now.summary = summary.or(now.summary.take());
            turned
        };
        connection.opened.notify_one();
        if let (Some(visible), Role::Service) = (turned, connection.role)
            && let Some(record) = self.registry.mesh(mesh).as_ref().and_then(|mesh| mesh.member(member))
        {
            let event = if visible { "peer_visible" } else { "peer_hidden" };
            self.tell_presence(mesh, member, event, peer_data(record, None, None));
        }
        Ok(())
    }
}
