//! `mesh_send`: a message into the daemon's outbox, once.
//!
//! Invariant: what the result calls sent is on the daemon's disk. The id is the caller's own name for the message or one
//! that nobody has, and an error says which, so the same call can be made again.

use rmcp::model::CallToolResult;
use serde_json::Value;
use serde_json::json;

use super::Line;
use super::text;
use super::told;
use crate::mcp::Caller;
use crate::mcp::Server;
use crate::mcp::arguments::MeshSend;
use crate::mcp::execute::failed;

/// The most a message may have; what the mesh allows is for the daemon to say, and less.
const MESSAGE: usize = 256 << 10;

/// The longest name of a request.
const NAME: usize = 256;

/// `mesh_send`.
pub(in crate::mcp) async fn send(server: &Server, caller: &Caller, asked: MeshSend) -> CallToolResult {
    let sent = async { put(&Line::new(server, caller, asked.mesh.as_deref())?, &asked).await };
    sent.await.unwrap_or_else(failed)
}

async fn put(line: &Line<'_>, asked: &MeshSend) -> Result<CallToolResult, String> {
    if asked.to.trim().is_empty() {
        return Err("`to` is blank; mesh_peers says who there is".to_owned());
    }
    if asked.message.len() > MESSAGE {
        return Err(format!(
            "a message may have {MESSAGE} bytes; share it as a file with `hostel mesh file share PATH`"
        ));
    }
    let named = asked.request_id.as_deref();
    if named.is_some_and(|name| name.is_empty() || name.len() > NAME || name.contains(char::is_control)) {
        return Err(format!("request_id may have 1 to {NAME} bytes and no control characters"));
    }
    let id = named.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
    let mut body = json!({"to": asked.to, "message": asked.message, "client_message_id": id});
    for (key, value) in [("priority", &asked.priority), ("replyToId", &asked.reply_to)] {
        if let Some(value) = value {
            body[key] = json!(value);
        }
    }
    let answer = line.post("/v1/send", &body).await;
    let answer = answer.map_err(|error| format!("{error}\n(request_id {id}: with it, sending again sends once)"))?;
    let duplicate = answer.body.get("duplicate").and_then(Value::as_bool).unwrap_or_default();
    let status = text(&answer.body, "status");
    let again = if duplicate { ", as before" } else { "" };
    let words = match status {
        "done" => format!("delivered to mesh {}{again}: message {id}", answer.mesh),
        _ => format!("on its way in mesh {}{again}: message {id}", answer.mesh),
    };
    Ok(told(
        words,
        json!({"mesh": answer.mesh, "to": asked.to, "message_id": id, "status": status, "duplicate": duplicate}),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Told;
    use super::*;

    fn asked(request_id: Option<&str>) -> MeshSend {
        let mut asked = json!({"to": "bob", "message": "hi", "priority": "now"});
        asked["request_id"] = json!(request_id);
        serde_json::from_value(asked).unwrap()
    }

    #[tokio::test]
    async fn every_message_has_an_id_before_it_goes() {
        let daemon = Told::new([Ok(json!({"status": "queued"})), Err("gone".to_owned())]);
        let sent = put(&daemon.line(), &asked(Some("k"))).await.unwrap().structured_content.unwrap();
        assert_eq!(
            sent,
            json!({"mesh": "lab", "to": "bob", "message_id": "k", "status": "queued", "duplicate": false})
        );
        let lost = put(&daemon.line(), &asked(None)).await.unwrap_err();
        let heard = daemon.heard.lock();
        let bodies: Vec<&Value> = heard.iter().map(|heard| heard.3.as_ref().unwrap()).collect();
        assert_eq!(bodies[0], &json!({"to": "bob", "message": "hi", "client_message_id": "k", "priority": "now"}));
        let made = bodies[1]["client_message_id"].as_str().unwrap();
        assert!(lost.starts_with("gone\n") && lost.contains(made), "{lost}");
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_not_tried() {
        let daemon = Told::default();
        for wrong in [
            asked(Some("")),
            asked(Some("a\nb")),
            asked(Some(&"x".repeat(NAME + 1))),
            MeshSend { to: " ".to_owned(), ..asked(None) },
            MeshSend { message: "x".repeat(MESSAGE + 1), ..asked(None) },
        ] {
            assert!(put(&daemon.line(), &wrong).await.is_err());
        }
        assert!(daemon.heard.lock().is_empty());
    }
}
