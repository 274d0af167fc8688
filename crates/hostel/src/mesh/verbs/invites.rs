//! Invites: made, listed, taken back. The link is the only thing on standard output, so that it can be piped.

use std::process::ExitCode;
use std::time::Duration;

use hostel_mesh::InviteRequest;
use hostel_wire::frames::client::Call;
use serde_json::Value;
use serde_json::json;

use crate::mesh::Desk;
use crate::mesh::cli::Invite;
use crate::mesh::cli::InviteAction;
use crate::mesh::cli::InviteCreate;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::route::Route;
use crate::mesh::show;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

/// No invite lasts longer.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

pub(crate) async fn run(desk: &Desk<'_>, arguments: Invite) -> Result<ExitCode, Failure> {
    match arguments.action {
        None => create(desk, &arguments.create).await,
        Some(InviteAction::Create(arguments)) => create(desk, &arguments).await,
        Some(InviteAction::List) => list(desk).await,
        Some(InviteAction::Revoke { invite }) => revoke(desk, &invite).await,
    }
}

async fn create(desk: &Desk<'_>, arguments: &InviteCreate) -> Result<ExitCode, Failure> {
    let life = text::parse_duration(&arguments.expires).map_err(Failure::arguments)?;
    if life.is_zero() || life > LONGEST || arguments.uses == 0 {
        return Err(Failure::arguments("an invite lasts between a moment and a year, and may be used at least once"));
    }
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => {
            let body = json!({
                "max_uses": arguments.uses, "expires_in_s": life.as_secs().max(1), "role": arguments.role.name(),
            });
            client.post("/v1/invite/create", &body).await?
        }
        Route::Cold(cold) => {
            let request = InviteRequest {
                max_uses: Some(arguments.uses),
                expires_in_s: Some(life.as_secs().max(1)),
                role: Some(arguments.role.name().to_owned()),
                ..InviteRequest::default()
            };
            cold.invite(request).await?
        }
    };
    if desk.ui.json() {
        desk.ui.data(&answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(show::field(&answer, "invite"))?;
    let uses = match arguments.uses {
        1 => "once".to_owned(),
        uses => format!("{uses} times"),
    };
    desk.ui.note(&format!(
        "good {uses}, until {}; whoever has the link can join with `{} join 'LINK'`",
        show::time(show::field(&answer, "expiresAt")),
        desk.called
    ));
    Ok(ExitCode::SUCCESS)
}

async fn list(desk: &Desk<'_>) -> Result<ExitCode, Failure> {
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => client.get("/v1/invite/list").await?,
        Route::Cold(cold) => cold.invites().await?,
    };
    let invites = show::list(&answer, "invites");
    if desk.ui.json() {
        desk.ui.data(&invites)?;
        return Ok(ExitCode::SUCCESS);
    }
    if invites.is_empty() {
        desk.ui.line("(none)")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["ID", "ROLE", ">USED", "UNTIL", "STATE"]);
    for invite in invites {
        let number = |name: &str| invite.get(name).and_then(Value::as_u64).unwrap_or_default();
        let revoked = invite.get("revoked").and_then(Value::as_bool).unwrap_or_default();
        let (paint, state) = match show::field(invite, "expiresAt") {
            _ if revoked => (Paint::Red, "revoked"),
            _ if number("uses") >= number("maxUses") => (Paint::Dim, "used up"),
            until if is_over(until) => (Paint::Dim, "expired"),
            _ => (Paint::Green, "open"),
        };
        let id = match show::field(invite, "inviteId") {
            "" => show::field(invite, "id"),
            id => id,
        };
        table.row(vec![
            (Paint::Bold, id.to_owned()),
            (Paint::Plain, show::field(invite, "role").to_owned()),
            (Paint::Plain, format!("{} of {}", number("uses"), number("maxUses"))),
            (Paint::Dim, show::time(show::field(invite, "expiresAt"))),
            (paint, state.to_owned()),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a time of the contract's has passed.
fn is_over(iso: &str) -> bool {
    hostel_wire::parse_iso(iso).is_some_and(|until| until <= hostel_wire::Clock::system().now_ms())
}

async fn revoke(desk: &Desk<'_>, invite: &str) -> Result<ExitCode, Failure> {
    // Of a link only the token goes to the broker, never the secret behind it.
    let bare = invite.split('#').next().unwrap_or(invite);
    let id = bare.rsplit('/').next().unwrap_or(bare).to_owned();
    match route::choose(desk).await? {
        Route::Daemon(client) => client.post("/v1/invite/revoke", &json!({"id": id})).await?,
        Route::Cold(cold) => cold.ask(Call::InviteRevoke { invite: id.clone() }).await?,
    };
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "invite": id, "revoked": true}))?;
    } else {
        desk.ui.line("the invite is taken back")?;
    }
    Ok(ExitCode::SUCCESS)
}
