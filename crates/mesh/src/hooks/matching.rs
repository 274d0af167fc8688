//! Which hooks an event is for, the most specific first.
//!
//! Invariant: each hook stands at most once in the answer, and nothing that came from too many hooks in a row has any:
//! two hosts that answer each other would never end.

use hostel_wire::frames::Kind;
use serde_json::Value;

use super::name::HookName;
use crate::inbox::InboxRow;

/// After so many hooks in a row no more are run.
pub const MOST_HOPS: u64 = 4;

/// The field of `meta` that counts hooks in a row.
pub const HOP: &str = "_hop";

/// The hooks of a message.
pub(super) fn of_message(row: &InboxRow) -> Vec<HookName> {
    // What is addressed to one of this host's sessions is for the agent in it, and what cannot be read is for nobody.
    if row.recipient_session.is_some() || row.body.is_none() || hops(row.meta.as_ref()) >= MOST_HOPS {
        return Vec::new();
    }
    if row.kind == Kind::File {
        return vec![HookName::FileShare];
    }
    let mut hooks = Vec::new();
    if let (Kind::Topic, Some(topic)) = (row.kind, &row.topic) {
        hooks.push(HookName::Topic(topic.clone()));
    }
    if row.mention {
        hooks.push(HookName::Mention);
    }
    if row.kind == Kind::Dm {
        hooks.push(HookName::Dm);
    }
    hooks.push(HookName::Message);
    hooks
}

/// The hook of something else that happened.
pub(super) fn of_event(name: &str, data: &Value) -> Option<HookName> {
    match name {
        "daemon_disconnect" => Some(HookName::Disconnect),
        // The first connection is none that came back.
        "daemon_reconnect" if data.get("first") != Some(&Value::Bool(true)) => Some(HookName::Reconnect),
        _ => None,
    }
}

/// How many hooks in a row led to this.
pub(super) fn hops(meta: Option<&Value>) -> u64 {
    match meta.and_then(|meta| meta.get(HOP)) {
        None => 0,
        // Whoever writes something else there means to be clever; that ends it.
        Some(hop) => hop.as_u64().unwrap_or(MOST_HOPS),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(row: &InboxRow) -> Vec<String> {
        of_message(row).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_most_specific_first() {
        let dm = InboxRow { kind: Kind::Dm, body: Some(String::new()), ..super::super::tests::row() };
        assert_eq!(names(&dm), ["on-dm", "on-message"]);
        let mentioned = InboxRow { mention: true, ..dm.clone() };
        assert_eq!(names(&mentioned), ["on-mention", "on-dm", "on-message"]);
        let post = InboxRow { kind: Kind::Topic, topic: Some("alerts".into()), mention: true, ..dm.clone() };
        assert_eq!(names(&post), ["on-topic-alerts", "on-mention", "on-message"]);
        assert_eq!(names(&InboxRow { kind: Kind::All, ..dm.clone() }), ["on-message"]);
        assert_eq!(names(&InboxRow { kind: Kind::File, ..dm.clone() }), ["on-file-share"]);
        for row in [
            InboxRow { recipient_session: Some("s".into()), ..dm.clone() },
            InboxRow { body: None, ..dm.clone() },
            InboxRow { meta: Some(json!({"_hop": 4})), ..dm.clone() },
            InboxRow { meta: Some(json!({"_hop": -1})), ..dm.clone() },
            InboxRow { meta: Some(json!({"_hop": "no"})), ..dm.clone() },
        ] {
            assert!(names(&row).is_empty(), "{row:?}");
        }
        assert!(!names(&InboxRow { meta: Some(json!({"_hop": 3})), ..dm }).is_empty());
    }

    #[test]
    fn the_first_connection_came_from_nowhere() {
        assert_eq!(of_event("daemon_reconnect", &json!({"first": true})), None);
        assert_eq!(of_event("daemon_reconnect", &json!({"first": false})), Some(HookName::Reconnect));
        assert_eq!(of_event("daemon_disconnect", &json!({})), Some(HookName::Disconnect));
        assert_eq!(of_event("hook_executed", &json!({})), None);
    }
}
