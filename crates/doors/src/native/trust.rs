//! What is told of the audit's segments, of alarms and of settings that wait for the approver.
//!
//! Invariant: it only describes what the house found.

use hostel_house::approvals::Alarm;
use hostel_house::approvals::Approvals;
use hostel_house::approvals::Segment;
use hostel_house::approvals::SegmentState;
use hostel_house::approvals::Verified;
use hostel_house::pipelines::hex_of;
use serde_json::Value;
use serde_json::json;

use crate::zeroclaw::time;

/// What a look through the audit found.
pub(super) fn verified(found: &Verified) -> Value {
    let broken = found.broken.as_ref().map(|broken| json!({"no": broken.no, "what": broken.what}));
    let segments: Vec<Value> = found.segments.iter().map(segment).collect();
    json!({"records": found.records, "broken": broken, "segments": segments})
}

fn segment(segment: &Segment) -> Value {
    let mut entry = json!({
        "first": segment.first,
        "last": segment.last,
        "begun": time::rfc3339(segment.begun_ns),
        "state": segment.state.word(),
    });
    if let Some(key) = &segment.key {
        entry["key"] = hex_of(key).into();
    }
    match &segment.state {
        SegmentState::Endorsed { checked } => entry["checked"] = (*checked).into(),
        SegmentState::Broken(broken) => entry["broken"] = json!({"no": broken.no, "what": broken.what}),
        SegmentState::Unkeyed | SegmentState::Unendorsed => {}
    }
    entry
}

/// The state of the approver: the passphrase, the settings about consent, and what people have to hear of.
pub(super) fn status(approvals: &Approvals, unlocked: bool) -> Value {
    let alarm = |alarm: &Alarm| json!({"time": time::rfc3339(alarm.time_ns), "text": alarm.text});
    json!({
        "set": approvals.approver().is_set(),
        "strict": approvals.is_strict(),
        "unlocked": unlocked,
        "unconfirmed": approvals.policy_status().unconfirmed,
        "alarms": approvals.alarms().iter().map(alarm).collect::<Vec<_>>(),
    })
}
