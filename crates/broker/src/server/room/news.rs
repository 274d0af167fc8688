//! What the broker itself has to say: news that are in no log.

use hostel_wire::frames::server::{Push, ServerFrame};
use hostel_wire::iso;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::registry::MemberRecord;

/// A piece of news as a frame.
pub(crate) fn system(mesh: &str, event: &str, data: Value, now_ms: u64) -> Utf8Bytes {
    let push = Push {
        mesh_id: mesh.to_owned(),
        sender_pubkey: "system".to_owned(),
        created_at: iso(now_ms),
        subtype: Some("system".to_owned()),
        event: Some(event.to_owned()),
        event_data: Some(data),
        ..Push::default()
    };
    ServerFrame::Push(Box::new(push)).encode().into()
}

/// What is said of a member that comes or goes.
pub(crate) fn peer_data(member: &MemberRecord, last_seen_ms: Option<u64>, summary: Option<&str>) -> Value {
    let mut data = json!({
        "memberId": member.id,
        "name": member.name,
        "pubkey": member.pubkey,
        "groups": member.groups,
    });
    if let Some(at) = last_seen_ms {
        data["lastSeenAt"] = iso(at).into();
    }
    if let Some(summary) = summary {
        data["summary"] = summary.into();
    }
    data
}
