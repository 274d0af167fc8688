//! What a daemon is told when it was let in: where things stand.

use std::sync::Arc;

use hostel_wire::frames::client::{Hello, Resume};
use hostel_wire::frames::server::{Gap, HelloAck, Limits, LogBounds, Member, Roster, ServerFeatures, ServerFrame};
use hostel_wire::iso;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Broker;
use super::connection::Connection;
use crate::engine::{Bounds, Engine};
use crate::registry::records::SeenRecord;
use crate::registry::{Held, MemberRecord, Mesh};

/// What a broker can do.
const FEATURES: &[&str] = &[
    "client_message_id_dedupe",
    "request_fingerprint",
    "message_origin",
    "log_cursor",
    "lanes",
    "client_ack_cumulative",
    "priority_ahead",
    "caught_up",
    "roster",
    "topic_keys",
    "history",
    "files",
    "grants",
    "concurrent_connection_policy",
    "member_profile",
    "member_revoke",
    "rotate_key",
    "member_statements",
    "sessions",
    SHARED,
    "bye",
];

/// Shared state and tasks, and that changes of them are told.
pub(crate) const SHARED: &str = "shared_records";

/// The daemon takes news of several members' coming and going in one frame.
pub(crate) const PRESENCE_BATCHES: &str = "presence_batches";

/// The daemon says what of its inbox would survive a power cut.
pub(crate) const ACK_SYNCED: &str = "ack_synced";

/// A roster's frame holds about so many bytes of members.
const ROSTER: usize = 160 * 1024;

/// Entries that a reader names and that are compared with ours; each may cost a read.
const MAX_ENTRY_MARKS: usize = 4;

/// The reason of a close frame has this many bytes at most.
const REASON: usize = 123;

/// Where a reader begins.
pub(crate) struct Plan {
    /// It has everything up to here.
    pub(crate) from: u64,
    resume: &'static str,
    gap: Option<Gap>,
    bounds: Bounds,
}

/// Whether a daemon has said that it would use a feature.
pub(crate) fn wants(hello: &Hello, name: &str) -> bool {
    let features = hello.features.iter().flat_map(|features| features.require.iter().chain(&features.optional));
    features.into_iter().any(|word| word == name)
}

/// Whether everything a daemon requires is there; if not, what to say: for people, and as the reason of the close.
pub(crate) fn check_features(hello: &Hello) -> Result<(), (String, String)> {
    let Some(features) = &hello.features else { return Ok(()) };
    let mut missing: Vec<_> =
        features.require.iter().filter(|name| !FEATURES.contains(&name.as_str())).map(String::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("features that are not there: {}", missing.join(", "));
    let mut reason = json!({"missing_required": missing}).to_string();
    while reason.len() > REASON && !missing.is_empty() {
        missing.pop();
        reason = json!({"missing_required": missing}).to_string();
    }
    Err((message, reason))
}

/// Where a reader begins, and what it has missed for good. `None` if the log cannot be found.
pub(crate) async fn plan<E: Engine>(
    broker: &Broker<E>,
    mesh: &Mesh,
    member: &Held<MemberRecord>,
    hello: &Hello,
    protocol: u32,
) -> Option<Plan> {
    let bounds = match broker.engine.bounds(mesh.id()) {
        Some(bounds) => bounds,
        None => broker.engine.ensure_log(mesh.id()).await.ok()?,
    };
    let furthest = |resume: &Resume| resume.seq.max(resume.confirmed.unwrap_or(0));
    let ahead = |resume: &Resume| resume.epoch == bounds.epoch && furthest(resume) > bounds.last_seq;
    let was_set_back = match &hello.resume {
        Some(resume) if ahead(resume) => true,
        Some(resume) if resume.epoch == bounds.epoch => has_other_entries(broker, mesh.id(), resume).await?,
        _ => false,
    };
    let bounds = match was_set_back {
        true => broker.log_was_set_back(mesh.id(), &member.id).await.ok()?,
        false => bounds,
    };
    let (from, resume) = match &hello.resume {
        Some(resume) if resume.epoch == bounds.epoch && !was_set_back => (Some(resume.seq), "ok"),
        Some(_) => (None, "reset"),
        // Who does not keep its place relies on ours.
        None if protocol < 2 => {
            let key = cursor_key(&member.id, &member.pubkey, hello.session_pubkey.as_deref());
            let kept = broker.registry.cursor(mesh.id(), &key).filter(|kept| kept.epoch == bounds.epoch);
            (kept.map(|kept| kept.seq), "ok")
        }
        None => (None, "ok"),
    };
    // Nothing before it joined concerns it; but who has a place was here before, and what was sent to it then, before it
    // left or was banned, is still its own.
    let joined = member.joined_seq.saturating_sub(1);
    let first = bounds.first_seq.saturating_sub(1);
    let wanted = from.unwrap_or(joined);
    let gap = (from.is_some() && wanted < first).then(|| Gap { from: wanted + 1, to: first });
    let resume = if gap.is_some() { "gap" } else { resume };
    Some(Plan { from: wanted.max(first).min(bounds.last_seq), resume, gap, bounds })
}

/// Whether the log has another entry at a number than the one a reader knows there. A log that was put back from a copy
/// and has grown since is as long as the reader's, but not the same. `None` if the log cannot be read.
async fn has_other_entries<E: Engine>(broker: &Broker<E>, mesh: &str, resume: &Resume) -> Option<bool> {
    for mark in resume.entries.iter().take(MAX_ENTRY_MARKS).filter(|mark| mark.seq > 0) {
        let found = broker.engine.read(mesh, mark.seq - 1, 1, usize::MAX).await.ok()?;
        // What is gone by age cannot be compared.
        let found = found.first().filter(|entry| entry.seq == mark.seq);
        if found.is_some_and(|entry| entry.id != mark.id) {
            return Some(true);
        }
    }
    Some(false)
}

/// Under which name a reader's place is kept.
pub(crate) fn cursor_key(member: &str, member_key: &str, key: Option<&str>) -> String {
    match key {
        Some(key) if key != member_key => format!("{member}.{key}"),
        _ => member.to_owned(),
    }
}

/// The welcome itself.
pub(crate) fn ack<E: Engine>(
    broker: &Broker<E>,
    connection: &Connection,
    mesh: &Mesh,
    member: &MemberRecord,
    before: Option<&SeenRecord>,
    plan: &Plan,
    roster_unchanged: bool,
) -> Utf8Bytes {
    let limits = &broker.settings.limits;
    let params = |name: &str| match name {
        "client_message_id_dedupe" => json!({"mode": "retention_scoped", "retention_days": limits.dedupe_days}),
        "client_ack_cumulative" => json!({"window": limits.window, "window_bytes": limits.window_bytes}),
        "files" => json!({"max_bytes": limits.file_bytes}),
        "log_cursor" => json!({"retention_days": limits.retention_days}),
        "concurrent_connection_policy" => json!({"policy": mesh.record.policy.concurrency}),
        _ => json!({}),
    };
    let supported = FEATURES.iter().map(|name| ((*name).to_owned(), params(name))).collect();
    let ack = HelloAck {
        presence_id: connection.presence_id.clone(),
        member_display_name: member.name.clone(),
        member_profile: profile(member),
        mesh_policy: json!({"selfEditable": mesh.record.policy.self_editable}),
        restored: before.is_some(),
        last_summary: before.and_then(|before| before.summary.clone()),
        last_seen_at: before.map(|before| iso(before.at_ms)),
        restored_groups: member.groups.clone(),
        restored_stats: json!({}),
        services: Vec::new(),
        protocol_version: connection.protocol,
        broker_version: broker.settings.version.clone(),
        features: ServerFeatures { supported, missing_required: Vec::new() },
        log: LogBounds {
            epoch: plan.bounds.epoch.clone(),
            first_seq: plan.bounds.first_seq,
            last_seq: plan.bounds.last_seq,
        },
        resume: plan.resume.to_owned(),
        gap: plan.gap.clone(),
        limits: Limits {
            message_bytes: limits.message,
            rate_per_s: limits.rate_per_s,
            burst: limits.burst,
            dedupe_days: limits.dedupe_days,
        },
        brokers: broker.settings.urls.clone(),
        roster_rev: mesh.roster_rev,
        roster_unchanged,
        role: member.role.as_str().to_owned(),
    };
    ServerFrame::HelloAck(Box::new(ack)).encode().into()
}

/// A member's profile as frames have it.
pub(crate) fn profile(member: &MemberRecord) -> Value {
    let mut profile = Value::Object(member.profile.clone());
    profile["roleTag"] = json!(member.role_tag);
    profile["groups"] = json!(member.groups);
    profile["messageMode"] = json!(member.message_mode.as_deref().unwrap_or("push"));
    profile
}

/// All members: one frame, and further ones for what does not fit. All but the last say that there is more.
pub(crate) fn roster(mesh: &Mesh) -> &[Utf8Bytes] {
    mesh.roster_frames(make_roster)
}

fn make_roster(mesh: &Mesh) -> Vec<Utf8Bytes> {
    let mut members: Vec<Arc<Held<MemberRecord>>> = mesh.members().cloned().collect();
    members.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let mut frames = Vec::new();
    let mut part: Vec<Member> = Vec::new();
    let mut bytes = 0;
    let mut close = |part: &mut Vec<Member>, more: bool| {
        let mark = (!more).then(|| mesh.roster_mark());
        let roster = Roster { rev: mesh.roster_rev, members: std::mem::take(part), more, mark, mark_before: None };
        let first = frames.is_empty();
        let frame = if first { ServerFrame::Roster(roster) } else { ServerFrame::RosterDelta(roster) };
        frames.push(frame.encode().into());
    };
    for member in members {
        let groups: usize = member.groups.iter().map(|group| group.name.len() + 64).sum();
        bytes += 256 + member.name.len() + groups + 160 * (member.retired.len() + member.past.len());
        if bytes > ROSTER && !part.is_empty() {
            close(&mut part, true);
            bytes = 0;
        }
        part.push(member.to_frame());
    }
    close(&mut part, false);
    frames
}

/// Members that have changed.
pub(crate) fn roster_delta(mesh: &Mesh, member: &MemberRecord, marks: Option<&(String, String)>) -> Utf8Bytes {
    let (mark_before, mark) = marks.cloned().unzip();
    let members = vec![member.to_frame()];
    let roster = Roster { rev: mesh.roster_rev, members, more: false, mark, mark_before };
    ServerFrame::RosterDelta(roster).encode().into()
}
