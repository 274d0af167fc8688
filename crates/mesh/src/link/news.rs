//! What the broker itself has to say: who came and went, who was revoked or renamed.
//!
//! Invariant: news about ourselves are ours alone and are not told as news of others.

use hostel_wire::frames::server::Push;
use serde_json::{Map, Value, json};

use super::End;
use crate::events::NewEvent;
use crate::mesh::core::Core;

/// We take news of several members' coming and going in one frame.
pub(super) const PRESENCE_BATCHES: &str = "presence_batches";

/// News of members' coming and going.
const PRESENCE: [&str; 5] = ["peer_joined", "peer_returned", "peer_visible", "peer_left", "peer_hidden"];

/// The largest news that are told on.
const LARGEST: usize = 16 * 1024;

/// Takes news; says what shall be told on, or that this is the end.
pub(super) fn take(core: &Core, push: &Push) -> Result<Vec<NewEvent>, End> {
    let Some(event) = push.event.as_deref().filter(|event| event.len() <= 64) else { return Ok(Vec::new()) };
    let data = push.event_data.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
    if event == "peers_changed" {
        return take_several(core, &data);
    }
    take_one(core, event, data)
}

/// Takes news of several members' coming and going.
fn take_several(core: &Core, data: &Map<String, Value>) -> Result<Vec<NewEvent>, End> {
    let items = data.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut told = Vec::new();
    for item in items.iter().filter_map(Value::as_object) {
        let mut item = item.clone();
        let Some(Value::String(event)) = item.remove("event") else { continue };
        if PRESENCE.contains(&event.as_str()) {
            told.extend(take_one(core, &event, item)?);
        }
    }
    Ok(told)
}

fn take_one(core: &Core, event: &str, data: Map<String, Value>) -> Result<Vec<NewEvent>, End> {
    let about_us = is_about_us(core, &data);
    match event {
        "member_revoked" | "keypair_revoked" => {
            if about_us {
                // For who looks into it later: what the broker said, and who had it done.
                core.log.error("member_revocation_heard", Value::Object(data));
                return Err(End::Revoked);
            }
            Ok(vec![told(core, "member_revoked", event, data)])
        }
        _ if PRESENCE.contains(&event) => {
            let present = !matches!(event, "peer_left" | "peer_hidden");
            if let Some(member) = member_of(core, &data) {
                // Who hides is still there.
                core.roster.set_present(&member, event != "peer_left");
            }
            let name = if present { "peer_join" } else { "peer_leave" };
            Ok(if about_us { Vec::new() } else { vec![told(core, name, event, data)] })
        }
        "member_clone_suspected" | "member_concurrent_connection" => {
            core.metrics.clone_suspected();
            core.log.warn(event, Value::Object(data.clone()));
            Ok(vec![told(core, event, event, data)])
        }
        "member_keypair_rotated" if !about_us => {
            core.log.info(event, Value::Object(data.clone()));
            Ok(vec![told(core, event, event, data)])
        }
        "member_renamed" if about_us => {
            if let Some(name) = data.get("name").and_then(Value::as_str) {
                name.clone_into(&mut core.name.write());
            }
            Ok(Vec::new())
        }
        _ if about_us => Ok(Vec::new()),
        _ => Ok(vec![told(core, "system", event, data)]),
    }
}

fn told(core: &Core, name: &str, event: &str, data: Map<String, Value>) -> NewEvent {
    let mut all = Map::new();
    all.insert("mesh".to_owned(), core.me.slug.clone().into());
    all.insert("event".to_owned(), event.into());
    let small = serde_json::to_string(&data).is_ok_and(|text| text.len() <= LARGEST);
    if small {
        for (key, value) in data {
            all.entry(key).or_insert(value);
        }
    }
    NewEvent::new(name, json!(all))
}

/// The member that news are about.
fn member_of(core: &Core, data: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| data.get(key).and_then(Value::as_str);
    if let Some(id) = text("memberId") {
        return Some(id.to_owned());
    }
    let key = text("memberPubkey").or_else(|| text("pubkey"))?;
    core.roster.id_by_any_key(key)
}

fn is_about_us(core: &Core, data: &Map<String, Value>) -> bool {
    let text = |key: &str| data.get(key).and_then(Value::as_str);
    match (text("memberId"), text("memberPubkey"), text("pubkey")) {
        (Some(id), _, _) => id == core.me.member_id,
        (None, Some(key), _) | (None, None, Some(key)) => key == core.pubkey() || core.sessions.by_key(key).is_some(),
        (None, None, None) => false,
    }
}
