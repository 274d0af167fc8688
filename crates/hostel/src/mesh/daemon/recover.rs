//! `daemon recover`: what is damaged, three ways to go on, and what came of the one that was chosen.
//!
//! Invariant: looking changes nothing. A way is taken only if somebody chose it, on a terminal or with `--confirm`, and
//! never while the daemon runs. What is said to be saved or lost was counted.

use std::process::ExitCode;
use std::time::Duration;

use hostel_mesh::home::PidLock;
use hostel_mesh::inbox::Cursor;
use hostel_mesh::recover;
use hostel_mesh::recover::Database;
use hostel_mesh::recover::Found;
use hostel_mesh::recover::RecoverError;
use hostel_mesh::recover::Recovered;
use hostel_mesh::recover::Way;
use hostel_wire::Clock;
use serde_json::json;

use super::asking;
use super::up;
use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::failure::Failure;
use crate::mesh::route::Cold;
use crate::text;

/// How long a broker may take to say where its log ends.
const BROKER: Duration = Duration::from_secs(10);

const NO_ROOM: &str = "the disk has no room; make some and run it again: nothing was changed";

/// Lost messages that are named on a terminal.
const NAMED: usize = 20;

/// `daemon recover`.
pub(super) async fn run(desk: &Desk<'_>, arguments: &cli::Recover) -> Result<ExitCode, Failure> {
    let mesh = desk.host.joined(desk.mesh.as_deref())?.slug;
    let dir = desk.host.dir(&mesh);
    if !dir.path().is_dir() {
        return Err(Failure::daemon(1, "not_found", format!("there is no directory `{}`", dir.path().display()))
            .hint(format!("a daemon makes it: `claudemesh daemon up --mesh {mesh}`")));
    }
    let problem = |error: std::io::Error| {
        let failure = Failure::daemon(1, "io", format!("cannot lock `{}`: {error}", dir.pid().display()));
        match error.kind() == std::io::ErrorKind::StorageFull {
            true => failure.hint(NO_ROOM),
            false => failure,
        }
    };
    let lock = PidLock::take(&dir.pid()).map_err(problem)?;
    let Some(_lock) = lock else {
        return Err(up::already(PidLock::holder(&dir.pid()))
            .hint(format!("databases are looked at while nobody uses them: `claudemesh daemon down --mesh {mesh}`")));
    };
    let found = recover::look(dir.path());
    if let Some(text) = found.too_new() {
        return Err(Failure::daemon(1, "too_new", text.to_owned())
            .hint("nothing is damaged: use the version of this program that wrote it, or a later one"));
    }
    let chosen = chosen(arguments);
    if !desk.ui.json() {
        show(desk, &mesh, &found)?;
    }
    let way = match chosen {
        Some((way, name)) => {
            if !arguments.confirm {
                let what = format!("`{name}` changes what is kept of `{mesh}`");
                asking::confirm(desk, false, &mesh, &what)?;
            }
            way
        }
        None if !found.is_damaged() && found.read_only.is_none() => {
            if desk.ui.json() {
                desk.ui.data(&json!({"ok": true, "mesh": mesh, "damaged": false, "found": found}))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        None if asking::can_ask(desk) => match choose()? {
            Some(way) => way,
            None => return Err(Failure::daemon(1, "cancelled", "nothing was changed")),
        },
        None => {
            if desk.ui.json() {
                desk.ui.data(&json!({"ok": false, "mesh": mesh, "damaged": found.is_damaged(), "found": found}))?;
            } else {
                desk.ui.note("choose with `--from-broker`, `--read-only` or `--fresh`, and `--confirm`");
            }
            return Ok(ExitCode::from(1));
        }
    };
    let place = match way {
        Way::Fresh => end_of_log(desk).await,
        Way::ReadOnly | Way::FromBroker => None,
    };
    let done =
        recover::recover(dir.path(), way, Clock::system().now_ms(), place.as_ref()).map_err(|error| failed(&error))?;
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "mesh": mesh, "found": found, "recovered": done}))?;
        return Ok(ExitCode::SUCCESS);
    }
    tell(desk, &mesh, way, &done)?;
    Ok(ExitCode::SUCCESS)
}

fn chosen(arguments: &cli::Recover) -> Option<(Way, &'static str)> {
    let ways = [
        (arguments.read_only, (Way::ReadOnly, "--read-only")),
        (arguments.from_broker, (Way::FromBroker, "--from-broker")),
        (arguments.fresh, (Way::Fresh, "--fresh")),
    ];
    ways.into_iter().find(|(chosen, _)| *chosen).map(|(_, way)| way)
}

/// Says how everything is.
fn show(desk: &Desk<'_>, mesh: &str, found: &Found) -> Result<(), Failure> {
    let word = |database: &Database| match database {
        Database::Missing => "not there (an empty one is made at the next start)".to_owned(),
        Database::Sound => "sound".to_owned(),
        Database::Damaged(what) => format!("damaged: {}", text::prose(what)),
        Database::TooNew(what) => text::prose(what).into_owned(),
    };
    desk.ui.line(&format!("outbox.db: {}", word(&found.outbox)))?;
    desk.ui.line(&format!("inbox.db: {}", word(&found.inbox)))?;
    for kept in &found.files {
        if let Some(problem) = &kept.problem {
            desk.ui.line(&format!("{}: damaged: {}", kept.name, text::prose(problem)))?;
        }
    }
    if let Some(problem) = &found.schema {
        desk.ui.line(&format!("schema_version: damaged: {}", text::prose(problem)))?;
    }
    if let Some(reason) = &found.read_only {
        desk.ui.line(&format!("the daemon only reads: {}", text::prose(reason)))?;
    }
    if !found.is_damaged() {
        desk.ui.line(&format!("nothing of `{mesh}` is damaged"))?;
    }
    Ok(())
}

/// Asks which way to go.
fn choose() -> Result<Option<Way>, Failure> {
    let question = "\n  b  keep what can be read, send what is left of the outbox, have the rest from the broker\n  \
                    r  only read for now: nothing is sent, and the outbox stays as it is\n  \
                    f  begin with nothing\n  \
                    q  change nothing\n\
                    Which one [b/r/f/q]? ";
    Ok(match asking::ask(question)?.as_str() {
        "b" => Some(Way::FromBroker),
        "r" => Some(Way::ReadOnly),
        "f" => Some(Way::Fresh),
        _ => None,
    })
}

/// Where the broker's log ends, if it can be asked: there a fresh inbox begins.
async fn end_of_log(desk: &Desk<'_>) -> Option<Cursor> {
    let joined = desk.host.joined(desk.mesh.as_deref()).ok()?;
    let asked = async { Some(Cold::connect(desk, &joined).await.ok()?.end_of_log().await) };
    tokio::time::timeout(BROKER, asked).await.ok().flatten()
}

fn failed(error: &RecoverError) -> Failure {
    let failure = Failure::daemon(1, "recover", format!("cannot recover: {error}"));
    match error.is_full() {
        true => failure.hint(NO_ROOM),
        false => failure.hint("what is damaged is where it was; run it again"),
    }
}

fn messages(count: u64) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

/// Says what came of it.
fn tell(desk: &Desk<'_>, mesh: &str, way: Way, done: &Recovered) -> Result<(), Failure> {
    let ui = desk.ui;
    if let Some(outbox) = &done.outbox {
        ui.line(&format!(
            "outbox: {} to be sent again under their own ids, {} that were done with kept, {} lost",
            messages(outbox.queued),
            outbox.settled,
            outbox.lost_count
        ))?;
        for id in outbox.lost.iter().take(NAMED) {
            ui.line(&format!("  lost: {}", text::printable(id)))?;
        }
        if outbox.lost.len() > NAMED {
            ui.line(&format!("  and {} more", outbox.lost.len() - NAMED))?;
        }
    }
    if let Some(inbox) = &done.inbox {
        ui.line(&format!("inbox: {} kept, {} not readable", messages(inbox.kept), inbox.lost))?;
    }
    if done.history {
        ui.line("what the broker still keeps of the mesh comes again; what is here already comes only once")?;
    }
    for path in &done.set_aside {
        ui.line(&format!("kept: {}", path.display()))?;
    }
    if way == Way::ReadOnly {
        ui.line("the daemon reads and receives; sends are refused until `daemon recover` is run again")?;
    }
    ui.note(&format!("start it with `{} daemon up --mesh {mesh}`", desk.called));
    Ok(())
}
