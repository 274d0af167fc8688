//! `hostel gc`: journals of exited processes that may go, removed at once.
//!
//! Invariant: on a terminal nothing is removed that was not shown and agreed to; elsewhere only with `--yes`.

use std::io::BufRead as _;
use std::io::IsTerminal as _;
use std::io::Read as _;
use std::io::Write as _;
use std::process::ExitCode;

use hostel_doors::native::protocol::Collect;
use hostel_doors::native::protocol::Collected;
use serde_json::json;

use super::Context;
use super::now_ns;
use crate::cli::Gc;
use crate::error::CommandError;
use crate::session::short;
use crate::text;

/// The longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64;

type Houses = Vec<(String, Collected)>;

pub(super) async fn run(context: &Context<'_>, arguments: &Gc) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let shown_at = now_ns();
    let request = Collect { dry_run: true, all: arguments.all, changed_before_ns: None };
    let is_asked = !arguments.dry_run && !arguments.yes;
    let houses = match arguments.yes {
        true => collect(context, Collect { dry_run: false, ..request }).await?,
        false => collect(context, request).await?,
    };
    let count = |houses: &Houses| houses.iter().map(|(_, collected)| collected.removed.len()).sum::<usize>();
    if is_asked && count(&houses) > 0 {
        if ui.json() || !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(CommandError::failure(format!(
                "there is nobody to ask whether {} may go",
                journals(count(&houses))
            ))
            .hint("`hostel gc --dry-run` shows them, `--yes` removes them without asking"));
        }
        list(context, &houses)?;
        if !agrees(&journals(count(&houses)))? {
            ui.line("nothing was removed")?;
            return Ok(ExitCode::FAILURE);
        }
        let removed =
            collect(context, Collect { dry_run: false, changed_before_ns: Some(shown_at), ..request }).await?;
        return summary(context, &removed, "removed");
    }
    if ui.json() {
        let houses: Vec<serde_json::Value> = houses
            .iter()
            .map(|(label, collected)| {
                json!({"house": label, "removed": collected.removed, "freed_bytes": collected.freed_bytes})
            })
            .collect();
        ui.data(&json!({"dry_run": arguments.dry_run, "houses": houses}))?;
        return Ok(ExitCode::SUCCESS);
    }
    list(context, &houses)?;
    summary(context, &houses, if arguments.dry_run { "would be removed" } else { "removed" })
}

async fn collect(context: &Context<'_>, request: Collect) -> Result<Houses, CommandError> {
    let mut houses = Vec::new();
    for (house, mut client) in context.houses.live().await? {
        let collected: Collected = client.call("journal/gc", &request).await?;
        houses.push((house.label, collected));
    }
    Ok(houses)
}

fn list(context: &Context<'_>, houses: &Houses) -> Result<(), CommandError> {
    for process in houses.iter().flat_map(|(_, collected)| &collected.removed) {
        let (id, name) = (short(&process.id), text::printable(&process.name));
        context.ui.line(&format!("{id}  {name}  {}", text::size(process.bytes)))?;
    }
    Ok(())
}

fn summary(context: &Context<'_>, houses: &Houses, verb: &str) -> Result<ExitCode, CommandError> {
    let count: usize = houses.iter().map(|(_, collected)| collected.removed.len()).sum();
    let freed = houses.iter().fold(0_u64, |sum, (_, collected)| sum.saturating_add(collected.freed_bytes));
    context.ui.line(&format!("{} {verb}, {}", journals(count), text::size(freed)))?;
    Ok(ExitCode::SUCCESS)
}

fn journals(count: usize) -> String {
    if count == 1 { "1 journal".to_owned() } else { format!("{count} journals") }
}

fn agrees(what: &str) -> Result<bool, CommandError> {
    let unanswered = |error: std::io::Error| CommandError::failure(format!("cannot ask: {error}"));
    let mut error = std::io::stderr().lock();
    write!(error, "Remove {what}? [y/N] ").and_then(|()| error.flush()).map_err(unanswered)?;
    let mut line = String::new();
    std::io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut line).map_err(unanswered)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
