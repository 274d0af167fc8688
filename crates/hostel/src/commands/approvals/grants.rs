//! `hostel approvals grants|revoke`: answers that were given in advance.

use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::native::client::Client;
use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;
use serde_json::json;

use super::answer;
use crate::cli::PassphraseFrom;
use crate::commands::Context;
use crate::commands::now_ns;
use crate::conversation::short;
use crate::conversation::wire::moment_ns;
use crate::conversation::wire::one_spelling;
use crate::error::CommandError;
use crate::houses::House;
use crate::inbox::passphrase::Passphrase;
use crate::inbox::visible;
use crate::text;
use crate::ui::Paint;
use crate::ui::Table;

#[derive(Default, Deserialize)]
struct List {
    #[serde(default)]
    grants: Vec<Value>,
}

/// One grant, as far as it is read here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Grant {
    grant: u64,
    approval: String,
    scope: String,
    session: String,
    door: String,
    argv: Option<Vec<String>>,
    privileged: bool,
    uses_left: Option<u64>,
    used: u64,
    expires_at: Value,
}

#[derive(Serialize)]
struct Revoke<'a> {
    grant: u64,
    passphrase: &'a Passphrase,
}

#[derive(Deserialize)]
struct Revoked {
    revoked: bool,
}

pub(super) async fn list(context: &Context<'_>) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let live = context.houses.live().await?;
    let several = live.len() > 1;
    let mut found = Vec::new();
    for (house, mut client) in live {
        for value in grants(&mut client).await? {
            found.push((house.label.clone(), value));
        }
    }
    if ui.json() {
        let grants: Vec<Value> = found
            .into_iter()
            .map(|(house, mut value)| {
                value["house"] = house.into();
                value
            })
            .collect();
        ui.data(&json!({"grants": grants}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        ui.note("no grant is in force");
        return Ok(ExitCode::SUCCESS);
    }
    let mut columns = vec![">GRANT", "FOR", "?ENDS IN", ">?USED", ">?LEFT", "WHAT"];
    if several {
        columns.insert(0, "HOUSE");
    }
    let mut table = Table::new(&columns);
    let now = now_ns();
    for (house, value) in &found {
        let grant = Grant::deserialize(value)
            .map_err(|error| CommandError::failure(format!("the daemon's answer makes no sense: {error}")))?;
        let whom = match grant.scope.as_str() {
            "requester" => format!("{} by {}", grant.scope, grant.door),
            _ => format!("{} {}", grant.scope, short(&grant.session)),
        };
        let ends = Duration::from_nanos(moment_ns(&grant.expires_at).saturating_sub(now)).as_secs();
        let what = match &grant.argv {
            Some(words) => visible::text(&visible::command([words.iter().map(String::as_str)])),
            None => format!("the same as {}", short(&grant.approval)),
        };
        let mut cells = vec![
            (Paint::Bold, grant.grant.to_string()),
            (Paint::Plain, text::cut(&visible::text(&visible::prose(&whom)), 32).into_owned()),
            (Paint::Plain, text::duration(Duration::from_secs(ends))),
            (Paint::Plain, grant.used.to_string()),
            (Paint::Plain, grant.uses_left.map_or_else(|| "any".to_owned(), |left| left.to_string())),
            (Paint::Plain, if grant.privileged { format!("{what} (as root)") } else { what }),
        ];
        if several {
            cells.insert(0, (Paint::Dim, house.clone()));
        }
        table.row(cells);
    }
    ui.line(&table.render(ui))?;
    Ok(ExitCode::SUCCESS)
}

async fn grants(client: &mut Client) -> Result<Vec<Value>, CommandError> {
    let list: List = client.call("approval/grants", &json!({})).await?;
    Ok(list.grants.into_iter().map(one_spelling).collect())
}

pub(super) async fn revoke(
    context: &Context<'_>,
    numbers: &[u64],
    from: PassphraseFrom,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    // Each house counts its own.
    let mut found: Vec<(House, Client, u64)> = Vec::new();
    for number in numbers {
        let mut holders = Vec::new();
        for (house, mut client) in context.houses.live().await? {
            if grants(&mut client).await?.iter().any(|grant| grant["grant"] == *number) {
                holders.push((house, client, *number));
            }
        }
        match (holders.pop(), holders.pop()) {
            (Some(holder), None) => found.push(holder),
            (None, _) => {
                return Err(CommandError::failure(format!("there is no grant {number} in force"))
                    .hint("list them with `hostel approvals grants`"));
            }
            (Some((one, ..)), Some((other, ..))) => {
                let houses = format!("{}, {}", other.label, one.label);
                return Err(CommandError::failure(format!("grant {number} is in several houses: {houses}"))
                    .hint("choose with `--house NAME`"));
            }
        }
    }
    let Some((_, client, _)) = found.first_mut() else { return Ok(ExitCode::SUCCESS) };
    let passphrase = answer::ask(client, from).await?;
    let mut ended = Vec::new();
    for (house, mut client, grant) in found {
        let outcome: Revoked = client.call("approval/revoke", &Revoke { grant, passphrase: &passphrase }).await?;
        if !outcome.revoked {
            return Err(CommandError::failure(format!("grant {grant} has ended by itself meanwhile")));
        }
        if !ui.json() {
            ui.line(&format!("grant {grant} has ended"))?;
        }
        ended.push(json!({"grant": grant, "house": house.label}));
    }
    if ui.json() {
        ui.data(&json!({"revoked": ended}))?;
    }
    Ok(ExitCode::SUCCESS)
}
