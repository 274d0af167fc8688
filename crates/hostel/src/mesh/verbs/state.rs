//! The shared state: write, read, list, watch, remove.

use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::cli::StateAction;
use crate::mesh::client::Answer;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::show;
use crate::mesh::verbs::send::message as spoken;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

/// What needs a daemon.
const WHAT: &str = "shared state";

pub(crate) async fn run(desk: &Desk<'_>, action: &StateAction) -> Result<ExitCode, Failure> {
    match action {
        StateAction::Set(arguments) => set(desk, arguments).await,
        StateAction::Get(arguments) => get(desk, &arguments.key).await,
        StateAction::List(arguments) => list(desk, arguments).await,
        StateAction::Watch(arguments) => watch(desk, arguments).await,
        StateAction::Delete(arguments) => delete(desk, arguments).await,
    }
}

/// A value as it was typed: JSON where it is JSON, else a text.
pub(crate) fn value(typed: &str, text: bool) -> Value {
    let as_text = || Value::String(typed.trim_end_matches('\n').to_owned());
    if text { as_text() } else { serde_json::from_str(typed).unwrap_or_else(|_| as_text()) }
}

/// What was taken; a refusal keeps what the daemon said beside its word.
pub(crate) fn taken(answer: Answer) -> Result<Value, Failure> {
    if (200..300).contains(&answer.status) {
        return Ok(answer.body);
    }
    let failure = Failure::refused(answer.status, &answer.body);
    let mut data = answer.body;
    if let Value::Object(fields) = &mut data {
        fields.insert("ok".to_owned(), false.into());
        fields.insert("hints".to_owned(), json!(failure.hints()));
    }
    Err(failure.with_data(data))
}

async fn set(desk: &Desk<'_>, arguments: &cli::StateSet) -> Result<ExitCode, Failure> {
    let typed = spoken(&arguments.value)?;
    let value = value(&typed, arguments.text);
    if value.is_null() {
        return Err(Failure::arguments("null is no value").hint("remove the key with `claudemesh state delete KEY`"));
    }
    let mut body = json!({"key": arguments.key, "value": value});
    if let Some(version) = arguments.if_version {
        body["if_version"] = version.into();
    }
    if let Some(key) = &arguments.idempotency_key {
        body["client_message_id"] = key.as_str().into();
    }
    let client = route::daemon(desk, WHAT).await?;
    let answer = taken(client.ask(Method::POST, "/v1/state/set", Some(&body)).await?)?;
    told(desk, &answer, "written")
}

async fn delete(desk: &Desk<'_>, arguments: &cli::StateDelete) -> Result<ExitCode, Failure> {
    let version = arguments.if_version.map(|version| version.to_string());
    let query = [("key", Some(arguments.key.as_str())), ("if_version", version.as_deref())];
    let client = route::daemon(desk, WHAT).await?;
    let answer = taken(client.ask(Method::DELETE, &with_query("/v1/state", &query), None).await?)?;
    let gone = answer.get("version").and_then(Value::as_u64).unwrap_or_default() > 0;
    told(desk, &answer, if gone { "removed" } else { "was not there" })
}

fn told(desk: &Desk<'_>, answer: &Value, word: &str) -> Result<ExitCode, Failure> {
    if desk.ui.json() {
        desk.ui.data(answer)?;
    } else {
        let version = answer.get("version").and_then(Value::as_u64).unwrap_or_default();
        let version = if version > 0 { format!(" (version {version})") } else { String::new() };
        desk.ui.line(&format!("{} {word}{version}", text::printable(show::field(answer, "key"))))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn get(desk: &Desk<'_>, key: &str) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, WHAT).await?;
    let entry = client.get(&with_query("/v1/state/get", &[("key", Some(key))])).await?;
    if desk.ui.json() {
        desk.ui.data(&entry)?;
    } else {
        desk.ui.line(&shown(entry.get("value").unwrap_or(&Value::Null)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A value for people: a text as it is, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(words) => text::printable(words).into_owned(),
        other => text::printable(&other.to_string()).into_owned(),
    }
}

async fn list(desk: &Desk<'_>, arguments: &cli::StateList) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, WHAT).await?;
    let limit = arguments.limit.to_string();
    let query = [
        ("prefix", arguments.prefix.as_deref()),
        ("limit", Some(limit.as_str())),
        ("values", arguments.values.then_some("true")),
        ("cursor", arguments.after.as_deref()),
    ];
    let answer = client.get(&with_query("/v1/state/list", &query)).await?;
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let entries = show::list(&answer, "items");
    if entries.is_empty() {
        desk.ui.line("(nothing)")?;
        tell_unreadable(desk, &answer);
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = match arguments.values {
        true => Table::new(&["KEY", ">VERSION", "?CHANGED", "BY", "VALUE"]),
        false => Table::new(&["KEY", ">VERSION", "?CHANGED", "BY"]),
    };
    for entry in entries {
        let version = entry.get("version").and_then(Value::as_u64).unwrap_or_default();
        let by = entry.get("updated_by").map(|by| show::field(by, "name").to_owned()).unwrap_or_default();
        let mut row = vec![
            (Paint::Bold, show::field(entry, "key").to_owned()),
            (Paint::Plain, version.to_string()),
            (Paint::Dim, show::time(show::field(entry, "updated_at"))),
            (Paint::Plain, by),
        ];
        if arguments.values {
            row.push((Paint::Plain, shown(entry.get("value").unwrap_or(&Value::Null))));
        }
        table.row(row);
    }
    desk.ui.line(&table.render(desk.ui))?;
    if let Some(next) = answer.get("next").and_then(Value::as_str) {
        desk.ui.note(&format!("there are more; go on with `--after '{}'`", text::printable(next)));
    }
    tell_unreadable(desk, &answer);
    Ok(ExitCode::SUCCESS)
}

/// Says what a list has left out, also one of tasks.
pub(super) fn tell_unreadable(desk: &Desk<'_>, answer: &Value) {
    match answer.get("unreadable").and_then(Value::as_u64).unwrap_or_default() {
        0 => {}
        1 => desk.ui.note("1 more cannot be read here: its key is missing, or it is damaged"),
        many => desk.ui.note(&format!("{many} more cannot be read here: their keys are missing, or they are damaged")),
    }
}

async fn watch(desk: &Desk<'_>, arguments: &cli::StateWatch) -> Result<ExitCode, Failure> {
    let client = route::daemon(desk, WHAT).await?;
    let query = [("prefix", arguments.prefix.as_deref()), ("last_event_id", arguments.after.as_deref())];
    let mut events = client.stream(&with_query("/v1/state/watch", &query)).await?;
    let mut last = String::new();
    while let Some(event) = events.next().await? {
        event.id.clone_into(&mut last);
        let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
        if desk.ui.json() {
            desk.ui.data(&json!({"id": event.id, "event": event.name, "data": data}))?;
            continue;
        }
        let time = desk.ui.paint(Paint::Dim, &show::time(show::field(&data, "ts")));
        let line = match event.name.as_str() {
            "state_changed" => format!(
                "{time} {} {}",
                desk.ui.paint(Paint::Bold, &text::printable(show::field(&data, "key"))),
                change(&data)
            ),
            other => format!("{time} {other} {}", text::printable(&event.data)),
        };
        desk.ui.line(&line)?;
    }
    let failure = Failure::network("the daemon closed the stream");
    let go_on = format!("go on with `claudemesh state watch --after {last}`");
    Err(if last.is_empty() { failure } else { failure.hint(go_on) })
}

/// What has become of an entry, for people.
fn change(data: &Value) -> String {
    let flag = |name: &str| data.get(name).and_then(Value::as_bool).unwrap_or_default();
    match data.get("value") {
        _ if flag("removed") => "(removed)".to_owned(),
        Some(value) => shown(value),
        None if flag("unreadable") => "(cannot be read)".to_owned(),
        None => "(long; see `state get`)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_json_or_text() {
        assert_eq!(value("42", false), json!(42));
        assert_eq!(value("{\"a\": [1]}\n", false), json!({"a": [1]}));
        assert_eq!(value("ada\n", false), json!("ada"));
        assert_eq!(value("42", true), json!("42"));
        assert_eq!(value("\"x\"", false), json!("x"));
    }

    #[test]
    fn changes_are_told_in_a_word() {
        assert_eq!(change(&json!({"removed": true})), "(removed)");
        assert_eq!(change(&json!({"value": {"a": 1}})), "{\"a\":1}");
        assert_eq!(change(&json!({"value": "plain"})), "plain");
        assert!(change(&json!({"value_omitted": true})).contains("state get"));
    }
}
