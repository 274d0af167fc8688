//! Whether a hello is who it says it is, and what it is told.
//!
//! The checks come in the contract's order: the shape of the keys, room in the mesh, the signature, the member. A hello of
//! the second protocol signs the challenge of its own connection; one of the first is believed for a minute and once, where
//! that is allowed.
//!
//! Invariant: nobody is in a room whose key was revoked before it came in.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};

use hostel_wire::frames::client::{ClientFrame, Hello, SessionHello};
use hostel_wire::frames::{Group, close};
use hostel_wire::hello::{HelloError, check_time, verify_hello_text, verify_session_hello_text};
use hostel_wire::ids;
use hostel_wire::keys::PublicKey;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{About, Connection, Now, Role, Status, Window};
use crate::audit::kind;
use crate::engine::Engine;
use crate::registry::{Concurrency, Held, MemberRecord, Mesh, RegistryError, lineage};
use crate::server::log::Level;
use crate::server::presence::Presence;
use crate::server::room::Closed;
use crate::server::{Broker, welcome};

/// The longest of the small texts a hello brings.
const TEXT: usize = 256;

/// A connection that was let in.
pub(super) struct Admitted<E: Engine> {
    pub(super) presence: Presence<E>,
    pub(super) news: mpsc::Receiver<Utf8Bytes>,
    pub(super) welcome: Vec<Utf8Bytes>,
}

/// A hello that was not believed.
pub(super) struct Refused {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) close: u16,
    pub(super) reason: String,
}

impl Refused {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), close: close::REFUSED, reason: code.to_owned() }
    }

    fn closing(mut self, close: u16, reason: impl Into<String>) -> Self {
        self.close = close;
        self.reason = reason.into();
        self
    }

    pub(super) fn malformed(message: &str) -> Self {
        Self::new("malformed", message)
    }

    pub(super) fn no_hello(message: &str) -> Self {
        Self::new("no_hello", message)
    }

    pub(super) fn too_big() -> Self {
        Self::new("malformed", "the first frame is too long").closing(close::TOO_BIG, "frame_too_big")
    }

    fn unauthorized(message: &str) -> Self {
        Self::new("unauthorized", message)
    }

    fn unavailable() -> Self {
        Self::new("unavailable", "the broker cannot read its records").closing(close::GOING_AWAY, "unavailable")
    }
}

impl From<HelloError> for Refused {
    fn from(error: HelloError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// What a hello claims, of either kind.
struct Claim<'a> {
    hello: &'a Hello,
    session: Option<&'a SessionHello>,
    text: &'a str,
}

/// Keys that were shown to be who they are.
struct Shown {
    /// The connection's.
    key: PublicKey,
    /// The member's.
    member: PublicKey,
}

/// Lets a connection in, or says why not.
pub(super) async fn admit<E: Engine>(broker: &Arc<Broker<E>>, nonce: &str, text: &str) -> Result<Admitted<E>, Refused> {
    let frame = ClientFrame::decode(text).map_err(|error| Refused::malformed(&error.to_string()))?;
    let claim = match &frame {
        ClientFrame::Hello(hello) => Claim { hello, session: None, text },
        ClientFrame::SessionHello(session) => Claim { hello: &session.hello, session: Some(session), text },
        _ => return Err(Refused::no_hello("the first frame must be a hello")),
    };
    let protocol = claim.hello.protocol_version.clamp(1, 2);
    if protocol < 2 && !broker.settings.allow_v1_hello {
        return Err(Refused::unauthorized("hellos of the first protocol are not taken here"));
    }
    claim.check_shape()?;
    let mesh = broker.registry.mesh(&claim.hello.mesh_id).ok_or_else(|| Refused::unauthorized("no such mesh"))?;
    let rule = mesh.record.policy.concurrency;
    let room = broker.rooms.room(mesh.id());
    let capacity = broker.settings.limits.capacity;
    if room.is_full(capacity, claim.key_text(), rule) {
        return Err(Refused::new("capacity", "the mesh has as many connections as it may"));
    }
    let shown = claim.verify(broker, nonce, protocol)?;
    let (mesh, member) = claim.known(broker, mesh, &shown, protocol).await?;
    welcome::check_features(claim.hello).map_err(|(message, reason)| Refused {
        code: "features",
        message,
        close: close::FEATURES,
        reason,
    })?;
    let plan = welcome::plan(broker, &mesh, &member, claim.hello, protocol).await.ok_or_else(Refused::unavailable)?;
    let (news, heard) = mpsc::channel(broker.settings.limits.news);
    let limits = &broker.settings.limits;
    let says_synced = protocol >= 2 && welcome::wants(claim.hello, welcome::ACK_SYNCED);
    let window = Window::new(limits.window, limits.window_bytes, plan.from).says_synced(says_synced);
    let now = Now { status: Status::Idle, at: Instant::now(), summary: None, visible: true };
    let connection = Arc::new(Connection {
        id: broker.next_id(),
        presence_id: ids::ulid(broker.clock.now_ms()),
        mesh: mesh.id().to_owned(),
        member: member.id.clone(),
        member_key: shown.member,
        key: shown.key,
        role: claim.role(),
        protocol,
        wants_entries: !claim.hello.capabilities.iter().any(|word| word == "no_push"),
        shares: protocol >= 2 && welcome::wants(claim.hello, welcome::SHARED),
        hears_batches: protocol >= 2 && welcome::wants(claim.hello, welcome::PRESENCE_BATCHES),
        about: claim.about(broker.clock.now_ms()),
        now: Mutex::new(now),
        window: Mutex::new(window),
        opened: Notify::new(),
        bye: AtomicBool::new(false),
        cursor_saved: AtomicU64::new(plan.from),
        turn: tokio::sync::Mutex::new(()),
        news,
        end: OnceLock::new(),
        ended: Notify::new(),
    });
    enter(broker, &connection, &mesh, rule, heard, claim.hello, &plan).await
}

/// Goes into the room and finds out what to say.
async fn enter<E: Engine>(
    broker: &Arc<Broker<E>>,
    connection: &Arc<Connection>,
    mesh: &Mesh,
    rule: Concurrency,
    news: mpsc::Receiver<Utf8Bytes>,
    hello: &Hello,
    plan: &welcome::Plan,
) -> Result<Admitted<E>, Refused> {
    let presence = match Presence::enter(broker, connection, rule) {
        Ok(presence) => presence,
        Err(Closed::Full) => return Err(Refused::new("capacity", "the mesh has as many connections as it may")),
        Err(Closed::KeptOldest) => {
            broker.suspect(connection).await;
            broker.audit(mesh.id(), kind::CONCURRENT, &connection.member, json!({"policy": "prefer_oldest"})).await;
            let refused = Refused::new("concurrent", "another connection with this key stays");
            return Err(refused.closing(close::KEPT_OLDEST, "kept_oldest"));
        }
    };
    // It may have been revoked while it came in; from here on the room hears of it.
    let mesh = broker.registry.mesh(mesh.id()).ok_or_else(|| Refused::unauthorized("no such mesh"))?;
    let member = mesh.member(&connection.member).ok_or_else(|| Refused::unauthorized("no such member"))?;
    let member = standing(member)?;
    let welcome = presence.welcome(&mesh, member, hello, plan).await;
    Ok(Admitted { presence, news, welcome })
}

/// A member that may come in.
fn standing(member: &Arc<Held<MemberRecord>>) -> Result<&Arc<Held<MemberRecord>>, Refused> {
    if member.revoked_ms.is_some() {
        return Err(Refused::new("revoked", "the key is revoked").closing(close::BANNED, "banned"));
    }
    if member.left_ms.is_some() {
        return Err(Refused::unauthorized("the member has left"));
    }
    Ok(member)
}

/// Why a lineage was not followed.
fn unfollowed(error: RegistryError) -> Refused {
    match error {
        RegistryError::KeyReplaced => Refused::new(
            "key_replaced",
            "another key than this one took the place of the member's; if that was not you, have the member revoked",
        ),
        RegistryError::Engine(_) => Refused::unavailable(),
        other => Refused::unauthorized(&other.to_string()),
    }
}

impl Claim<'_> {
    /// The key that the connection says it has.
    fn key_text(&self) -> &str {
        self.hello.session_pubkey.as_deref().unwrap_or(&self.hello.pubkey)
    }

    fn check_shape(&self) -> Result<(), Refused> {
        let hello = self.hello;
        if hello.session_pubkey.as_deref().is_some_and(|key| PublicKey::from_hex(key).is_none()) {
            return Err(HelloError::BadSessionPubkey.into());
        }
        let texts = [
            &hello.mesh_id,
            &hello.member_id,
            &hello.display_name,
            &hello.session_id,
            &hello.hostname,
            &hello.peer_type,
            &hello.channel,
        ];
        let long = texts.iter().any(|text| text.len() > TEXT)
            || hello.cwd.len() > 16 * TEXT
            || hello.model.as_ref().is_some_and(|text| text.len() > TEXT)
            || hello.host_fingerprint.as_ref().is_some_and(|text| text.len() > TEXT);
        let group =
            |group: &Group| group.name.len() > TEXT || group.role.as_ref().is_some_and(|role| role.len() > TEXT);
        let long = long || hello.groups.iter().any(group) || hello.capabilities.iter().any(|word| word.len() > TEXT);
        let many = hello.capabilities.len() > 64 || hello.groups.len() > 64;
        match long || many {
            true => Err(Refused::malformed("a field of the hello is too long")),
            false => Ok(()),
        }
    }

    /// Whether it is signed by the keys it names.
    fn verify<E: Engine>(&self, broker: &Broker<E>, nonce: &str, protocol: u32) -> Result<Shown, Refused> {
        let now = broker.clock.now_ms();
        if protocol < 2 {
            check_time(self.hello.timestamp, now)?;
        }
        let shown = self.verify_keys(nonce, now)?;
        // Without a challenge the same words would be believed again; those of a connection are its own.
        if protocol < 2 && !broker.hellos.is_new(self.words(&shown)) {
            return Err(Refused::new("bad_signature", "this hello was said before"));
        }
        Ok(shown)
    }

    /// What the first protocol signs: everything else of it anybody could change.
    fn words(&self, shown: &Shown) -> String {
        let session = self.session.map(|_| shown.key.hex()).unwrap_or_default();
        format!("{}|{}|{session}|{}", self.hello.mesh_id, shown.member, self.hello.timestamp)
    }

    fn verify_keys(&self, nonce: &str, now: u64) -> Result<Shown, Refused> {
        match self.session {
            None => {
                let member = verify_hello_text(self.text, self.hello, Some(nonce))?;
                let key = self.hello.session_pubkey.as_deref().and_then(PublicKey::from_hex).unwrap_or(member);
                Ok(Shown { key, member })
            }
            Some(session) => {
                let keys = verify_session_hello_text(self.text, session, Some(nonce), now)?;
                Ok(Shown { key: keys.session, member: keys.parent })
            }
        }
    }

    /// The member whose key was shown, also one that has replaced the key that is known here and can show it.
    async fn known<E: Engine>(
        &self,
        broker: &Broker<E>,
        mesh: Arc<Mesh>,
        shown: &Shown,
        protocol: u32,
    ) -> Result<(Arc<Mesh>, Arc<Held<MemberRecord>>), Refused> {
        let (hello, key) = (self.hello, shown.member.hex());
        let later = mesh.member(&hello.member_id).filter(|_| {
            // A session's word is its member's: that one comes first, and by itself.
            !hello.lineage.is_empty()
                && protocol >= 2
                && shown.key == shown.member
                && mesh.member_by_key(&key).is_none()
        });
        let Some(member) = later else {
            let member = self.member(&mesh, shown)?;
            return Ok((mesh, member));
        };
        let followed = lineage::followed(&mesh, member, &key, &hello.lineage);
        // Who has shown that it was this member hears what has become of it.
        if matches!(followed, Ok(_) | Err(RegistryError::KeyReplaced)) {
            standing(member)?;
        }
        followed.map_err(unfollowed)?;
        let old = member.pubkey.clone();
        let rotated =
            broker.registry.catch_up(mesh.id(), &member.id, &key, &hello.lineage).await.map_err(unfollowed)?;
        let delta = welcome::roster_delta(&rotated.mesh, &rotated.member, None);
        broker.rooms.room(mesh.id()).tell(&delta, |one| one.protocol >= 2);
        let fields = json!({"mesh": mesh.id(), "member": rotated.member.id, "old": old, "new": key, "lineage": true});
        broker.log.line(Level::Warn, "member_keypair_rotated", fields);
        let member = self.member(&rotated.mesh, shown)?;
        Ok((rotated.mesh, member))
    }

    /// The member whose key was shown.
    fn member(&self, mesh: &Mesh, shown: &Shown) -> Result<Arc<Held<MemberRecord>>, Refused> {
        let member = mesh.member_by_key(&shown.member.hex()).ok_or_else(|| Refused::unauthorized("no such member"))?;
        standing(member)?;
        // A key that was replaced opens no connection.
        if member.pubkey != shown.member.hex() {
            return Err(Refused::new("key_replaced", "the key was replaced by another of this member"));
        }
        let named = self.session.map_or(&self.hello.member_id, |session| &session.parent_member_id);
        if *named != member.id {
            return Err(match self.session {
                Some(_) => Refused::new("parent_member_id_mismatch", "the key is another member's"),
                None => Refused::unauthorized("the key is another member's"),
            });
        }
        // A session's key is one member's: nobody else may read what is sent to it.
        let whose = mesh.member_by_session(&shown.key.hex());
        let taken = mesh.member_by_key(&shown.key.hex());
        let foreign = |other: Option<&Arc<Held<MemberRecord>>>| other.is_some_and(|other| other.id != member.id);
        if foreign(whose) || foreign(taken) {
            return Err(HelloError::BadSessionPubkey.into());
        }
        Ok(Arc::clone(member))
    }

    fn role(&self) -> Role {
        let session = match self.hello.role.as_deref() {
            _ if self.session.is_some() => true,
            Some(word) => word == "session",
            None => self.hello.session_pubkey.is_some(),
        };
        if session { Role::Session } else { Role::Service }
    }

    fn about(&self, now_ms: u64) -> About {
        let hello = self.hello;
        About {
            session_id: hello.session_id.clone(),
            pid: hello.pid,
            cwd: hello.cwd.clone(),
            hostname: hello.hostname.clone(),
            peer_type: hello.peer_type.clone(),
            channel: hello.channel.clone(),
            model: hello.model.clone(),
            display_name: hello.display_name.clone(),
            groups: hello.groups.clone(),
            connected_ms: now_ms,
            host_fingerprint: hello.host_fingerprint.clone(),
            control_plane: hello.role.as_deref() == Some("control-plane"),
        }
    }
}
