//! `hostel journal verify`: reads journals from their first byte to the last and says what of them is damaged.
//!
//! Invariant: it looks and changes nothing, and needs no daemon.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;

use hostel_house::processes::ProcessId;
use hostel_journal::Verified;
use serde_json::json;

use super::Context;
use crate::cli::JournalAction;
use crate::daemon;
use crate::error::CommandError;
use crate::ui::Paint;

pub(super) fn run(context: &Context<'_>, action: &JournalAction) -> Result<ExitCode, CommandError> {
    let JournalAction::Verify { journals } = action;
    let house = context.houses.one()?;
    let directory = daemon::journal_dir(&house.dir, &context.settings()?);
    let files: Vec<PathBuf> = match journals.is_empty() {
        true => all(&directory)?,
        false => journals
            .iter()
            .map(|journal| match journal.parse::<ProcessId>() {
                Ok(id) => directory.join(id.file_name()),
                Err(_) => PathBuf::from(journal),
            })
            .collect(),
    };
    let mut found = Vec::new();
    for file in files {
        let verified = File::open(&file).and_then(|opened| hostel_journal::verify(opened.as_fd()));
        match verified {
            // Removed since the directory was read.
            Err(error) if journals.is_empty() && error.kind() == std::io::ErrorKind::NotFound => {}
            verified => found.push((file, verified.map_err(|error| error.to_string()))),
        }
    }
    report(context, &found)
}

fn all(directory: &std::path::Path) -> Result<Vec<PathBuf>, CommandError> {
    let problem = |error: std::io::Error| {
        CommandError::failure(format!("cannot read the journal directory `{}`: {error}", directory.display()))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(problem)? {
        let entry = entry.map_err(problem)?;
        if ProcessId::from_file_name(entry.file_name().as_encoded_bytes()).is_some() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn report(context: &Context<'_>, found: &[(PathBuf, Result<Verified, String>)]) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let is_bad =
        |verified: &Result<Verified, String>| verified.as_ref().map_or(true, |verified| !verified.faults.is_empty());
    let bad = found.iter().filter(|(_, verified)| is_bad(verified)).count();
    let code = if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if ui.json() {
        let journals: Vec<serde_json::Value> = found
            .iter()
            .map(|(file, verified)| match verified {
                Ok(verified) => json!({
                    "file": file.display().to_string(),
                    "records": verified.records,
                    "without_checksum": verified.without_sum,
                    "dropped_blocks": verified.dropped_blocks,
                    "ended": verified.has_end,
                    "unfinished_bytes": verified.unfinished_bytes,
                    "faults": verified.faults.iter().map(|fault| json!({"offset": fault.offset, "what": fault.what}))
                        .collect::<Vec<_>>(),
                    "further_faults": verified.further_faults,
                }),
                Err(error) => json!({"file": file.display().to_string(), "error": error}),
            })
            .collect();
        ui.data(&json!({"journals": journals, "damaged": bad}))?;
        return Ok(code);
    }
    for (file, verified) in found {
        match verified {
            Err(error) => ui.line(&format!("{} {}: {error}", ui.paint(Paint::Red, "bad"), file.display()))?,
            Ok(verified) => {
                for fault in &verified.faults {
                    let place = format!("{}: byte {}: {}", file.display(), fault.offset, fault.what);
                    ui.line(&format!("{} {place}", ui.paint(Paint::Red, "bad")))?;
                }
                if verified.further_faults > 0 {
                    ui.line(&format!("    {}: {} more", file.display(), verified.further_faults))?;
                }
            }
        }
    }
    let sum = |count: fn(&Verified) -> u64| {
        found.iter().filter_map(|(_, verified)| verified.as_ref().ok()).map(count).sum::<u64>()
    };
    let records = sum(|verified| verified.records);
    let without = match sum(|verified| verified.without_sum) {
        0 => String::new(),
        count => format!(" ({count} of them without a checksum of their contents, from an earlier version)"),
    };
    let noun = if found.len() == 1 { "journal" } else { "journals" };
    ui.line(&format!("{} {noun}, {records} records{without}: {bad} damaged", found.len()))?;
    Ok(code)
}
