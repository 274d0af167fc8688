//! Who is there.

use std::collections::HashSet;
use std::fmt;

use hostel_wire::iso;
use serde_json::{Value, json};

use super::{Asker, Outcome, Reply};
use crate::engine::Engine;
use crate::registry::{MemberRecord, Mesh, RegistryError};
use crate::server::connection::{Connection, Role};
use crate::server::welcome::profile;

/// Where a list of peers goes on: behind a connection, or behind a member without one.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Connection(u64),
    Member(String),
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("connection", id) => id.parse().ok().map(Self::Connection),
            ("member", id) => Some(Self::Member(id.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(id) => write!(f, "connection:{id}"),
            Self::Member(id) => write!(f, "member:{id}"),
        }
    }
}

impl<E: Engine> Asker<'_, E> {
    /// Connections, the oldest first, then members without one; what does not fit is asked for with `next`.
    pub(super) fn list_peers(&self, all: bool, after: Option<&str>) -> Outcome {
        let begin = after.map_or(Some(Place::Connection(0)), Place::read);
        let begin = begin.ok_or_else(|| RegistryError::Invalid("`after` is no place in a list of peers".to_owned()))?;
        let mesh = self.mesh()?;
        let room = self.broker.rooms.room(mesh.id());
        let connections = room.connections();
        let shown = connections.iter().filter(|one| one.now.lock().visible || one.member == self.member());
        let online =
            shown.map(|one| (Place::Connection(one.id), one)).filter(|(place, _)| after.is_none() || *place > begin);
        let online = online.filter_map(|(place, one)| Some((place, self.peer(&mesh, one)?)));
        let there: HashSet<_> = connections.iter().map(|one| one.member.as_str()).collect();
        let mut absent: Vec<_> = match all {
            true => mesh.active().filter(|member| !there.contains(member.id.as_str())).collect(),
            false => Vec::new(),
        };
        absent.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let absent = absent.into_iter().map(|member| (Place::Member(member.id.clone()), member));
        let absent =
            absent.filter(|(place, _)| *place > begin).map(|(place, member)| (place, self.absent(&mesh, member)));
        let peers = online.chain(absent).map(|(place, peer)| (place.to_string(), peer));
        Ok(Reply::Of("peers_list", self.paged("peers", peers)))
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
