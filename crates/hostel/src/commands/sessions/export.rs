//! `hostel sessions export ID`: a transcript, to standard output or into a file.
//!
//! Invariant: a file appears under its name only when it is complete.

use std::fs::File;
use std::io::BufWriter;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use serde_json::json;

use crate::cli::TranscriptFormat;
use crate::commands::Context;
use crate::conversation::recorded;
use crate::conversation::recorded::Piece;
use crate::conversation::start::too_old;
use crate::conversation::transcript::Transcript;
use crate::conversation::wire::SessionRow;
use crate::error::CommandError;
use crate::text;

pub(super) async fn run(
    context: &Context<'_>,
    id: &str,
    format: TranscriptFormat,
    out: Option<&Path>,
) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let (_, client, row) = context.houses.find_session(id).await?;
    let Some(path) = out else {
        let mut stdout = BufWriter::new(std::io::stdout().lock());
        write(client, &row, format, &mut stdout, CommandError::from).await?;
        return Ok(ExitCode::SUCCESS);
    };
    let cannot = |error: std::io::Error| CommandError::failure(format!("cannot write `{}`: {error}", path.display()));
    let part = beside(path);
    // What agents and people said to each other is for nobody else.
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&part).map_err(cannot)?;
    let mut file = BufWriter::new(file);
    let written = match write(client, &row, format, &mut file, cannot).await {
        Ok(events) => std::fs::rename(&part, path).map_err(cannot).map(|()| events),
        Err(error) => Err(error),
    };
    let events = written.inspect_err(|_| std::fs::remove_file(&part).unwrap_or_default())?;
    if ui.json() {
        ui.data(&json!({"session_id": row.session_id, "file": path, "events": events}))?;
    } else {
        ui.note(&format!("hostel: {events} events of {} are in `{}`", text::printable(row.handle()), path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where a file is written until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    path.with_file_name(name)
}

/// Writes everything there is now and returns the number of the last event.
async fn write(
    mut client: Client,
    row: &SessionRow,
    format: TranscriptFormat,
    out: &mut impl Write,
    cannot: impl Fn(std::io::Error) -> CommandError,
) -> Result<u64, CommandError> {
    let mut transcript = Transcript::default();
    if format == TranscriptFormat::Markdown {
        out.write_all(Transcript::head(row).as_bytes()).map_err(&cannot)?;
    }
    let mut last = 0;
    loop {
        let params = json!({"session_id": row.session_id, "format": "jsonl", "after_seq": last});
        let piece: Piece = client.call("session/export", &params).await.map_err(too_old)?;
        match format {
            TranscriptFormat::Jsonl => out.write_all(piece.text.as_bytes()).map_err(&cannot)?,
            TranscriptFormat::Markdown => {
                for line in piece.text.lines() {
                    let update = recorded::read(line)
                        .map_err(|error| CommandError::from(ClientError::Protocol(error.to_string())))?;
                    out.write_all(transcript.push(&update).as_bytes()).map_err(&cannot)?;
                }
            }
        }
        // A piece that leads nowhere would be asked for again and again.
        if piece.done || piece.last_seq <= last {
            last = last.max(piece.last_seq);
            break;
        }
        last = piece.last_seq;
    }
    out.write_all(transcript.end().as_bytes()).map_err(&cannot)?;
    out.flush().map_err(&cannot)?;
    Ok(last)
}
