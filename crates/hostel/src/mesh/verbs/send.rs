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
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;
use crate::mesh::hooks;
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
            let way = Way::of(&client, &answer).await;
            tell(desk, &arguments.to, &answer, way)
        }
        Route::Cold(cold) => {
            not_past_gate(desk)?;
            let answer = cold.send(request).await?;
            tell(desk, &arguments.to, &answer, Way::Cold)
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
            let way = Way::of(&client, &answer).await;
            tell(desk, &to, &answer, way)
        }
        Route::Cold(cold) => {
            not_past_gate(desk)?;
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
            tell(desk, &to, &answer, Way::Cold)
        }
    }
}

/// Only the daemon asks the hook `pre-send`: where there is one, nothing is sent without the daemon.
fn not_past_gate(desk: &Desk<'_>) -> Result<(), Failure> {
    let mesh = desk.host.joined(desk.mesh.as_deref())?.slug;
    if !hooks::gate_on(desk, &mesh) {
        return Ok(());
    }
    let message = "this host has a hook `pre-send`, and no daemon that could ask it";
    Err(Failure::new(Code::Denied, "blocked_by_pre_send", message)
        .hint(format!("start it with `claudemesh daemon up --mesh {mesh}`")))
}

/// The text, from the command line or from standard input.
pub(super) fn message(word: &str) -> Result<String, Failure> {
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

/// How a message went, as far as is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// The broker has it.
    Cold,
    /// The daemon has it, and is connected.
    Sent,
    /// The daemon has it, and has no connection.
    Waiting,
}

impl Way {
    /// A daemon that knows whether its addressee is there is connected; of topics and groups it says nothing.
    async fn of(client: &Client, answer: &Value) -> Self {
        if answer.get("recipientOnline").is_some_and(Value::is_boolean) {
            return Way::Sent;
        }
        let health = client.get("/v1/health").await.unwrap_or_default();
        match health.get("connected").and_then(Value::as_bool) {
            Some(false) => Way::Waiting,
            _ => Way::Sent,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::Cold => "cold",
            Way::Sent | Way::Waiting => "daemon",
        }
    }
}

fn tell(desk: &Desk<'_>, to: &str, answer: &Value, way: Way) -> Result<ExitCode, Failure> {
    if desk.ui.json() {
        let mut data = json!({
            "ok": true,
            "messageId": answer.get("messageId"),
            "target": to,
            "via": way.name(),
            "duplicate": is(answer, "duplicate"),
            "status": show::field(answer, "status"),
            "recipientOnline": answer.get("recipientOnline"),
        });
        if let Some(id) = answer.get("broker_message_id").filter(|id| !id.is_null()) {
            data["broker_message_id"] = id.clone();
        }
        desk.ui.data(&data)?;
    } else {
        let (paint, line) = line(to, answer, way);
        desk.ui.line(&desk.ui.paint(paint, &line))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is(answer: &Value, name: &str) -> bool {
    answer.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// What became of it, for people.
fn line(to: &str, answer: &Value, way: Way) -> (Paint, String) {
    let name = match show::field(answer, "target") {
        "" => to,
        name => name,
    };
    let whom = match show::field(answer, "targetPubkey") {
        "" => text::printable(name).into_owned(),
        key => format!("{} ({})", text::printable(name), show::short_key(key)),
    };
    let again = if is(answer, "duplicate") { ", as before" } else { "" };
    match (way, answer.get("recipientOnline").and_then(Value::as_bool)) {
        (Way::Waiting, _) => (
            Paint::Yellow,
            format!("queued for {whom}: no connection to the broker, it goes out when there is one{again}"),
        ),
        (_, Some(true)) => (Paint::Plain, format!("sent to {whom} (online){again}")),
        (_, Some(false)) => {
            (Paint::Yellow, format!("queued for {whom}: not there now, it is delivered when it comes back{again}"))
        }
        (_, None) => (Paint::Plain, format!("sent to {whom}{again}")),
    }
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
    fn what_became_of_a_message() {
        let key = "0123456789abcdef";
        let of = |answer: Value, way| line("ada", &answer, way).1;
        let known =
            |online| json!({"target": "Ada", "targetPubkey": key, "recipientOnline": online, "status": "queued"});
        assert_eq!(of(known(true), Way::Sent), "sent to Ada (01234567..) (online)");
        assert!(of(known(false), Way::Sent).starts_with("queued for Ada (01234567..): not there now"));
        let unknown = json!({"target": "Ada", "targetPubkey": key});
        assert!(of(unknown, Way::Waiting).starts_with("queued for Ada (01234567..): no connection to the broker"));
        assert_eq!(of(json!({"target": "#alerts", "duplicate": true}), Way::Sent), "sent to #alerts, as before");
        assert_eq!(of(json!({}), Way::Cold), "sent to ada");
    }
}
