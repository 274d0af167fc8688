//! The arguments of each tool.
//!
//! Invariant: a missing argument and `null` are the same; a wrong type is refused before anything happens.

use std::collections::BTreeMap;

use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads the arguments of a call.
pub(super) fn read<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, ErrorData> {
    serde_json::from_value(Value::Object(arguments.unwrap_or_default()))
        .map_err(|error| ErrorData::invalid_params(format!("failed to deserialize parameters: {error}"), None))
}

/// `execute`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Execute {
    #[serde(default)]
    pub(super) argv: Option<Vec<String>>,
    #[serde(default)]
    pub(super) pipeline: Option<Vec<Vec<String>>>,
    #[serde(default)]
    pub(super) host: Option<String>,
    /// Milliseconds.
    #[serde(default)]
    pub(super) timeout: Option<u64>,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default = "yes")]
    pub(super) privileged: bool,
    #[serde(default)]
    pub(super) env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) forward_agent: bool,
}

fn yes() -> bool {
    true
}

/// `start_server`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    pub(super) host: Option<String>,
    #[serde(default)]
    pub(super) forward_agent: bool,
}

/// `stop_server` and `status`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct OneHost {
    #[serde(default)]
    pub(super) host: Option<String>,
}

/// `update_host`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct UpdateHost {
    pub(super) host: String,
    #[serde(default)]
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) os: Option<String>,
}

/// `ask_approval`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Ask {
    pub(super) question: String,
    #[serde(default)]
    pub(super) details: Option<String>,
}

/// `session_list`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SessionList {
    #[serde(default)]
    pub(super) query: Option<String>,
    #[serde(default)]
    pub(super) all: bool,
    #[serde(default)]
    pub(super) limit: Option<u64>,
}

/// `session_send`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SessionSend {
    pub(super) session: String,
    pub(super) prompt: String,
    #[serde(default)]
    pub(super) wait: bool,
    /// Milliseconds.
    #[serde(default)]
    pub(super) timeout: Option<u64>,
    #[serde(default)]
    pub(super) request_id: Option<String>,
}

/// `session_read`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SessionRead {
    pub(super) session: String,
    #[serde(default)]
    pub(super) after: u64,
    #[serde(default)]
    pub(super) limit: Option<u64>,
}

/// `mesh_send`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MeshSend {
    pub(super) to: String,
    pub(super) message: String,
    #[serde(default)]
    pub(super) priority: Option<String>,
    #[serde(default)]
    pub(super) reply_to: Option<String>,
    #[serde(default)]
    pub(super) request_id: Option<String>,
    #[serde(default)]
    pub(super) mesh: Option<String>,
}

/// `mesh_inbox`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MeshInbox {
    #[serde(default)]
    pub(super) unread: bool,
    #[serde(default)]
    pub(super) keep_unread: bool,
    #[serde(default)]
    pub(super) from: Option<String>,
    #[serde(default)]
    pub(super) topic: Option<String>,
    #[serde(default)]
    pub(super) since: Option<String>,
    #[serde(default)]
    pub(super) query: Option<String>,
    #[serde(default)]
    pub(super) limit: Option<u64>,
    #[serde(default)]
    pub(super) cursor: Option<String>,
    #[serde(default)]
    pub(super) mesh: Option<String>,
}

/// `mesh_peers`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MeshPeers {
    #[serde(default)]
    pub(super) all: bool,
    #[serde(default)]
    pub(super) mesh: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> Option<JsonObject> {
        value.as_object().cloned()
    }

    #[test]
    fn absent_and_null_are_defaults() {
        let execute: Execute = read(None).unwrap();
        assert!(execute.privileged && !execute.forward_agent && execute.argv.is_none());
        let execute: Execute = read(of(&json!({"argv": null, "host": null, "unknown": 1}))).unwrap();
        assert!(execute.argv.is_none() && execute.host.is_none());
    }

    #[test]
    fn wrong_types_are_refused() {
        for wrong in [json!({"argv": "ls"}), json!({"argv": [1]}), json!({"pipeline": ["ls"]}), json!({"timeout": -1})]
        {
            let error = read::<Execute>(of(&wrong)).unwrap_err();
            assert_eq!(error.code.0, -32602);
            assert!(error.message.starts_with("failed to deserialize parameters: "), "{}", error.message);
        }
        assert!(read::<UpdateHost>(of(&json!({}))).is_err());
    }
}
