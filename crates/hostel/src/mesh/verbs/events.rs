//! Events as they come, one line each.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Events;
use crate::mesh::client::Event;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::show;
use crate::text;
use crate::ui::Paint;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Events) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "events").await?;
    let only = arguments.only.join(",");
    let target = with_query(
        "/v1/events",
        &[
            ("events", (!only.is_empty()).then_some(only.as_str())),
            ("topic", arguments.topic.as_deref()),
            ("last_event_id", arguments.after.as_deref()),
        ],
    );
    let mut events = client.stream(&target).await?;
    let mut last = String::new();
    while let Some(event) = events.next().await? {
        event.id.clone_into(&mut last);
        let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
        if desk.ui.json() {
            desk.ui.data(&json!({"id": event.id, "event": event.name, "data": data}))?;
        } else {
            desk.ui.line(&line(desk, &event, &data))?;
        }
    }
    let go_on = format!("go on with `claudemesh events --after {last}`");
    let failure = Failure::network("the daemon closed the stream");
    Err(if last.is_empty() { failure } else { failure.hint(go_on) })
}

fn line(desk: &Desk<'_>, event: &Event, data: &Value) -> String {
    let time = desk.ui.paint(Paint::Dim, &show::time(show::field(data, "ts")));
    let name = desk.ui.paint(Paint::Bold, &text::printable(&event.name));
    let rest = match event.name.as_str() {
        "message" => {
            let topic = match show::field(data, "topic") {
                "" => String::new(),
                topic => format!(" #{}", text::printable(topic)),
            };
            let body = data.get("body").and_then(Value::as_str).unwrap_or("(cannot be read)");
            let is_verified = data.get("verified").and_then(Value::as_bool).unwrap_or_default();
            let doubt = if is_verified { "" } else { " (unverified)" };
            let name = text::printable(show::field(data, "sender_name"));
            format!("{name}{doubt}{topic}: {}", text::printable(body))
        }
        "peer_join" | "peer_leave" => text::printable(show::field(data, "name")).into_owned(),
        _ => text::printable(&event.data).into_owned(),
    };
    format!("{time} {name} {rest}")
}
