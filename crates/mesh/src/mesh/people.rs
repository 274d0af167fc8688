//! People of the mesh: who is there, what we show of ourselves, and what its owner and administrators may do.

use std::time::Duration;

use hostel_syncpoint::points;
use hostel_wire::frames::Group;
use hostel_wire::frames::client::Call;
use hostel_wire::keys::PublicKey;
use hostel_wire::{iso, safety, topic as names};
use serde_json::{Map, Value, json};

use super::invite::{self, Inviter};
use super::{
    Caller, InviteRequest, Invited, MemberAction, MemberItem, Mesh, Peer, ProfileApplied, ProfileChange, Refusal,
};
use crate::link::{greet, pages};
use crate::resolve;

/// How long a caller's heartbeat keeps us `working`.
const HEARTBEAT_MS: u64 = 60_000;

/// How often the broker is told again while it is kept up.
const RENEW_MS: u64 = 30_000;

/// The longest summary, and the longest value of a profile.
const LONGEST: usize = 4096;

/// Further keys of a profile.
const PROFILE: [&str; 4] = ["avatar", "title", "bio", "capabilities"];

impl Mesh {
    /// Who is there; with `all` also who is not. Without a broker only `all` can be answered, from what is kept.
    pub async fn peers(&self, all: bool) -> Result<Vec<Peer>, Refusal> {
        let core = &self.core;
        let line = match core.line_soon().await {
            Ok(line) => line,
            Err(refusal) if all && refusal.code() == "broker_unavailable" => return Ok(self.known_peers()),
            Err(refusal) => return Err(refusal),
        };
        let listed = pages::peers(&line, all).await?;
        greet::note_peers(core, &listed);
        Ok(listed.items.iter().filter_map(|peer| self.peer(peer)).collect())
    }

    fn known_peers(&self) -> Vec<Peer> {
        let members = self.core.roster.members().into_iter().filter(|member| !member.revoked && !member.left);
        let offline = members.map(|member| Peer {
            pubkey: member.pubkey.clone(),
            member_pubkey: member.pubkey,
            member_id: member.id,
            display_name: member.name,
            status: "offline".to_owned(),
            groups: member.groups,
            peer_role: "service".to_owned(),
            visible: true,
            mesh: self.core.me.slug.clone(),
            ..Peer::default()
        });
        offline.collect()
    }

    fn peer(&self, value: &Value) -> Option<Peer> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let pubkey = text("pubkey")?;
        let member_pubkey = text("memberPubkey").unwrap_or_else(|| pubkey.clone());
        let member_id = text("memberId").or_else(|| self.core.roster.id_by_key(&member_pubkey));
        let status = text("status").unwrap_or_else(|| "idle".to_owned());
        let peer_role = match text("peerRole").as_deref() {
            None | Some("control-plane") => "service".to_owned(),
            Some(role) => role.to_owned(),
        };
        // Keys and names of members are those that are proven, not those of this list.
        let known = member_id.as_deref().and_then(|id| self.core.roster.member(id));
        let is_session = pubkey != member_pubkey;
        let display_name = match &known {
            Some(member) if !is_session => member.name.clone(),
            _ => text("displayName").unwrap_or_default(),
        };
        let member_pubkey = known.map_or(member_pubkey, |member| member.pubkey);
        Some(Peer {
            pubkey: if is_session { pubkey } else { member_pubkey.clone() },
            member_pubkey,
            member_id: member_id.unwrap_or_default(),
            display_name,
            online: value.get("online").and_then(Value::as_bool).unwrap_or(status != "offline"),
            status,
            summary: text("summary"),
            groups: value
                .get("groups")
                .and_then(|groups| serde_json::from_value::<Vec<Group>>(groups.clone()).ok())
                .unwrap_or_default(),
            session_id: text("sessionId"),
            connected_at: text("connectedAt"),
            cwd: text("cwd"),
            peer_role,
            hostname: text("hostname"),
            peer_type: text("peerType"),
            channel: text("channel"),
            visible: value.get("visible").and_then(Value::as_bool).unwrap_or(true),
            mesh: self.core.me.slug.clone(),
        })
    }

    /// Changes what others see of us: of the member, or of the session that asks. It is told again after each reconnect,
    /// so it is taken without a broker as well.
    pub async fn profile(&self, change: ProfileChange, caller: &Caller) -> Result<ProfileApplied, Refusal> {
        let core = &self.core;
        core.check()?;
        if change.status.as_deref().is_some_and(|status| !matches!(status, "idle" | "working" | "dnd")) {
            return Err(Refusal::field("status", "one of idle, working, dnd"));
        }
        if change.summary.as_ref().is_some_and(|summary| summary.len() > LONGEST) {
            return Err(Refusal::field("summary", "a summary has at most 4096 bytes"));
        }
        let more: Map<String, Value> = change
            .more
            .iter()
            .filter(|(key, _)| PROFILE.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if serde_json::to_string(&more).is_ok_and(|text| text.len() > LONGEST) {
            return Err(Refusal::field("bio", "a profile has at most 4096 bytes"));
        }
        if let Some(session) = caller.session() {
            let session = core.sessions.by_id(&session.id).ok_or_else(session_gone)?;
            let applied = core.faces.change(&session, change).await?;
            return Ok(ProfileApplied { ok: true, applied, meshes: vec![core.me.slug.clone()] });
        }
        let mut applied = Vec::new();
        let before = core.appearance.read().clone();
        {
            let mut shown = core.appearance.write();
            if let Some(summary) = &change.summary {
                applied.push("summary".to_owned());
                shown.summary = Some(summary.clone());
            }
            if let Some(status) = &change.status {
                applied.push("status".to_owned());
                shown.status = Some(status.clone());
            }
            if let Some(visible) = change.visible {
                applied.push("visible".to_owned());
                shown.visible = Some(visible);
            }
            applied.extend(more.keys().cloned());
            shown.more.extend(more.clone());
        }
        if let Ok(line) = core.line() {
            let told = async {
                if change.status.is_some() || change.summary.is_some() || change.visible.is_some() {
                    let (status, summary, visible) = (change.status, change.summary, change.visible);
                    line.ask(Call::PresenceSet { status, summary, visible }).await?;
                }
                if !more.is_empty() {
                    line.ask(Call::SetProfile { profile: more }).await?;
                }
                Ok::<(), Refusal>(())
            };
            if let Err(refusal) = told.await {
                // What the broker will never have must not be told again at each connection.
                if matches!(refusal.code(), "invalid_argument" | "forbidden") {
                    *core.appearance.write() = before;
                }
                return Err(refusal);
            }
        }
        Ok(ProfileApplied { ok: true, applied, meshes: vec![core.me.slug.clone()] })
    }

    /// A caller is alive and busy: others see the member, or the session that asks, `working` for a minute. Says the time.
    pub async fn heartbeat(&self, caller: &Caller) -> Result<String, Refusal> {
        let core = &self.core;
        core.check()?;
        let now = core.clock.now_ms();
        if let Some(session) = caller.session() {
            let session = core.sessions.by_id(&session.id).ok_or_else(session_gone)?;
            core.faces.busy(&session).await;
            return Ok(iso(now));
        }
        core.heartbeat_until.send_replace(core.clock.passing_ms() + HEARTBEAT_MS);
        Ok(iso(now))
    }

    /// Shows `working` while callers keep it up, and afterwards what was shown before.
    pub(super) async fn watch_heartbeat(&self) {
        let core = &self.core;
        let mut until = core.heartbeat_until.subscribe();
        let show = async |status: String| {
            if let Ok(line) = core.line() {
                line.ask(Call::PresenceSet { status: Some(status), summary: None, visible: None }).await.ok();
            }
        };
        loop {
            if until.changed().await.is_err() {
                return;
            }
            show("working".to_owned()).await;
            loop {
                let left = until.borrow_and_update().saturating_sub(core.clock.passing_ms());
                if left == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(left.min(RENEW_MS))).await;
                // The broker forgets it after a minute, however long it is kept up.
                if *until.borrow() > core.clock.passing_ms() {
                    show("working".to_owned()).await;
                }
            }
            let before = core.appearance.read().status.clone().unwrap_or_else(|| "idle".to_owned());
            show(before).await;
        }
    }

    /// Everybody who is or was in the mesh.
    #[must_use]
    pub fn members(&self) -> Vec<MemberItem> {
        let item = |member: hostel_wire::frames::server::Member| MemberItem {
            me: member.id == self.core.me.member_id,
            member_id: member.id,
            display_name: member.name,
            role: member.role,
            pubkey: member.pubkey,
            revoked: member.revoked,
            left: member.left,
            groups: member.groups,
        };
        self.core.roster.members().into_iter().map(item).collect()
    }

    /// Does something to a member; owner and administrators only.
    pub async fn member_action(&self, action: MemberAction, target: &str) -> Result<Value, Refusal> {
        if target.is_empty() || target.len() > 256 {
            return Err(Refusal::field("target", "a public key, a member's id or a name"));
        }
        let target = target.to_owned();
        let call = match action {
            MemberAction::Revoke => Call::Revoke { target },
            MemberAction::Ban => Call::Ban { target },
            MemberAction::Unban => Call::Unban { target },
            MemberAction::Kick => Call::Kick { target },
            MemberAction::Disconnect => Call::Disconnect { target },
        };
        let mut fields = self.core.line_soon().await?.fields(call).await?;
        fields.insert("ok".to_owned(), true.into());
        Ok(Value::Object(fields))
    }

    /// Another name from now on; only with a broker, whose word it is.
    pub async fn rename(&self, name: &str) -> Result<String, Refusal> {
        let core = &self.core;
        core.check()?;
        let name = names::display_name(name).map_err(|error| Refusal::field("displayName", error.to_string()))?;
        // Not kept for later: a wish that only this process knows would be gone with it, though it was said to be done.
        core.line_soon().await?.ask(Call::Rename { display_name: name.clone() }).await?;
        *core.rename.write() = false;
        name.clone_into(&mut core.name.write());
        core.set_own_name(&name);
        // Others know us by the old name until we have signed the new one; the next connection says it again.
        let stated = async { greet::state(core, &*core.line()?).await };
        if let Err(refusal) = stated.await {
            core.log.warn("statement_refused", json!({"code": refusal.code(), "detail": refusal.detail()}));
        }
        Ok(name)
    }

    /// Makes an invite; only on the owner's host.
    pub async fn invite_create(&self, request: InviteRequest) -> Result<Invited, Refusal> {
        let core = &self.core;
        core.check()?;
        let me = &core.me;
        let owner = invite::signer(me.owner.as_ref(), &core.roster, &me.member_id, &core.key().key);
        let broker_url = core.urls.read().first().map(crate::link::dial::BrokerUrl::websocket).unwrap_or_default();
        let who = Inviter {
            slug: &me.slug,
            mesh_id: &me.mesh_id,
            broker_url,
            owner: owner.as_ref(),
            root: me.root.as_ref(),
            certificate: me.certificate,
            now_ms: core.broker_now_ms(),
        };
        if who.owner.is_none() {
            return Err(Refusal::new("owner_only", "only the mesh owner's host can invite"));
        }
        invite::create(&*core.line_soon().await?, who, request).await
    }

    /// All invites.
    pub async fn invite_list(&self) -> Result<Value, Refusal> {
        let line = self.core.line_soon().await?;
        Ok(json!({"invites": pages::invites(&line).await?.items}))
    }

    /// Takes an invite back.
    pub async fn invite_revoke(&self, invite: &str) -> Result<(), Refusal> {
        self.core.line_soon().await?.ask(Call::InviteRevoke { invite: invite.to_owned() }).await.map(drop)
    }

    /// The broker's audit trail; owner and administrators only.
    pub async fn audit(&self, after: u64, limit: u32) -> Result<Value, Refusal> {
        let line = self.core.line_soon().await?;
        let mut fields = line.fields(Call::AuditQuery { after, limit: Some(limit.clamp(1, 500)) }).await?;
        let events = fields.remove("events").or_else(|| fields.remove("entries")).unwrap_or_else(|| json!([]));
        fields.insert("events".to_owned(), events);
        Ok(Value::Object(fields))
    }

    /// Digits that two people compare to know that nobody is between them.
    pub fn safety_number(&self, peer: &str) -> Result<Value, Refusal> {
        let core = &self.core;
        core.check()?;
        let member = resolve::member(&core.roster, peer)
            .map_err(|refusal| super::sending::unknown(core, peer, refusal.about("peer")))?;
        let key = PublicKey::from_hex(&member.pubkey).ok_or_else(|| Refusal::internal("the member's key is no key"))?;
        let number = safety::number(&core.key().public(), &key);
        let peer = json!({
            "memberId": member.id, "displayName": member.name, "pubkey": member.pubkey,
            "signs": core.authors().signs(&member.id), "claimedPubkey": core.authors().claimed_key(&member.id),
        });
        Ok(json!({"safetyNumber": number, "peer": peer}))
    }

    /// Accepts what the broker says of a peer's key, also where the peer has not signed it, and forgets that the peer
    /// signs until it does so again. For a person who has compared the number that this gives.
    pub async fn trust(&self, peer: &str) -> Result<Value, Refusal> {
        let core = &self.core;
        core.check()?;
        let member = resolve::member(&core.roster, peer)
            .map_err(|refusal| super::sending::unknown(core, peer, refusal.about("peer")))?;
        if let Some(key) = core.authors().trust(&member.id) {
            core.inbox.keep_authors(points::AUTHOR_TRUSTED).await.map_err(Refusal::internal)?;
            core.roster.set_key(&member.id, &key);
            core.log.warn("member_key_trusted", json!({"memberId": member.id, "name": member.name, "pubkey": key}));
        }
        self.safety_number(&member.id)
    }
}

fn session_gone() -> Refusal {
    Refusal::new("session_not_found", "the session has ended")
}
