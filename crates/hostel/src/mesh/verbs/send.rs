//! Sending: to a peer, a topic, a group or everybody.

use std::io::Read as _;
use std::process::ExitCode;

use hostel_mesh::PostRequest;
use hostel_mesh::SendRequest;
use hostel_wire::frames::Priority;
use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Post;
use crate::mesh::cli::Send;
use crate::mesh::cli::Terms;
use crate::mesh::cli::Urgency;
use crate::mesh::client::Client;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::route::Route;
use crate::mesh::show;
use crate::text;
use crate::ui::Paint;

/// The most that is read from standard input; what a message may hold is for the mesh to say.
const INPUT_LIMIT: u64 = 1 << 20;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Send) -> Result<ExitCode, Failure> {
    let message = message(&arguments.message)?;
    let terms = Given::read(&arguments.terms)?;
    let request = SendRequest {
        to: arguments.to.clone(),
        message,
        priority: terms.priority,
        meta: terms.meta,
        reply_to: terms.reply_to,
        client_message_id: terms.id,
        mentions: Vec::new(),
    };
    match route::choose(desk).await? {
        Route::Daemon(client) => {
            let mut body = json!({
                "to": request.to, "message": request.message, "priority": arguments.terms.priority.name(),
                "meta": request.meta, "replyToId": request.reply_to, "client_message_id": request.client_message_id,
            });
            drop_nulls(&mut body);
            let answer = client.post("/v1/send", &body).await?;
            let recipient = Recipient::find(&client, &arguments.to).await;
            tell(desk, &arguments.to, recipient.as_ref(), &answer, "daemon")
        }
        Route::Cold(cold) => {
            let answer = cold.send(request).await?;
            tell(desk, &arguments.to, None, &answer, "cold")
        }
    }
}

pub(crate) async fn post(desk: &Desk<'_>, arguments: &Post) -> Result<ExitCode, Failure> {
    let message = message(&arguments.message)?;
    let terms = Given::read(&arguments.terms)?;
    let request = PostRequest {
        topic: arguments.topic.clone(),
        message,
        priority: terms.priority,
        mentions: arguments.mentions.clone(),
        meta: terms.meta,
        reply_to: terms.reply_to,
        client_message_id: terms.id,
    };
    let to = format!("#{}", arguments.topic.trim_start_matches('#'));
    match route::choose(desk).await? {
        Route::Daemon(client) => {
            let mut body = json!({
                "topic": request.topic, "message": request.message, "priority": arguments.terms.priority.name(),
                "meta": request.meta, "replyToId": request.reply_to, "client_message_id": request.client_message_id,
            });
            if !request.mentions.is_empty() {
                body["mentions"] = request.mentions.clone().into();
            }
            drop_nulls(&mut body);
            let answer = client.post("/v1/topic/post", &body).await?;
            tell(desk, &to, None, &answer, "daemon")
        }
        Route::Cold(cold) => {
            let request = SendRequest {
                to: to.clone(),
                message: request.message,
                priority: request.priority,
                meta: request.meta,
                reply_to: request.reply_to,
                client_message_id: request.client_message_id,
                mentions: request.mentions,
            };
            let answer = cold.send(request).await?;
            tell(desk, &to, None, &answer, "cold")
        }
    }
}

/// The text, from the command line or from standard input.
fn message(word: &str) -> Result<String, Failure> {
    if word != "-" {
        return Ok(word.to_owned());
    }
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_LIMIT + 1).read_to_end(&mut text);
    let count = read.map_err(|error| Failure::io(format!("cannot read standard input: {error}")))?;
    if count as u64 > INPUT_LIMIT {
        return Err(Failure::arguments(format!("a message has at most {}", text::size(INPUT_LIMIT)))
            .hint("share it as a file with `claudemesh file share PATH`"));
    }
    String::from_utf8(text).map_err(|_| {
        Failure::arguments("standard input is not UTF-8").hint("share it as a file with `claudemesh file share PATH`")
    })
}

/// What a message carries besides its text, checked.
struct Given {
    priority: Priority,
    meta: Option<Value>,
    reply_to: Option<String>,
    id: Option<String>,
}

impl Given {
    fn read(terms: &Terms) -> Result<Self, Failure> {
        let meta = match &terms.meta {
            None => None,
            Some(text) => match serde_json::from_str::<Value>(text) {
                Ok(meta) if meta.is_object() => Some(meta),
                Ok(_) => return Err(Failure::arguments("`--meta` is a JSON object, for example '{\"run\": 7}'")),
                Err(error) => return Err(Failure::arguments(format!("`--meta` is no JSON: {error}"))),
            },
        };
        let priority = match terms.priority {
            Urgency::Now => Priority::Now,
            Urgency::Next => Priority::Next,
            Urgency::Low => Priority::Low,
        };
        Ok(Given { priority, meta, reply_to: terms.reply_to.clone(), id: terms.idempotency_key.clone() })
    }
}

/// Leaves out what was not given: a null is a value of the wrong type.
fn drop_nulls(body: &mut Value) {
    if let Value::Object(fields) = body {
        fields.retain(|_, value| !value.is_null());
    }
}

/// Who a message goes to, as far as the daemon knows.
struct Recipient {
    name: String,
    key: String,
    online: bool,
}

impl Recipient {
    /// Looks the addressee up; none for a topic, a group or everybody, and where the list cannot be had.
    async fn find(client: &Client, to: &str) -> Option<Self> {
        if to.starts_with(['#', '@', '*']) {
            return None;
        }
        // `host/session`: the host is who has to be there.
        let wanted = to.split('/').next().unwrap_or(to).to_lowercase();
        let answer = client.get("/v1/peers?all=true").await.ok()?;
        let is_meant = |peer: &&Value| {
            let key = [show::field(peer, "pubkey"), show::field(peer, "memberPubkey")];
            show::field(peer, "displayName").to_lowercase() == wanted
                || (wanted.len() >= 16 && key.iter().any(|key| key.starts_with(&wanted)))
        };
        let found: Vec<&Value> = show::list(&answer, "peers").iter().filter(is_meant).collect();
        let first = found.first()?;
        Some(Recipient {
            name: show::field(first, "displayName").to_owned(),
            key: show::field(first, "pubkey").to_owned(),
            online: found.iter().any(|peer| is_online(peer)),
        })
    }
}

fn is_online(peer: &Value) -> bool {
    let told = peer.get("online").and_then(Value::as_bool);
    told.unwrap_or_else(|| show::field(peer, "status") != "offline")
}

fn tell(
    desk: &Desk<'_>,
    to: &str,
    recipient: Option<&Recipient>,
    answer: &Value,
    via: &str,
) -> Result<ExitCode, Failure> {
    let duplicate = answer.get("duplicate").and_then(Value::as_bool).unwrap_or_default();
    let status = show::field(answer, "status");
    if desk.ui.json() {
        let mut data = json!({
            "ok": true,
            "messageId": answer.get("messageId"),
            "target": to,
            "via": via,
            "duplicate": duplicate,
            "status": status,
            "recipientOnline": recipient.map(|recipient| recipient.online),
        });
        if let Some(id) = answer.get("broker_message_id").filter(|id| !id.is_null()) {
            data["broker_message_id"] = id.clone();
        }
        desk.ui.data(&data)?;
        return Ok(ExitCode::SUCCESS);
    }
    let again = if duplicate { ", as before" } else { "" };
    let line = match recipient {
        Some(Recipient { name, key, online: true }) => {
            format!("sent to {} ({}) (online){again}", text::printable(name), show::short_key(key))
        }
        Some(Recipient { name, key, online: false }) => desk.ui.paint(
            Paint::Yellow,
            &format!(
                "queued for {} ({}): not connected, it is delivered when it comes back{again}",
                text::printable(name),
                show::short_key(key)
            ),
        ),
        None => format!("sent to {}{again}", text::printable(to)),
    };
    desk.ui.line(&line)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_given_is_not_said() {
        let mut body = json!({"to": "x", "meta": null, "replyToId": null});
        drop_nulls(&mut body);
        assert_eq!(body, json!({"to": "x"}));
    }

    #[test]
    fn a_peer_says_whether_it_is_there() {
        assert!(is_online(&json!({"status": "idle"})));
        assert!(!is_online(&json!({"status": "offline"})));
        assert!(!is_online(&json!({"status": "idle", "online": false})));
    }
}
