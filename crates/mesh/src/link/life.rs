//! A connection's life: reach a broker, say hello, serve until it ends, wait, again.
//!
//! Invariant: it goes on until it is told to stop, unless coming back is of no use: a revoked member, missing features,
//! a session that was kicked. Every wait ends at once when it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use hostel_wire::frames::client::{Features, Resume, Succession};
use hostel_wire::frames::server::HelloAck;
use hostel_wire::random;
use serde_json::json;
use tokio::sync::watch;

use super::backoff::Backoff;
use super::dial::BrokerUrl;
use super::hello::{self, Introduction};
use super::socket::{self, Ear, Mouth};
use super::{End, Role, connection, rotation};
use crate::events::NewEvent;
use crate::keyring::MemberKey;
use crate::mesh::Ending;
use crate::mesh::core::{Core, Standing};
use crate::outbox::Confirmed;

/// A connection that has been welcomed.
pub(super) struct Welcomed {
    pub(super) ear: Ear,
    pub(super) mouth: Mouth,
    pub(super) welcome: HelloAck,
    /// The member's key that it speaks with, or that vouches for its session.
    pub(super) key: Arc<MemberKey>,
}

/// Lives until told to stop.
pub(crate) async fn live(core: Arc<Core>, role: Role, mut stop: watch::Receiver<bool>) {
    let mut backoff = Backoff::new(core.tuning.reconnect());
    let mut settings = core.tuning.changes();
    // Said once, not at every try.
    let mut strange = false;
    loop {
        backoff.adopt(core.tuning.reconnect());
        let reached = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => None,
            reached = reach(&core, &role) => Some(reached),
        };
        let end = match reached {
            None => break,
            Some(Err(end)) => {
                if role.is_member() {
                    core.switched();
                }
                end
            }
            Some(Ok((welcomed, url))) => {
                backoff.reset();
                strange = false;
                let end = connection::serve(&core, &role, welcomed, &url, stop.clone()).await;
                went(&core, &role, &end).await;
                end
            }
        };
        let wait = match &end {
            End::Stopped => break,
            End::Revoked => {
                core.log.error("member_revoked", json!({"member": core.me.member_id, "pubkey": core.pubkey()}));
                core.publish("member_revoked", json!({"mesh": core.me.slug, "self": true, "pubkey": core.pubkey()}))
                    .await;
                core.end(Ending::Revoked);
                break;
            }
            End::Features(missing) if role.is_member() => {
                core.log.error("features_missing", json!({"missing": missing}));
                core.end(Ending::MissingFeatures(missing.clone()));
                break;
            }
            End::Kicked if !role.is_member() => {
                // What it still owes is the member's to send.
                if let Role::Session(session) = &role {
                    core.sessions.end(&session.entry.session_id);
                    core.wake();
                }
                break;
            }
            // Whoever else has our key would be thrown out in turn, for ever.
            End::Replaced => {
                core.metrics.clone_suspected();
                core.log.warn("replaced_by_other_connection", json!({"link": role.word()}));
                core.metrics.reconnected("replaced");
                backoff.longest()
            }
            End::Rotated => {
                core.metrics.reconnected("key_rotated");
                Duration::ZERO
            }
            // Nothing we could do would make it know us; but a broker can be put right.
            End::Stranger(detail) => {
                core.metrics.reconnected("hello");
                if !strange {
                    let about = json!({"link": role.word(), "pubkey": core.pubkey(), "detail": detail});
                    core.log.error("key_not_known", about);
                }
                strange = true;
                backoff.next()
            }
            End::Lost(reason, detail) => {
                core.metrics.reconnected(reason);
                core.log.debug("link_lost", json!({"link": role.word(), "reason": reason, "detail": detail}));
                // A disk that fails does not get better by being asked more often.
                if *reason == "storage" { backoff.longest() } else { backoff.next() }
            }
            End::Features(_) | End::Kicked => backoff.longest(),
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            () = tokio::time::sleep(wait) => {}
            // Whoever has just set a shorter wait, or another broker, does not want to sit the old one out.
            Ok(()) = settings.changed() => backoff.reset(),
        }
    }
    if role.is_member() {
        core.lost(Standing::Closed);
    }
}

/// Tries the brokers in random order until one welcomes us.
async fn reach(core: &Arc<Core>, role: &Role) -> Result<(Welcomed, BrokerUrl), End> {
    let mut urls = core.urls.read().clone();
    shuffle(&mut urls);
    let mut last = End::lost("dial", "no broker is known");
    for url in urls {
        match try_one(core, role, &url).await {
            Ok(welcomed) => return Ok((welcomed, url)),
            Err(end @ (End::Lost(..) | End::Stranger(_))) => last = end,
            Err(end) => return Err(end),
        }
    }
    Err(last)
}

/// Reaches one broker. Where it is open which of two keys counts, the broker's welcome says it. One that knows neither may
/// know an earlier one: it is shown how ours came after that.
async fn try_one(core: &Arc<Core>, role: &Role, url: &BrokerUrl) -> Result<Welcomed, End> {
    let stranger = match try_with(core, role, url, core.keys.current(), Vec::new()).await {
        Err(end @ End::Stranger(_)) if role.is_member() => end,
        decided => return decided,
    };
    if let Some(next) = core.keys.next() {
        match try_with(core, role, url, Arc::clone(&next), Vec::new()).await {
            Ok(welcomed) => {
                rotation::adopt(core, &next).await;
                return Ok(welcomed);
            }
            Err(End::Stranger(_)) => {}
            Err(end) => return Err(end),
        }
    }
    let (key, lineage) = core.keys.descent();
    if lineage.is_empty() {
        return Err(stranger);
    }
    let welcomed = try_with(core, role, url, key, lineage).await?;
    rotation::told_again(core);
    Ok(welcomed)
}

async fn try_with(
    core: &Arc<Core>,
    role: &Role,
    url: &BrokerUrl,
    key: Arc<MemberKey>,
    lineage: Vec<Succession>,
) -> Result<Welcomed, End> {
    let (mut ear, mut mouth) = socket::connect(&*core.dial, url).await?;
    let resume = match role {
        Role::Member => {
            // What the connection before this one was about to store is stored first.
            drop(core.storing.lock().await);
            let cursor = core.inbox.cursor().await.map_err(|error| End::lost("storage", error))?;
            let confirmed = core.outbox.confirmed(&cursor.epoch).await.map_err(|error| End::lost("storage", error))?;
            let entries = cursor.last_entry.into_iter().chain(confirmed.iter().filter_map(Confirmed::entry)).collect();
            let confirmed = confirmed.map(|confirmed| confirmed.seq);
            let resume = Resume { epoch: cursor.epoch, seq: cursor.seq, confirmed, entries };
            Some(resume).filter(|resume| !resume.epoch.is_empty())
        }
        Role::Session(_) => None,
    };
    let who = Introduction { lineage, ..introduction(core, role, &key, resume) };
    let (welcome, time) = hello::introduce(&mut ear, &mut mouth, &who).await?;
    if let Some(time) = time {
        core.note_broker_time(time);
    }
    Ok(Welcomed { ear, mouth, welcome, key })
}

fn introduction<'a>(core: &'a Core, role: &'a Role, key: &'a MemberKey, resume: Option<Resume>) -> Introduction<'a> {
    let me = &core.me;
    let mut require: Vec<String> = hello::REQUIRED.iter().map(|name| (*name).to_owned()).collect();
    let (more_required, more_welcome) = core.tuning.features();
    require.extend(more_required);
    let mut optional: Vec<String> = hello::WELCOME.iter().map(|name| (*name).to_owned()).collect();
    optional.extend(more_welcome);
    let common = Introduction {
        mesh_id: &me.mesh_id,
        member_id: &me.member_id,
        member: &key.key,
        session: None,
        display_name: core.display_name(),
        session_id: format!("daemon-{}", std::process::id()),
        pid: std::process::id(),
        cwd: me.cwd.clone(),
        hostname: me.hostname.clone(),
        peer_type: "connector",
        channel: "claudemesh-daemon",
        groups: me.groups.clone(),
        host_fingerprint: me.host_fingerprint.clone(),
        features: Features { require, optional },
        resume,
        roster_mark: role.is_member().then(|| core.roster.mark()).flatten(),
        lineage: Vec::new(),
        now_ms: core.clock.now_ms(),
    };
    match role {
        Role::Member => common,
        Role::Session(session) => Introduction {
            session: Some(&session.key),
            display_name: session.entry.name.clone(),
            session_id: session.entry.session_id.clone(),
            pid: session.entry.pid,
            cwd: session.entry.cwd.clone().unwrap_or_default(),
            peer_type: "ai",
            channel: "claudemesh-session",
            groups: session.entry.groups.clone(),
            host_fingerprint: None,
            ..common
        },
    }
}

/// Tells that the member's connection stands.
pub(super) async fn came(core: &Core, url: &BrokerUrl, first: bool) {
    let slug = &core.me.slug;
    core.log.info("broker_status", json!({"mesh": slug, "status": "open", "broker": url.authority()}));
    core.publish_all(vec![
        NewEvent::new("broker_status", json!({"mesh": slug, "status": "open"})),
        NewEvent::new("daemon_reconnect", json!({"mesh": slug, "first": first})),
    ])
    .await;
}

/// Tells that it does not stand any more.
async fn went(core: &Core, role: &Role, end: &End) {
    let reason = match end {
        End::Stopped => "shutdown",
        End::Revoked => "revoked",
        End::Features(_) => "features",
        End::Kicked => "kicked",
        End::Replaced => "replaced",
        End::Rotated => "key_rotated",
        End::Stranger(_) => "hello",
        End::Lost(reason, _) => reason,
    };
    match role {
        Role::Member => {
            let stood = core.standing() == Standing::Open;
            let slug = &core.me.slug;
            let again = matches!(end, End::Lost(..) | End::Replaced | End::Rotated | End::Stranger(_));
            let status = if again { "reconnecting" } else { "closed" };
            if *end == End::Rotated {
                core.switch();
            }
            core.lost(if status == "closed" { Standing::Closed } else { Standing::Reconnecting });
            if !stood {
                return;
            }
            core.log.info("broker_status", json!({"mesh": slug, "status": status, "reason": reason}));
            let telling = core.publish_all(vec![
                NewEvent::new("broker_status", json!({"mesh": slug, "status": status})),
                NewEvent::new("daemon_disconnect", json!({"mesh": slug, "reason": reason})),
            ]);
            // At the end nobody may be left to write it down.
            tokio::time::timeout(Duration::from_secs(2), telling).await.ok();
        }
        Role::Session(session) => session.connected.store(false, std::sync::atomic::Ordering::Relaxed),
    }
}

fn shuffle(urls: &mut [BrokerUrl]) {
    for last in (1..urls.len()).rev() {
        let other = usize::try_from(random::below(last as u64 + 1)).unwrap_or_default();
        urls.swap(last, other);
    }
}
