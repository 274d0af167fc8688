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
        Route::Daemon(client) => client.post(&format!("/v1/member/{verb}"), &json!({"target": target})).await?,
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
        desk.ui.note("its daemon stays connected; end it for good with `claudemesh member revoke`");
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let (answer, key) = match route::choose(desk).await? {
        Route::Daemon(client) => (client.get("/v1/member/list").await?, "members"),
        Route::Cold(cold) => (cold.ask(Call::ListPeers { all: true }).await?, "peers"),
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
            (Paint::Dim, show::field(member, "pubkey").to_owned()),
            (Paint::Dim, show::field(member, "memberId").to_owned()),
            (paint, note.to_owned()),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

/// The broker's record, oldest first.
pub(crate) async fn audit(desk: &Desk<'_>, arguments: &Audit) -> Result<ExitCode, Failure> {
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => {
            let (after, limit) = (arguments.after.to_string(), arguments.limit.to_string());
            client.get(&with_query("/v1/audit", &[("after", Some(&after)), ("limit", Some(&limit))])).await?
        }
        Route::Cold(cold) => {
            cold.ask(Call::AuditQuery { after: arguments.after, limit: Some(arguments.limit) }).await?
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
    let mut table = Table::new(&[">NUMBER", "TIME", "EVENT", "?WHO", "DETAIL"]);
    for event in events {
        let number = event.get("no").and_then(Value::as_u64).map_or_else(String::new, |number| number.to_string());
        let detail = event.get("body").filter(|body| !body.is_null()).map_or_else(String::new, Value::to_string);
        table.row(vec![
            (Paint::Dim, number),
            (Paint::Dim, show::time(show::field(event, "time"))),
            (Paint::Bold, show::field(event, "kind").to_owned()),
            (Paint::Dim, show::field(event, "subject").to_owned()),
            (Paint::Plain, detail),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}
