//! Who is there.

use hostel_wire::iso;
use serde_json::{Value, json};

use super::{Asker, Outcome, Reply, fitting};
use crate::engine::Engine;
use crate::registry::{MemberRecord, Mesh};
use crate::server::connection::{Connection, Role};
use crate::server::welcome::profile;

impl<E: Engine> Asker<'_, E> {
    pub(super) fn list_peers(&self, all: bool) -> Outcome {
        let mesh = self.mesh()?;
        let room = self.broker.rooms.room(mesh.id());
        let connections = room.connections();
        let shown = connections.iter().filter(|one| one.now.lock().visible || one.member == self.member());
        let online = shown.filter_map(|one| self.peer(&mesh, one));
        let is_there = |member: &MemberRecord| connections.iter().any(|one| one.member == member.id);
        let absent: Vec<_> = match all {
            true => mesh.active().filter(|member| !is_there(member)).map(|member| self.absent(&mesh, member)).collect(),
            false => Vec::new(),
        };
        let (peers, more) = fitting(online.chain(absent));
        Ok(Reply::Of("peers_list", json!({"peers": peers, "more": more})))
    }

    fn peer(&self, mesh: &Mesh, connection: &Connection) -> Option<Value> {
        let member = mesh.member(&connection.member)?;
        let about = &connection.about;
        let (summary, visible) = {
            let now = connection.now.lock();
            (now.summary.clone(), now.visible)
        };
        let session = connection.role == Role::Session && !about.display_name.is_empty();
        let name = if session { &about.display_name } else { &member.name };
        let role = match (connection.role, about.control_plane) {
            (_, true) => "control-plane",
            (Role::Service, _) => "service",
            (Role::Session, _) => "session",
        };
        Some(json!({
            "pubkey": connection.key.hex(),
            "memberPubkey": member.pubkey,
            "memberId": member.id,
            "memberName": member.name,
            "displayName": name,
            "status": connection.status(self.broker.settings.working).as_str(),
            "summary": summary,
            "groups": if session && !about.groups.is_empty() { &about.groups } else { &member.groups },
            "sessionId": about.session_id,
            "connectedAt": iso(about.connected_ms),
            "cwd": about.cwd,
            "pid": about.pid,
            "peerRole": role,
            "hostname": about.hostname,
            "peerType": about.peer_type,
            "channel": about.channel,
            "model": about.model,
            "stats": {},
            "visible": visible,
            "profile": profile(member),
            "online": true,
        }))
    }

    /// A member without a connection.
    fn absent(&self, mesh: &Mesh, member: &MemberRecord) -> Value {
        let seen = self.broker.registry.seen(mesh.id(), &member.id);
        json!({
            "pubkey": member.pubkey,
            "memberPubkey": member.pubkey,
            "memberId": member.id,
            "memberName": member.name,
            "displayName": member.name,
            "status": "offline",
            "summary": seen.as_ref().and_then(|seen| seen.summary.clone()),
            "lastSeenAt": seen.as_ref().map(|seen| iso(seen.at_ms)),
            "groups": member.groups,
            "visible": true,
            "profile": profile(member),
            "online": false,
        })
    }
}
