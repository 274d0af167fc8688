//! What a member's connection begins with: is everything we were told still in the log, who is there, which topics,
//! what the broker has not heard of us.
//!
//! Invariant: nothing is sent before what a broker has lost is back in line, and nothing is opened before the roster is
//! here. Every step can be done again; the connection may end between any two.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::authorship::Statement;
use hostel_wire::frames::client::Call;
use hostel_wire::frames::server::HelloAck;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::calls::Line;
use super::dial::BrokerUrl;
use super::pages::{self, Listed};
use super::{End, reseal};
use crate::events::NewEvent;
use crate::inbox::Cursor;
use crate::mesh::core::{Core, Me};
use crate::mesh::{Ending, Refusal};
use crate::roster::SessionOf;
use crate::topics::{Ask, talk};

/// The feature of a broker that hands out what members say of themselves.
pub(crate) const STATEMENTS: &str = "member_statements";

/// How long a list with a new name of ours may take.
const NAME_WAIT: Duration = Duration::from_secs(2);

/// How long the roster may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// What could not be told is told again after this long, and not later than after that long.
const AGAIN: Duration = Duration::from_secs(5);
const LATEST: Duration = Duration::from_secs(60);

/// Topics that are named when they are lost.
const MOST_NAMED: usize = 100;

/// Addresses of brokers that are kept.
const MOST_BROKERS: usize = 32;

/// Before anything is sent: the window for ids, and rows the broker has lost.
pub(super) async fn repair(core: &Core, welcome: &HelloAck) -> Result<(), End> {
    if let Err(error) = core.outbox.window(welcome.limits.dedupe_days) {
        core.log.error("outbox_window", json!({"error": error.to_string()}));
        core.end(Ending::Broken(error.to_string()));
        return Err(End::Stopped);
    }
    // A log that begins anew under the same epoch may have other entries at every number.
    let last_seq = if welcome.resume == "reset" { 0 } else { welcome.log.last_seq };
    let again = core.outbox.requeue_unlogged(&welcome.log.epoch, last_seq).await;
    let again = again.map_err(|error| End::lost("storage", format!("outbox: {error}")))?;
    if again > 0 {
        core.log.warn("outbox_repaired", json!({"rows": again, "epoch": welcome.log.epoch}));
    }
    Ok(())
}

/// Where receiving begins. What was missed for good is told once, together with the place after it.
pub(super) async fn resume(core: &Core, welcome: &HelloAck) -> Result<Cursor, End> {
    let failed = |error| End::lost("storage", format!("inbox: {error}"));
    core.inbox.draw_line(&welcome.log.epoch, welcome.log.last_seq).await.map_err(failed)?;
    let kept = core.inbox.cursor().await.map_err(failed)?;
    let slug = &core.me.slug;
    // A place behind the end of the log is a place in another one.
    let elsewhere = kept.epoch != welcome.log.epoch || kept.seq > welcome.log.last_seq || welcome.resume == "reset";
    let (cursor, data) = if elsewhere {
        let fresh = Cursor { epoch: welcome.log.epoch.clone(), seq: 0, ..Cursor::default() };
        (fresh, (!kept.epoch.is_empty()).then(|| json!({"mesh": slug, "reset": true})))
    } else if let ("gap", Some(gap)) = (welcome.resume.as_str(), &welcome.gap) {
        let after = Cursor { seq: kept.seq.max(gap.to), ..kept };
        (after, Some(json!({"mesh": slug, "from": gap.from, "to": gap.to})))
    } else {
        (kept, None)
    };
    if elsewhere {
        core.resealed.forget();
    }
    if elsewhere && data.is_some() {
        core.topics.start_again();
        core.authors().log_replaced();
    }
    if let Some(data) = data {
        core.metrics.history_gap();
        core.log.warn("history_gap", data.clone());
        let told = vec![NewEvent::new("history_gap", data)];
        core.inbox.store(Vec::new(), told, Some(cursor.clone())).await.map_err(failed)?;
    } else if elsewhere {
        // Which log it is has to be known also where nothing was received yet: who has only sent notices by it that the
        // broker was set back.
        core.inbox.store(Vec::new(), Vec::new(), Some(cursor.clone())).await.map_err(failed)?;
    }
    Ok(cursor)
}

/// Waits until the roster of this connection is here.
pub(super) async fn roster(mut here: watch::Receiver<bool>) -> Result<(), End> {
    match tokio::time::timeout(PATIENCE, here.wait_for(|here| *here)).await {
        Ok(Ok(_)) => Ok(()),
        _ => Err(End::lost("hello", "the broker sent no roster")),
    }
}

/// Everything else, and at last what takes long.
pub(super) async fn rest(core: &Arc<Core>, line: &Line) {
    note_brokers(core, &line.welcome);
    told(core, line).await;
    reseal::all(core, line).await;
}

/// What the broker cannot do just now is tried again as long as the connection stands; every other failure waits for the
/// next one.
async fn told(core: &Arc<Core>, line: &Line) {
    let mut wait = AGAIN;
    while let Err(refusal) = try_rest(core, line).await {
        core.log.debug("greeting_incomplete", json!({"code": refusal.code(), "detail": refusal.detail()}));
        if !refusal.passes() {
            return;
        }
        tokio::time::sleep(wait).await;
        wait = LATEST.min(wait * 2);
    }
}

async fn try_rest(core: &Arc<Core>, line: &Line) -> Result<(), Refusal> {
    talk::refresh(&core.topics, line).await?;
    for (topic, refusal) in talk::replay(&core.topics, line).await? {
        core.log.warn("subscription_refused", json!({"topic": topic, "code": refusal.code()}));
    }
    tell_lost(core).await;
    for (ring, epoch) in core.topics.unreadable() {
        core.topics.ask(Ask::Read(ring, epoch));
    }
    for missing in core.inbox.missing_keys().await.unwrap_or_default() {
        core.topics.ask(Ask::Read(missing.topic_id, missing.key_epoch));
    }
    let on = core.settings.get();
    if on.capabilities.state || on.capabilities.tasks {
        crate::shared::hand_on(core, line).await;
    }
    present(core, line).await?;
    // Each by itself: what the broker refuses of one keeps none of the others from being told.
    let (appeared, renamed) = (appear(core, line).await, rename(core, line).await);
    let stated = state(core, line).await;
    appeared.and(renamed).and(stated)
}

/// Says what we are called, that we sign what we write and how we came by our key, unless the broker hands that out
/// already. Others check it with our key.
pub(crate) async fn state(core: &Core, line: &Line) -> Result<(), Refusal> {
    if !line.welcome.features.supported.contains_key(STATEMENTS) {
        return Ok(());
    }
    // A list with a name that was just changed follows the broker's answer.
    let mut changed = core.roster.watch();
    let is_listed = || core.roster.name(&core.me.member_id) == Some(core.signed_name());
    let listed = async { while !is_listed() && changed.changed().await.is_ok() {} };
    tokio::time::timeout(NAME_WAIT, listed).await.ok();
    let Some(listed) = core.roster.member(&core.me.member_id) else { return Ok(()) };
    let (key, lineage) = core.keys.descent();
    let Me { mesh_id, member_id, .. } = &core.me;
    let name = core.signed_name();
    let is_said = |said: &Statement| said.name == name && said.verify(mesh_id, member_id, &key.public());
    if listed.statement.as_ref().is_some_and(is_said) && listed.lineage.len() >= lineage.len() {
        return Ok(());
    }
    if name != listed.name {
        // Nobody here has agreed to that name: what was said before stays.
        core.log.warn("name_not_stated", json!({"name": name, "broker": listed.name}));
        return Ok(());
    }
    let statement = Statement::new(mesh_id, member_id, &name, core.broker_now_ms(), &key.key);
    match line.ask(Call::MemberState { statement, lineage }).await {
        // Another name or key counts since: whoever changed it says so again.
        Err(refusal) if matches!(refusal.code(), "invalid_argument" | "bad_signature" | "forbidden") => {
            core.log.warn("statement_refused", json!({"code": refusal.code(), "detail": refusal.detail()}));
            Ok(())
        }
        said => said.map(drop),
    }
}

/// Says which topics a broker that was set back has forgotten. What waits to be posted there will not be taken.
async fn tell_lost(core: &Core) {
    let lost = core.topics.lost();
    if lost.is_empty() {
        return;
    }
    let again = |name: &str| core.topics.by_name(name).is_some_and(|known| known.subscribed);
    let named = |names: Vec<&str>| names.into_iter().take(MOST_NAMED).map(str::to_owned).collect::<Vec<_>>();
    let (back, gone): (Vec<&str>, Vec<&str>) =
        lost.iter().map(|known| known.name.as_str()).partition(|name| again(name));
    let data = json!({
        "mesh": core.me.slug, "event": "topics_lost", "count": lost.len(), "made_again": named(back), "gone": named(gone),
    });
    core.log.warn("topics_lost", data.clone());
    core.publish("system", data).await;
}

/// What we are called is what others hear from the broker, unless we are about to say something else.
pub(super) fn named(core: &Core, welcome: &HelloAck) {
    let name = &welcome.member_display_name;
    if !name.is_empty() && !*core.rename.read() {
        name.clone_into(&mut core.name.write());
    }
}

/// Notes who is there.
async fn present(core: &Core, line: &Line) -> Result<(), Refusal> {
    note_peers(core, &pages::peers(line, false).await?);
    Ok(())
}

/// Notes who is there, from a broker's list. Who is not in one that is not whole may be there all the same.
pub(crate) fn note_peers(core: &Core, peers: &Listed) {
    let text = |peer: &Value, key: &str| peer.get(key).and_then(Value::as_str).map(str::to_owned);
    let (mut online, mut sessions) = (HashSet::new(), HashMap::new());
    for peer in &peers.items {
        let key = text(peer, "memberPubkey").or_else(|| text(peer, "pubkey"));
        let by_key = || key.as_deref().and_then(|key| core.roster.id_by_key(key));
        let Some(member_id) = text(peer, "memberId").or_else(by_key) else { continue };
        if text(peer, "status").as_deref() == Some("offline") {
            continue;
        }
        if let (Some(pubkey), Some(session_id)) = (text(peer, "pubkey"), text(peer, "sessionId"))
            && Some(&pubkey) != key.as_ref()
        {
            sessions.insert(pubkey, SessionOf { member_id: member_id.clone(), session_id });
        }
        online.insert(member_id);
    }
    core.roster.set_online(online, sessions, peers.whole);
}

/// Tells again what others shall see of us.
async fn appear(core: &Core, line: &Line) -> Result<(), Refusal> {
    let appearance = core.appearance.read().clone();
    if appearance.status.is_some() || appearance.summary.is_some() || appearance.visible.is_some() {
        let (status, summary, visible) = (appearance.status, appearance.summary, appearance.visible);
        line.ask(Call::PresenceSet { status, summary, visible }).await?;
    }
    if !appearance.more.is_empty() {
        line.ask(Call::SetProfile { profile: appearance.more }).await?;
    }
    Ok(())
}

async fn rename(core: &Core, line: &Line) -> Result<(), Refusal> {
    if !*core.rename.read() {
        return Ok(());
    }
    let wanted = core.display_name();
    match line.ask(Call::Rename { display_name: wanted.clone() }).await {
        Ok(_) => {
            core.set_own_name(&wanted);
            *core.rename.write() = false;
        }
        Err(refusal) if matches!(refusal.code(), "name_taken" | "forbidden" | "invalid_argument") => {
            let about = json!({"name": wanted, "code": refusal.code(), "detail": refusal.detail()});
            core.log.warn("rename_refused", about);
            core.set_own_name(&line.welcome.member_display_name);
            *core.rename.write() = false;
            named(core, &line.welcome);
        }
        Err(refusal) => return Err(refusal),
    }
    Ok(())
}

/// Further brokers of the mesh are tried as well from now on.
fn note_brokers(core: &Core, welcome: &HelloAck) {
    let mut urls = core.urls.write();
    for text in &welcome.brokers {
        let Ok(url) = BrokerUrl::parse(text) else { continue };
        // A broker may name others, but not talk us out of encryption.
        let fits = url.tls || urls.iter().all(|known| !known.tls);
        if fits && urls.len() < MOST_BROKERS && !urls.contains(&url) {
            urls.push(url);
        }
    }
}
