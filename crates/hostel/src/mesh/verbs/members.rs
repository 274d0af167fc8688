//! Members: who there is, who is put out, and the broker's record of it.

use std::process::ExitCode;

use hostel_wire::frames::client::Call;
use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Audit;
use crate::mesh::cli::Member;
use crate::mesh::cli::MemberAction;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::route::Route;
use crate::mesh::show;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Member) -> Result<ExitCode, Failure> {
    let (verb, target, done) = match &arguments.action {
        MemberAction::List => return list(desk).await,
        MemberAction::Revoke(arguments) => ("revoke", arguments.target.clone(), "revoked"),
        MemberAction::Ban(arguments) => ("ban", arguments.target.clone(), "revoked"),
        MemberAction::Unban(arguments) => ("unban", arguments.target.clone(), "no longer revoked"),
        MemberAction::Kick(arguments) => ("kick", arguments.target.clone(), "kicked"),
        MemberAction::Disconnect(arguments) => ("disconnect", arguments.target.clone(), "disconnected"),
    };
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => {
            let done = client.post(&format!("/v1/member/{verb}"), &json!({"target": target})).await;
            done.map_err(|failure| match failure.word() {
                "not_found" => failure.hint("see who there is with `claudemesh member list`"),
                _ => failure,
            })?
        }
        Route::Cold(cold) => {
            let target = target.clone();
            let call = match verb {
                "revoke" => Call::Revoke { target },
                "ban" => Call::Ban { target },
                "unban" => Call::Unban { target },
                "kick" => Call::Kick { target },
                _ => Call::Disconnect { target },
            };
            cold.ask(call).await?
        }
    };
    if desk.ui.json() {
        let mut data = answer;
        if let Value::Object(fields) = &mut data {
            fields.insert("ok".to_owned(), true.into());
            fields.insert("target".to_owned(), target.into());
        }
        desk.ui.data(&data)?;
        return Ok(ExitCode::SUCCESS);
    }
    let skipped = show::list(&answer, "skipped_control_plane").len();
    desk.ui.line(&format!("{}: {done}", text::printable(&target)))?;
    if verb == "kick" && skipped > 0 {
        desk.ui.note(&format!("its daemon stays connected; `{} member revoke` ends that for good", desk.called));
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let (answer, key) = match route::choose(desk).await? {
        Route::Daemon(client) => (client.get("/v1/member/list").await?, "members"),
        Route::Cold(cold) => (cold.peers(true).await?, "peers"),
    };
    let members = show::list(&answer, key);
    if desk.ui.json() {
        desk.ui.data(&members)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["NAME", "ROLE", "KEY", "?ID", ""]);
    for member in members {
        let is = |name: &str| member.get(name).and_then(Value::as_bool).unwrap_or_default();
        let (paint, note) = match (is("revoked"), is("left"), is("me")) {
            (true, ..) => (Paint::Red, "revoked"),
            (_, true, _) => (Paint::Dim, "left"),
            (.., true) => (Paint::Dim, "this host"),
            _ => (Paint::Plain, ""),
        };
        table.row(vec![
            (Paint::Bold, show::field(member, "displayName").to_owned()),
            (Paint::Plain, show::field(member, "role").to_owned()),
            (Paint::Dim, show::address_key(show::field(member, "pubkey"))),
            (Paint::Dim, show::field(member, "memberId").to_owned()),
            (paint, note.to_owned()),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

/// The broker's record, oldest first.
pub(crate) async fn audit(desk: &Desk<'_>, arguments: &Audit) -> Result<ExitCode, Failure> {
    let (answer, members) = match route::choose(desk).await? {
        Route::Daemon(client) => {
            let (after, limit) = (arguments.after.to_string(), arguments.limit.to_string());
            let answer =
                client.get(&with_query("/v1/audit", &[("after", Some(&after)), ("limit", Some(&limit))])).await?;
            (answer, client.get("/v1/member/list").await.unwrap_or_default())
        }
        Route::Cold(cold) => {
            let call = Call::AuditQuery { after: arguments.after, limit: Some(arguments.limit) };
            (cold.ask(call).await?, Value::Null)
        }
    };
    let events = show::list(&answer, "events");
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    if events.is_empty() {
        desk.ui.line("(nothing)")?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = show::names(&members);
    let mut table = Table::new(&[">NO", "TIME", "EVENT", "BY", "DETAIL"]);
    for event in events {
        let number = event.get("no").and_then(Value::as_u64).map_or_else(String::new, |number| number.to_string());
        table.row(vec![
            (Paint::Dim, number),
            (Paint::Dim, show::time(show::field(event, "time"))),
            (Paint::Bold, show::field(event, "kind").to_owned()),
            (Paint::Plain, name(show::field(event, "actor"))),
            (Paint::Plain, detail(event, &name)),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

/// What a record is about, in words: whom first, where that is a member, then the rest without what is long and says
/// little to people.
fn detail(event: &Value, name: &impl Fn(&str) -> String) -> String {
    let mut words = Vec::new();
    let subject = show::field(event, "subject");
    let whom = name(subject);
    if whom != subject {
        words.push(whom);
    }
    for (key, value) in event.get("body").and_then(Value::as_object).into_iter().flatten() {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Number(seconds) if key == "expiresAt" => {
                let until = seconds.as_u64().unwrap_or_default().saturating_mul(1000);
                show::time(&hostel_wire::iso(until)).replace(' ', "T")
            }
            other => other.to_string(),
        };
        let repeats = matches!(key.as_str(), "pubkey" | "invite") || words.first() == Some(&text);
        if !repeats {
            words.push(format!("{key}={text}"));
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_told_in_words() {
        let members = json!({"members": [{"memberId": "m1", "displayName": "ada"}]});
        let name = show::names(&members);
        let revoked = json!({"subject": "m1", "body": {"name": "ada", "pubkey": "00", "why": null, "n": 1}});
        assert_eq!(detail(&revoked, &name), "ada n=1");
        assert_eq!(detail(&json!({"subject": "t1", "body": {"name": "alerts"}}), &name), "name=alerts");
    }
}
