//! The shared state: values under names, for the whole mesh.

use std::collections::HashMap;

use hostel_wire::authorship::RecordPart;
use hostel_wire::frames::client::Call;
use hostel_wire::frames::shared::{Page, StateEntry, StateGet, StateSet};
use hostel_wire::iso;
use hostel_wire::sealed::SharedKey;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::keys::Opening;
use super::{
    MemberRef, change, client_id, hand_on, is_by, is_none, is_of_entry, member, open, read, seal, sign, unreadable,
};
use crate::hooks::gate;
use crate::mesh::core::Core;
use crate::mesh::{Mesh, Refusal};

/// A name has this many bytes at most, a value as JSON.
const NAME: usize = 512;
const VALUE: usize = 64 * 1024;

/// Parts in which a list is asked for, and entries whose values are asked for at once.
const PARTS: usize = 1000;
const TOGETHER: usize = 64;

/// A list with values stops at about so many bytes; the rest is the next page.
const LIST_BYTES: usize = 4 * 1024 * 1024;

/// `POST /v1/state/set`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StateChange {
    /// The entry's name.
    pub key: String,
    /// Its value; none: it is removed.
    pub value: Option<Value>,
    /// Only if it has this version; 0: only if it is not there.
    pub if_version: Option<u64>,
    /// The caller's id; one is made if there is none.
    pub client_id: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateWritten {
    /// Always.
    pub ok: bool,
    /// The entry's name.
    pub key: String,
    /// Its version from now on; 0: there was nothing to remove.
    pub version: u64,
    /// It is not there any more.
    pub removed: bool,
    /// The change had been made before.
    pub duplicate: bool,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StateItem {
    /// Its name.
    pub key: String,
    /// Its value, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The version of its last change.
    pub version: u64,
    /// When that was.
    pub updated_at: String,
    /// Whose it was, as the broker says.
    pub updated_by: MemberRef,
    /// Whether that member is proven to have written it.
    pub verified: bool,
}

/// `GET /v1/state/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateList {
    /// Names that begin so.
    pub prefix: String,
    /// Those that come after this name.
    pub cursor: Option<String>,
    /// How many.
    pub limit: usize,
    /// With their values.
    pub values: bool,
}

/// Some of the entries, by name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatePage {
    /// They.
    pub items: Vec<StateItem>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
    /// Entries of the whole mesh that are left out because they do not open here.
    #[serde(skip_serializing_if = "is_none")]
    pub unreadable: usize,
}

fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.len() > NAME || name.chars().any(char::is_control) {
        return Err(Refusal::field("key", format!("a key has 1 to {NAME} bytes and no control characters")));
    }
    Ok(())
}

fn check_value(value: Option<&Value>) -> Result<(), Refusal> {
    match value {
        Some(value) if value.to_string().len() > VALUE => {
            Err(Refusal::new("value_too_large", format!("a value has at most {VALUE} bytes")).about("value"))
        }
        _ => Ok(()),
    }
}

/// Asks the hook `pre-send`, if there is one; the value that may be sent. What is compared when the request comes again
/// is what the caller asked for, whatever the hook makes of it.
async fn through_gate(core: &Core, name: &str, id: &str, value: Option<Value>) -> Result<Option<Value>, Refusal> {
    if !gate::is_there(core) {
        return Ok(value);
    }
    core.check_sending()?;
    let changed = gate::ask_shared(
        core,
        gate::Changing {
            kind: "state",
            step: if value.is_some() { "set" } else { "remove" },
            to: json!({"key": name}),
            title: None,
            body: value.as_ref().map(gate::text_of),
            priority: None,
            client_message_id: id,
        },
    );
    let (Some(body), Some(before)) = (changed.await?.body, &value) else { return Ok(value) };
    let value = Some(gate::value_of(before, body)?);
    check_value(value.as_ref())?;
    Ok(value)
}

impl Mesh {
    /// Writes or removes an entry, if it has the version that is named.
    pub async fn state_set(&self, asked: StateChange) -> Result<StateWritten, Refusal> {
        let core = &self.core;
        let StateChange { key: name, value, if_version, client_id: id } = asked;
        check_name(&name)?;
        let value = value.filter(|value| !value.is_null());
        check_value(value.as_ref())?;
        let (digest, id) = (core.shared.digest(&name)?, client_id(core, id)?);
        let fingerprint = core.shared.fingerprint(&json!(["state", name, value, if_version]));
        let fingerprint = fingerprint.map_err(|refusal| refusal.about("value"))?;
        let value = through_gate(core, &name, &id, value).await?;
        let part = if value.is_some() { RecordPart::StateName } else { RecordPart::StateRemoved };
        let signed_name = sign(core, part, &digest, json!({"k": name}));
        let signed_value =
            value.as_ref().map(|value| sign(core, RecordPart::StateValue, &digest, json!({"k": name, "v": value})));
        let call = |epoch: u64, shared: &SharedKey| {
            Call::StateSet(Box::new(StateSet {
                key: digest.clone(),
                if_version,
                name: seal(epoch, shared, &signed_name),
                value: signed_value.as_ref().map(|value| seal(epoch, shared, value)),
                client_id: id.clone(),
                fingerprint: fingerprint.clone(),
            }))
        };
        let answer = change(core, call).await.map_err(|refusal| refusal.with("client_message_id", id.clone()))?;
        let version = answer.fields.get("version").and_then(Value::as_u64).ok_or_else(unreadable)?;
        if answer.r#type == "state_conflict" {
            let detail = match version {
                0 => format!("`{name}` is not there"),
                version => format!("`{name}` has version {version}"),
            };
            return Err(Refusal::new("version_conflict", detail).with("key", name).with("version", version));
        }
        if let Ok(line) = core.line() {
            hand_on(core, &line).await;
        }
        let duplicate = answer.fields.get("duplicate").and_then(Value::as_bool).unwrap_or_default();
        Ok(StateWritten { ok: true, key: name, version, removed: value.is_none(), duplicate })
    }

    /// An entry with its value.
    pub async fn state_get(&self, name: &str) -> Result<StateItem, Refusal> {
        check_name(name)?;
        let digest = self.core.shared.digest(name)?;
        let found = values(&self.core, vec![digest.clone()]).await?;
        let entry = found.into_iter().next();
        let missing = || Refusal::new("state_not_found", format!("there is no `{name}`")).about("key");
        item(&self.core, &mut Opening::default(), &entry.ok_or_else(missing)?).await
    }

    /// Entries by name.
    pub async fn state_list(&self, asked: StateList) -> Result<StatePage, Refusal> {
        let core = &self.core;
        let (mut items, mut opening, mut unreadable) = (Vec::new(), Opening::default(), 0);
        for entry in entries(core).await? {
            let item = match item(core, &mut opening, &entry).await {
                Err(refusal) if is_of_entry(&refusal) => {
                    unreadable += 1;
                    continue;
                }
                opened => opened?,
            };
            if item.key.starts_with(&asked.prefix) && asked.cursor.as_ref().is_none_or(|cursor| item.key > *cursor) {
                items.push((entry.key, item));
            }
        }
        items.sort_unstable_by(|(_, one), (_, other)| one.key.cmp(&other.key));
        let more = items.len() > asked.limit;
        items.truncate(asked.limit);
        let mut next = items.last().filter(|_| more).map(|(_, last)| last.key.clone());
        if asked.values {
            let filled = fill(core, &mut opening, &mut items).await?;
            unreadable += filled.unreadable;
            if filled.cut {
                next = items.last().map(|(_, last)| last.key.clone());
            }
        }
        let items: Vec<StateItem> = items.into_iter().map(|(_, item)| item).collect();
        Ok(StatePage { items, next, unreadable })
    }
}

/// All entries, without their values.
async fn entries(core: &Core) -> Result<Vec<StateEntry>, Refusal> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..PARTS {
        let answer = read(core, Call::StateList(Page { after: after.take() })).await?;
        let part = of(&answer.fields)?;
        let more = answer.fields.get("more").and_then(Value::as_bool).unwrap_or_default();
        after = part.last().map(|entry| entry.key.clone());
        all.extend(part);
        if !more || after.is_none() {
            return Ok(all);
        }
    }
    Err(unreadable())
}

/// Entries with their values, as far as they are there.
async fn values(core: &Core, mut digests: Vec<String>) -> Result<Vec<StateEntry>, Refusal> {
    let mut found = Vec::new();
    while !digests.is_empty() {
        let answer = read(core, Call::StateGet(StateGet { keys: digests.clone() })).await?;
        let looked_at = answer.fields.get("lookedAt").and_then(Value::as_u64).unwrap_or_default();
        let looked_at = usize::try_from(looked_at).unwrap_or_default().min(digests.len());
        if looked_at == 0 {
            return Err(unreadable());
        }
        digests.drain(..looked_at);
        found.extend(of(&answer.fields)?);
    }
    Ok(found)
}

/// What was left out of a list with values.
struct Filled {
    /// The last ones, because the others are large.
    cut: bool,
    /// Those whose values do not open.
    unreadable: usize,
}

/// Puts values to entries; those that have gone meanwhile are left out, and those that do not open.
async fn fill(core: &Core, opening: &mut Opening, items: &mut Vec<(String, StateItem)>) -> Result<Filled, Refusal> {
    let (mut filled, mut bytes, mut unreadable) = (Vec::new(), 0, 0);
    for some in items.chunks(TOGETHER) {
        let found = values(core, some.iter().map(|(digest, _)| digest.clone()).collect()).await?;
        let mut found: HashMap<String, StateEntry> =
            found.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
        for (digest, _) in some {
            let Some(entry) = found.remove(digest) else { continue };
            let item = match item(core, opening, &entry).await {
                Err(refusal) if is_of_entry(&refusal) => {
                    unreadable += 1;
                    continue;
                }
                opened => opened?,
            };
            bytes += item.value.as_ref().map_or(0, |value| value.to_string().len()) + NAME;
            if bytes > LIST_BYTES && !filled.is_empty() {
                *items = filled;
                return Ok(Filled { cut: true, unreadable });
            }
            filled.push((digest.clone(), item));
        }
    }
    *items = filled;
    Ok(Filled { cut: false, unreadable })
}

fn of(fields: &Map<String, Value>) -> Result<Vec<StateEntry>, Refusal> {
    let entries = fields.get("entries").cloned().ok_or_else(unreadable)?;
    serde_json::from_value(entries).map_err(|_| unreadable())
}

/// Opens an entry.
async fn item(core: &Core, opening: &mut Opening, entry: &StateEntry) -> Result<StateItem, Refusal> {
    let boxed = entry.value.as_ref().unwrap_or(&entry.name);
    let key = opening.key(core, boxed.epoch).await?;
    let mut plain = open(&key, boxed).ok_or_else(forged)?;
    let part = if entry.value.is_some() { RecordPart::StateValue } else { RecordPart::StateName };
    let verified = is_by(core, &entry.by, part, &entry.key, &mut plain);
    let name = name_in(core, &plain, &entry.key).ok_or_else(forged)?;
    Ok(StateItem {
        key: name,
        value: entry.value.as_ref().map(|_| plain.get("v").cloned().unwrap_or_default()),
        version: entry.version,
        updated_at: iso(entry.at_ms),
        updated_by: member(core, &entry.by),
        verified,
    })
}

fn forged() -> Refusal {
    Refusal::new("hash_mismatch", "what the broker has is not what a member wrote there")
}

/// The name in an opened box, if it is the one that is looked up by this digest.
pub(super) fn name_in(core: &Core, plain: &Value, digest: &str) -> Option<String> {
    let name = plain.get("k").and_then(Value::as_str)?;
    (core.shared.digest(name).ok()? == digest).then(|| name.to_owned())
}
