//! `mesh_peers`: who is in a mesh and who is there.
//!
//! Invariant: no more than a bounded number, and what is left out is said.

use rmcp::model::CallToolResult;
use serde_json::Value;
use serde_json::json;

use super::Line;
use super::fitting;
use super::list;
use super::text;
use super::told;
use crate::mcp::Caller;
use crate::mcp::Server;
use crate::mcp::arguments::MeshPeers;
use crate::mcp::execute::failed;
use crate::mcp::sessions::cut;

/// Peers of one answer.
const LISTED: usize = 500;

/// The longest text that is kept whole.
const TEXT: usize = 1 << 10;

/// `mesh_peers`.
pub(in crate::mcp) async fn peers(server: &Server, caller: &Caller, asked: MeshPeers) -> CallToolResult {
    let found = async { read(&Line::new(server, caller, asked.mesh.as_deref())?, asked.all).await };
    found.await.unwrap_or_else(failed)
}

async fn read(line: &Line<'_>, all: bool) -> Result<CallToolResult, String> {
    let answer = line.get("/v1/peers", &[("all", all.then_some("true"))]).await?;
    let mesh = answer.mesh;
    let mut peers: Vec<Value> = list(answer.body, "peers").iter().map(shown).collect();
    let whole = peers.len();
    peers.truncate(LISTED);
    peers.truncate(fitting(&peers));
    let left_out = whole - peers.len();
    let mut lines: Vec<String> = peers.iter().map(line_of).collect();
    if lines.is_empty() {
        lines.push(format!("nobody is connected to mesh {mesh}"));
    }
    if left_out > 0 {
        lines.push(format!("and {left_out} more"));
    }
    Ok(told(lines.join("\n"), json!({"mesh": mesh, "peers": peers, "left_out": left_out})))
}

/// A peer as it is given.
fn shown(peer: &Value) -> Value {
    let groups = peer.get("groups").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let groups: Vec<&str> = groups.iter().map(|group| text(group, "name")).take(64).collect();
    let mut shown = json!({
        "name": text(peer, "displayName"), "key": text(peer, "pubkey"), "status": text(peer, "status"),
        "online": peer.get("online").and_then(Value::as_bool).unwrap_or_else(|| text(peer, "status") != "offline"),
        "role": text(peer, "peerRole"), "groups": groups,
    });
    for (key, name) in [("summary", "summary"), ("hostname", "hostname"), ("cwd", "cwd"), ("session", "sessionId")] {
        if let Some(value) = peer.get(name).and_then(Value::as_str) {
            shown[key] = json!(cut(value.to_owned(), TEXT));
        }
    }
    shown
}

/// The same for who reads no structure.
fn line_of(peer: &Value) -> String {
    let key: String = text(peer, "key").chars().take(16).collect();
    let mut line = format!("{} ({key}): {}", text(peer, "name"), text(peer, "status"));
    for key in ["hostname", "summary"] {
        if !text(peer, key).is_empty() {
            line.push_str(&format!(", {}", text(peer, key)));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::super::tests::Told;
    use super::*;

    #[tokio::test]
    async fn who_is_there_in_a_bounded_list() {
        let peer = json!({"displayName": "bob", "pubkey": "ab".repeat(32), "status": "idle", "peerRole": "service",
            "online": true, "groups": [{"name": "builders"}], "summary": "x".repeat(TEXT + 1), "cwd": null});
        let daemon = Told::new([Ok(json!({"peers": vec![peer; LISTED + 2]})), Ok(json!({"peers": []}))]);
        let found = read(&daemon.line(), true).await.unwrap().structured_content.unwrap();
        let (peers, left) = (found["peers"].as_array().unwrap(), found["left_out"].as_u64().unwrap());
        assert_eq!(peers.len() + usize::try_from(left).unwrap(), LISTED + 2);
        assert!(found["peers"].to_string().len() < super::super::PAGE + LISTED + 2);
        assert_eq!((&peers[0]["name"], &peers[0]["groups"]), (&json!("bob"), &json!(["builders"])));
        assert!(peers[0].get("cwd").is_none() && peers[0]["summary"].as_str().unwrap().ends_with("[1 more bytes]"));
        let nobody = read(&daemon.line(), false).await.unwrap();
        assert_eq!(nobody.content[0].as_text().unwrap().text, "nobody is connected to mesh lab");
        let heard = daemon.heard.lock();
        assert_eq!((heard[0].2.len(), heard[1].2.len()), (1, 0));
    }
}
