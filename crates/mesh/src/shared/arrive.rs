//! Changes as the log tells them: each becomes an event, in its order, stored together with the place in the log.
//!
//! Invariant: whatever a broker sends, this gives an event, nothing, or a reason to drop it. What does not open because
//! its key did not come is told without its name: whoever watches knows that something has changed.

use std::time::Duration;

use hostel_wire::authorship::RecordPart;
use hostel_wire::frames::Kind;
use hostel_wire::frames::server::Push;
use hostel_wire::frames::shared::{StateEntry, TaskEntry};
use hostel_wire::ids;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::state::name_in;
use super::{is_by, member, open, tasks};
use crate::events::{NewEvent, STATE_TOPIC};
use crate::mesh::core::Core;
use crate::topics::{Ask, GENERAL};

/// How long a key that is on its way may hold up what comes in.
const KEY: Duration = Duration::from_secs(5);

/// Keys that are remembered as missing.
const MOST_MISSED: usize = 1024;

/// Whether a change is of a kind that is used here.
fn is_used(core: &Core, push: &Push) -> bool {
    let settings = core.settings.get();
    match push.kind {
        Some(Kind::State) => settings.capabilities.state,
        Some(Kind::Task) => settings.capabilities.tasks,
        _ => false,
    }
}

/// The epoch of what must be opened to tell a change.
fn epoch(push: &Push) -> Option<u64> {
    let data = push.event_data.as_ref()?;
    let boxed = match push.kind? {
        Kind::State => data.pointer("/entry/name/epoch"),
        Kind::Task => data.pointer("/task/title/epoch"),
        _ => None,
    };
    boxed.and_then(Value::as_u64)
}

/// Waits for keys of changes that are on their way, each once and not for long.
pub(crate) async fn await_keys(core: &Core, pushes: &[Push]) {
    let deadline = Instant::now() + KEY;
    for push in pushes.iter().filter(|push| is_used(core, push)) {
        let Some(epoch) = epoch(push) else { continue };
        if core.shared.key(core, epoch).is_some() || core.shared.missed.lock().contains(&epoch) {
            continue;
        }
        core.topics.ask(Ask::Read(GENERAL.to_owned(), epoch));
        let mut changed = core.topics.watch();
        loop {
            changed.borrow_and_update();
            if core.shared.key(core, epoch).is_some() {
                break;
            }
            if !matches!(tokio::time::timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                let mut missed = core.shared.missed.lock();
                if missed.len() >= MOST_MISSED {
                    missed.clear();
                }
                missed.insert(epoch);
                break;
            }
        }
    }
}

/// The event of a change, if such are told here.
pub(crate) fn event(core: &Core, push: &Push) -> Result<Option<NewEvent>, &'static str> {
    if push.mesh_id != core.me.mesh_id {
        return Err("mesh");
    }
    if !is_used(core, push) {
        return Ok(None);
    }
    let data = push.event_data.as_ref().ok_or("malformed")?;
    match push.kind {
        Some(Kind::State) => state(core, data).map(Some),
        _ => task(core, data).map(Some),
    }
}

fn state(core: &Core, data: &Value) -> Result<NewEvent, &'static str> {
    let entry = data.get("entry").cloned().and_then(|entry| serde_json::from_value::<StateEntry>(entry).ok());
    let entry = entry.ok_or("malformed")?;
    let removed = data.get("removed").and_then(Value::as_bool).unwrap_or_default();
    let mut told = json!({
        "mesh": core.me.slug,
        "key": null,
        "version": entry.version,
        "removed": removed,
        "updated_by": member(core, &entry.by),
        "verified": false,
    });
    let Some(key) = core.shared.key(core, entry.name.epoch) else {
        told["unreadable"] = true.into();
        return Ok(NewEvent { topic: Some(STATE_TOPIC.to_owned()), ..NewEvent::new("state_changed", told) });
    };
    let mut plain = open(&key, &entry.name).ok_or("mismatch")?;
    let part = if removed { RecordPart::StateRemoved } else { RecordPart::StateName };
    let mut verified = is_by(core, &entry.by, part, &entry.key, &mut plain);
    let name = name_in(core, &plain, &entry.key).ok_or("mismatch")?;
    match &entry.value {
        _ if removed => {}
        None => told["value_omitted"] = true.into(),
        Some(value) => {
            let key = core.shared.key(core, value.epoch).ok_or("decrypt")?;
            let mut plain = open(&key, value).ok_or("decrypt")?;
            verified &= is_by(core, &entry.by, RecordPart::StateValue, &entry.key, &mut plain);
            if name_in(core, &plain, &entry.key).as_ref() != Some(&name) {
                return Err("mismatch");
            }
            told["value"] = plain.get_mut("v").map(Value::take).unwrap_or_default();
        }
    }
    told["key"] = name.clone().into();
    told["verified"] = verified.into();
    Ok(NewEvent { topic: Some(format!("{STATE_TOPIC}{name}")), ..NewEvent::new("state_changed", told) })
}

fn task(core: &Core, data: &Value) -> Result<NewEvent, &'static str> {
    let task = data.get("task").cloned().and_then(|task| serde_json::from_value::<TaskEntry>(task).ok());
    let task = task.filter(|task| ids::is_ulid(&task.id)).ok_or("malformed")?;
    let name = match data.get("step").and_then(Value::as_str) {
        Some("created") => "task_created",
        Some("claimed") => "task_claimed",
        Some("released") => "task_released",
        Some("completed") => "task_completed",
        _ => return Err("malformed"),
    };
    let readable = core.shared.key(core, task.title.epoch).is_some();
    let item = match tasks::at_hand(core, &task) {
        Some(item) => item,
        None if readable => return Err("decrypt"),
        None => tasks::shown(core, &task, tasks::Content::default()),
    };
    let mut told = json!({"mesh": core.me.slug, "task": item});
    if data.get("leaseOver").and_then(Value::as_bool).unwrap_or_default() {
        told["lease_over"] = true.into();
    }
    if !readable {
        told["unreadable"] = true.into();
    }
    Ok(NewEvent::new(name, told))
}
