//! What was received: the newest, and what matches some words.

use std::process::ExitCode;

use serde_json::Value;

use crate::mesh::Desk;
use crate::mesh::cli::Inbox;
use crate::mesh::cli::Search;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::show;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Inbox) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "the inbox").await?;
    let limit = arguments.limit.to_string();
    let target = with_query(
        "/v1/inbox",
        &[
            ("limit", Some(&limit)),
            ("unread_only", arguments.unread.then_some("true")),
            ("mark_seen", arguments.keep_unread.then_some("false")),
            ("since", arguments.since.as_deref()),
            ("topic", arguments.topic.as_deref()),
            ("from", arguments.from.as_deref()),
        ],
    );
    let answer = client.get(&target).await?;
    tell(desk, &answer, "(nothing)")
}

pub(crate) async fn search(desk: &Desk<'_>, arguments: &Search) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, "the inbox").await?;
    let limit = arguments.limit.to_string();
    let words = arguments.query.join(" ");
    let answer = client.get(&with_query("/v1/inbox/search", &[("q", Some(&words)), ("limit", Some(&limit))])).await?;
    let told = tell(desk, &answer, "(nothing found)")?;
    if answer.get("truncated").and_then(Value::as_bool) == Some(true) {
        desk.ui.note("there is more than fits into one answer; search for more words, or with a smaller --limit");
    }
    Ok(told)
}

fn tell(desk: &Desk<'_>, answer: &Value, nothing: &str) -> Result<ExitCode, Failure> {
    let items = show::list(answer, "items");
    if desk.ui.json() {
        desk.ui.data(&items)?;
    } else if items.is_empty() {
        desk.ui.line(nothing)?;
    } else {
        let sections: Vec<String> = items.iter().map(|item| show::message(desk.ui, item)).collect();
        desk.ui.line(&sections.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
