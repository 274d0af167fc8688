//! Who is in a mesh and who is connected.

use std::process::ExitCode;

use serde_json::Map;
use serde_json::Value;

use crate::mesh::Desk;
use crate::mesh::cli::Peers;
use crate::mesh::client::with_query;
use crate::mesh::failure::Failure;
use crate::mesh::route;
use crate::mesh::route::Route;
use crate::mesh::show;
use crate::ui::Paint;
use crate::ui::Table;

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Peers) -> Result<ExitCode, Failure> {
    if !arguments.fields.is_empty() && !desk.ui.json() {
        return Err(Failure::arguments("fields are chosen with `--json` only"));
    }
    let answer = match route::choose(desk).await? {
        Route::Daemon(client) => {
            let asked = client.get(&with_query("/v1/peers", &[("all", arguments.all.then_some("true"))])).await;
            asked.map_err(|failure| match failure.word() {
                "broker_unavailable" => failure.hint("see who is known with `claudemesh peers --all`"),
                _ => failure,
            })?
        }
        Route::Cold(cold) => cold.peers(arguments.all).await?,
    };
    let peers = show::list(&answer, "peers");
    if desk.ui.json() {
        let shown: Vec<Value> = peers.iter().map(|peer| project(peer, &arguments.fields)).collect();
        desk.ui.data(&shown)?;
        return Ok(ExitCode::SUCCESS);
    }
    if peers.is_empty() {
        desk.ui.line("(nobody)")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(&["", "NAME", "ROLE", "KEY", "?WHERE", "SUMMARY"]);
    for peer in peers {
        let (paint, dot) = match show::field(peer, "status") {
            "working" => (Paint::Yellow, "●"),
            "dnd" => (Paint::Red, "●"),
            "offline" => (Paint::Dim, "○"),
            _ => (Paint::Green, "●"),
        };
        let role = format!("{} {}", show::field(peer, "peerRole"), show::groups(peer));
        // A daemon's own directory says nothing.
        let place = match (show::field(peer, "hostname"), show::field(peer, "cwd")) {
            ("", cwd) => cwd.to_owned(),
            (host, "" | "/") => host.to_owned(),
            (host, cwd) => format!("{host}:{cwd}"),
        };
        table.row(vec![
            (paint, dot.to_owned()),
            (Paint::Bold, address(peer, peers)),
            (Paint::Plain, role.trim().to_owned()),
            (Paint::Dim, show::address_key(show::field(peer, "pubkey"))),
            (Paint::Dim, place),
            (Paint::Plain, show::field(peer, "summary").to_owned()),
        ]);
    }
    desk.ui.line(&table.render(desk.ui))?;
    Ok(ExitCode::SUCCESS)
}

/// What a peer is written to by: a session by its member's name and its own, where the member is in the list.
fn address(peer: &Value, peers: &[Value]) -> String {
    let name = show::field(peer, "displayName");
    let key = show::field(peer, "memberPubkey");
    let member = |other: &&Value| show::field(other, "pubkey") == key && show::field(other, "memberPubkey") == key;
    match (show::field(peer, "peerRole"), peers.iter().find(member)) {
        ("session", Some(member)) => format!("{}/{name}", show::field(member, "displayName")),
        _ => name.to_owned(),
    }
}

/// Only the fields that were asked for; all of them if none were.
fn project(peer: &Value, fields: &[String]) -> Value {
    if fields.is_empty() {
        return peer.clone();
    }
    let chosen = fields.iter().map(|name| (name.clone(), peer.get(name).cloned().unwrap_or(Value::Null)));
    Value::Object(chosen.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_session_is_shown_by_its_address() {
        let session = json!({"pubkey": "s", "memberPubkey": "k", "displayName": "fix-ci", "peerRole": "session"});
        let member = json!({"pubkey": "k", "memberPubkey": "k", "displayName": "ada", "peerRole": "service"});
        let peers = [session.clone(), member.clone()];
        assert_eq!((address(&session, &peers), address(&member, &peers)), ("ada/fix-ci".to_owned(), "ada".to_owned()));
        assert_eq!(address(&session, std::slice::from_ref(&session)), "fix-ci");
    }

    #[test]
    fn fields_are_projected_in_their_order() {
        let peer = json!({"pubkey": "k", "displayName": "ada", "status": "idle"});
        let fields = ["displayName".to_owned(), "nothing".to_owned()];
        assert_eq!(project(&peer, &fields), json!({"displayName": "ada", "nothing": null}));
        assert_eq!(project(&peer, &[]), peer);
    }
}
