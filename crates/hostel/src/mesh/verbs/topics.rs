//! Topics: list, subscribe, unsubscribe.

use std::process::ExitCode;

use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::route::Route;
use crate::mesh::show;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

pub(crate) async fn list(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => client.get("/v1/topic/list").await?,
        Route::Cold(cold) => cold.topics().await?,
    };
    if desk.ui.json() {
        desk.ui.data(&show::list(&answer, "topics"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["TOPIC", ">MEMBERS", ">UNREAD", "?SINCE", ""]);
    for topic in show::list(&answer, "topics") {
        let number = |name: &str| topic.get(name).and_then(Value::as_u64).map_or_else(String::new, |n| n.to_string());
        let subscribed = topic.get("subscribed").and_then(Value::as_bool).unwrap_or_default();
        table.row(vec![
            (Paint::Bold, format!("#{}", show::field(topic, "name"))),
            (Paint::Plain, number("memberCount")),
            (Paint::Plain, number("unread")),
            (Paint::Dim, show::time(show::field(topic, "createdAt"))),
            (Paint::Dim, if subscribed { "subscribed".to_owned() } else { String::new() }),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn subscribe(desk: &Desk<'_>, topic: &str) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "subscribing").await?;
    let answer = client.post("/v1/topic/subscribe", &json!({"topic": topic})).await?;
    tell(desk, &answer, |name| {
        let made = answer.get("created").and_then(Value::as_bool).unwrap_or_default();
        let made = if made { ", which is new" } else { "" };
        format!("subscribed to #{name}{made}")
    })
}

pub(crate) async fn unsubscribe(desk: &Desk<'_>, topic: &str) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "unsubscribing").await?;
    let answer = client.post("/v1/topic/unsubscribe", &json!({"topic": topic})).await?;
    tell(desk, &answer, |name| format!("not subscribed to #{name} any more"))
}

fn tell(desk: &Desk<'_>, answer: &Value, text: impl Fn(&str) -> String) -> Result<ExitCode, Failure> {
    if desk.ui.json() {
        desk.ui.data(answer)?;
    } else {
        desk.ui.line(&text(&text::printable(show::field(answer, "topic"))))?;
    }
    Ok(ExitCode::SUCCESS)
}
